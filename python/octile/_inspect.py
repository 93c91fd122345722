"""Compiles JAX functions with the real TPU compiler, and reads what came out."""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any

from . import _html
from ._command import run
from ._lower import lower


@dataclasses.dataclass(frozen=True)
class LineCycles:
    """What a line of Python costs. `line` is 0 for code without one, such as the grid loop and block DMAs."""

    file: str
    line: int
    code: str | None
    cycles: float
    """Bundles issued for the line."""
    waits: float
    """Modelled waits for DMAs at the line."""
    spills: int
    share: float
    """Cycles and waits, of those of the kernel."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A check of a compiled kernel, such as `copies-balanced` or `no-spills`."""

    name: str
    verdict: str
    """`pass`, `fail`, or why neither could be shown."""
    required: bool
    says: str
    remedy: str | None

    @property
    def passed(self) -> bool:
        """Whether it is proven."""
        return self.verdict == "pass"


@dataclasses.dataclass(frozen=True)
class KernelFacts:
    """What the compiler made of a kernel."""

    name: str
    cycles: float | None
    """Cycles, modelled waits for DMAs included; None if the listing cannot be followed."""
    issued: int | None
    """Bundles that the kernel executes."""
    waits: float | None
    """Cycles in modelled waits for DMAs."""
    mxu: float | None
    """Share of the cycles in which the MXUs are busy."""
    vmem_bytes: int | None
    spills: int
    lines: tuple[LineCycles, ...]
    """Cycles per Python line, in source order."""
    checks: tuple[Check, ...]
    facts: Mapping[str, Any] = dataclasses.field(repr=False, compare=False)
    """The kernel's entry in the record `octile-analyze/1`."""

    @property
    def summary(self) -> str:
        """The main figures in words."""
        parts = []
        if self.cycles is not None:
            parts.append(f"{self.cycles:,.0f} cycles, of them {self.waits:,.0f} in modelled waits")
        if self.mxu is not None:
            parts.append(f"MXU busy {100 * self.mxu:.1f} %")
        if self.vmem_bytes is not None:
            parts.append(f"{self.vmem_bytes / 1024:,.0f} KiB of VMEM")
        return ", ".join([*parts, f"{self.spills} spills"])


class Inspection:
    """A compiled function. Printed, it is the report of `octile analyze`."""

    kernels: tuple[KernelFacts, ...]
    record: Mapping[str, Any]
    """The record `octile-analyze/1`."""
    text: str
    """The report of `octile analyze`."""

    chip: str
    folder: str
    """The compiler's output, a folder per kernel; it is deleted with this object."""

    def __init__(self, name: str, chip: str) -> None:
        self.chip = chip
        self.folder = tempfile.mkdtemp(prefix="octile-")
        self._name = name
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def _read(self) -> None:
        """Reads what the compiler wrote."""
        _, self.text = run(["analyze", self.folder])
        self.record = json.loads(run(["analyze", self.folder, "--json"])[1])
        self.kernels = tuple(map(_kernel, self.record["versions"]))

    @property
    def passed(self) -> bool:
        """Whether every required check of every kernel is proven."""
        return all(check.passed or not check.required for kernel in self.kernels for check in kernel.checks)

    @property
    def cycles(self) -> float | None:
        """Cycles of all kernels, modelled waits for DMAs included; None if one cannot be followed."""
        counted = [kernel.cycles for kernel in self.kernels]
        return None if None in counted else float(sum(filter(None, counted)))

    @property
    def lines(self) -> tuple[LineCycles, ...]:
        """Cycles per Python line, of all kernels."""
        return tuple(line for kernel in self.kernels for line in kernel.lines)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes a report as one self-contained HTML page."""
        run(["report", self.folder, "-o", path])

    def __repr__(self) -> str:
        return self.text.rstrip()

    def _repr_html_(self) -> str:
        return _html.inspection(self._name, self)


def inspect(
    f: Any,
    *args: Any,
    chip: str = "tpu7x",
    mesh: Any = None,
    libtpu: str | os.PathLike[str] | None = None,
    install: bool = False,
    timeout: float | None = None,
) -> Inspection:
    """Compiles a function with the TPU compiler, and says what its Pallas kernels became.

        inspection = octile.inspect(f, jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16))
        print(inspection.cycles, inspection.kernels[0].lines)

    No TPU is needed, but libtpu is: from the package of that name in this environment, or from
    `octile tools install tpu`.

    Args:
      f: What `octile.simulate` takes: a JAX function, a lowered one, or a module.
      args: Its arguments; arrays and shapes count alike.
      chip: The TPU: tpu7x, v6e, v5e, v5p or v4.
      mesh: Axes of a device mesh, such as `{"x": 4}`, for a `shard_map` without a mesh of its own.
      libtpu: The compiler, if not the one that `octile tools` shows.
      install: Installs libtpu first if it is missing, about 700 MB, with pip.
      timeout: Seconds after which compilation is given up.

    Raises:
      octile.Error: The compiler is missing or rejects the function: one sentence says why.
    """
    module = lower(f, args, chip, mesh)
    if install:
        run(["tools", "install", "tpu"])
    options = ["--chip", chip] + ([] if libtpu is None else ["--libtpu", os.fspath(libtpu)])
    inspection = Inspection(module.name, chip)
    with tempfile.TemporaryDirectory(prefix="octile-") as folder:
        path = module.write(folder)
        run(
            ["inspect", path, *options, "-o", inspection.folder],
            timeout,
            shown={os.fspath(path): module.name},
        )
    inspection._read()
    return inspection


def _kernel(version: Mapping[str, Any]) -> KernelFacts:
    """Reads a version of `octile-analyze/1`."""
    facts, counted = version["facts"], version["facts"]["cycles"]
    total = counted and counted["issued"] + counted["stalled"]
    required = set(version["promise"]["required"])
    checks = (
        Check(
            found["check"], found["verdict"], found["check"] in required, found["says"], found.get("remedy")
        )
        for found in version["findings"]
    )
    return KernelFacts(
        name=version["name"],
        cycles=total or None,
        issued=counted and counted["issued"],
        waits=counted and counted["stalled"],
        mxu=counted["units"]["mxu"] / counted["mxus"] / total if total else None,
        vmem_bytes=facts["vmem"] and facts["vmem"]["used"],
        spills=(facts["spills"] or {}).get("executed", 0),
        lines=_lines(version.get("source")),
        checks=tuple(checks),
        facts=version,
    )


def _lines(source: Mapping[str, Any] | None) -> tuple[LineCycles, ...]:
    """Cycles per line; the rest without a line comes last."""
    if not source:
        return ()
    total = source["total"] or 1.0
    rows = [*source["rows"], source["elsewhere"]]
    return tuple(
        LineCycles(
            row["file"], row["line"], row["code"] or _code(row), row["cycles"], row["waits"], row["spills"],
            (row["cycles"] + row["waits"]) / total,
        )
        for row in rows
    )  # fmt: skip


def _code(row: Mapping[str, Any]) -> str | None:
    """A line of a source that exists in memory only, such as a cell of a notebook."""
    return linecache.getline(row["file"], row["line"]).strip() or None
