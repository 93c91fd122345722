#!/usr/bin/env python3
"""Runs published Pallas kernels in `octile simulate`, and writes the table of docs/pallas-kernels.md.

The kernels of `jax.experimental.pallas.ops.tpu`, tokamax and tpu-inference are taken from the installed
packages and lowered for TPU on this machine. `octile simulate` runs each on the operands of a small problem
and compares the results with a reference: plain JAX, the package's own reference, or JAX's TPU interpreter.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import List

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))

from harness import PeerError, command, machine, octile, report, venv  # noqa: E402

ROOT = HERE.parents[1]
PACKAGES = {
    "jax.experimental.pallas.ops.tpu": ("jax_kernels", "jax"),
    "tokamax": ("tokamax_kernels", "tokamax"),
    "tpu-inference": ("tpu_inference_kernels", "tpu-inference"),
}
"""Title of each package, its module here, and its distribution."""
WITHOUT_DEPENDENCIES = ["tpu-inference==0.32.0"]
"""Packages whose kernels need none of what the package depends on."""
LIMIT = 300
"""Seconds that a simulation may take."""
DOCUMENT = ROOT / "docs" / "pallas-kernels.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
EXAMPLES = """\
examples:
  python3 bench/pallas/table.py
  python3 bench/pallas/table.py --octile target/debug/octile --python ~/jax/bin/python
  python3 bench/pallas/table.py --only paged --keep lowered
"""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a kernel."""

    package: str
    kernel: str
    status: str
    why: str = ""
    seconds: float = 0.0


STATUSES = {
    "matches": "runs, and the results match the reference",
    "runs": "runs without findings; there is no reference",
    "differs": "runs, but a result differs",
    "findings": "the simulator reports a defect",
    "rejected": "Octile cannot run it, and says why",
    "not lowered": "JAX or the package fails before there is a module",
}


def prepare(args: argparse.Namespace) -> pathlib.Path:
    """The Python that has the packages."""
    if args.python:
        return args.python
    python = venv.ensure(args.venv, HERE / "requirements.txt")
    install = [str(python), "-I", "-m", "pip", "install", "--quiet", "--no-deps", *WITHOUT_DEPENDENCIES]
    if subprocess.run(install).returncode != 0:
        raise PeerError(f"`{' '.join(install)}` failed: see its message above")
    return python


def versions(python: pathlib.Path) -> dict:
    """The versions of the packages and of what they were lowered with."""
    names = [distribution for _, distribution in PACKAGES.values()] + ["jaxlib", "libtpu"]
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    return json.loads(subprocess.run([str(python), "-c", code], stdout=subprocess.PIPE, check=True).stdout)


def lower(python: pathlib.Path, module: str, folder: pathlib.Path) -> List[dict]:
    """Lowers a package's kernels, unless an earlier run kept them."""
    kept = folder / "answers.json"
    if kept.exists():
        return json.loads(kept.read_text())
    arguments = [str(python), str(HERE / "lower_package.py"), module, str(folder)]
    result = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise PeerError(f"`{' '.join(arguments)}` failed:\n{result.stderr}")
    answers = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    kept.write_text(json.dumps(answers))
    return answers


def simulate(binary: pathlib.Path, folder: pathlib.Path, answer: dict, package: str) -> Outcome:
    """Runs one kernel and judges what `octile simulate` says about it."""
    name = answer["name"]
    if "error" in answer:
        return Outcome(package, name, "not lowered", answer["error"])
    arguments = [str(binary), "simulate", str(folder / "lowered.mlir"), "--json"]
    arguments += ["--tensors", str(folder / "tensors.safetensors")]
    if answer["results"]:
        arguments += ["--expect", ",".join(answer["results"])]
    start = time.perf_counter()
    try:
        result = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return Outcome(package, name, "rejected", f"not finished after {LIMIT} s", LIMIT)
    seconds = round(time.perf_counter() - start, 3)
    if result.returncode not in (0, 1):
        why = result.stderr.strip().splitlines()
        return Outcome(package, name, "rejected", short(why[-1] if why else "no message", folder), seconds)
    return judge(package, answer, json.loads(result.stdout), result.returncode == 0, seconds)


def judge(package: str, answer: dict, document: dict, passed: bool, seconds: float) -> Outcome:
    """The outcome of a run that ended."""
    name = answer["name"]
    if passed:
        return Outcome(package, name, "matches" if answer["results"] else "runs", seconds=seconds)
    for finding in document["findings"]:
        python = finding.get("python") or {}
        place = f"{pathlib.Path(python['file']).name}:{python['line']}: " if python.get("file") else ""
        return Outcome(package, name, "findings", f"{place}{finding['title']}: {finding['message']}", seconds)
    for violation in document["violations"]:
        why = f"the compiler would reject it: {violation['message']}"
        return Outcome(package, name, "findings", why, seconds)
    return Outcome(package, name, "differs", difference(document), seconds)


def difference(document: dict) -> str:
    """The worst result, in words."""
    compared = document.get("comparisons") or [document.get("comparison")]
    for result in compared:
        if result and not result["passed"]:
            wrong, elements = result["wrong"], result["elements"]
            return f"{wrong} of {elements} elements of {result['expected']} exceed the tolerance"
    return "see the record"


def short(message: str, folder: pathlib.Path) -> str:
    """A message without the names of temporary folders."""
    return message.replace(f"{folder}/", "").replace("octile: ", "", 1)


def markdown(record: dict) -> str:
    """The table, and a line per kernel that does not match."""
    outcomes = record["outcomes"]
    count = lambda package, status: sum(
        outcome["package"] == package and outcome["status"] == status for outcome in outcomes
    )
    used = [status for status in STATUSES if any(outcome["status"] == status for outcome in outcomes)]
    lines = [f"| package | version | {' | '.join(used)} |", "|---" * (len(used) + 2) + "|"]
    for package, (_, distribution) in PACKAGES.items():
        version = record["versions"][distribution]
        counts = " | ".join(str(count(package, status)) for status in used)
        lines.append(f"| {package} | {version} | {counts} |")
    lines += ["", *(f"- **{status}**: {STATUSES[status]}." for status in used)]
    lines += ["", "| kernel | outcome | seconds |", "|---|---|---|"]
    for outcome in outcomes:
        _, distribution = PACKAGES[outcome["package"]]
        why = f": {cell(outcome['why'])}" if outcome["why"] else ""
        seconds = f"{outcome['seconds']:.2f}" if outcome["seconds"] else ""
        lines.append(f"| {distribution} `{outcome['kernel']}` | {outcome['status']}{why} | {seconds} |")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text that fits into a cell of a Markdown table."""
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
    return text if len(text) <= 300 else text[:297] + "..."


def write_document(record: dict, name: str) -> None:
    """Replaces the table in the document."""
    text = DOCUMENT.read_text()
    if BEGIN not in text or END not in text:
        raise PeerError(f"{DOCUMENT} has no lines {BEGIN} and {END}")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    link = f"[Record](../bench/record/{name}), jax {record['versions']['jax']}, {record['date'][:10]}."
    DOCUMENT.write_text(f"{head}{BEGIN}\n{link}\n\n{markdown(record)}\n{END}{tail}")


def make_table(args: argparse.Namespace) -> None:
    """Runs everything and writes the record and the table."""
    record = {
        "what": "published Pallas kernels in octile simulate",
        "date": machine.now(),
        "machine": machine.describe(),
        "commit": machine.commit(ROOT),
    }
    binary = args.octile or octile.build(ROOT)
    python = prepare(args)
    record["octile"], record["versions"] = octile.version(binary), versions(python)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        outcomes = []
        for package, (module, _) in PACKAGES.items():
            print(f"{package}: lowering", file=sys.stderr)
            for answer in lower(python, module, folder / module):
                if args.only and args.only not in answer["name"]:
                    continue
                outcome = simulate(binary, folder / module / answer["name"], answer, package)
                print(f"{package} {outcome.kernel}: {outcome.status} {outcome.why}", file=sys.stderr)
                outcomes.append(dataclasses.asdict(outcome))
    record["outcomes"] = outcomes
    if args.only:
        return
    name = f"pallas-kernels-{record['date'].replace(':', '')}.json"
    report.write(ROOT / "bench" / "record" / name, record)
    write_document(record, name)
    print(f"record: bench/record/{name}")


def main() -> int:
    """Parses the options and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = {"type": pathlib.Path, "metavar": "FILE"}
    parser.add_argument("--octile", help="use this binary instead of building one", **path)
    parser.add_argument("--python", help="use this Python, which has the packages", **path)
    parser.add_argument("--venv", default=command.PEERS / "pallas-venv", help="virtual environment", **path)
    parser.add_argument("--keep", help="keep lowered kernels here, and reuse them", **path)
    parser.add_argument("--only", metavar="TEXT", help="run only kernels with this in their name; no record")
    try:
        make_table(parser.parse_args())
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
