"""The operator's kernel for CUDA tensors, and layers with them, on the stand-in driver."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

from standin.gpu import GPUS, current_context, sound  # noqa: E402, F401

import octile.torch  # noqa: E402
from octile import _native  # noqa: E402
from octile.torch import Fp8Linear, linear  # noqa: E402

FP8 = torch.float8_e4m3fn
# PyTorch has no GPU here, and so no streams. Octile looks these functions up in its first call.
torch._C._cuda_getCurrentRawStream = lambda device: GPUS[device].stream
torch._C._cuda_isCurrentStreamCapturing = lambda: GPUS[0].is_capturing


class DeviceTensor(torch.Tensor):
    """A tensor that PyTorch takes for one on a GPU, in memory of the stand-in driver."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, gpu, shape, dtype, *, strides=None, view=None, offset=0):
        device = f"cuda:{gpu.index}"
        tensor = cls._make_wrapper_subclass(cls, shape, strides=strides, dtype=dtype, device=device)
        tensor.gpu = gpu
        if view is None:
            tensor.base = gpu.allocate(tensor.numel() * dtype.itemsize + offset)
            tensor.owner = None
            weakref.finalize(tensor, gpu.free, tensor.base).atexit = False
        else:
            tensor.base, tensor.owner = view.base, view.owner or view
        tensor.address = tensor.base + offset
        return tensor

    def data_ptr(self):
        return self.address

    def contiguous(self):
        return to_gpu(to_cpu(self), self.gpu)

    clone = contiguous

    @classmethod
    def __torch_dispatch__(cls, operator, types, arguments=(), keywords=None):
        first, keywords = arguments[0], keywords or {}
        if operator in (torch.ops.octile.linear.default, torch.ops.octile.linear_inference.default):
            return _native.torch_linear_kernel(*arguments, **keywords)
        if operator is torch.ops.aten.new_empty.default:
            return cls(first.gpu, arguments[1], keywords.get("dtype") or first.dtype)
        if operator is torch.ops.aten.detach.default:
            offset = first.address - first.base
            return cls(first.gpu, first.shape, first.dtype, strides=first.stride(), view=first, offset=offset)
        raise NotImplementedError(operator)


def to_gpu(tensor, gpu=GPUS[0], offset=0):
    on_gpu = DeviceTensor(gpu, tensor.shape, tensor.dtype, offset=offset)
    write(on_gpu, tensor)
    return on_gpu


def write(on_gpu, tensor):
    """Queues a write to a tensor on the stream."""
    on_gpu.gpu.write(on_gpu.address, tensor.contiguous().view(torch.uint8).numpy().tobytes())


def to_cpu(on_gpu):
    strides = on_gpu.stride()
    last = sum((side - 1) * stride for side, stride in zip(on_gpu.shape, strides)) if on_gpu.numel() else -1
    data = bytearray(on_gpu.gpu.read(on_gpu.address, (last + 1) * on_gpu.dtype.itemsize))
    if not data:
        return torch.empty(on_gpu.shape, dtype=on_gpu.dtype)
    return torch.frombuffer(data, dtype=on_gpu.dtype).as_strided(on_gpu.shape, strides)


def operands(m=3, n=40, k=208, dtype=torch.bfloat16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, k, generator=generator).to(dtype)
    return x, *octile.torch.quantize(torch.randn(n, k, generator=generator))


def is_close(on_gpu, x, codes, scales):
    """Tensor cores keep fewer bits inside of a chain of MMAs than the CPU."""
    expected = linear(x, codes, scales, out_dtype=torch.float32)
    found = to_cpu(on_gpu).float()
    error = 2e-3 if on_gpu.dtype is torch.float32 else 1e-2
    return found.shape == expected.shape and (found - expected).abs().max() < error * expected.abs().max()


def layer_of(codes, scales, gpu=GPUS[0]):
    n, k = codes.shape
    layer = Fp8Linear(k, n, bias=False, device="meta")
    layer.weight = torch.nn.Parameter(to_gpu(codes, gpu), requires_grad=False)
    layer.weight_scale_inv = torch.nn.Parameter(to_gpu(scales, gpu), requires_grad=False)
    return layer


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_products(dtype):
    x, codes, scales = operands(dtype=dtype)
    weight = to_gpu(codes), to_gpu(scales)
    for given in (to_gpu(x), to_gpu(x, offset=x.itemsize)):
        product = linear(given, *weight)
        assert product.dtype is dtype and product.device == torch.device("cuda:0")
        assert is_close(product, x, codes, scales)
    wide = linear(to_gpu(x), *weight, out_dtype=torch.float32)
    assert wide.dtype is torch.float32 and is_close(wide, x, codes, scales)
    strided = to_gpu(x.t().contiguous())
    strided = DeviceTensor(GPUS[0], x.shape, dtype, strides=(1, x.shape[0]), view=strided)
    assert is_close(linear(strided, *weight), x, codes, scales)
    assert linear(to_gpu(x[:0]), *weight).shape == (0, 40)
    assert linear(to_gpu(x.view(3, 1, 208)), *weight).shape == (3, 1, 40)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_that_are_not_finite_give_nan_as_on_cpus(value):
    x, codes, scales = operands()
    x[1, 7] = value
    found = to_cpu(linear(to_gpu(x), to_gpu(codes), to_gpu(scales)))
    assert torch.equal(found.isnan(), linear(x, codes, scales).isnan()) and found[1].isnan().all()


def test_quantized_activations():
    x, codes, scales = operands(k=256, dtype=torch.float32)
    groups = x.view(3, 2, 128)
    x_scales = groups.abs().amax(2) / 448
    x_codes = (groups * (1 / x_scales)[:, :, None]).view(3, 256).to(FP8)
    product = linear(to_gpu(x_codes), to_gpu(codes), to_gpu(scales), x_scales=to_gpu(x_scales))
    assert product.dtype is torch.float32 and is_close(product, x, codes, scales)


@pytest.mark.parametrize("m", [1, 5, 64])
def test_scales_of_quantized_activations_in_any_layout(m):
    x, codes, scales = operands(m, k=1040)
    x_codes, x_scales = x.to(FP8), torch.rand(m, 9) + 0.1
    weight = to_gpu(x_codes), to_gpu(codes), to_gpu(scales)
    expected = to_cpu(linear(*weight, x_scales=to_gpu(x_scales)))
    aligned = -(-m // 4) * 4
    # Unpadded, aligned as for TMA, with more padding and with odd padding; row-major with padding; neither.
    for strides in [(1, m), (1, aligned), (1, aligned + 8), (1, m + 1), (12, 1), (2, 2 * m)]:
        # Where four scales are copied at once, the last copy has as many, too.
        flat = torch.full((9 * strides[1] + m * strides[0] + 4,), float("nan"))
        flat[1:].as_strided((m, 9), strides).copy_(x_scales)
        # The driver checks that what is misaligned is not read as if it were aligned.
        for offset in (0, 4):
            memory = to_gpu(flat[1:], offset=offset)
            given = DeviceTensor(GPUS[0], (m, 9), torch.float32, strides=strides, view=memory, offset=offset)
            assert torch.equal(to_cpu(linear(*weight, x_scales=given)), expected), (strides, offset)
            if offset == 0:
                with GPUS[0].captured() as replay:
                    product = linear(*weight, x_scales=given)
                replay()
                assert torch.equal(to_cpu(product), expected), strides


def test_a_layer_reads_its_weight_ahead_once_it_is_known():
    """The kernel of later calls reads the weight while the preceding kernel runs, which the driver checks."""
    x, codes, scales = operands()
    layer, remembered = layer_of(codes, scales), _native.torch_remembered()
    given = to_gpu(x)
    for _ in range(3):
        assert is_close(layer(given), x, codes, scales)
    assert _native.torch_remembered() == remembered + 1
    other = operands(seed=1)
    write(layer.weight, other[1])
    write(layer.weight_scale_inv, other[2])
    layer.repack()
    for _ in range(3):
        assert is_close(layer(given), x, *other[1:])
    del layer
    gc.collect()
    assert _native.torch_remembered() == remembered


def test_a_layer_in_a_graph():
    # A shape of its own, so that nothing is compiled before.
    x, codes, scales = operands(n=48)
    layer = layer_of(codes, scales)
    fixed = to_gpu(torch.zeros_like(x))
    with pytest.raises(RuntimeError, match="no kernel is compiled for M = 3: multiply once, or call prepare"):
        with GPUS[0].captured():
            layer(fixed)
    # The first call compiles for those that follow it.
    layer(fixed)
    with GPUS[0].captured() as replay:
        product = layer(fixed)
    for seed in range(2):
        values = operands(seed=seed)[0]
        write(fixed, values)
        replay()
        assert is_close(product, values, codes, scales)
    # Kernels stay loaded for the graph when the layer is gone.
    weight = layer.weight.owner, layer.weight_scale_inv.owner
    del layer
    gc.collect()
    replay()
    assert is_close(product, values, codes, scales) and weight


def test_the_first_call_of_a_layer_may_be_captured():
    """A product of the same shape came before. To compile what later calls need would be a fault during the
    capture."""
    x, codes, scales = operands(n=56)
    layer, given = layer_of(codes, scales), to_gpu(x)
    linear(given, layer.weight, layer.weight_scale_inv)
    with GPUS[0].captured() as replay:
        product = layer(given)
    replay()
    for product in (product, layer(given)):
        assert is_close(product, x, codes, scales)


def test_the_product_is_on_the_current_stream(monkeypatch):
    x, codes, scales = operands()
    layer = layer_of(codes, scales)
    # Waits for the weight, which is written on the stream before.
    assert is_close(layer(to_gpu(x)), x, codes, scales)
    monkeypatch.setattr(GPUS[0], "stream", GPUS[0].new_stream())
    # Written on the new stream, which runs when something waits for it, and not before.
    given = to_gpu(x)
    assert is_close(layer(given), x, codes, scales)


def test_several_gpus():
    x, codes, scales = operands()
    layers = [layer_of(codes, scales, gpu) for gpu in GPUS[:2]]
    for _ in range(2):
        for gpu, layer in zip(GPUS, layers):
            product = layer(to_gpu(x, gpu))
            assert product.device.index == gpu.index and is_close(product, x, codes, scales)
    assert current_context() is None
    for wrong in [(GPUS[1], GPUS[0], GPUS[0]), (GPUS[0], GPUS[1], GPUS[0]), (GPUS[0], GPUS[0], GPUS[1])]:
        with pytest.raises(ValueError, match="move them to one device"):
            linear(*(to_gpu(tensor, gpu) for tensor, gpu in zip((x, codes, scales), wrong)))
    with pytest.raises(RuntimeError, match="compute capability 8.0, but the kernels need 9.0"):
        linear(*(to_gpu(tensor, GPUS[2]) for tensor in (x, codes, scales)))


def test_wrong_operands_are_refused():
    x, codes, scales = operands()
    for wrong, sentence in [
        ((to_gpu(x), to_gpu(codes, offset=1), to_gpu(scales)), "aligned"),
        ((to_gpu(x[:, :200]), to_gpu(codes[:, :200]), to_gpu(scales)), "multiple of 16"),
        ((to_gpu(x), codes, to_gpu(scales)), "move them to one device"),
    ]:
        with pytest.raises((ValueError, RuntimeError), match=sentence) as error:
            linear(*wrong)
        assert "\n" not in str(error.value)
