"""What type checkers see: the stubs are those of the extension module, and misuse is an error."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="types are checked by mypy")

PROGRAM = """\
import numpy as np
import octile
from octile.testing import assert_no_races

weight = octile.quantize(np.ones((300, 200), np.float32), block=128)
n, k = weight.shape
y = octile.matmul(np.ones((2, k), np.float32), weight, x_scaling="block", out_dtype="bfloat16")
simulation: octile.Simulation = octile.simulate(lambda x: x, y, chip="v6e")
lines: list[str] = [finding.message for finding in assert_no_races(lambda x: x, y).findings]
"""
WRONG = """\
octile.matmul(y, weight, x_scaling="row")
weight.block = 256
octile.load_safetensors("model.safetensors")
"""


def mypy(folder, program):
    """What mypy says about a program that uses the installed package."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache", "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300).stdout


def test_programs_are_checked(tmp_path):
    assert mypy(tmp_path, PROGRAM).startswith("Success")
    found = mypy(tmp_path, PROGRAM + WRONG).splitlines()
    first = PROGRAM.count("\n") + 1
    for line, kind in enumerate(["[arg-type]", "[misc]", "[call-arg]"], first):
        assert any(said.startswith(f"program.py:{line}: error") and kind in said for said in found), found
    assert len(found) == 4


def test_stubs_are_those_of_the_module(tmp_path):
    command = [sys.executable, "-m", "mypy.stubtest", "octile._native"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
