"""Contenders that take turns on the clock, and what is asked of their medians."""

import dataclasses
import statistics
from typing import Callable, Dict, List, Sequence, Tuple

Samples = Dict[str, List[float]]


@dataclasses.dataclass(frozen=True)
class Contender:
    """Someone who can be timed."""

    name: str
    take_samples: Callable[[], List[float]]
    """Runs a few times and returns the times in milliseconds."""


@dataclasses.dataclass(frozen=True)
class Target:
    """How many times as fast as the fastest of its peers a contender has to be."""

    what: str
    ours: str
    peers: Tuple[str, ...]
    at_least: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a target."""

    what: str
    ours: str
    fastest_peer: str
    ratio: float
    at_least: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.at_least


def take_turns(contenders: Sequence[Contender], rounds: int, on_round: Callable[[int], None]) -> Samples:
    """Every contender runs in every round, so that a change of the machine's pace hits all alike.

    Each round starts with another contender, so that none always runs after the same one.
    """
    samples: Samples = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        on_round(number)
        first = number % len(contenders)
        for contender in [*contenders[first:], *contenders[:first]]:
            samples[contender.name] += contender.take_samples()
    return samples


def judge(target: Target, samples: Samples) -> Verdict:
    """Compares medians."""
    median = {name: statistics.median(samples[name]) for name in (target.ours, *target.peers)}
    fastest = min(target.peers, key=lambda name: median[name])
    return Verdict(target.what, target.ours, fastest, median[fastest] / median[target.ours], target.at_least)
