#!/usr/bin/env python3
"""Compares Octile's CPU backend with PyTorch: same machine, shapes and threads, alternating in one run.

Builds octile, creates a virtual environment for PyTorch (target/peers/torch-cpu-venv) unless --python names a
Python that has it, and times all contenders in alternation. Prints medians, their ratios and whether each
target is met, and writes all samples to a file under bench/record.

What PyTorch does: `f32` and `bf16` multiply by a weight that was dequantized before the clock started;
`fp8 to f32` and `fp8 to bf16` dequantize the fp8 weight with its block scales and multiply, eagerly and with
torch.compile. PyTorch gets its activations unquantized and in the right type at no cost. Its own scaled_mm
has no block scales on the CPU.
"""

import argparse
import dataclasses
import pathlib
import sys
from typing import Dict, List

from harness import PeerError, command, comparison, octile, report, venv
from harness.comparison import Contender, Verdict
from harness.octile import Settings
from harness.worker import Worker
from torch_cpu_cases import AVX2, Group, Lane, all_groups, sample_groups

HERE = pathlib.Path(__file__).resolve().parent
NAME = "torch-cpu"
EXAMPLES = """\
  python3 bench/peers/torch_cpu.py
  python3 bench/peers/torch_cpu.py --python ~/torch/bin/python
  python3 bench/peers/torch_cpu.py --list
  python3 bench/peers/torch_cpu.py --only 512x512 --rounds 3
  python3 bench/peers/torch_cpu.py --sample judge --max-gflop 10
"""


class Sides:
    """Both sides, ready to be timed. PyTorch gets one process per lane, started on first use."""

    def __init__(self, args: argparse.Namespace):
        self._args = args
        self.octile = args.octile or octile.build(command.ROOT)
        self.octile_version = octile.version(self.octile)
        self._python = args.python or venv.ensure(args.venv, HERE / "requirements-torch-cpu.txt")
        self._workers: Dict[str, Worker] = {}
        self.octile_isa: Dict[str, str] = {}

    def worker(self, lane: Lane) -> Worker:
        """The process of this lane."""
        if lane.name not in self._workers:
            # A cache per lane: code that torch.compile cached for wide vectors is wrong on narrow ones.
            cache = {"TORCHINDUCTOR_CACHE_DIR": str(command.PEERS / f"torch-compiled-{lane.name}")}
            worker = Worker(self._python, HERE / "torch_cpu_worker.py", {**lane.environment, **cache})
            self._workers[lane.name] = worker
            capability = worker.greeting["capability"]
            if lane is AVX2 and capability != "AVX2":
                raise PeerError(f"PyTorch should be limited to AVX2, but uses {capability}")
        return self._workers[lane.name]

    def greetings(self) -> Dict[str, dict]:
        """PyTorch's version and capabilities, by lane."""
        return {lane: worker.greeting for lane, worker in self._workers.items()}

    def contenders(self, group: Group) -> List[Contender]:
        """All contenders of the group, with PyTorch's operands prepared."""
        samples, warmup, limit_s = self._args.samples, self._args.warmup, self._args.limit_s
        worker = self.worker(group.lane)
        paths = [path for path, _ in group.torch.values()]
        worker.ask(prepare={**dataclasses.asdict(group.shape), "paths": paths})

        def time_octile(settings: Settings) -> List[float]:
            record = octile.take_samples(self.octile, group.shape, settings, samples, warmup)
            self.octile_isa[group.lane.name] = record["isa"]
            return record["samples_ms"]

        def time_torch(path: str, threads: int) -> List[float]:
            counts = {"samples": samples, "warmup": warmup, "limit_s": limit_s}
            return worker.ask(time=path, threads=threads, **counts)["samples_ms"]

        ours = [
            Contender(name, lambda s=settings: time_octile(s)) for name, settings in group.octile.items()
        ]
        peers = [Contender(name, lambda p=path: time_torch(*p)) for name, path in group.torch.items()]
        return ours + peers

    def close(self) -> None:
        """Ends PyTorch's processes."""
        for worker in self._workers.values():
            worker.close()


def parse_args() -> argparse.Namespace:
    parser = command.parser(NAME, __doc__, EXAMPLES, peer="PyTorch", rounds=9)
    count = {"type": command.positive, "metavar": "N"}
    parser.add_argument(
        "--samples", default=5, help="timed runs per contender and round (default: 5)", **count
    )
    parser.add_argument("--warmup", default=2, help="untimed runs before them (default: 2)", **count)
    limit = "seconds after which PyTorch starts no further run in a round (default: 1)"
    parser.add_argument("--limit-s", type=float, default=1.0, metavar="S", help=limit)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run only groups whose name contains TEXT"
    )
    parser.add_argument(
        "--sample", help="shapes of `octile bench --sample` instead: fit, judge, or a number"
    )
    parser.add_argument(
        "--max-gflop", type=float, metavar="G", help="leave out shapes of the sample with more work"
    )
    parser.add_argument("--list", action="store_true", help="list the groups and their targets, and exit")
    return parser.parse_args()


def list_groups(groups: List[Group]) -> None:
    """Prints what would be compared."""
    for group in groups:
        print(group.name)
        print(f"  contenders: {'; '.join([*group.octile, *group.torch])}")
        for target in group.targets:
            peers = " / ".join(target.peers)
            print(f"  target: {target.ours} at least {target.at_least:.3g} times as fast as {peers}")


def measure(group: Group, sides: Sides, rounds: int) -> dict:
    """Times a group, and returns its part of the record with the verdicts."""
    announce = command.announce_rounds(group.name, rounds)
    samples = comparison.take_turns(sides.contenders(group), rounds, announce)
    report.print_times(group.name, samples)
    return {
        "name": group.name,
        "shape": str(group.shape),
        "lane": group.lane.name,
        "times": report.times(samples),
        "targets": [comparison.judge(target, samples) for target in group.targets],
    }


def compare(groups: List[Group], args: argparse.Namespace) -> List[Verdict]:
    """Runs the comparison and writes its record."""
    names = ("rounds", "samples", "warmup", "limit_s", "sample", "max_gflop")
    settings = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    record = command.begin_record("Octile's CPU backend and PyTorch, alternating in one run", settings)
    sides = Sides(args)
    try:
        record["groups"] = [measure(group, sides, args.rounds) for group in groups]
    finally:
        sides.close()
    record["octile"] = {"version": sides.octile_version, "isa": sides.octile_isa}
    record["torch"] = sides.greetings()
    verdicts = [verdict for group in record["groups"] for verdict in group["targets"]]
    return command.finish_record(NAME, args, record, verdicts)


def compare_requested(args: argparse.Namespace) -> List[Verdict]:
    groups = all_groups()
    if args.sample is not None:
        args.octile = args.octile or octile.build(command.ROOT)
        groups = sample_groups(octile.sample_shapes(args.octile, args.sample, args.max_gflop))
    groups = [group for group in groups if args.only in group.name]
    if not groups:
        raise PeerError(f"no group's name contains '{args.only}': --list shows them")
    if args.list:
        list_groups(groups)
        return []
    return compare(groups, args)


if __name__ == "__main__":
    sys.exit(command.run(lambda: compare_requested(parse_args())))
