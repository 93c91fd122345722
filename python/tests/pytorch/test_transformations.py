"""octile.torch under torch.vmap, torch.func and torch.fx, and with tensors that hold no values."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

from torch._subclasses.fake_tensor import FakeTensorMode

import octile.torch
from octile.torch import Fp8Linear, linear

FP8 = torch.float8_e4m3fn
X = torch.randn(6, 384)
CODES, SCALES = octile.torch.quantize(torch.randn(256, 384))
VALUES = octile.torch.dequantize(CODES, SCALES)
PRODUCT = linear(X, CODES, SCALES)


def multiply(x):
    return linear(x, CODES, SCALES)


@pytest.fixture(autouse=True)
def no_warnings():
    """PyTorch warns where an operator has no rule of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(batching rule|autograd kernel|data pointer).*")
        yield


def test_vmap_over_rows_is_one_product():
    assert torch.equal(torch.vmap(multiply)(X), PRODUCT)
    assert torch.equal(torch.vmap(torch.vmap(multiply))(X.view(2, 3, 384)).view(6, 256), PRODUCT)
    columns = X.view(2, 3, 384).transpose(0, 1)
    assert torch.equal(torch.vmap(multiply, in_dims=1)(columns).reshape(6, 256), PRODUCT)
    with pytest.raises(ValueError, match="but the weight has K = 384"):
        torch.vmap(multiply)(X[:, :200])


def test_vmap_over_weights():
    weights = torch.stack([CODES, CODES.roll(1, 0)]), torch.stack([SCALES, SCALES.roll(1, 0)])
    expected = torch.stack([linear(X, codes, scales) for codes, scales in zip(*weights)])
    assert torch.equal(torch.vmap(linear, (None, 0, 0))(X, *weights), expected)
    both = torch.vmap(linear)(torch.stack([X, X]), *weights)
    assert torch.equal(both, expected)


def test_vmap_over_codes_of_activations():
    x, x_scales = X.to(FP8), torch.rand(6, 3)
    expected = linear(x, CODES, SCALES, x_scales=x_scales)
    batched = torch.vmap(lambda x, s: linear(x, CODES, SCALES, x_scales=s))
    assert torch.equal(batched(x, x_scales), expected)
    others = torch.vmap(lambda s: linear(x, CODES, SCALES, x_scales=s))(torch.stack([x_scales, 2 * x_scales]))
    assert torch.equal(others[0], expected) and torch.equal(others[1], 2 * expected)


def test_gradients_pass_through_vmap():
    expected = VALUES.sum(0).expand_as(X)
    x = X.clone().requires_grad_()
    torch.vmap(multiply)(x).sum().backward()
    assert torch.allclose(x.grad, expected, rtol=1e-4, atol=1e-3)
    through = torch.func.grad(lambda x: torch.vmap(multiply)(x).sum())(X)
    each = torch.vmap(torch.func.grad(lambda x: multiply(x).sum()))(X)
    for gradient in (through, each):
        assert torch.allclose(gradient, expected, rtol=1e-4, atol=1e-3)
    tangent = torch.func.jvp(torch.vmap(multiply), (X,), (X,))[1]
    assert torch.allclose(tangent, X @ VALUES.t(), rtol=1e-4, atol=1e-3)
    with torch.no_grad():
        assert not torch.vmap(multiply)(x).requires_grad


def test_second_derivatives():
    expected = 2 * VALUES.t() @ VALUES
    hessian = torch.func.hessian(lambda x: multiply(x).square().sum())(X[0])
    assert torch.allclose(hessian, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())


def test_symbolic_traces():
    layer = Fp8Linear(384, 256)
    layer.load_state_dict({"weight": CODES, "weight_scale_inv": SCALES, "bias": torch.ones(256)})
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(layer, torch.nn.ReLU()))
    assert torch.equal(traced(X), torch.relu(PRODUCT + 1))


def test_tensors_without_values():
    with FakeTensorMode():
        model = torch.nn.Sequential(torch.nn.Linear(384, 256))
        assert octile.torch.replace_linears(model) == 1
        assert model(torch.randn(3, 384)).shape == (3, 256)


def test_scales_that_are_powers_of_two():
    """DeepSeek-V3.1 and others store exponents alone."""
    exponents = SCALES.to(torch.float8_e8m0fnu)
    layer = Fp8Linear(384, 256, bias=False)
    layer.load_state_dict({"weight": CODES, "weight_scale_inv": exponents})
    assert torch.equal(layer(X), linear(X, CODES, exponents.float()))


def test_rows_of_codes_that_are_nan_give_nan():
    x, x_scales = X.to(FP8), torch.ones(6, 3)
    expected = linear(x, CODES, SCALES, x_scales=x_scales)
    x.view(torch.uint8)[2, 7] = 0x7F
    expected[2] = float("nan")
    assert torch.equal(linear(x, CODES, SCALES, x_scales=x_scales).nan_to_num(7), expected.nan_to_num(7))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("strides", [(3, 1), (1, 8), (5, 1)])
def test_rows_whose_scales_are_not_finite_give_nan(value, strides):
    """So do the scales that vLLM computes for rows of memory that nothing was written to."""
    x, x_scales = X.to(FP8), torch.rand(6, 3) + 0.1
    expected = linear(x, CODES, SCALES, x_scales=x_scales)
    expected[[1, 4, 5]] = float("nan")
    given = torch.full((48,), float("nan")).as_strided((6, 3), strides).copy_(x_scales)
    given[1, 2] = given[4] = value
    x.view(torch.uint8)[4:, 7] = 0x7F
    assert torch.equal(linear(x, CODES, SCALES, x_scales=given).nan_to_num(7), expected.nan_to_num(7))
    with pytest.raises(ValueError, match="negative"):
        linear(x, CODES, SCALES, x_scales=-given)
