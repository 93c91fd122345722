"""Runs the Python in docs/distributed.md, from top to bottom."""

import pathlib
import re

import pytest

import jax_cases  # noqa: F401 (asks for eight devices)
import jax

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "distributed.md"


def test_distributed():
    if len(jax.devices()) < 8:
        pytest.skip("needs XLA_FLAGS=--xla_force_host_platform_device_count=8 before jax is imported")
    text = DOCUMENT.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) == 2
    scope = {}
    for block in blocks:
        # Failures name the line of the document.
        lines = "\n" * text[: block.start(1)].count("\n")
        exec(compile(lines + block[1], DOCUMENT, "exec"), scope)
