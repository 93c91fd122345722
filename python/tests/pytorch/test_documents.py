"""The PyTorch code of the documents."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")


def test_python_guide(run_document):
    assert run_document("docs/python.md", lambda code: "torch" in code) == 3
