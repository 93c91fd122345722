#!/usr/bin/env python3
"""Checks octile's checkpoints against the real libraries: transformers, compressed-tensors, safetensors.

Nothing is downloaded: the models are small and random. `cargo xtask test-transformers` installs the libraries
and runs this.
"""

import argparse
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

# oneDNN's AMX kernels trap in some virtual machines that announce AMX.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize
from transformers.utils.quantization_config import FineGrainedFP8Config

FAILURES = []


def check(what: str, holds: bool, detail: str = "") -> None:
    print(f"{'ok    ' if holds else 'FAILED'} {what} {detail}", flush=True)
    if not holds:
        FAILURES.append(what)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def quantizer(scale_fmt: str) -> Fp8Quantize:
    return Fp8Quantize(types.SimpleNamespace(quantization_config=FineGrainedFP8Config(scale_fmt=scale_fmt)))


def load_folder(folder: pathlib.Path) -> dict:
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    tensors = {}
    for shard in sorted(set(index["weight_map"].values())):
        tensors.update(load_file(folder / shard))
    assert set(tensors) == set(index["weight_map"])
    return tensors


def random_weights() -> dict:
    """Weights of every float type, and blocks whose scales lie next to powers of two."""
    torch.manual_seed(1)
    weights = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for at, spread in enumerate((0.02, 1.0, 300.0)):
            # From normal to heavy-tailed; scaled per row, so that blocks differ.
            values = torch.randn(512, 640) * spread * torch.exp(torch.randn(512, 1))
            weights[f"{dtype}.{at}.weight".replace("torch.", "")] = values.to(dtype)
    edges = torch.randn(1024, 1024) * 1e-3
    exponents = torch.arange(64) - 32
    for block in range(64):
        row, col = block // 8 * 128, block % 8 * 128
        peak = torch.tensor(448.0) * torch.exp2(exponents[block].float())
        for _ in range(block % 7):
            peak = torch.nextafter(peak, torch.tensor(float("inf") if block % 2 else 0.0))
        edges[row : row + 128, col : col + 128] *= peak / 448
        edges[row, col] = peak
    weights["edges.weight"] = edges
    weights["zeros.weight"] = torch.zeros(256, 256, dtype=torch.bfloat16)
    return weights


def check_bits(octile, place: pathlib.Path) -> None:
    weights = random_weights()
    save_file(weights, place / "weights.safetensors", metadata={"format": "pt"})
    for scale_fmt, scales in (("float", "f32"), ("ue8m0", "ue8m0")):
        out = place / f"weights-{scales}.safetensors"
        octile("quantize", place / "weights.safetensors", "-o", out, "--scales", scales)
        written = load_file(out)
        for name, weight in weights.items():
            theirs = quantizer(scale_fmt).convert({name: weight})
            scale_name = name + "_scale_inv"
            is_same = same_bits(written[name], theirs[name])
            is_same &= same_bits(written[scale_name], theirs[scale_name].to(torch.float32))
            check(f"bits of {name} with {scales} scales", is_same)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            kind = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
            source, back = (
                place / f"{scales}-{kind}.safetensors",
                place / f"back-{scales}-{kind}.safetensors",
            )
            # Values beyond the type are refused.
            limit = torch.finfo(dtype).max / 1.1
            names = [name for name, weight in weights.items() if weight.abs().max().item() < limit]
            save_file(
                {key: value for key, value in written.items() if key.removesuffix("_scale_inv") in names},
                source,
            )
            octile("dequantize", source, "-o", back, "--dtype", kind)
            found = load_file(back)
            for name in names:
                dequantize = Fp8Dequantize(types.SimpleNamespace())
                expected = dequantize._dequantize_one(
                    written[name], written[name + "_scale_inv"], output_dtype=dtype
                )
                check(f"{name} back to {kind}", same_bits(found[name], expected))


def logits(model) -> torch.Tensor:
    tokens = torch.arange(1, 33).reshape(2, 16) * 13 % model.config.vocab_size
    with torch.no_grad():
        return model(tokens).logits.float()


def error(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def check_compressed(
    folder: pathlib.Path, name: str, reference, original: torch.Tensor, weight_error: float
) -> None:
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    found = logits(loaded)
    # Here activations are quantized as well, in groups of 128, which costs about as much as the weights do.
    check(
        f"{name} as compressed-tensors: error of the logits",
        error(found, original) < 2 * weight_error,
        f"{error(found, original):.4f}",
    )
    weights = dict(loaded.named_parameters())
    # Its loader rounds scales to the type of the model, bf16, before it multiplies.
    pairs = [(weights[key].data.float(), value.data.float()) for key, value in reference.named_parameters()]
    worst = max(((a - b).abs() / b.abs().clamp(min=1e-30)).max().item() for a, b in pairs)
    check(
        f"{name} as compressed-tensors: weights of transformers' own quantizer",
        worst < 1 / 100,
        f"{worst:.4f}",
    )


def check_model(octile, place: pathlib.Path, name: str, config, is_moe: bool = False) -> None:
    torch.manual_seed(2)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.06)
    model.eval()
    source = place / name
    model.save_pretrained(source, max_shard_size="500KB")
    check(f"{name} has several shards", len(list(source.glob("*.safetensors"))) > 1)
    original = logits(model)
    # What the same quantizer makes of the same weights inside transformers.
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for path, module in reference.named_modules():
            for kind, parameter in module.named_parameters(recurse=False):
                is_linear = isinstance(module, torch.nn.Linear) and kind == "weight"
                is_linear &= path != "lm_head" and not path.endswith("mlp.gate")
                if is_linear or (path.endswith("experts") and parameter.ndim == 3):
                    result = quantizer("float").convert({"x.weight": parameter.data})
                    parts = Fp8Dequantize(types.SimpleNamespace())
                    matrices = result["x.weight"].reshape(-1, *parameter.shape[-2:])
                    scales = result["x.weight_scale_inv"]
                    scales = scales.reshape(-1, *scales.shape[-2:])
                    back = [
                        parts._dequantize_one(m, s, output_dtype=torch.bfloat16)
                        for m, s in zip(matrices, scales)
                    ]
                    parameter.copy_(torch.stack(back).reshape(parameter.shape))
    expected = logits(reference)
    expected_error = error(expected, original)
    check(
        f"{name}: quantization changes the logits a little",
        0 < expected_error < 0.15,
        f"{expected_error:.4f}",
    )
    octile("quantize", source, "-o", place / f"{name}-fp8")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        place / f"{name}-fp8", dtype=torch.bfloat16
    ).eval()
    found = logits(loaded)
    check(
        f"{name} as fp8: error of the logits",
        error(found, original) <= expected_error,
        f"{error(found, original):.4f}",
    )
    check(f"{name} as fp8: logits of transformers' own quantizer", torch.equal(found, expected))
    octile("quantize", source, "-o", place / f"{name}-compressed-tensors", "--format", "compressed-tensors")
    if is_moe:
        print(
            "       not run: transformers cannot load block scales of experts from compressed-tensors"
        )
    else:
        check_compressed(place / f"{name}-compressed-tensors", name, reference, original, expected_error)
    # Fails where there are defects.
    for form in ("fp8", "compressed-tensors"):
        octile("inspect-model", place / f"{name}-{form}")
        octile("inspect-model", place / f"{name}-{form}", "--against", source)
    octile("convert", place / f"{name}-compressed-tensors", "-o", place / f"{name}-back", "--format", "fp8")
    first, second = load_folder(place / f"{name}-fp8"), load_folder(place / f"{name}-back")
    is_same = first.keys() == second.keys() and all(same_bits(first[key], second[key]) for key in first)
    check(f"{name}: conversion is lossless", is_same)
    octile("dequantize", place / f"{name}-fp8", "-o", place / f"{name}-bf16")
    plain = transformers.AutoModelForCausalLM.from_pretrained(place / f"{name}-bf16", dtype=torch.bfloat16)
    plain.eval()
    check(f"{name}: dequantized checkpoint gives the same logits", torch.equal(logits(plain), expected))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--octile", type=pathlib.Path, required=True, help="the octile program")
    parser.add_argument("--only", choices=["bits", "qwen3", "qwen3-moe"], help="run one part")
    args = parser.parse_args()

    def octile(*arguments) -> None:
        done = subprocess.run([args.octile, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"octile {' '.join(map(str, arguments))} failed: {done.stderr}")

    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    size = dict(
        vocab_size=512,
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
    )
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        if args.only in (None, "bits"):
            check_bits(octile, place)
        if args.only in (None, "qwen3"):
            for name, tied in (("qwen3", False), ("qwen3-tied", True)):
                config = transformers.Qwen3Config(**size, intermediate_size=512, tie_word_embeddings=tied)
                check_model(octile, place, name, config)
        if args.only in (None, "qwen3-moe"):
            moe = transformers.Qwen3MoeConfig(
                **size,
                intermediate_size=512,
                moe_intermediate_size=128,
                num_experts=4,
                num_experts_per_tok=2,
            )
            check_model(octile, place, "qwen3-moe", moe, is_moe=True)
    print("all passed" if not FAILURES else f"{len(FAILURES)} checks failed")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
