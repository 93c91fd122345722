"""The scripts for GPUs, as far as they run without one."""

import importlib.util
import pathlib
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

import octile.torch

SCRIPT = pathlib.Path(__file__).parents[2] / "bench/h200.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("h200", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_so():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "h200.py: PyTorch finds no GPU\n")


@pytest.mark.parametrize("name", ["fp8_gemm_nt", "gemm_fp8_fp8_bf16_nt"])
def test_deep_gemm_is_called_as_it_wants_to_be(script, monkeypatch, name):
    """With a function of its signature in its place, which requires its layouts."""
    factor = 1.0

    def multiply(lhs, rhs, out):
        x, x_scales = lhs
        assert x.is_contiguous() and x_scales.stride() == (1, 8) and out.dtype is torch.bfloat16
        values = x.float() * x_scales.repeat_interleave(128, 1)
        out.copy_(factor * values @ octile.torch.dequantize(*rhs).t())

    module = types.ModuleType("deep_gemm")
    setattr(module, name, multiply)
    monkeypatch.setitem(sys.modules, "deep_gemm", module)
    codes, scales = octile.torch.quantize(torch.randn(256, 384))
    x_codes, x_scales = script.token_groups(torch.randn(6, 384))
    call = script.deep_gemm_call(x_codes, x_scales, codes, scales)
    assert call().shape == (6, 256)
    factor = 1.1
    with pytest.raises(ValueError, match="its result differs from Octile's"):
        script.deep_gemm_call(x_codes, x_scales, codes, scales)
