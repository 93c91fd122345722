"""Seeds for tests that call with random arguments."""

import os
import random
import time


def generators(count):
    """Random generators, one for each call: always the same `count`, or with OCTILE_FUZZ_SECONDS=120 others
    for as long. A generator's seed is its attribute `number`."""
    seconds = float(os.environ.get("OCTILE_FUZZ_SECONDS", "0"))
    number = random.SystemRandom().randrange(1 << 32) if seconds else 0
    last, end = number + count, time.monotonic() + seconds
    while number < last or time.monotonic() < end:
        generator = random.Random(number)
        generator.number = number
        yield generator
        number += 1


def check_sentence(error, generator):
    """An exception is one sentence for the caller."""
    said = str(error)
    assert said and "\n" not in said and len(said) < 500, f"seed {generator.number}: {said!r}"
