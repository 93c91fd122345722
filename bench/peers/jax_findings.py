#!/usr/bin/env python3
"""Compares what `octile simulate` and JAX's TPU interpreter find in the same kernels, and how long it takes.

Both alternate in one run. The kernels (jax_findings_cases.py) follow JAX's own tests of its interpreter:
DMAs, pipelines and ring collectives over four devices, correct and with planted bugs. `octile simulate` gets
what JAX lowers each to, and the same operands. Octile's time is that of the whole process. JAX has two times:
that of the first call, which traces and compiles the interpreter's program as every test does, and that of a
repeated call.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import List, Tuple

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
OURS, FIRST, REPEATED = "octile, whole process", "jax, first call", "jax, repeated call"
AT_LEAST = 50.0
"""Required speedup over JAX's first call: geometric mean of the kernels."""
ATTENTION_LIMIT = 10.0
"""Seconds that flash attention over 2048 tokens and 8 heads may take."""


def simulate(binary: pathlib.Path, folder: pathlib.Path) -> Tuple[float, int, dict]:
    """Runs `octile simulate` once. Returns seconds, the peak memory in bytes, and its JSON document."""
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
    return elapsed, 1024 * usage.ru_maxrss, json.loads(document.read_text())


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
        size = worker.ask(study=index, folder=str(folder))["bytes"]
        _, memory, document = simulate(binary, folder)
        ours, theirs = our_findings(document), their_findings(worker, index, study, python)
        contenders = [Contender(OURS, lambda: [1e3 * simulate(binary, folder)[0]])]
        if not study["hangs"] and "raised" not in theirs:
            ask = lambda compiled: worker.ask(study=index, compiled=compiled)["samples_ms"]
            contenders.append(Contender(FIRST, lambda: ask(False)))
            if not study["slow"]:
                contenders.append(Contender(REPEATED, lambda: ask(True)))
        rounds = 1 if study["slow"] else args.rounds
        samples = comparison.take_turns(contenders, rounds, command.announce_rounds(study["name"], rounds))
    report.print_times(study["name"], samples)
    print(f"  octile: {', '.join(ours) or 'no findings'}; jax: {theirs}")
    return {
        "kernel": study["name"],
        "bug": study["bug"],
        "octile_findings": ours,
        "jax_findings": theirs,
        "operand_bytes": size,
        "octile_peak_bytes": memory,
        "times": report.times(samples),
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
    mean = lambda name: statistics.geometric_mean(
        median(case, name) / median(case, OURS) for case in cases if median(case, name)
    )
    largest = max(cases, key=lambda case: median(case, FIRST))
    seconds = median(largest, OURS) / 1e3
    return [
        Verdict(f"bugs found, of {len(bugs)}", f"{OURS}", f"jax finds {theirs}", found, len(bugs)),
        Verdict("kernels without false alarm", OURS, "", len(cases) - len(alarms), len(cases)),
        Verdict("speedup, geometric mean", OURS, FIRST, mean(FIRST), AT_LEAST),
        Verdict("speedup, geometric mean", OURS, REPEATED, mean(REPEATED), 1.0),
        Verdict(f"{largest['kernel']}, limit / s", OURS, "", ATTENTION_LIMIT / seconds, 1.0),
    ]


def compare(args: argparse.Namespace) -> List[Verdict]:
    """Runs the comparison and writes its record."""
    what = "findings and times of octile simulate and JAX's TPU interpreter, alternating in one run"
    record = command.begin_record(what, {"rounds": args.rounds})
    binary = args.octile or octile.build(command.ROOT)
    python = args.python or venv.ensure(args.venv, HERE / "requirements-jax-tpu.txt")
    worker = Worker(python, HERE / "jax_findings_worker.py", {})
    try:
        studies = worker.greeting.pop("studies")
        record["cases"] = [
            measure(study, index, binary, worker, args, python) for index, study in enumerate(studies)
        ]
    finally:
        worker.close()
    record["octile"] = {"version": octile.version(binary)}
    record["jax"] = worker.greeting
    record["targets"] = verdicts(record["cases"])
    return command.finish_record(NAME, args, record, record["targets"])


if __name__ == "__main__":
    parser = command.parser(NAME, __doc__, EXAMPLES, peer="jax[tpu]", rounds=3)
    sys.exit(command.run(lambda: compare(parser.parse_args())))
