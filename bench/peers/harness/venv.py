"""A virtual environment of a peer's own."""

import pathlib
import subprocess
import sys

from . import PeerError


def ensure(folder: pathlib.Path, requirements: pathlib.Path) -> pathlib.Path:
    """Makes the environment unless it is there and holds what `requirements` asks for. Returns its Python."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    installed = folder / "installed-requirements.txt"
    if installed.exists() and installed.read_text() == requirements.read_text():
        return python
    print(f"making {folder} from {requirements.name}: PyTorch and its like are large downloads", file=sys.stderr)
    # Isolated (-I), so that no module of the current folder is imported.
    # Not the venv module's API: a half-made environment must not be this process's problem.
    for command in (
        [sys.executable, "-I", "-m", "venv", "--clear", str(folder)],
        [str(python), "-I", "-m", "pip", "install", "--quiet", "--requirement", str(requirements)],
    ):
        if subprocess.run(command).returncode != 0:
            raise PeerError(
                f"`{' '.join(command)}` failed, its message is above: repair that, run this script with another "
                "version of Python, or name a Python that has the packages with --python"
            )
    installed.write_text(requirements.read_text())
    return python
