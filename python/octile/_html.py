"""Reports as HTML for notebooks: self-contained fragments that follow the notebook's colours."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._findings import Event, Finding
    from ._inspect import Inspection, KernelFacts
    from ._simulate import Simulation

_STYLE = """<style>
.octile { font-size: 13px; line-height: 1.45 }
.octile code { font-size: 12px }
.octile table { border-collapse: collapse; margin: .5em 0 }
.octile td, .octile th { text-align: left; padding: .15em .8em .15em 0; vertical-align: top }
.octile th { font-weight: normal }
.octile td.number, .octile th.number { text-align: right }
.octile th, .octile .quiet { opacity: .65 }
.octile .pass { color: #2d8a4e; font-weight: 600 }
.octile .fail { color: #d0453a; font-weight: 600 }
.octile .finding { border-left: 3px solid #d0453a; padding-left: .8em; margin: .6em 0 }
.octile .bar { display: inline-block; height: .7em; background: #3b7dd8 }
.octile img { max-width: 100% }
</style>"""


def _page(title: str, passed: bool, verdict: str, parts: Iterable[str]) -> str:
    kind = "pass" if passed else "fail"
    head = f'<b>{escape(title)}</b> <span class="{kind}">{escape(verdict)}</span>'
    return f'{_STYLE}<div class="octile"><div>{head}</div>{"".join(parts)}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already."""

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="number"' if index in numbers else "" for index in range(len(cells)))
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for kind, cell in zip(kinds, cells))}</tr>"

    names = row(head, "th") if any(head) else ""
    return f"<table>{names}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _code(text: str | None) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _event(event: Event) -> list[str]:
    place = f"{event.python.file}:{event.python.line}" if event.python else ""
    mosaic = f"line {event.mosaic_line}: {event.mosaic}" if event.mosaic else ""
    title = f' title="{escape(mosaic)}"' if mosaic else ""
    operation = f"<span{title}>{escape(event.op)} by {escape(event.agent)}, step {list(event.step)}</span>"
    device = "" if event.device is None else f", device {event.device}"
    code = _code(event.python.code if event.python else None)
    return [escape(event.role), escape(place), code, f'<span class="quiet">{operation}{device}</span>']


def _finding(finding: Finding) -> str:
    head = ""
    if finding.python:
        head = f"<div>{escape(finding.python.file)}:{finding.python.line} {_code(finding.python.code)}</div>"
    remedy = f"; {escape(finding.remedy)}" if finding.remedy else ""
    body = f'<div><span class="fail">{escape(finding.title)}</span> {escape(finding.message)}{remedy}</div>'
    events = _table(("", "", "", ""), map(_event, finding.events)) if finding.events else ""
    return f'<div class="finding">{head}{body}{events}</div>'


def simulation(name: str, simulation: Simulation, timeline: str) -> str:
    """The report of a simulation."""
    parts = [_finding(finding) for finding in simulation.findings]
    if simulation.comparisons:
        rows = []
        for entry in simulation.comparisons:
            verdict = "PASS" if entry["passed"] else "FAIL"
            worst = entry["worst"]
            at = (
                f"[{', '.join(map(str, worst['index']))}]: {worst['got']} for {worst['expected']}"
                if worst
                else ""
            )
            difference = f"{entry['max_difference']:.3g}" if entry["max_difference"] is not None else ""
            kind = f'<span class="{verdict.lower()}">{verdict}</span>'
            rows.append([str(entry["result"]), kind, difference, str(entry["wrong"]), escape(at)])
        heads = ("result", "", "largest difference", "wrong elements", "worst")
        parts.append(_table(heads, rows, numbers=(2, 3)))
    chip = escape(str(simulation.record["chip"]))
    parts.append(f'<div class="quiet">{simulation.cycles:,.0f} cycles, modelled on {chip}</div>')
    if timeline:
        # As an image, the style of the drawing stays out of the notebook.
        data = base64.b64encode(timeline.encode()).decode()
        parts.append(
            f'<details><summary>timeline</summary><img src="data:image/svg+xml;base64,{data}"></details>'
        )
    return _page(name, simulation.passed, simulation.verdict, parts)


def _kernel(kernel: KernelFacts) -> str:
    """The facts of a kernel, and its cycles per line."""
    busiest = max((line.cycles + line.waits for line in kernel.lines), default=0.0) or 1.0
    rows = []
    for line in kernel.lines:
        total = line.cycles + line.waits
        bar = f'<span class="bar" style="width: {120 * total / busiest:.0f}px"></span>'
        place = f"{line.file}:{line.line}" if line.line else ""
        cells = [f"{line.cycles:,.0f}", f"{line.waits:,.0f}", f"{100 * line.share:.1f} %", bar]
        rows.append([escape(place), *cells, _code(line.code) or "code without a line"])
    heads = ("line", "cycles", "waits", "share", "", "")
    parts = [f"<div><b>{escape(kernel.name)}</b> {escape(kernel.summary)}</div>"]
    parts += [_table(heads, rows, numbers=(1, 2, 3))] if rows else []
    for check in kernel.checks:
        if not check.passed:
            kind = "fail" if check.required else "quiet"
            says = f"{escape(check.says)}; {escape(check.remedy)}" if check.remedy else escape(check.says)
            parts.append(f'<div><span class="{kind}">{escape(check.name)}</span> {says}</div>')
    return "".join(parts)


def inspection(name: str, inspection: Inspection) -> str:
    """The report of a compilation."""
    verdict = f"compiled for {inspection.chip}"
    return _page(name, inspection.passed, verdict, map(_kernel, inspection.kernels))
