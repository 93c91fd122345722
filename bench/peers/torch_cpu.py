#!/usr/bin/env python3
"""Compares Octile's CPU backend with PyTorch: same machine, same shapes, same threads, taking turns in one run.

Builds octile, makes a virtual environment for PyTorch (target/peers/torch-venv) unless --python names a Python that has
it, and lets all contenders take turns: in every round each of them runs a few times. Prints medians, their ratios and
whether each target is met, and writes all samples to a file under bench/record.

What PyTorch has to do: `f32` and `bf16` multiply by a weight that was dequantized before the clock started; `fp8 to f32`
and `fp8 to bf16` dequantize the 8-bit weight with its block scales and multiply, eagerly and by torch.compile. PyTorch
gets its activations unquantized and in the right type for free. Its own scaled_mm takes no block scales on a CPU.
"""

import argparse
import dataclasses
import pathlib
import sys
from typing import Dict, List

from harness import PeerError, command, comparison, machine, octile, report, venv
from harness.comparison import Contender, Verdict
from harness.octile import Settings
from harness.worker import Worker
from torch_cpu_cases import AVX2, Group, Lane, all_groups

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PEERS = ROOT / "target" / "peers"
BUSY = 0.5
"""A load above which times are not to be trusted."""

EXAMPLES = """\
examples:
  python3 bench/peers/torch_cpu.py                       everything, a new virtual environment at first
  python3 bench/peers/torch_cpu.py --python ~/torch/bin/python
  python3 bench/peers/torch_cpu.py --list
  python3 bench/peers/torch_cpu.py --only 512x512 --rounds 3

exit codes: 0 all targets met, 1 some target not met, 2 the comparison could not be made"""


class Sides:
    """Both sides, ready to be timed. PyTorch gets one process per lane, started when first needed."""

    def __init__(self, args: argparse.Namespace):
        self._args = args
        self.octile = args.octile or octile.build(ROOT)
        self.octile_version = octile.version(self.octile)
        self._python = args.python or venv.ensure(args.venv, HERE / "requirements-torch-cpu.txt")
        self._workers: Dict[str, Worker] = {}
        self.octile_isa: Dict[str, str] = {}

    def worker(self, lane: Lane) -> Worker:
        """The process for this lane."""
        if lane.name not in self._workers:
            # Of its own, because code that torch.compile cached for wide vectors gives wrong results on narrow ones.
            cache = {"TORCHINDUCTOR_CACHE_DIR": str(PEERS / f"torch-compiled-{lane.name}")}
            worker = Worker(self._python, HERE / "torch_cpu_worker.py", {**lane.environment, **cache})
            self._workers[lane.name] = worker
            capability = worker.greeting["capability"]
            if lane is AVX2 and capability != "AVX2":
                raise PeerError(f"PyTorch was to be limited to AVX2, but says it uses {capability}")
        return self._workers[lane.name]

    def greetings(self) -> Dict[str, dict]:
        """What PyTorch said about itself, by lane."""
        return {lane: worker.greeting for lane, worker in self._workers.items()}

    def contenders(self, group: Group) -> List[Contender]:
        """Everyone in the group, with PyTorch's operands in place."""
        samples, warmup, limit_s = self._args.samples, self._args.warmup, self._args.limit_s
        worker = self.worker(group.lane)
        worker.ask(prepare=dataclasses.asdict(group.shape))

        def time_octile(settings: Settings) -> List[float]:
            record = octile.take_samples(self.octile, group.shape, settings, samples, warmup)
            self.octile_isa[group.lane.name] = record["isa"]
            return record["samples_ms"]

        def time_torch(path: str, threads: int) -> List[float]:
            request = {"time": path, "threads": threads, "samples": samples, "warmup": warmup, "limit_s": limit_s}
            return worker.ask(**request)["samples_ms"]

        ours = [Contender(name, lambda s=settings: time_octile(s)) for name, settings in group.octile.items()]
        peers = [Contender(name, lambda p=path: time_torch(*p)) for name, path in group.torch.items()]
        return ours + peers

    def close(self) -> None:
        """Ends PyTorch's processes."""
        for worker in self._workers.values():
            worker.close()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    count = {"type": positive, "metavar": "N"}
    parser.add_argument("--rounds", default=9, help="rounds (default: 9)", **count)
    parser.add_argument("--samples", default=5, help="timed runs per contender and round (default: 5)", **count)
    parser.add_argument("--warmup", default=2, help="untimed runs before them (default: 2)", **count)
    parser.add_argument(
        "--limit-s",
        type=float,
        default=1.0,
        metavar="S",
        help="seconds after which PyTorch starts no further run in a round (default: 1)",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only groups whose name holds this text")
    parser.add_argument("--list", action="store_true", help="list the groups and their targets, and stop")
    parser.add_argument("--octile", type=pathlib.Path, metavar="FILE", help="this binary instead of a new build")
    parser.add_argument("--python", type=pathlib.Path, metavar="FILE", help="a Python that has PyTorch")
    parser.add_argument(
        "--venv",
        type=pathlib.Path,
        default=PEERS / "torch-venv",
        metavar="DIR",
        help="where to make the virtual environment (default: target/peers/torch-venv)",
    )
    parser.add_argument(
        "--record", type=pathlib.Path, metavar="FILE", help="the record (default: bench/record/torch-cpu-DATE.json)"
    )
    return parser.parse_args()


def positive(text: str) -> int:
    """An argument that counts something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def list_groups(groups: List[Group]) -> None:
    """What would be compared."""
    for group in groups:
        print(group.name)
        print(f"  contenders: {'; '.join([*group.octile, *group.torch])}")
        for target in group.targets:
            print(f"  target: {target.ours} at least {target.at_least:.3g} times as fast as {' / '.join(target.peers)}")


def measure(group: Group, sides: Sides, rounds: int) -> dict:
    """Lets the group take turns, prints its times, and returns its part of the record with the verdicts."""

    def on_round(number: int) -> None:
        print(f"{group.name}: round {number + 1} of {rounds}", file=sys.stderr)

    samples = comparison.take_turns(sides.contenders(group), rounds, on_round)
    report.print_times(group.name, samples)
    return {
        "name": group.name,
        "shape": str(group.shape),
        "lane": group.lane.name,
        "times": report.times(samples),
        "targets": [comparison.judge(target, samples) for target in group.targets],
    }


def compare(groups: List[Group], args: argparse.Namespace) -> List[Verdict]:
    """Makes the comparison, prints it and writes its record."""
    record = {
        "what": "Octile's CPU backend and PyTorch, taking turns in one run",
        "date": machine.now(),
        "machine": machine.describe(),
        "commit": machine.commit(ROOT),
        "settings": {name: getattr(args, name) for name in ("rounds", "samples", "warmup", "limit_s")},
    }
    if (record["machine"]["load_before"] or 0) > BUSY:
        print("warning: the machine is busy with something else, which the times will show", file=sys.stderr)
    sides = Sides(args)
    try:
        record["groups"] = [measure(group, sides, args.rounds) for group in groups]
    finally:
        sides.close()
    record["octile"] = {"version": sides.octile_version, "isa": sides.octile_isa}
    record["torch"] = sides.greetings()
    verdicts = [verdict for group in record["groups"] for verdict in group["targets"]]
    report.print_verdicts(verdicts)
    path = args.record or ROOT / "bench" / "record" / f"torch-cpu-{record['date'].replace(':', '')}.json"
    report.write(path, record)
    print(f"record: {path}")
    return verdicts


def compare_asked(args) -> List[Verdict]:
    groups = [group for group in all_groups() if args.only in group.name]
    if not groups:
        raise PeerError(f"no group's name holds '{args.only}': --list shows them")
    if args.list:
        list_groups(groups)
        return []
    return compare(groups, args)


if __name__ == "__main__":
    sys.exit(command.run(lambda: compare_asked(parse_args())))
