"""Virtual environments of peers."""

import pathlib
import subprocess
import sys

from . import PeerError


def ensure(folder: pathlib.Path, requirements: pathlib.Path) -> pathlib.Path:
    """Creates the environment unless it is up to date. Returns its Python."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    installed = folder / "installed-requirements.txt"
    if installed.exists() and installed.read_text() == requirements.read_text():
        return python
    print(f"installing {requirements.name} into {folder}: a large download", file=sys.stderr)
    # Isolated (-I), so that no module of the current folder is imported.
    for command in (
        [sys.executable, "-I", "-m", "venv", "--clear", str(folder)],
        [str(python), "-I", "-m", "pip", "install", "--quiet", "--requirement", str(requirements)],
    ):
        if subprocess.run(command).returncode != 0:
            raise PeerError(
                f"`{' '.join(command)}` failed (see its message above): fix that, use another version of "
                "Python, or name a Python that has the packages with --python"
            )
    installed.write_text(requirements.read_text())
    return python
