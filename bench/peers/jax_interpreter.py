#!/usr/bin/env python3
"""Compares `octile simulate` with JAX's TPU interpreter on the same kernel and operands.

Both alternate in one run. A Pallas kernel with explicit DMAs (jax_interpreter_worker.py) runs in JAX's
interpreter. `octile simulate` gets the Mosaic text that JAX lowers it to, and the same operands, and must
confirm JAX's result. JAX's time is that of an already compiled function; Octile's that of the whole process,
including reading the files.
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import List

from harness import PeerError, command, comparison, octile, report, venv
from harness.comparison import Contender, Target, Verdict
from harness.worker import Worker

HERE = pathlib.Path(__file__).resolve().parent
NAME = "jax-interpreter"
EXAMPLES = """\
  python3 bench/peers/jax_interpreter.py
  python3 bench/peers/jax_interpreter.py --python ~/jax/bin/python --rounds 1
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A square matmul, and the required speedup over JAX with race detection."""

    size: int
    block: int
    at_least: float

    @property
    def name(self) -> str:
        return f"{self.size}x{self.size}x{self.size}:{self.block}"


CASES = [Case(512, 128, 30.0), Case(1024, 128, 100.0)]


def simulate(binary: pathlib.Path, folder: pathlib.Path, races: bool) -> List[float]:
    """Runs `octile simulate` once and returns milliseconds. It must confirm JAX's result."""
    arguments = [str(binary), "simulate", str(folder / "kernel.mlir")]
    arguments += ["--tensors", str(folder / "tensors.safetensors"), "--expect", "out"]
    arguments += ["--races" if races else "--no-races"]
    start = time.perf_counter()
    result = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    elapsed = 1e3 * (time.perf_counter() - start)
    if result.returncode != 0:
        raise PeerError(f"`{' '.join(arguments)}` failed:\n{result.stdout}")
    return [elapsed]


def measure(case: Case, binary: pathlib.Path, worker: Worker, rounds: int) -> dict:
    """Times both sides on one case, alternating."""
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
        samples = comparison.take_turns(contenders, rounds, command.announce_rounds(case.name, rounds))
    report.print_times(case.name, samples)
    target = Target(
        f"{case.name} with race detection", "octile, races on", ("jax, races on",), case.at_least
    )
    verdict = comparison.judge(target, samples)
    return {"shape": case.name, "times": report.times(samples), "targets": [verdict]}


def compare(args: argparse.Namespace) -> List[Verdict]:
    """Runs the comparison and writes its record."""
    what = "octile simulate and JAX's TPU interpreter, alternating in one run"
    record = command.begin_record(what, {"rounds": args.rounds})
    binary = args.octile or octile.build(command.ROOT)
    python = args.python or venv.ensure(args.venv, HERE / "requirements-jax-tpu.txt")
    worker = Worker(python, HERE / "jax_interpreter_worker.py", {})
    try:
        record["cases"] = [measure(case, binary, worker, args.rounds) for case in CASES]
    finally:
        worker.close()
    record["octile"] = {"version": octile.version(binary)}
    record["jax"] = worker.greeting
    verdicts = [verdict for case in record["cases"] for verdict in case["targets"]]
    return command.finish_record(NAME, args, record, verdicts)


if __name__ == "__main__":
    parser = command.parser(NAME, __doc__, EXAMPLES, peer="jax[tpu]", rounds=3)
    sys.exit(command.run(lambda: compare(parser.parse_args())))
