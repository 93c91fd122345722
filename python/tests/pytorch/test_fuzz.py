"""Random tensors: results or one sentence, and never a crash."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

import octile.torch
from fuzzing import check_sentence, generators
from octile.torch import Fp8Linear, linear

FP8 = torch.float8_e4m3fn
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
DTYPES = [*FLOATS, FP8, torch.float64, torch.int8, torch.uint8, torch.bool, torch.complex64]
DTYPES += [torch.float8_e5m2, torch.int64]
SIDES = [0, 1, 2, 3, 127, 128, 129, 256, 300]


class Subclass(torch.Tensor):
    """A tensor with operators of its own."""


def tensor(generator, dtype, *shape):
    """A tensor of some layout and kind."""
    values = torch.randn(shape).mul(generator.choice([1, 1, 1, 0, 1e30, float("inf"), float("nan")]))
    made = values.to(dtype)
    kind = generator.randrange(50)
    if kind == 0 and made.dim() > 1:
        made = made.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif kind == 1 and made.numel():
        made = made.repeat_interleave(2, -1)[..., ::2]
    elif kind == 2:
        made = made.to("meta")
    elif kind == 3:
        made = made.unsqueeze(0)
    elif kind == 4 and made.dim() > 1 and made.numel():
        made = made[:1].expand(made.shape)
    elif kind == 5:
        made = made.as_subclass(Subclass)
    elif kind == 6 and made.is_floating_point():
        made = made.clone().requires_grad_()
    elif kind == 7:
        made = torch.nn.Parameter(made, requires_grad=False)
    elif kind == 8 and dtype in FLOATS[:1]:
        made = torch.conj(torch.complex(made, -made)).imag
    elif kind == 9 and made.numel():
        made = made.flatten()[0]
    elif kind == 10 and made.numel() and made.dim() == 2:
        # More than the address space holds.
        made = made[:1].expand(1 << 45, made.shape[1])
    elif kind == 11 and made.numel() and made.dim() == 2:
        larger = torch.empty(made.numel() + 3, dtype=dtype)
        larger[3:] = made.flatten()
        made = larger[3:].view(made.shape)
    elif kind == 12:
        made = generator.choice([None, 1.5, "x", made.tolist() if dtype in FLOATS else [], object()])
    elif kind == 13 and dtype in FLOATS[:1]:
        made = made.to_sparse()
    elif kind == 14:
        made = made.view((1,) * generator.choice([6, 7, 60]) + made.shape)
    elif kind == 15:
        made = made.clone()
        made.untyped_storage().resize_(0)
    elif kind == 16:
        with torch.inference_mode():
            made = made.clone()
    return made


def call(generator):
    """One product; returns its result and the shape that it should have."""
    m, n, k = (generator.choice(SIDES) for _ in range(3))
    good = generator.random() < 0.6
    x_dtype = generator.choice(DTYPES[:4] if good else DTYPES)
    w_dtype, s_dtype = (FP8, torch.float32) if good else (generator.choice(DTYPES), generator.choice(DTYPES))
    block = generator.choice([128, 128, 256, 512, 100])
    x = tensor(generator, x_dtype, m, k)
    weight = tensor(generator, w_dtype, n, k)
    scales = tensor(generator, s_dtype, -(-n // block), -(-k // block))
    if isinstance(scales, torch.Tensor) and not scales.is_complex() and scales.layout is torch.strided:
        if scales.numel() < 1 << 20 and scales.untyped_storage().size() and scales.dtype is torch.float32:
            scales = scales.abs()
    options = {}
    if generator.random() < 0.1 or x_dtype is FP8:
        options["x_scales"] = tensor(generator, torch.float32, m, -(-k // block))
    if generator.random() < 0.3:
        options["out_dtype"] = generator.choice(DTYPES)
    if generator.random() < 0.2:
        options["bias"] = tensor(generator, generator.choice(FLOATS), n)
    if generator.random() < 0.3 and set(options) <= {"bias"}:
        layer = Fp8Linear(max(k, 1), max(n, 1), bias=False)
        layer._parameters.update(weight=weight, weight_scale_inv=scales, bias=options.get("bias"))
        # The second call finds what the first one remembered.
        layer(x)
        return layer(x), (*x.shape[:-1], n)
    mode = generator.choice([torch.no_grad, torch.enable_grad, torch.inference_mode])
    with mode():
        return linear(x, weight, scales, **options), (*x.shape[:-1], n)


def test_linear():
    passed = 0
    for generator in generators(1500):
        torch.manual_seed(generator.number)
        try:
            y, shape = call(generator)
        except (ValueError, TypeError) as error:
            check_sentence(error, generator)
        except RuntimeError as error:
            # PyTorch's own, for memory that it does not have.
            assert "allocate" in str(error) or "too large" in str(error), f"seed {generator.number}: {error}"
        else:
            passed += 1
            assert y.shape == shape, f"seed {generator.number}"
    assert passed > 50


@pytest.mark.parametrize("function", [octile.torch.quantize, octile.torch.dequantize])
def test_weights(function):
    for generator in generators(300):
        torch.manual_seed(generator.number)
        n, k = generator.choice(SIDES), generator.choice(SIDES)
        first = tensor(generator, generator.choice(DTYPES), n, k)
        second = generator.choice([128, 256, 100, -1, None, 1 << 80])
        if function is octile.torch.dequantize:
            second = tensor(generator, torch.float32, -(-n // 128), -(-k // 128))
        try:
            function(first, second)
        except (ValueError, TypeError, MemoryError) as error:
            check_sentence(error, generator)
        except RuntimeError as error:
            assert "allocate" in str(error) or "too large" in str(error), f"seed {generator.number}: {error}"
