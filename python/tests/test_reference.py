"""Builds the API reference into target/python-reference; everything public must be documented."""

import importlib
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import octile
import pytest

pytest.importorskip("pdoc", reason="the API reference is built by pdoc")
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or pathlib.Path(__file__).parents[2] / "target")
OPTIONAL = {
    "octile.testing": "numpy",
    "octile.pytest_plugin": "pytest",
    "octile.torch": "torch",
    "octile.jax": "jax",
}


def modules():
    """The public modules whose frameworks are here."""
    found = ["octile"]
    for name, needs in OPTIONAL.items():
        if all(importlib.util.find_spec(module) for module in (needs, name)):
            found.append(name)
    return found


def test_the_reference_is_built():
    output = TARGET / "python-reference"
    names = modules()
    command = [sys.executable, "-W", "error::UserWarning", "-m", "pdoc", "--docformat", "google"]
    subprocess.run([*command, "--output-directory", output, *names], check=True, timeout=120)
    page = (output / "octile.html").read_text(encoding="utf-8")
    for name in octile.__all__:
        assert f'id="{name}"' in page, f"octile.{name} is not in the reference"
    for name in names[1:]:
        assert (output / f"{name.replace('.', '/')}.html").exists()


@pytest.mark.parametrize("name", modules())
def test_everything_public_is_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for member in getattr(module, "__all__", ()):
        value = getattr(module, member)
        if not inspect.isclass(value) and not callable(value):
            continue
        assert inspect.getdoc(value), f"{name}.{member} has no documentation"
        methods = vars(value).items() if inspect.isclass(value) else ()
        for method, function in methods:
            if not method.startswith("_") and (
                inspect.isfunction(function) or isinstance(function, property)
            ):
                assert inspect.getdoc(function), f"{name}.{member}.{method} has no documentation"
