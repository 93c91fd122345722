"""The pytest plugin, run by pytest in pytest on real Pallas kernels."""

import os
import pathlib

import pytest

pytest.importorskip("jax", reason="Pallas kernels are lowered by JAX")
from pallas_kernels import line_of

pytest_plugins = ["pytester"]

TESTS = """
import numpy as np
import pallas_kernels as kernels
import pytest
from octile.testing import assert_matches, assert_no_races, default_options

X = np.ones((32, 128), np.float32)

def test_no_races():
    assert_no_races(kernels.double, X)

def test_race():
    assert_no_races(kernels.racy, X)

def test_deadlock():
    assert_no_races(kernels.deadlocked, X)

def test_matches():
    assert assert_matches(kernels.copied, X, expected=2 * X).record["chip"] == "tpu7x"

def test_differs():
    assert_matches(kernels.copied, X, expected=3 * X)

@pytest.mark.octile(chip="v6e", races=False)
def test_marker(octile_simulate):
    simulation = octile_simulate(kernels.copied, X)
    assert (simulation.record["chip"], simulation.record["races"]) == ("v6e", False)
    assert assert_no_races(kernels.double, X).record["chip"] == "v6e"
    assert octile_simulate(kernels.copied, X, chip="v5p").record["chip"] == "v5p"

@pytest.mark.octile(chip="v4")
class TestClass:
    @pytest.mark.octile(races=False)
    def test_both(self, octile_simulate):
        simulation = octile_simulate(kernels.copied, X)
        assert (simulation.record["chip"], simulation.record["races"]) == ("v4", False)

def test_fixture_fails(octile_simulate):
    octile_simulate(kernels.uninitialized, X)
"""


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parent), prepend=os.pathsep)
    return pytester


def test_failures_show_python_lines(project):
    project.makepyfile(TESTS)
    result = project.runpytest_subprocess("--junitxml=junit.xml")
    result.assert_outcomes(passed=4, failed=4)
    race, late = line_of("race: read"), line_of("uninitialized")
    result.stdout.fnmatch_lines(
        [
            ">       assert_no_races(kernels.racy, X)",
            "E       octile.SimulationFailed: racy",
            f"E       1. */pallas_kernels.py:{race}  o_ref[[]...] = buffer[[]...] [*] 2  # race: read",
            "E          RACE: buffer[[]0:32, 0:128] is read while a DMA into it may be in flight; *",
            ">       assert_no_races(kernels.deadlocked, X)",
            "E          DEADLOCK: *",
            ">       assert_matches(kernels.copied, X, expected=3 [*] X)",
            "E       result    FAIL: *",
            ">       octile_simulate(kernels.uninitialized, X)",
            f"E       1. */pallas_kernels.py:{late}  *",
        ]
    )
    # Tracebacks end in the test.
    result.stdout.no_fnmatch_line("*raise SimulationFailed*")
    junit = (project.path / "junit.xml").read_text()
    assert f"pallas_kernels.py:{race}: buffer[0:32, 0:128] is read" in junit


def test_marker_and_option(project):
    project.makepyfile(
        """
        import numpy as np
        import pallas_kernels as kernels
        import pytest

        @pytest.mark.octile
        def test_option(octile_simulate):
            assert octile_simulate(kernels.double, np.ones((8, 128), np.float32)).record["chip"] == "v5e"

        @pytest.mark.octile(chip="v6e")
        def test_marker(octile_simulate):
            assert octile_simulate(kernels.double, np.ones((8, 128), np.float32)).record["chip"] == "v6e"

        def test_other():
            assert False
        """
    )
    result = project.runpytest_subprocess("--octile-chip=v5e", "-m", "octile", "--strict-markers")
    result.assert_outcomes(passed=2, deselected=1)


def test_unknown_options_are_rejected(project):
    project.makepyfile("import pytest\n\n@pytest.mark.octile(chips=3)\ndef test_it(): pass\n")
    result = project.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_it: @pytest.mark.octile takes options by name: not chips"])
