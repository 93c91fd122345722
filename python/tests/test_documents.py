"""The Python code of the documents, except for PyTorch's."""


def needs_no_torch(code):
    return "torch" not in code


def test_python_guide(run_document):
    assert run_document("docs/python.md", needs_no_torch) == 5


def test_pallas_guide(run_document):
    # The rest needs libtpu; the tutorial has it too.
    assert run_document("docs/pallas.md", lambda code: "octile.inspect" not in code) == 4


def test_readme(run_document):
    assert run_document("README.md", needs_no_torch) == 1
