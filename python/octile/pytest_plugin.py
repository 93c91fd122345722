"""The pytest plugin: marker ``octile``, fixture ``octile_simulate``, option ``--octile-chip``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ._simulate import Simulation, SimulationFailed, simulate
from .testing import _checked, default_options

_MARKER = "octile(chip='tpu7x', **options): simulate Pallas TPU kernels with these options of octile.simulate"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--octile-chip`."""
    group = parser.getgroup("octile")
    group.addoption("--octile-chip", metavar="CHIP", help="TPU of simulations [default: tpu7x]")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rejects markers with unknown options before anything runs."""
    known = set(inspect.signature(simulate).parameters) - {"f", "args"}
    for item in items:
        for marker in item.iter_markers("octile"):
            unknown = sorted(set(marker.kwargs) - known)
            if unknown or marker.args:
                wrong = ", ".join([*map(repr, marker.args), *unknown])
                raise pytest.UsageError(
                    f"{item.nodeid}: @pytest.mark.octile takes options by name: not {wrong}"
                )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Runs a test with the options of its markers; the closest one wins."""
    chip = item.config.getoption("octile_chip")
    options: dict[str, Any] = {"chip": chip} if chip else {}
    for marker in reversed(list(item.iter_markers("octile"))):
        options |= marker.kwargs
    with default_options(**options):
        yield


@pytest.fixture
def octile_simulate() -> Callable[..., Simulation]:
    """`octile.simulate` with the options of the test's marker; a finding or a wrong result fails the test."""

    def run(f: Any, *args: Any, **options: Any) -> Simulation:
        __tracebackhide__ = True
        return _checked(f, *args, **options)

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Adds findings to the properties of the test, which JUnit XML and other reports show."""
    if call.excinfo is not None and isinstance(call.excinfo.value, SimulationFailed):
        for finding in call.excinfo.value.simulation.findings:
            item.user_properties.append(("octile", f"{finding.file}:{finding.line}: {finding.message}"))
