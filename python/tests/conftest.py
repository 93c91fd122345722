"""Runs the Python code of the documents."""

import atexit
import os
import pathlib
import re
import shutil
import tempfile

import pytest

# Tests compare bits of results with different numbers of rows, which may use different instructions.
os.environ.setdefault("OCTILE_BATCH_INVARIANT", "1")

if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
    # PyTorch would find programs that it compiled for operators of another version.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="octile-inductor-")
    atexit.register(shutil.rmtree, os.environ["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def python_blocks(document):
    """The Python blocks of a document, each with the line where it begins."""
    text = (REPOSITORY / document).read_text()
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, block.start()) + 2, block[1]


@pytest.fixture
def run_document(tmp_path, monkeypatch):
    """Runs the blocks of a document one after the other in one namespace; returns their number."""

    def run(document, wanted=lambda code: True):
        monkeypatch.chdir(tmp_path)
        namespace = {"__name__": "__main__"}
        blocks = [(line, code) for line, code in python_blocks(document) if wanted(code)]
        for line, code in blocks:
            # Errors name the line in the document.
            exec(compile("\n" * (line - 1) + code, os.fspath(REPOSITORY / document), "exec"), namespace)
        return len(blocks)

    return run
