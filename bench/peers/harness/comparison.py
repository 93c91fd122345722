"""Alternating measurements, and targets for the ratios of their medians."""

import dataclasses
import statistics
from typing import Callable, Dict, List, Sequence, Tuple

Samples = Dict[str, List[float]]


@dataclasses.dataclass(frozen=True)
class Contender:
    """Something that can be timed."""

    name: str
    take_samples: Callable[[], List[float]]
    """Runs a few times and returns the times in milliseconds."""


@dataclasses.dataclass(frozen=True)
class Target:
    """Required speedup of a contender over the fastest of its peers."""

    what: str
    ours: str
    peers: Tuple[str, ...]
    at_least: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The measured speedup of a target."""

    what: str
    ours: str
    fastest_peer: str
    ratio: float
    at_least: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.at_least


def take_turns(contenders: Sequence[Contender], rounds: int, on_round: Callable[[int], None]) -> Samples:
    """Runs every contender in every round, so that changes in the machine's speed affect all equally.

    Each round starts with a different contender, so that none always follows the same one.
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
    return Verdict(
        target.what, target.ours, fastest, median[fastest] / median[target.ours], target.at_least
    )
