"""XLA's handler for CUDA devices, on the stand-in driver."""

import ml_dtypes
import numpy as np
import pytest
from standin.frame import EXECUTE, INITIALIZE, call
from standin.gpu import GPUS, sound  # noqa: F401

import octile
from octile import _native

HANDLER = _native.xla_handlers()["cuda"]
NAMES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float8_e4m3fn": "f8e4m3"}


class Multiplication:
    """Operands of one multiplication on a GPU, as XLA would pass them."""

    def __init__(self, gpu=GPUS[0], m=3, n=40, k=208, dtype="bfloat16", scaling="token", seed=0):
        random = np.random.default_rng(seed)
        self.gpu, self.out_shape = gpu, (m, n)
        self.weight = octile.quantize(random.standard_normal((n, k), np.float32))
        self.x = random.standard_normal((m, k), np.float32).astype(np.dtype(dtype))
        operands = [self.x, self.weight.codes, self.weight.scales]
        self.keywords = {"x_scaling": scaling}
        if dtype == "float8_e4m3fn":
            rows = m if scaling == "token" else -(-m // 128)
            self.keywords["x_scales"] = random.random((rows, -(-k // 128)), np.float32)
            operands.append(self.keywords["x_scales"])
        self.arguments = [self.upload(operand) for operand in operands]
        padded = -(-m // 128) * 128
        workspace = padded * k + 4 * padded * -(-k // 128) + 4096
        self.out = gpu.allocate(4 * m * n)
        self.results = [
            (self.out, "float32", self.out_shape),
            (gpu.allocate(workspace), "uint8", (workspace,)),
        ]
        self.attributes = {"m": m, "n": n, "k": k, "block": 128, "weight": "rows"}
        self.attributes |= {"x": NAMES[dtype], "x_scaling": scaling, "out": "f32"}

    def upload(self, array):
        address = self.gpu.allocate(array.nbytes)
        self.gpu.write(address, np.ascontiguousarray(array).tobytes())
        return address, array.dtype.name, array.shape

    def call(self, stage):
        return call(HANDLER, stage, self.gpu, self.arguments, self.results, self.attributes)

    def is_right(self):
        found = np.frombuffer(self.gpu.read(self.out, 4 * self.out_shape[0] * self.out_shape[1]), np.float32)
        expected = octile.matmul(self.x, self.weight, out_dtype="float32", **self.keywords)
        return np.abs(found.reshape(self.out_shape) - expected).max() < 2e-3 * np.abs(expected).max()


@pytest.mark.parametrize("scaling", ["token", "block"])
@pytest.mark.parametrize("dtype", list(NAMES))
def test_products(dtype, scaling):
    multiplication = Multiplication(dtype=dtype, scaling=scaling)
    for stage in (INITIALIZE, EXECUTE):
        assert multiplication.call(stage) is None
    assert multiplication.is_right()


def test_several_gpus():
    for _ in range(2):
        for gpu in GPUS[:2]:
            multiplication = Multiplication(gpu)
            assert multiplication.call(EXECUTE) is None and multiplication.is_right()
    refused = "octile: NVIDIA A100 has compute capability 8.0, but the kernels need 9.0"
    assert Multiplication(GPUS[2]).call(EXECUTE).startswith(refused)


def test_a_command_buffer():
    """XLA initializes before it captures: nothing may be compiled then."""
    multiplication = Multiplication(n=48)
    assert multiplication.call(INITIALIZE) is None
    with multiplication.gpu.captured() as replay:
        assert multiplication.call(EXECUTE) is None
    replay()
    assert multiplication.is_right()


def test_wrong_calls_are_refused():
    def refused(change):
        multiplication = Multiplication()
        change(multiplication)
        return multiplication.call(EXECUTE)

    assert "got 2 arguments, but 3" in refused(lambda call: call.arguments.pop())
    assert "got 1 results, but 2" in refused(lambda call: call.results.pop())
    assert "attribute k is missing" in refused(lambda call: call.attributes.pop("k"))
    assert "the workspace has 8 bytes" in refused(
        lambda call: call.results.__setitem__(1, (call.out, "uint8", (8,)))
    )
    assert "x has shape [3, 104]" in refused(
        lambda call: call.arguments.__setitem__(0, (call.arguments[0][0], "bfloat16", (3, 104)))
    )
