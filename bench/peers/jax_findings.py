#!/usr/bin/env python3
"""Compares what `octile simulate` and JAX's TPU interpreter find in the same kernels, and how long it takes.

Both alternate in one run. The kernels (jax_findings_cases.py) follow JAX's own tests of its interpreter:
DMAs, pipelines and ring collectives over four devices, correct and with planted bugs. `octile simulate` gets
what JAX lowers each to, and the same operands.

Two pairs of times are compared. Until a verdict: the whole process of `octile simulate`, and JAX's first
call, which traces and compiles the interpreter's program as every test does; what lowering the kernel for
Octile takes is recorded beside them. Simulation alone: the `seconds` of Octile's JSON document, in which it
compiles and runs the module, and a repeated call of the program that JAX has compiled. Processor time is
recorded too, because other work on the machine affects it less.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict, List

from harness import PeerError, command, comparison, octile, report, venv
from harness.comparison import Contender, Verdict
from harness.worker import Worker

HERE = pathlib.Path(__file__).resolve().parent
NAME = "jax-findings"
EXAMPLES = """\
  python3 bench/peers/jax_findings.py
  python3 bench/peers/jax_findings.py --python ~/jax/bin/python --rounds 1
"""
PATIENCE = 20
"""Seconds after which a kernel that does not end counts as one that hangs JAX."""
OURS, FIRST = "octile, whole process", "jax, first call"
ALONE, REPEATED = "octile, simulation alone", "jax, repeated call"
AT_LEAST = 50.0
"""Required speedup over JAX's first call: geometric mean of the kernels."""
MEMORY = 4.0
"""Memory that the process may take on the largest kernel, relative to its operands."""
LARGE = 1 << 24
"""Bytes of operands beside which the program itself hardly counts."""
ATTENTION_LIMIT = 10.0
"""Seconds that flash attention over 2048 tokens and 8 heads may take."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One process of `octile simulate`."""

    elapsed_ms: float
    processor_ms: float
    peak_bytes: int
    document: dict


def simulate(binary: pathlib.Path, folder: pathlib.Path) -> Run:
    """Runs `octile simulate` once."""
    document = folder / "simulate.json"
    tensors = folder / "tensors.safetensors"
    arguments = [str(binary), "simulate", str(folder / "lowered.mlir"), "--tensors", str(tensors)]
    arguments += [f"--json={document}", "--quiet"]
    document.unlink(missing_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise PeerError(f"`{' '.join(arguments)}` failed: {said.strip()}")
    processor = usage.ru_utime + usage.ru_stime
    return Run(1e3 * elapsed, 1e3 * processor, 1024 * usage.ru_maxrss, json.loads(document.read_text()))


def our_findings(document: dict) -> List[str]:
    """The kinds of findings in a document of `octile simulate`, each once."""
    titles = [finding["title"] for finding in document["findings"]]
    titles += ["REJECTED"] * bool(document["violations"])
    return list(dict.fromkeys(titles))


def their_findings(worker: Worker, index: int, study: dict, python: pathlib.Path) -> dict:
    """What JAX finds. A kernel on which it hangs runs in a process that can be ended; no slow one runs."""
    if study["slow"]:
        return {}
    if not study["hangs"]:
        return worker.ask(study=index, findings=True)
    arguments = [str(python), str(HERE / "jax_findings_worker.py"), str(index)]
    try:
        subprocess.run(arguments, timeout=PATIENCE, capture_output=True)
    except subprocess.TimeoutExpired:
        return {"hangs": True}
    return {}


def has_found(findings: dict) -> bool:
    """Whether JAX reported a bug by itself: a race or an exception. NaN is left for the author to see."""
    return bool(findings.get("races") or findings.get("raised"))


def measure(study: dict, index: int, binary: pathlib.Path, worker: Worker, args, python) -> dict:
    """Compares both sides on one kernel."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lowered = worker.ask(study=index, folder=str(folder))
        first = simulate(binary, folder)
        ours, theirs = our_findings(first.document), their_findings(worker, index, study, python)
        processor: Dict[str, List[float]] = {OURS: [], FIRST: [], REPEATED: []}

        def process() -> List[float]:
            run = simulate(binary, folder)
            processor[OURS].append(run.processor_ms)
            return [run.elapsed_ms]

        def call(name: str) -> List[float]:
            answer = worker.ask(study=index, compiled=name == REPEATED)
            processor[name].append(answer["processor_ms"])
            return answer["samples_ms"]

        contenders = [
            Contender(OURS, process),
            Contender(ALONE, lambda: [1e3 * simulate(binary, folder).document["seconds"]]),
        ]
        if not study["hangs"] and "raised" not in theirs:
            contenders.append(Contender(FIRST, lambda: call(FIRST)))
            if not study["slow"]:
                contenders.append(Contender(REPEATED, lambda: call(REPEATED)))
        rounds = 1 if study["slow"] else args.rounds
        samples = comparison.take_turns(contenders, rounds, command.announce_rounds(study["name"], rounds))
    report.print_times(study["name"], samples)
    print(f"  octile: {', '.join(ours) or 'no findings'}; jax: {theirs}")
    return {
        "kernel": study["name"],
        "bug": study["bug"],
        "octile_findings": ours,
        "jax_findings": theirs,
        "lowering_ms": lowered["lowering_ms"],
        "operand_bytes": lowered["bytes"],
        "octile_peak_bytes": first.peak_bytes,
        "times": report.times(samples),
        "processor_ms": {name: statistics.median(taken) for name, taken in processor.items() if taken},
    }


def median(case: dict, name: str) -> float:
    """A contender's median in milliseconds; 0 if it was not timed."""
    return next((times["median_ms"] for times in case["times"] if times["contender"] == name), 0.0)


def verdicts(cases: List[dict]) -> List[Verdict]:
    """The targets: nothing missed, no false alarm, speed, and the time of flash attention."""
    missed = [case["kernel"] for case in cases if case["bug"] and not case["octile_findings"]]
    alarms = [case["kernel"] for case in cases if not case["bug"] and case["octile_findings"]]
    for what, names in (("missed", missed), ("false alarms", alarms)):
        if names:
            print(f"octile, {what}: {', '.join(names)}")
    bugs = [case for case in cases if case["bug"]]
    found = len(bugs) - len(missed)
    theirs = sum(has_found(case["jax_findings"]) for case in bugs)
    processor = statistics.geometric_mean(
        case["processor_ms"][FIRST] / case["processor_ms"][OURS]
        for case in cases
        if FIRST in case["processor_ms"]
    )
    mean = lambda own, peer: statistics.geometric_mean(
        median(case, peer) / median(case, own) for case in cases if median(case, peer)
    )
    largest = max(cases, key=lambda case: median(case, FIRST))
    seconds = median(largest, OURS) / 1e3
    result = [
        Verdict(f"bugs found, of {len(bugs)}", f"{OURS}", f"jax finds {theirs}", found, len(bugs)),
        Verdict("kernels without false alarm", OURS, "", len(cases) - len(alarms), len(cases)),
        Verdict("speedup, geometric mean", OURS, FIRST, mean(OURS, FIRST), AT_LEAST),
        Verdict("speedup in processor time", OURS, FIRST, processor, AT_LEAST),
        Verdict("speedup, geometric mean", ALONE, REPEATED, mean(ALONE, REPEATED), 1.0),
        Verdict(f"{largest['kernel']}, limit / s", OURS, "", ATTENTION_LIMIT / seconds, 1.0),
    ]
    # Beside small operands, the program itself would count.
    if largest["operand_bytes"] >= LARGE:
        memory = MEMORY * largest["operand_bytes"] / largest["octile_peak_bytes"]
        result.append(Verdict(f"{largest['kernel']}, limit / memory", OURS, "", memory, 1.0))
    return result


def compare(args: argparse.Namespace) -> List[Verdict]:
    """Runs the comparison and writes its record."""
    what = "findings and times of octile simulate and JAX's TPU interpreter, alternating in one run"
    record = command.begin_record(what, {"rounds": args.rounds, "without_slow": args.without_slow})
    binary = args.octile or octile.build(command.ROOT)
    python = args.python or venv.ensure(args.venv, HERE / "requirements-jax-tpu.txt")
    worker = Worker(python, HERE / "jax_findings_worker.py", {})
    try:
        studies = worker.greeting.pop("studies")
        record["cases"] = [
            measure(study, index, binary, worker, args, python)
            for index, study in enumerate(studies)
            if not (study["slow"] and args.without_slow)
        ]
    finally:
        worker.close()
    record["octile"] = {"version": octile.version(binary)}
    record["jax"] = worker.greeting
    record["targets"] = verdicts(record["cases"])
    return command.finish_record(NAME, args, record, record["targets"])


if __name__ == "__main__":
    parser = command.parser(NAME, __doc__, EXAMPLES, peer="jax[tpu]", rounds=3)
    slow = "leave out the kernel that takes JAX minutes"
    parser.add_argument("--without-slow", action="store_true", help=slow)
    sys.exit(command.run(lambda: compare(parser.parse_args())))
