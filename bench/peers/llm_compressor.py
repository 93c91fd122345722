#!/usr/bin/env python3
"""Compares `octile quantize` with llm-compressor's model_free_ptq on the CPU, alternating in one run.

Both quantize the same checkpoint to fp8 in 128 x 128 blocks: random bf16 weights in the shapes of Qwen3-8B.
Octile's time is that of the whole process, llm-compressor's that of `model_free_ptq` without imports. Peak
memory is the largest resident set size of each process. The checkpoint has just been written, so it is in the
page cache.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Tuple

from harness import PeerError, checkpoint, command, comparison, octile, report, venv
from harness.comparison import Target, Verdict

HERE = pathlib.Path(__file__).resolve().parent
NAME = "llm-compressor"
FASTER, SMALLER = 3.0, 4.0
"""Required ratios of time and of peak memory."""
HIDDEN, LAYERS_PER_SHARD = 4096, 4
EXAMPLES = """\
  python3 bench/peers/llm_compressor.py
  python3 bench/peers/llm_compressor.py --python ~/llmcompressor/bin/python --shards 2 --rounds 1
"""


def measured(arguments: List[str]) -> Tuple[float, int, str]:
    """Runs a process. Returns milliseconds, peak resident bytes, and its output."""
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
    """Both sides. Each writes to a folder that is removed before the next run."""

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
        _, memory, text = measured(
            [*command, str(self.place / "in"), str(self.place / "out"), str(workers)]
        )
        self.peer = json.loads(text.strip().splitlines()[-1])
        return self._done(name, 1e3 * self.peer["seconds"], memory)

    def _done(self, name: str, elapsed: float, memory: int) -> List[float]:
        shutil.rmtree(self.place / "out")
        self.memory.setdefault(name, []).append(memory)
        return [elapsed]


def compare(args: argparse.Namespace) -> List[Verdict]:
    """Runs the comparison and writes its record."""
    what = "octile quantize and llm-compressor's model_free_ptq (FP8_BLOCK, CPU), alternating in one run"
    record = command.begin_record(what, {"rounds": args.rounds, "shards": args.shards})
    binary = args.octile or octile.build(command.ROOT)
    python = args.python or venv.ensure(args.venv, HERE / "requirements-llm-compressor.txt")
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(dir=args.place) as place:
        place = pathlib.Path(place)
        total = checkpoint.write(place / "in", args.shards, LAYERS_PER_SHARD, HIDDEN)
        sides = Sides(binary, python, place)
        ours, alone = f"octile, {cores} threads", "octile, 1 thread"
        theirs = {f"llm-compressor, max_workers={workers}": workers for workers in sorted({1, cores})}
        contenders = [
            comparison.Contender(ours, lambda: sides.octile(ours, cores)),
            comparison.Contender(alone, lambda: sides.octile(alone, 1)),
        ]
        for name, workers in theirs.items():
            run = lambda name=name, workers=workers: sides.llmcompressor(name, workers)
            contenders.append(comparison.Contender(name, run))
        announce = command.announce_rounds("quantize", args.rounds)
        samples = comparison.take_turns(contenders, args.rounds, announce)
    report.print_times(f"{total / 1e9:.2f} GB of bf16 in {args.shards} shards", samples)
    peak = {name: max(values) for name, values in sides.memory.items()}
    rate = {name: total / 1e6 / statistics.median(values) for name, values in samples.items()}
    for name, value in peak.items():
        print(f"  {name:<32} {rate[name]:10.2f} GB/s {value / 1e6:10.0f} MB peak")
    # The same judge serves for memory, with each side's peak as its only sample.
    sizes = {name: [float(value)] for name, value in peak.items()}
    verdicts = [
        comparison.judge(Target("time", ours, tuple(theirs), FASTER), samples),
        comparison.judge(Target("peak memory", ours, tuple(theirs), SMALLER), sizes),
    ]
    record.update(
        {
            "input_bytes": total,
            "times": report.times(samples),
            "peak_memory_bytes": peak,
            "input_gb_per_s": rate,
            "targets": verdicts,
            "octile": {"version": octile.version(binary)},
            "llmcompressor": {name: value for name, value in sides.peer.items() if name != "seconds"},
        }
    )
    return command.finish_record(NAME, args, record, verdicts)


def parse_args() -> argparse.Namespace:
    parser = command.parser(NAME, __doc__, EXAMPLES, peer="llmcompressor", rounds=3)
    parser.add_argument(
        "--shards", type=command.positive, default=3, metavar="N", help="shards of 1.5 GB (default: 3)"
    )
    parser.add_argument(
        "--place",
        type=pathlib.Path,
        metavar="DIR",
        help="folder of the checkpoint (default: temporary folder)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(command.run(lambda: compare(parse_args())))
