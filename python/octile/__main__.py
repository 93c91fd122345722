"""The ``octile`` command: ``octile ...`` or ``python -m octile ...``."""

import sys

from octile import _native
from octile._command import command_line


def main() -> None:
    """Runs the command with the arguments of this process, and exits."""
    sys.exit(_native.run_command(["octile", *sys.argv[1:]], command_line()))


if __name__ == "__main__":
    main()
