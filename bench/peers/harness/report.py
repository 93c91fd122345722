"""Comparisons as records and tables."""

import dataclasses
import json
import pathlib
import re
import statistics
from typing import List

from .comparison import Samples, Verdict


def times(samples: Samples) -> List[dict]:
    """Statistics and samples of every contender."""
    return [
        {
            "contender": name,
            "median_ms": statistics.median(values),
            "min_ms": min(values),
            "max_ms": max(values),
            "samples_ms": [round(value, 5) for value in values],
        }
        for name, values in samples.items()
    ]


def write(path: pathlib.Path, record: dict) -> None:
    """Writes the record atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    text = json.dumps(record, indent=1, default=_verdict)
    # One line per list of numbers.
    text = re.sub(r"\[[-+.\d\se,]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    partial.write_text(text + "\n")
    partial.replace(path)


def _verdict(verdict: Verdict) -> dict:
    return {**dataclasses.asdict(verdict), "met": verdict.met}


def print_times(title: str, samples: Samples) -> None:
    """Prints medians and spread of one group, fastest first."""
    print(f"\n{title}")
    print(f"  {'contender':<32} {'median ms':>10} {'min ms':>10} {'max ms':>10} {'samples':>8}")
    for name, values in sorted(samples.items(), key=lambda item: statistics.median(item[1])):
        median = statistics.median(values)
        print(f"  {name:<32} {median:10.3f} {min(values):10.3f} {max(values):10.3f} {len(values):8}")


def print_verdicts(verdicts: List[Verdict]) -> None:
    """Prints every target with its measured ratio."""
    print(f"\n{'target':<36} {'contender':<22} {'fastest peer':<28} {'ratio':>6} {'asked':>6}")
    for verdict in verdicts:
        outcome = "met" if verdict.met else "not met"
        print(
            f"{verdict.what:<36} {verdict.ours:<22} {verdict.fastest_peer:<28} "
            f"{verdict.ratio:6.2f} {verdict.at_least:6.2f}  {outcome}"
        )
    met = sum(verdict.met for verdict in verdicts)
    print(f"\n{met} of {len(verdicts)} targets met")
