"""Runs docs/tutorial.md as a notebook, and compares what the cells show.

In a `text` block, `...` stands for any lines, and `[..]` for any text within a line.
"""

import ast
import contextlib
import importlib.util
import io
import linecache
import os
import pathlib
import re
import subprocess
import sys

import octile
import pytest

pytest.importorskip("jax", reason="the tutorial lowers Pallas kernels")
TUTORIAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
CELL = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def run_cell(source, name, scope):
    """What a cell prints, and the value of an expression at its end, as a notebook shows it."""
    # A notebook knows the sources of its cells; they are nowhere else.
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(tree, name, "exec"), scope)
        value = eval(compile(ast.Expression(last.value), name, "eval"), scope) if last else None
    return shown.getvalue() + ("" if value is None else repr(value))


def pattern(expected):
    """A regular expression for the content of a `text` block."""
    lines = []
    for line in expected.splitlines():
        whole = ".*".join(map(re.escape, line.split("[..]")))
        lines.append(r"(?:.*\n)*?" if line == "..." else rf"{whole}\n")
    return "".join(lines)


def missing(source):
    """What a cell needs that is not here."""
    if "octile.jax" in source and importlib.util.find_spec("octile.jax") is None:
        return "octile.jax is missing"
    if "octile.inspect" in source:
        environment = {"VIRTUAL_ENV": sys.prefix, **os.environ}
        command = [*octile._command.command_line(), "tools"]
        tools = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        if re.search(r"^libtpu +missing", tools.stdout, re.MULTILINE):
            return "libtpu is missing: run `octile tools install tpu`"
    return None


def test_tutorial(subtests):
    scope = {"__name__": "__main__"}
    cells = CELL.findall(TUTORIAL.read_text(encoding="utf-8"))
    assert len(cells) == 9
    for number, (source, expected) in enumerate(cells, 1):
        with subtests.test(cell=number):
            if reason := missing(source):
                pytest.skip(reason)
            shown = run_cell(source, f"/nowhere/ipykernel_1/cell_{number}.py", scope)
            if expected:
                shown = shown if shown.endswith("\n") else f"{shown}\n"
                assert re.fullmatch(pattern(expected), shown), f"cell {number} shows:\n{shown}"


def test_a_difference_is_noticed():
    assert re.fullmatch(pattern("a [..] b\n...\nz\n"), "a 1 b\nc\nd\nz\n")
    assert not re.fullmatch(pattern("a [..] b\n...\nz\n"), "a 1 c\nz\n")
    assert run_cell("print(1)\n2", "/nowhere/cell.py", {}) == "1\n2"
