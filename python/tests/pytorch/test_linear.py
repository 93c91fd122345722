"""The PyTorch operator and layers, on the CPU."""

import copy
import gc
import io
import resource
import subprocess
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

from torch import nn
from torch.autograd import forward_ad

import octile
import octile.torch
from octile import _native
from octile.torch import Fp8Linear, linear

FP8 = torch.float8_e4m3fn
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def operands(m=3, n=300, k=520, dtype=torch.float32, block=128, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, k, generator=generator).to(dtype)
    codes, scales = octile.torch.quantize(torch.randn(n, k, generator=generator), block)
    return x, codes, scales


def numpy_weight(codes, scales, block=None):
    return octile.Weight.from_codes(codes.view(torch.uint8).numpy(), scales.numpy(), block)


def bits(tensor):
    kind = {4: torch.int32, 2: torch.int16, 1: torch.uint8}[tensor.element_size()]
    return tensor.detach().view(kind)


@pytest.mark.parametrize("block", [128, 256, 512])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m", [1, 7, 130])
def test_the_bits_are_those_of_numpy(m, dtype, block):
    x, codes, scales = operands(m, 600, 1100, dtype, block)
    weight = numpy_weight(codes, scales, block)
    expected = octile.matmul(x.float().numpy(), weight)
    # Widening is exact, so only the rounding of the result remains.
    assert torch.equal(bits(linear(x, codes, scales)), bits(torch.from_numpy(expected).to(dtype)))
    wide = linear(x, codes, scales, out_dtype=torch.float32)
    assert torch.equal(bits(wide), bits(torch.from_numpy(expected)))


def test_quantized_activations():
    x, codes, scales = operands(5, 256, 512)
    groups = x.view(5, 4, 128)
    x_scales = groups.abs().amax(2) / 448
    x_codes = (groups * (1 / x_scales)[:, :, None]).view(5, 512).to(FP8)
    y = linear(x_codes, codes, scales, x_scales=x_scales)
    assert y.dtype == torch.float32
    assert torch.equal(bits(y), bits(linear(x, codes, scales)))
    assert linear(x_codes, codes, scales, x_scales=x_scales, out_dtype=torch.bfloat16).dtype == torch.bfloat16


def padded(tensor, *strides):
    """The values at other strides, with NaN between them, in as little memory as they need."""
    span = sum((side - 1) * stride for side, stride in zip(tensor.shape, strides)) + 1
    made = torch.full((span,), float("nan")).as_strided(tensor.shape, strides)
    return made.copy_(tensor)


def test_scales_of_quantized_activations_in_any_layout():
    x_codes, codes, scales = operands(6)
    x_codes, x_scales = x_codes.to(FP8), torch.rand(6, 5) + 0.1
    expected = linear(x_codes, codes, scales, x_scales=x_scales)
    layer = Fp8Linear.from_linear(torch.nn.Linear(520, 300, bias=False))
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales})
    weight = layer.weight, layer.weight_scale_inv
    # Column-major without padding, aligned for TMA, with other padding; row-major with padding; neither.
    for strides in [(1, 6), (1, 8), (1, 13), (5, 1), (9, 1), (2, 20)]:
        given = padded(x_scales, *strides)
        assert given.stride() == strides
        assert torch.equal(bits(linear(x_codes, codes, scales, x_scales=given)), bits(expected)), strides
        remembered = _native.torch_linear(x_codes, *weight, True, given, torch.float32)
        assert torch.equal(bits(remembered), bits(expected)), strides
    # Rows that are not equally far apart are copied, and so are strided codes.
    for strides in [(3, 1, 8), (100, 1, 4)]:
        batches = padded(x_scales.view(2, 3, 5), *strides)
        product = linear(x_codes.view(2, 3, 520), codes, scales, x_scales=batches)
        assert torch.equal(bits(product.view(6, 300)), bits(expected))
    strided = x_codes.view(torch.uint8).t().contiguous().t().view(FP8)
    assert torch.equal(bits(linear(strided, codes, scales, x_scales=x_scales)), bits(expected))
    one = padded(x_scales[:1], 1, 4)
    assert torch.equal(bits(linear(x_codes[:1], codes, scales, x_scales=one)), bits(expected[:1]))
    same = torch.ones(6, 1).expand(6, 5)
    ones = linear(x_codes, codes, scales, x_scales=torch.ones(6, 5))
    assert torch.equal(bits(linear(x_codes, codes, scales, x_scales=same)), bits(ones))
    negated = torch._neg_view(-padded(x_scales, 1, 8))
    assert torch.equal(bits(linear(x_codes, codes, scales, x_scales=negated)), bits(expected))
    for shape, strides in [((0,), (1,)), ((0, 7), (1 << 61, 1 << 62)), ((7, 0, 7), (1, 1 << 61, 1 << 62))]:
        nothing = torch.empty_strided((*shape, 5), (*strides, 1))
        product = linear(torch.empty((*shape, 520), dtype=FP8), codes, scales, x_scales=nothing)
        assert product.shape == (*shape, 300)


def test_column_major_scales_through_the_dispatcher():
    """Compiled and exported programs, transformations, and tensors without values."""
    x, codes, scales = operands(6)
    x_codes, x_scales = x.to(FP8), torch.rand(6, 5) + 0.1
    column_major = padded(x_scales, 1, 8)
    expected = linear(x_codes, codes, scales, x_scales=x_scales)

    def multiply(x_codes, x_scales):
        return linear(x_codes, codes, scales, x_scales=x_scales)

    for given in (x_scales, column_major):
        compiled = torch.compile(multiply, fullgraph=True)
        assert torch.equal(bits(compiled(x_codes, given)), bits(expected))
    made_inside = torch.compile(lambda x, s: multiply(x, s.t().contiguous().t()), fullgraph=True)
    assert torch.equal(bits(made_inside(x_codes, x_scales)), bits(expected))
    exported = torch.export.export(Product(codes, scales), (x_codes, column_major)).module()
    assert torch.equal(bits(exported(x_codes, column_major)), bits(expected))
    assert torch.equal(bits(torch.vmap(multiply)(x_codes, column_major)), bits(expected))
    one = torch.vmap(lambda x_scales: multiply(x_codes, x_scales))(column_major[None])
    assert torch.equal(bits(one[0]), bits(expected))
    *weight, x_meta, scales_meta = (t.to("meta") for t in (codes, scales, x_codes, column_major))
    meta = linear(x_meta, *weight, x_scales=scales_meta)
    assert meta.is_meta and meta.shape == (6, 300) and meta.dtype is torch.float32
    # Scales may require a gradient, which they do not get.
    column_major.requires_grad_()
    assert torch.equal(bits(multiply(x_codes, column_major)), bits(expected))


class Product(torch.nn.Module):
    def __init__(self, codes, scales):
        super().__init__()
        self.codes, self.scales = codes, scales

    def forward(self, x_codes, x_scales):
        return linear(x_codes, self.codes, self.scales, x_scales=x_scales)


def test_leading_dimensions_strides_empty_batches_and_bias():
    x, codes, scales = operands(6)
    y = linear(x, codes, scales)
    assert torch.equal(linear(x.view(2, 3, 520), codes, scales), y.view(2, 3, 300))
    assert torch.equal(linear(x[0], codes, scales), y[0])
    assert torch.equal(linear(x.t().contiguous().t(), codes, scales), y)
    assert linear(x[:0], codes, scales).shape == (0, 300)
    bias = torch.randn(300)
    assert torch.equal(linear(x, codes, scales, bias), y + bias)
    with torch.autocast("cpu", torch.bfloat16):
        half = bias.bfloat16()
        assert torch.equal(linear(x, codes, scales, half), y + half.float())
    assert linear(x.view(1, 1, 1, 2, 1, 3, 520), codes, scales).shape == (1, 1, 1, 2, 1, 3, 300)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_that_are_not_finite_give_nan(dtype, value):
    x, codes, scales = operands(5, dtype=dtype)
    layer = Fp8Linear(520, 300, bias=False)
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales})
    expected = linear(x, codes, scales)
    expected[[1, 3]] = float("nan")
    x[1, 7], x[3, 519] = value, -value
    for product in (linear(x, codes, scales), linear(x.t().contiguous().t(), codes, scales), layer(x)):
        assert torch.equal(bits(product), bits(expected))


def test_pytorch_without_the_exchange_functions_of_dlpack():
    """As before version 2.10: tensors are then read attribute by attribute."""
    program = """
import torch
torch.Tensor.__dlpack_c_exchange_api__ = None
import octile.torch
from octile.torch import Fp8Linear, linear
layer = Fp8Linear.from_linear(torch.nn.Linear(300, 200, bias=False))
for x in (torch.randn(3, 300), torch.randn(2, 300, 3).transpose(1, 2), torch.randn(300).bfloat16()):
    y = linear(x, layer.weight, layer.weight_scale_inv)
    assert torch.equal(layer(x), y) and y.shape == (*x.shape[:-1], 200) and y.dtype == x.dtype
    assert torch.equal(y, linear(x.contiguous(), layer.weight, layer.weight_scale_inv))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_gradient_is_that_of_the_unquantized_product():
    x, codes, scales = operands(4, dtype=torch.float32)
    x.requires_grad_()
    bias = torch.randn(300, requires_grad=True)
    gradient = torch.randn(4, 300)
    linear(x, codes, scales, bias).backward(gradient)
    expected = gradient @ octile.torch.dequantize(codes, scales)
    assert torch.equal(x.grad, expected)
    assert torch.equal(bias.grad, gradient.sum(0))
    # Numerically: along the gradient, the product changes by the gradient times the step, as far as
    # quantization allows.
    step = x.grad / x.grad.std()
    difference = (linear(x.detach() + step, codes, scales) - linear(x.detach() - step, codes, scales)) / 2
    assert torch.allclose((difference * gradient).sum(), (x.grad * step).sum(), rtol=0.1)


def test_forward_derivatives_and_transformations():
    x, codes, scales = operands(4)
    values = octile.torch.dequantize(codes, scales)
    tangent = torch.randn(4, 520)

    def f(x):
        return linear(x, codes, scales)

    def same(found, expected):
        return torch.allclose(found, expected, rtol=1e-4, atol=1e-3)

    expected = tangent @ values.t()
    for call in (torch.func.jvp, torch.compile(lambda *args: torch.func.jvp(*args), fullgraph=True)):
        y, along = call(f, (x,), (tangent,))
        assert torch.equal(y, f(x)) and same(along, expected)
    with forward_ad.dual_level():
        for call in (f, torch.compile(f)):
            found = forward_ad.unpack_dual(call(forward_ad.make_dual(x, tangent)))
            assert torch.equal(found.primal, y) and same(found.tangent, expected)
        assert torch.equal(f(x), y)
    layer = Fp8Linear.from_linear(nn.Linear(520, 300))
    layer_values = octile.torch.dequantize(layer.weight, layer.weight_scale_inv)
    assert same(torch.func.jvp(layer, (x,), (tangent,))[1], tangent @ layer_values.t())
    for jacobian in (torch.func.jacfwd, torch.func.jacrev):
        assert same(jacobian(f)(x[0]), values)
    gradient = torch.func.vmap(torch.func.grad(lambda row: f(row).sum()))(x)
    assert same(gradient, values.sum(0).expand(4, 520))


@pytest.mark.parametrize("dtype", FLOATS)
def test_opcheck(dtype):
    x, codes, scales = operands(dtype=dtype)
    # test_schema compares inputs before and after with allclose, which lacks fp8: that is done below.
    op = torch.ops.octile.linear.default
    for check in ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"):
        torch.library.opcheck(op, (x.clone().requires_grad_(), codes, scales), test_utils=check)
        torch.library.opcheck(torch.ops.octile.linear_inference.default, (x, codes, scales), test_utils=check)
    before = bits(x).clone(), bits(codes).clone(), bits(scales).clone()
    y = op(x, codes, scales)
    assert all(torch.equal(old, bits(new)) for old, new in zip(before, (x, codes, scales)))
    assert not any(y.data_ptr() == operand.data_ptr() for operand in (x, codes, scales))


def test_compile_has_no_graph_break():
    x, codes, scales = operands()

    def f(x):
        return torch.relu(linear(x * 2, codes, scales)) + 1

    compiled = torch.compile(f, fullgraph=True, dynamic=True)
    for rows in (3, 2, 1):
        assert torch.allclose(compiled(x[:rows]), f(x[:rows]))
    layer = Fp8Linear.from_linear(nn.Linear(520, 300))
    fast = torch.compile(layer, fullgraph=True)
    with torch.inference_mode():
        assert torch.equal(fast(x), layer(x))


def test_compiled_gradients():
    x, codes, scales = operands()
    x.requires_grad_()
    compiled = torch.compile(lambda x: linear(x, codes, scales).square().sum(), fullgraph=True)
    compiled(x).backward()
    expected = (2 * linear(x, codes, scales)) @ octile.torch.dequantize(codes, scales)
    assert torch.allclose(x.grad, expected, rtol=1e-4, atol=1e-4)


def test_a_layer_loads_the_state_dict_of_a_checkpoint():
    x, codes, scales = operands(4, 256, 384, torch.bfloat16)
    bias = torch.randn(256, dtype=torch.bfloat16)
    layer = Fp8Linear(384, 256, dtype=torch.bfloat16)
    layer(x)  # packs the zeros it was made with
    state = {"weight": codes, "weight_scale_inv": scales.bfloat16(), "bias": bias}
    assert layer.load_state_dict(state) == nn.modules.module._IncompatibleKeys([], [])
    expected = linear(x, codes, scales.bfloat16().float(), bias)
    assert torch.equal(layer(x), expected)
    assert list(layer.state_dict()) == ["weight", "weight_scale_inv", "bias"]
    assert layer.weight.dtype == FP8 and layer.weight_scale_inv.dtype == torch.float32
    assigned = Fp8Linear(384, 256, device="meta", dtype=torch.bfloat16)
    assigned.load_state_dict({**state, "weight_scale_inv": scales}, assign=True)
    assert torch.equal(assigned(x), linear(x, codes, scales, bias))


def test_a_layer_notices_that_its_weight_changed():
    x, codes, scales = operands(4, 256, 384)
    layer = Fp8Linear(384, 256, bias=False)
    assert torch.equal(layer(x), torch.zeros(4, 256))
    with torch.no_grad():
        layer.weight.copy_(codes)
        layer.weight_scale_inv.copy_(scales)
    expected = linear(x, codes, scales)
    assert torch.equal(layer(x), expected)
    layer.weight.data.view(torch.uint8).zero_()
    layer.repack()
    assert torch.equal(layer(x), torch.zeros(4, 256))
    layer.weight = nn.Parameter(codes, requires_grad=False)
    assert torch.equal(layer(x), expected)
    layer.weight.data = torch.zeros_like(codes)
    assert torch.equal(layer(x), torch.zeros(4, 256))


def test_a_layer_in_a_cycle_is_freed():
    gc.collect()
    before = _native.torch_remembered()
    layer = Fp8Linear(384, 256)
    layer(torch.ones(1, 384))
    assert _native.torch_remembered() == before + 1
    layer.weight.loader = layer  # as some loaders of checkpoints do
    weight = weakref.ref(layer.weight)
    del layer
    gc.collect()
    assert weight() is None and _native.torch_remembered() == before


def test_one_compiled_program_serves_all_layers():
    """As where the blocks of a model are compiled one by one; each layer keeps its packed weight."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    layers = [Fp8Linear.from_linear(nn.Linear(520, 300)) for _ in range(12)]
    call = torch.compile(lambda layer, x: layer(x), backend=backend, fullgraph=True)
    x = operands()[0]
    before = _native.torch_remembered()
    with torch.inference_mode():
        first = [call(layer, x) for layer in layers]
    assert len(compiled) == 1 and _native.torch_remembered() == before + 12
    for layer, product in zip(layers, first):
        assert torch.equal(layer(x), product)
        # Unnoticed, so what is multiplied is the copy.
        layer.weight.data.view(torch.uint8).zero_()
        with torch.inference_mode():
            assert torch.equal(call(layer, x), product)
        layer.repack()
        with torch.inference_mode():
            assert torch.equal(call(layer, x), layer.bias.expand(3, 300))
    assert _native.torch_remembered() == before + 12


def test_parameters_that_are_not_those_of_the_module():
    x, codes, scales = operands(4, 256, 384)
    layer = Fp8Linear(384, 256)
    state = {"weight": codes, "weight_scale_inv": scales, "bias": torch.randn(256)}
    expected = linear(x, **state)
    assert torch.equal(torch.func.functional_call(layer, state, x), expected)
    layer.load_state_dict(state)
    assert torch.equal(layer(x), expected)
    # Replicas of nn.DataParallel have plain tensors as attributes.
    replica = layer._replicate_for_data_parallel()
    replica._parameters = {}
    for name, tensor in state.items():
        setattr(replica, name, tensor)
    assert torch.equal(replica(x), expected)

    class Double(nn.Module):
        def forward(self, scales):
            return 2 * scales

    nn.utils.parametrize.register_parametrization(layer, "weight_scale_inv", Double())
    assert torch.equal(layer(x), linear(x, codes, 2 * scales, state["bias"]))


def test_exported_programs_run_again():
    layer = Fp8Linear.from_linear(nn.Linear(520, 300))
    x = operands()[0]
    exported = torch.export.export(nn.Sequential(layer, nn.ReLU()), (x,))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(x), layer(x).relu())


def test_layers_are_copied_pickled_and_cast():
    x, codes, scales = operands(4, 256, 384)
    layer = Fp8Linear(384, 256)
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales, "bias": torch.ones(256)})
    y = layer(x)
    other = copy.deepcopy(layer)
    assert torch.equal(other(x), y)
    other.weight_scale_inv.data.mul_(2)
    other.repack()
    assert torch.equal(layer(x), y) and not torch.equal(other(x), y)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), y)
    half = layer.to(torch.bfloat16)
    assert half.weight.dtype == FP8 and half.weight_scale_inv.dtype == torch.float32
    assert half.bias.dtype == torch.bfloat16
    assert half(x.bfloat16()).dtype == torch.bfloat16
    assert "in_features=384, out_features=256, bias=True, block=128" in repr(layer)


def test_replace_linears():
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.ModuleDict({"gate": nn.Linear(512, 4)}))
    model.lm_head = shared = nn.Linear(256, 8)
    model.up = model.up_again = nn.Linear(256, 8)
    assert octile.torch.replace_linears(model, skip=["lm_head", "*.gate"]) == 2
    assert isinstance(model[0], Fp8Linear) and type(model[2]["gate"]) is nn.Linear
    assert model.lm_head is shared and model.up is model.up_again and isinstance(model.up, Fp8Linear)
    reference = nn.Linear(256, 512)
    layer = Fp8Linear.from_linear(reference)
    x = torch.randn(9, 256)
    error = (layer(x) - reference(x)).abs().max() / reference(x).abs().max()
    assert 0 < error < 0.1


def test_threads_get_the_same_bits():
    x, codes, scales = operands(16)
    layer = Fp8Linear(520, 300, bias=False)
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales})
    expected = linear(x, codes, scales)
    wrong = []

    def work():
        for _ in range(20):
            if not (torch.equal(layer(x), expected) and torch.equal(linear(x, codes, scales), expected)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_constant_over_100_000_calls():
    x, codes, scales = operands(1, 128, 128)
    layer = Fp8Linear.from_linear(nn.Linear(128, 128, bias=False))

    def calls(count):
        with torch.inference_mode():
            for _ in range(count // 2):
                linear(x, codes, scales)
                layer(x)
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = calls(2_000)
    assert calls(100_000) - before < 4 << 20
