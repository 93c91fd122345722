#!/usr/bin/env python3
"""Compares `octile quantize` with llm-compressor's model_free_ptq on the CPU: the same checkpoint, taking turns in one run.

Makes a checkpoint of random bf16 weights in the shapes of Qwen3-8B, and has both quantize it to fp8 in 128 x 128 blocks.
Octile's clock runs from the start of its process to the end, llm-compressor's while `model_free_ptq` runs, imports left
out. Peak memory is the largest resident size of each process. The checkpoint was written right
before, so that it is in the page cache.
"""

import argparse
import array
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Tuple

from harness import PeerError, command, comparison, machine, octile, report, venv
from harness.comparison import Target, Verdict

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUSY = 0.5
"""A load above which times are not to be trusted."""
FASTER, SMALLER = 3.0, 4.0
"""How many times as fast, and in what part of the memory, Octile has to be."""

EXAMPLES = """\
examples:
  python3 bench/peers/llm_compressor.py
  python3 bench/peers/llm_compressor.py --python ~/llmcompressor/bin/python --shards 2 --rounds 1

exit codes: 0 all targets met, 1 some target not met, 2 the comparison could not be made"""

LAYER = [
    ("self_attn.q_proj", [4096, 4096]),
    ("self_attn.k_proj", [1024, 4096]),
    ("self_attn.v_proj", [1024, 4096]),
    ("self_attn.o_proj", [4096, 4096]),
    ("mlp.gate_proj", [12288, 4096]),
    ("mlp.up_proj", [12288, 4096]),
    ("mlp.down_proj", [4096, 12288]),
    ("input_layernorm", [4096]),
    ("post_attention_layernorm", [4096]),
]
LAYERS_PER_SHARD = 4


def make_checkpoint(folder: pathlib.Path, shards: int) -> int:
    """Writes a checkpoint and returns the bytes of its tensors."""
    folder.mkdir()
    chance = random.Random(1)
    # bf16 between 2^-12 and 2^-4 of both signs; repeated, since the values make no difference to either side.
    value = lambda: chance.getrandbits(1) << 15 | chance.randint(115, 123) << 7 | chance.getrandbits(7)
    chunk = array.array("H", (value() for _ in range(1 << 20))).tobytes()
    weight_map, total = {}, 0
    for shard in range(shards):
        header, end = {"__metadata__": {"format": "pt"}}, 0
        for layer in range(LAYERS_PER_SHARD * shard, LAYERS_PER_SHARD * (shard + 1)):
            for name, shape in LAYER:
                size = 2
                for side in shape:
                    size *= side
                header[f"model.layers.{layer}.{name}.weight"] = {
                    "dtype": "BF16", "shape": shape, "data_offsets": [end, end + size],
                }
                end += size
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
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}))
    return total


def measured(arguments: List[str]) -> Tuple[float, int, str]:
    """Runs a process. Returns its milliseconds, its largest resident size in bytes, and what it printed."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = 1e3 * (time.perf_counter() - start)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode != 0:
        raise PeerError(f"`{' '.join(arguments)}` failed:\n{text[-2000:]}")
    return elapsed, usage.ru_maxrss * 1024, text


class Sides:
    """Both sides, each writing to a folder that is removed before the next turn."""

    def __init__(self, binary: pathlib.Path, python: pathlib.Path, place: pathlib.Path):
        self.binary, self.python, self.place = binary, python, place
        self.memory: Dict[str, List[int]] = {}
        self.peer: dict = {}

    def octile(self, name: str, threads: int) -> List[float]:
        command = [str(self.binary), "quantize", str(self.place / "in"), "-o", str(self.place / "out")]
        elapsed, memory, _ = measured([*command, "--threads", str(threads)])
        return self._done(name, elapsed, memory)

    def llmcompressor(self, name: str, workers: int) -> List[float]:
        command = [str(self.python), str(HERE / "llm_compressor_worker.py")]
        _, memory, text = measured([*command, str(self.place / "in"), str(self.place / "out"), str(workers)])
        self.peer = json.loads(text.strip().splitlines()[-1])
        return self._done(name, 1e3 * self.peer["seconds"], memory)

    def _done(self, name: str, elapsed: float, memory: int) -> List[float]:
        shutil.rmtree(self.place / "out")
        self.memory.setdefault(name, []).append(memory)
        return [elapsed]


def compare(args: argparse.Namespace) -> List[Verdict]:
    """Makes the comparison, prints it and writes its record."""
    record = {
        "what": "octile quantize and llm-compressor's model_free_ptq (FP8_BLOCK, CPU), taking turns in one run",
        "date": machine.now(),
        "machine": machine.describe(),
        "commit": machine.commit(ROOT),
        "settings": {"rounds": args.rounds, "shards": args.shards},
    }
    if (record["machine"]["load_before"] or 0) > BUSY:
        print("warning: the machine is busy with something else, which the times will show", file=sys.stderr)
    binary = args.octile or octile.build(ROOT)
    python = args.python or venv.ensure(args.venv, HERE / "requirements-llm-compressor.txt")
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(dir=args.place) as place:
        place = pathlib.Path(place)
        total = make_checkpoint(place / "in", args.shards)
        sides = Sides(binary, python, place)
        ours, alone = f"octile, {cores} threads", "octile, 1 thread"
        theirs = {f"llm-compressor, max_workers={workers}": workers for workers in sorted({1, cores})}
        contenders = [
            comparison.Contender(ours, lambda: sides.octile(ours, cores)),
            comparison.Contender(alone, lambda: sides.octile(alone, 1)),
            *(
                comparison.Contender(name, lambda name=name, workers=workers: sides.llmcompressor(name, workers))
                for name, workers in theirs.items()
            ),
        ]
        on_round = lambda number: print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        samples = comparison.take_turns(contenders, args.rounds, on_round)
    report.print_times(f"{total / 1e9:.2f} GB of bf16 in {args.shards} shards", samples)
    peak = {name: max(values) for name, values in sides.memory.items()}
    for name, value in peak.items():
        rate = total / 1e6 / statistics.median(samples[name])
        print(f"  {name:<32} {rate:10.2f} GB/s {value / 1e6:10.0f} MB at most")
    verdicts = [comparison.judge(Target("time", ours, tuple(theirs), FASTER), samples)]
    # The same judge, for memory: each side's largest resident size.
    sizes = {name: [float(value)] for name, value in peak.items()}
    verdicts.append(comparison.judge(Target("peak memory", ours, tuple(theirs), SMALLER), sizes))
    record.update({
        "input_bytes": total,
        "times": report.times(samples),
        "peak_memory_bytes": peak,
        "input_gb_per_s": {name: total / 1e6 / statistics.median(values) for name, values in samples.items()},
        "targets": verdicts,
        "octile": {"version": octile.version(binary)},
        "llmcompressor": {name: value for name, value in sides.peer.items() if name != "seconds"},
    })
    report.print_verdicts(verdicts)
    path = args.record or ROOT / "bench" / "record" / f"llm-compressor-{record['date'].replace(':', '')}.json"
    report.write(path, record)
    print(f"record: {path}")
    return verdicts


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    parser.add_argument("--shards", type=int, default=3, metavar="N", help="shards of 1.5 GB (default: 3)")
    parser.add_argument(
        "--place", type=pathlib.Path, metavar="DIR", help="where to put the checkpoint (default: the temporary folder)"
    )
    parser.add_argument("--octile", type=pathlib.Path, metavar="FILE", help="this binary instead of a new build")
    parser.add_argument("--python", type=pathlib.Path, metavar="FILE", help="a Python that has llmcompressor")
    parser.add_argument(
        "--venv",
        type=pathlib.Path,
        default=ROOT / "target" / "peers" / "llm-compressor-venv",
        metavar="DIR",
        help="where to make the virtual environment (default: target/peers/llm-compressor-venv)",
    )
    parser.add_argument(
        "--record", type=pathlib.Path, metavar="FILE", help="the record (default: bench/record/llm-compressor-DATE.json)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(command.run(lambda: compare(parse_args())))
