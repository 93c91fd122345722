"""Simulates Pallas TPU kernels."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from . import _html, _tensors
from ._command import Error, in_python, run
from ._findings import Finding, findings
from ._lower import Module, lower

_MAX_TIMELINE_BYTES = 400_000
"""A longer timeline is left out of notebooks, which keep everything that they show."""


class SimulationFailed(AssertionError):
    """A simulated kernel has a defect, or a result is wrong. `simulation` holds all that is known."""

    __module__ = "octile"

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(str(simulation))
        self.simulation = simulation


class Simulation:
    """What a simulation computed and found. Printed, it is the report of `octile simulate`."""

    outputs: Any
    """The results as numpy arrays, in the structure that the function returns; None if it did not finish."""
    findings: tuple[Finding, ...]
    """The defects."""
    record: Mapping[str, Any]
    """The record `octile-simulate/1`."""
    report: str
    """The report of `octile simulate`."""

    def __init__(
        self, module: Module, outputs: Any, record: Mapping[str, Any], report: str, timeline: str
    ) -> None:
        self.outputs = outputs
        self.findings = findings(record)
        self.record = record
        self.report = report
        self._name, self._has_kernels = module.name, module.has_kernels
        self._timeline = timeline

    @property
    def passed(self) -> bool:
        """Whether nothing was found, and every compared result is within its tolerance."""
        return bool(self.record["passed"])

    @property
    def verdict(self) -> str:
        """The verdict in words: `PASS`, `PASS, result not compared` or `FAIL`."""
        if not self.passed:
            return "FAIL"
        return "PASS" if self.comparisons else "PASS, result not compared"

    @property
    def comparisons(self) -> Sequence[Mapping[str, Any]]:
        """How each result compares with what was expected: `passed`, `worst`, `rtol`, `atol` and so on."""
        return list(self.record["comparisons"])

    @property
    def cycles(self) -> float:
        """Modelled cycles; not measured."""
        return float(self.record["figures"]["cycles"])

    def raise_for_findings(self) -> Simulation:
        """Raises `SimulationFailed` unless the verdict is a pass; returns the simulation."""
        __tracebackhide__ = True
        if not self.passed:
            raise SimulationFailed(self)
        return self

    def __repr__(self) -> str:
        return self.report

    def _repr_html_(self) -> str:
        return _html.simulation(self._name, self, self._timeline)


def simulate(
    f: Any,
    *args: Any,
    chip: str = "tpu7x",
    expect: Any = None,
    kernel: str | None = None,
    mesh: Any = None,
    devices: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    races: bool = True,
    max_operations: int | None = None,
    timeout: float | None = None,
) -> Simulation:
    """Runs a function with Pallas TPU kernels on this machine, without a TPU.

        def f(x):
            return pl.pallas_call(kernel, out_shape=x)(x)

        print(octile.simulate(f, np.ones((8, 128), np.float32)))

    `f` is a JAX function, jitted or not, what `jax.jit(f).trace(...).lower(...)` returns, or a module as
    text, bytes or a path. Arrays and `jax.ShapeDtypeStruct`s in `args` are its operands; other arguments are
    passed as they are. Operands of which only the shapes are known are random, and `seed` chooses others.

    The simulator reports data races, deadlocks, semaphores that are not zero at the end, reads of
    uninitialized memory, accesses out of bounds, and what the compiler would reject, with the Python lines.

    Args:
      chip: The TPU: tpu7x, v6e, v5e, v5p or v4.
      expect: The expected results, in the structure of the function, or a function of `args`.
      kernel: Runs one kernel of the function alone, on random operands of its own.
      mesh: Axes of a device mesh, such as `{"x": 4}`, for a `shard_map` without a mesh of its own.
      devices: Runs a kernel without a mesh on several devices; operands with one more dimension are split.
      seed: The seed of random operands.
      rtol, atol: The tolerance; by default it follows from the types and what the kernel computes.
      races: Whether data races are detected.
      max_operations: Stops a kernel that executes more operations.
      timeout: Seconds after which the simulation is given up.

    What is around the kernels is evaluated on the host, and so is a function without any, which the report
    says. `octile.testing.assert_no_races` and `octile.inspect` refuse such a function.

    Raises:
      octile.Error: The simulation is not possible: one sentence says why. A defect of the kernel is not an
        exception; see `Simulation.raise_for_findings`.
    """
    module = lower(f, args, chip, mesh)
    options: list[str] = ["--chip", chip]
    numbers = {"devices": devices, "seed": seed, "rtol": rtol, "atol": atol, "max-operations": max_operations}
    options += [f"--{name}={value}" for name, value in numbers.items() if value is not None]
    options += [] if races else ["--no-races"]
    options += [] if kernel is None else [f"--kernel={kernel}"]
    if module.operands is not None and kernel is None and seed is not None:
        raise Error("`seed` chooses random operands: pass shapes, jax.ShapeDtypeStruct, in place of arrays")
    with tempfile.TemporaryDirectory(prefix="octile-") as folder:
        if module.operands is not None and kernel is None:
            options += _operands(module, _expected(module, expect, args), pathlib.Path(folder, "tensors"))
        elif expect is not None:
            raise Error("random operands have no expected result: pass arrays to use `expect`")
        return _run(module, options, folder, timeout)


def _run(module: Module, options: Sequence[str], folder: str, timeout: float | None) -> Simulation:
    """Runs the command, and reads what it wrote."""
    record, results, timeline = (pathlib.Path(folder, name) for name in ("record", "results", "timeline"))
    path = module.write(folder)
    files = [f"--json={record}", "--save", os.fspath(results), "--svg", os.fspath(timeline)]
    _, report = run(["simulate", path, *options, *files], timeout, shown={os.fspath(path): module.name})
    report = "\n".join(line for line in in_python(report).splitlines() if line.strip("="))
    if not module.has_kernels:
        report = report.replace("; the kernel finished", "; the function has no kernel")
    drawing = timeline.read_text(encoding="utf-8") if timeline.exists() else ""
    # Its title is the path, which is a temporary one.
    drawing = drawing.replace(escape(os.fspath(path)), escape(module.name))
    if len(drawing) > _MAX_TIMELINE_BYTES:
        drawing = ""
    outputs = _outputs(module, _tensors.read(results)) if results.exists() else None
    known = json.loads(in_python(record.read_text(encoding="utf-8")))
    return Simulation(module, outputs, known, report, drawing)


def _outputs(module: Module, stored: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """Results by number, with the types of the function where files have none for them."""
    arrays = [stored["out"]] if "out" in stored else [stored[f"out{index}"] for index in range(len(stored))]
    if module.results is None or len(module.results) != len(arrays):
        return tuple(arrays)
    typed = [array.view(result.dtype) for array, result in zip(arrays, module.results)]
    return module.unflatten(typed)


def _expected(module: Module, expect: Any, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The expected results, in the order of the module's results."""
    if expect is None:
        return []
    if module.tree is None:
        leaves = expect if isinstance(expect, (list, tuple)) else [expect]
        return [np.asarray(leaf) for leaf in leaves]
    import jax

    if callable(expect):
        with jax.default_matmul_precision("highest"):
            expect = expect(*args)
    leaves = jax.tree.leaves(expect)
    shapes = [result.shape for result in module.results or ()]
    if [np.shape(leaf) for leaf in leaves] != shapes:
        found = ", ".join(str(np.shape(leaf)) for leaf in leaves) or "nothing"
        wanted = ", ".join(map(str, shapes)) or "nothing"
        raise Error(f"`expect` has the shapes {found}, but the function returns {wanted}")
    return [_widened(np.asarray(leaf), result.dtype) for leaf, result in zip(leaves, module.results or ())]


def _widened(expected: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """An expected result with at least the precision of the result: `[1, 2]` may stand for floats."""
    exact = expected.dtype.kind in "biu" or expected.dtype.itemsize < np.dtype(dtype).itemsize
    return expected.astype(dtype) if exact else expected


def _operands(module: Module, expected: Sequence[np.ndarray[Any, Any]], path: pathlib.Path) -> list[str]:
    """Writes operands and expected results, and returns the options that name them."""
    operands = {f"a{index:02}": array for index, array in enumerate(module.operands or ())}
    results = {f"out{index}": array for index, array in enumerate(expected)}
    _tensors.write(path, operands | results)
    options = ["--tensors", os.fspath(path), f"--operands={','.join(operands)}"]
    return options + ([f"--expect={','.join(results)}"] if results else [])
