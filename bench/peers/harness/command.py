"""How a comparison ends as a command."""

import sys
from typing import Callable, List

from . import PeerError
from .comparison import Verdict


def run(compare: Callable[[], List[Verdict]]) -> int:
    """The exit code: 0 all targets met, 1 some target not met, 2 the comparison could not be made."""
    try:
        verdicts = compare()
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: no record was written", file=sys.stderr)
        return 2
    return 0 if all(verdict.met for verdict in verdicts) else 1
