"""Writes a checkpoint of random bf16 weights in the shapes of Qwen3.

    python3 bench/peers/harness/checkpoint.py DIR --hidden 256 --layers 1
"""

import argparse
import array
import json
import math
import pathlib
import random
import struct


def layer_shapes(hidden: int) -> dict:
    """The tensors of a decoder layer, in Qwen3-8B's proportions."""
    return {
        "self_attn.q_proj": [hidden, hidden],
        "self_attn.k_proj": [hidden // 4, hidden],
        "self_attn.v_proj": [hidden // 4, hidden],
        "self_attn.o_proj": [hidden, hidden],
        "mlp.gate_proj": [3 * hidden, hidden],
        "mlp.up_proj": [3 * hidden, hidden],
        "mlp.down_proj": [hidden, 3 * hidden],
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
    }


def write(folder: pathlib.Path, shards: int, layers_per_shard: int, hidden: int) -> int:
    """Writes a checkpoint and returns the size of its tensors in bytes."""
    folder.mkdir()
    generator = random.Random(1)
    bits, exponent = generator.getrandbits, lambda: generator.randint(115, 123)
    # bf16 between 2^-12 and 2^-4 of both signs, repeated: the values do not affect the time.
    value = lambda: bits(1) << 15 | exponent() << 7 | bits(7)
    chunk = array.array("H", (value() for _ in range(1 << 16))).tobytes() * 16
    weight_map, total = {}, 0
    for shard in range(shards):
        header, end = {"__metadata__": {"format": "pt"}}, 0
        for layer in range(layers_per_shard * shard, layers_per_shard * (shard + 1)):
            for name, shape in layer_shapes(hidden).items():
                offsets = [end, end + 2 * math.prod(shape)]
                entry = {"dtype": "BF16", "shape": shape, "data_offsets": offsets}
                header[f"model.layers.{layer}.{name}.weight"] = entry
                end = offsets[1]
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            left = end
            while left > 0:
                left -= file.write(chunk[:left])
        weight_map.update({tensor: name for tensor in header if tensor != "__metadata__"})
        total += end
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": hidden}
    (folder / "config.json").write_text(json.dumps(config))
    return total


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("folder", type=pathlib.Path, help="new folder")
    parser.add_argument("--hidden", type=int, default=4096, help="hidden size (default: 4096)")
    parser.add_argument("--layers", type=int, default=4, help="decoder layers (default: 4)")
    args = parser.parse_args()
    write(args.folder, shards=1, layers_per_shard=args.layers, hidden=args.hidden)
