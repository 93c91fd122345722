#!/usr/bin/env python3
"""Compares `octile simulate` with JAX's TPU interpreter: the same kernel and operands, taking turns in one run.

A Pallas kernel with explicit copies (jax_interpreter_worker.py) runs in JAX's interpreter; the Mosaic text that JAX
lowers it to, and the same operands, go to `octile simulate`, which must also find JAX's result right. JAX's clock runs
while an already compiled function runs; Octile's from the start of its process to the end, reading the files included.
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import List

from harness import PeerError, command, comparison, machine, octile, report, venv
from harness.comparison import Contender, Target, Verdict
from harness.worker import Worker

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUSY = 0.5
"""A load above which times are not to be trusted."""

EXAMPLES = """\
examples:
  python3 bench/peers/jax_interpreter.py
  python3 bench/peers/jax_interpreter.py --python ~/jax/bin/python --rounds 1

exit codes: 0 all targets met, 1 some target not met, 2 the comparison could not be made"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A square multiplication, and how many times as fast as JAX the simulation with race detection has to be."""

    size: int
    block: int
    at_least: float

    @property
    def name(self) -> str:
        return f"{self.size}x{self.size}x{self.size}:{self.block}"


CASES = [Case(512, 128, 30.0), Case(1024, 128, 100.0)]


def simulate(binary: pathlib.Path, folder: pathlib.Path, races: bool) -> List[float]:
    """One run of `octile simulate`, in milliseconds. It must find nothing wrong, and JAX's result right."""
    command = [str(binary), "simulate", str(folder / "kernel.mlir"), "--tensors", str(folder / "tensors.safetensors")]
    command += ["--expect", "out", "--races" if races else "--no-races"]
    start = time.perf_counter()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    elapsed = 1e3 * (time.perf_counter() - start)
    if result.returncode != 0:
        raise PeerError(f"`{' '.join(command)}` failed:\n{result.stdout}")
    return [elapsed]


def measure(case: Case, binary: pathlib.Path, worker: Worker, rounds: int) -> dict:
    """Lets both sides take turns on one case."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(f"{case.name}: JAX compiles and writes the kernel", file=sys.stderr)
        worker.ask(prepare={"size": case.size, "block": case.block, "folder": str(folder)})
        contenders = [
            Contender("octile, races on", lambda: simulate(binary, folder, True)),
            Contender("octile, races off", lambda: simulate(binary, folder, False)),
            Contender("jax, races on", lambda: worker.ask(races=True)["samples_ms"]),
            Contender("jax, races off", lambda: worker.ask(races=False)["samples_ms"]),
        ]
        on_round = lambda number: print(f"{case.name}: round {number + 1} of {rounds}", file=sys.stderr)
        samples = comparison.take_turns(contenders, rounds, on_round)
    report.print_times(case.name, samples)
    target = Target(f"{case.name} with race detection", "octile, races on", ("jax, races on",), case.at_least)
    return {"shape": case.name, "times": report.times(samples), "targets": [comparison.judge(target, samples)]}


def compare(args: argparse.Namespace) -> List[Verdict]:
    """Makes the comparison, prints it and writes its record."""
    record = {
        "what": "octile simulate and JAX's TPU interpreter, taking turns in one run",
        "date": machine.now(),
        "machine": machine.describe(),
        "commit": machine.commit(ROOT),
        "settings": {"rounds": args.rounds},
    }
    if (record["machine"]["load_before"] or 0) > BUSY:
        print("warning: the machine is busy with something else, which the times will show", file=sys.stderr)
    binary = args.octile or octile.build(ROOT)
    python = args.python or venv.ensure(args.venv, HERE / "requirements-jax-tpu.txt")
    worker = Worker(python, HERE / "jax_interpreter_worker.py", {})
    try:
        record["cases"] = [measure(case, binary, worker, args.rounds) for case in CASES]
    finally:
        worker.close()
    record["octile"] = {"version": octile.version(binary)}
    record["jax"] = worker.greeting
    verdicts = [verdict for case in record["cases"] for verdict in case["targets"]]
    report.print_verdicts(verdicts)
    path = args.record or ROOT / "bench" / "record" / f"jax-interpreter-{record['date'].replace(':', '')}.json"
    report.write(path, record)
    print(f"record: {path}")
    return verdicts


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default: 3)")
    parser.add_argument("--octile", type=pathlib.Path, metavar="FILE", help="this binary instead of a new build")
    parser.add_argument("--python", type=pathlib.Path, metavar="FILE", help="a Python that has jax[tpu]")
    parser.add_argument(
        "--venv",
        type=pathlib.Path,
        default=ROOT / "target" / "peers" / "jax-venv",
        metavar="DIR",
        help="where to make the virtual environment (default: target/peers/jax-venv)",
    )
    parser.add_argument(
        "--record", type=pathlib.Path, metavar="FILE", help="the record (default: bench/record/jax-interpreter-DATE.json)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(command.run(lambda: compare(parse_args())))
