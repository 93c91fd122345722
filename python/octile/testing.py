"""Assertions about Pallas TPU kernels, for any test framework.

    from octile.testing import assert_matches, assert_no_races

    def test_kernel():
        assert_no_races(f, jax.ShapeDtypeStruct((256, 128), jnp.float32))
        assert_matches(f, x, expected=reference)

With pytest, the marker ``octile`` sets options for all simulations of a test::

    @pytest.mark.octile(chip="v6e")
    def test_kernel(octile_simulate):
        octile_simulate(f, x)
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

from ._command import Error
from ._simulate import Simulation, SimulationFailed, simulate

__all__ = ["SimulationFailed", "assert_matches", "assert_no_races", "default_options"]

_OPTIONS: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("octile_options")


@contextlib.contextmanager
def default_options(**options: Any) -> Iterator[None]:
    """Sets options of `octile.simulate` for the assertions inside."""
    token = _OPTIONS.set({**_OPTIONS.get({}), **options})
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def assert_no_races(f: Any, *args: Any, **options: Any) -> Simulation:
    """Simulates a function, and fails if there is any finding.

    Besides data races these are deadlocks, reads of uninitialized memory, accesses out of bounds, and
    semaphores that are not zero at the end. Takes what `octile.simulate` takes. A failure shows the Python
    lines. Races do not depend on the schedule that happened to run, and rarely on operands: shapes will do.
    A function without a kernel is an `octile.Error`, here and in `assert_matches`: there is nothing to check.
    """
    __tracebackhide__ = True
    return _checked(f, *args, **options)


def assert_matches(f: Any, *args: Any, expected: Any, **options: Any) -> Simulation:
    """Simulates a function, and fails if a result differs from `expected` or there is any finding.

    `expected` has the structure of the results, or is a function that computes them from `args`. The default
    tolerance follows from the types and what the kernel computes; `rtol` and `atol` replace it.
    """
    __tracebackhide__ = True
    return _checked(f, *args, expect=expected, **options)


def _checked(f: Any, *args: Any, **options: Any) -> Simulation:
    """Simulates with the options of the context, and raises if the verdict is not a pass."""
    __tracebackhide__ = True
    simulation = simulate(f, *args, **{**_OPTIONS.get({}), **options})
    if not simulation._has_kernels:
        raise Error("the function has no Pallas kernel for TPUs; with interpret=True, pallas_call makes none")
    return simulation.raise_for_findings()
