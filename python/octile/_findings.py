"""What the simulator found, with the Python lines that it concerns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

_EVENT_ROLE = 8


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of a Python program; `code` is None if its file is not there."""

    file: str
    line: int
    function: str | None
    code: str | None
    helpers: tuple[SourceLine, ...] = ()
    """Lines in functions that the line calls, outermost first."""

    def __str__(self) -> str:
        code = f"  {self.code}" if self.code else ""
        return f"{self.file}:{self.line}{code}"


@dataclasses.dataclass(frozen=True)
class Event:
    """An operation that a finding concerns, such as a read, or the DMA that it races with."""

    role: str
    op: str
    agent: str
    step: tuple[int, ...]
    device: int | None
    python: SourceLine | None
    mosaic_line: int | None
    mosaic: str | None

    def __str__(self) -> str:
        lead = f"{self.python}\n    {'':{_EVENT_ROLE}} " if self.python else ""
        place = f"Mosaic line {self.mosaic_line}, " if self.mosaic_line else ""
        device = f" of device {self.device}" if self.device is not None else ""
        return f"{lead}{place}{self.op} by {self.agent}{device} in step {list(self.step)}"


@dataclasses.dataclass(frozen=True)
class Finding:
    """A defect of a kernel."""

    kind: str
    """`read_during_copy_in`, `deadlock`, `out_of_bounds` and so on."""
    title: str
    message: str
    remedy: str | None
    kernel: str | None
    python: SourceLine | None
    """The line to look at; None if it is not recorded."""
    mosaic_line: int | None
    mosaic: str | None
    step: tuple[int, ...] | None
    device: int | None
    times: int
    events: tuple[Event, ...]
    """Every operation concerned."""
    details: Mapping[str, Any] = dataclasses.field(repr=False, compare=False)
    """All fields of the record `octile-simulate/1`."""

    @property
    def file(self) -> str | None:
        """The Python file, relative to the current folder where it is below it."""
        return self.python.file if self.python else None

    @property
    def line(self) -> int | None:
        """The Python line."""
        return self.python.line if self.python else None

    @property
    def source(self) -> str | None:
        """The statement at that line."""
        return self.python.code if self.python else None

    def __str__(self) -> str:
        lines = [str(self.python)] if self.python else []
        lines += [
            f"    {'in':{_EVENT_ROLE}} {helper}" for helper in (self.python.helpers if self.python else ())
        ]
        remedy = f"; {self.remedy}" if self.remedy else ""
        lines.append(f"  {self.title}: {self.message}{remedy}")
        for number, event in enumerate(self.events):
            # The first event is usually at the line that the finding begins with.
            shown = (
                dataclasses.replace(event, python=None)
                if number == 0 and event.python == self.python
                else event
            )
            lines.append(f"    {event.role:{_EVENT_ROLE}} {shown}")
        if self.times > 1:
            lines.append(f"    {self.times} times in all")
        return "\n".join(lines)


def _line(record: Mapping[str, Any] | None) -> SourceLine | None:
    if record is None:
        return None
    helpers = tuple(filter(None, map(_line, record.get("helpers", ()))))
    return SourceLine(record["file"], record["line"], record.get("function"), record.get("code"), helpers)


def _agent(record: Any) -> str:
    if isinstance(record, Mapping):
        names = {"copy": "DMA", "window": "the DMA of window"}
        return ", ".join(f"{names.get(kind, kind)} {number}" for kind, number in record.items())
    return f"the {record}"


def _event(record: Mapping[str, Any]) -> Event:
    mosaic = record.get("mosaic") or {}
    return Event(
        record["role"], record["op"], _agent(record["agent"]), tuple(record["step"]), record.get("device"),
        _line(record.get("python")), mosaic.get("line"), mosaic.get("text"),
    )  # fmt: skip


def findings(record: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a record, and before them what the compiler would reject."""
    rejected = (
        {"kind": entry["rule"], "title": "REJECTED BY THE COMPILER", **entry}
        for entry in record["violations"]
    )
    return tuple(_finding(entry) for entry in (*rejected, *record["findings"]))


def _finding(record: Mapping[str, Any]) -> Finding:
    mosaic = record.get("mosaic") or {}
    step = record.get("step")
    return Finding(
        kind=record["kind"],
        title=record["title"],
        message=record["message"],
        remedy=record.get("remedy"),
        kernel=record.get("kernel"),
        python=_line(record.get("python")),
        mosaic_line=mosaic.get("line"),
        mosaic=mosaic.get("text"),
        step=None if step is None else tuple(step),
        device=record.get("device"),
        times=record.get("times", 1),
        events=tuple(map(_event, record.get("sites", ()))),
        details=record,
    )
