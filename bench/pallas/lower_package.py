"""Lowers every kernel of one package into a folder, and prints one JSON line per kernel.

    python lower_package.py jax_kernels FOLDER

Each line has the kernel's `name`, and `results` (the names of the expected tensors) or `error`.
"""

import importlib
import json
import pathlib
import sys

import lowering


def main(package: str, folder: pathlib.Path) -> None:
    """Lowers the cases of a module. A kernel that fails to lower is reported like the others."""
    for case in importlib.import_module(package).cases():
        answer = {"name": case.name}
        try:
            answer["results"] = lowering.write(case, folder / case.name)
        except Exception as error:  # Whatever a package raises must not end the run.
            answer["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
