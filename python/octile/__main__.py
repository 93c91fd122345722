"""The ``octile`` command: ``octile ...`` or ``python -m octile ...``."""

import pathlib
import sys

from octile import _native

# Runs the command again in a child process. The path is set, so that a folder named octile where the user
# happens to be is not imported instead.
_RESTART = "import sys; sys.path[0] = {path!r}; from octile.__main__ import main; main()"


def main() -> None:
    """Runs the command with the arguments of this process, and exits."""
    package = pathlib.Path(__file__).resolve().parent
    restart = [sys.executable, "-c", _RESTART.format(path=str(package.parent))]
    sys.exit(_native.run_command(["octile", *sys.argv[1:]], restart))


if __name__ == "__main__":
    main()
