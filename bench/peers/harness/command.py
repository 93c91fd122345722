"""What the comparison scripts share as commands: options, the record around the measurements, exit codes."""

import argparse
import pathlib
import sys
from typing import Callable, List

from . import PeerError, machine, report
from .comparison import Verdict

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = ROOT / "target" / "peers"
BUSY = 0.5
"""Load average above which times are unreliable."""
EXIT_CODES = "exit codes: 0 all targets met, 1 a target missed, 2 the comparison could not be made"


def parser(name: str, description: str, examples: str, peer: str, rounds: int) -> argparse.ArgumentParser:
    """The options of every comparison. `name` names its record and virtual environment."""
    result = argparse.ArgumentParser(
        description=description,
        epilog=f"examples:\n{examples}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    path = {"type": pathlib.Path}
    venv = PEERS / f"{name}-venv"
    count = {"type": positive, "metavar": "N"}
    result.add_argument("--rounds", default=rounds, help=f"rounds (default: {rounds})", **count)
    result.add_argument("--octile", metavar="FILE", help="use this binary instead of building one", **path)
    result.add_argument("--python", metavar="FILE", help=f"use this Python, which has {peer}", **path)
    result.add_argument(
        "--venv",
        default=venv,
        metavar="DIR",
        help=f"virtual environment (default: target/peers/{name}-venv)",
        **path,
    )
    result.add_argument(
        "--record", metavar="FILE", help=f"record to write (default: bench/record/{name}-DATE.json)", **path
    )
    return result


def positive(text: str) -> int:
    """Parses a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def begin_record(what: str, settings: dict) -> dict:
    """Starts a record with the machine and the commit. Warns if the machine is busy."""
    record = {
        "what": what,
        "date": machine.now(),
        "machine": machine.describe(),
        "commit": machine.commit(ROOT),
        "settings": settings,
    }
    if (record["machine"]["load_before"] or 0) > BUSY:
        print("warning: the machine is busy, so times will be unreliable", file=sys.stderr)
    return record


def finish_record(
    name: str, args: argparse.Namespace, record: dict, verdicts: List[Verdict]
) -> List[Verdict]:
    """Prints the verdicts and writes the record."""
    report.print_verdicts(verdicts)
    path = args.record or ROOT / "bench" / "record" / f"{name}-{record['date'].replace(':', '')}.json"
    report.write(path, record)
    print(f"record: {path}")
    return verdicts


def announce_rounds(what: str, rounds: int) -> Callable[[int], None]:
    """A callback that reports progress on standard error."""
    return lambda number: print(f"{what}: round {number + 1} of {rounds}", file=sys.stderr)


def run(compare: Callable[[], List[Verdict]]) -> int:
    """Runs a comparison and returns its exit code."""
    try:
        verdicts = compare()
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: no record was written", file=sys.stderr)
        return 2
    return 0 if all(verdict.met for verdict in verdicts) else 1
