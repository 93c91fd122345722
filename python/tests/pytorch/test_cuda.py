"""The PyTorch operator and layer on a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

import octile.torch
from octile.torch import Fp8Linear, linear

if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("there is no Hopper GPU", allow_module_level=True)

FP8 = torch.float8_e4m3fn


def operands(m=5, n=384, k=512, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(m, k, generator=generator).to(dtype)
    return x.cuda(), *(part.cuda() for part in octile.torch.quantize(torch.randn(n, k, generator=generator)))


def close(found, x, codes, scales):
    expected = x.float() @ octile.torch.dequantize(codes, scales).t()
    return (found.float() - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_products_of_any_shape(dtype):
    x, codes, scales = operands(6, dtype=dtype)
    y = linear(x, codes, scales)
    assert y.dtype == dtype and close(y, x, codes, scales)
    assert torch.equal(linear(x.view(2, 3, 512), codes, scales), y.view(2, 3, 384))
    assert torch.equal(linear(x.t().contiguous().t(), codes, scales), y)
    shifted = torch.empty(6 * 512 + 1, dtype=dtype, device="cuda")[1:].view(6, 512).copy_(x)
    assert shifted.data_ptr() % 16 and torch.equal(linear(shifted, codes, scales), y)
    assert linear(x[:0], codes, scales).shape == (0, 384)
    wide = linear(x, codes, scales, out_dtype=torch.float32)
    assert torch.equal(wide.to(dtype), y)


def test_quantized_activations():
    x, codes, scales = operands(5, dtype=torch.float32)
    groups = x.view(5, 4, 128)
    x_scales = groups.abs().amax(2) / 448
    x_codes = (groups * (1 / x_scales)[:, :, None]).view(5, 512).to(FP8)
    assert close(linear(x_codes, codes, scales, x_scales=x_scales), x, codes, scales)


@pytest.mark.parametrize("m", [1, 5, 64])
def test_scales_of_quantized_activations_in_any_layout(m):
    x, codes, scales = operands(m, k=5136)
    x_codes, x_scales = x.to(FP8), torch.rand(m, 41, device="cuda") + 0.1
    expected = linear(x_codes, codes, scales, x_scales=x_scales)
    aligned = -(-m // 4) * 4
    for strides in [(1, m), (1, aligned), (1, aligned + 8), (1, m + 1), (44, 1), (2, 2 * m)]:
        flat = torch.full((41 * strides[1] + m * strides[0] + 1,), float("nan"), device="cuda")
        for start in (0, 1):
            given = flat[start:].as_strided((m, 41), strides).copy_(x_scales)
            assert torch.equal(linear(x_codes, codes, scales, x_scales=given), expected), (strides, start)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = linear(x_codes, codes, scales, x_scales=given)
        graph.replay()
        assert torch.equal(y, expected), strides


def test_a_layer_in_a_graph_on_its_own_stream():
    x, codes, scales = operands(4)
    layer = Fp8Linear(512, 384, bias=False, device="cuda")
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales})
    with torch.inference_mode():
        expected = linear(x, codes, scales)
        assert torch.equal(layer(x), expected)
        graph, fixed = torch.cuda.CUDAGraph(), torch.zeros_like(x)
        with torch.cuda.graph(graph):
            y = layer(fixed)
        fixed.copy_(x)
        graph.replay()
        assert torch.equal(y, expected)
        with torch.cuda.stream(torch.cuda.Stream()) as _:
            other = layer(x)
        torch.cuda.synchronize()
        assert torch.equal(other, expected)


def test_a_layer_notices_that_its_weight_changed():
    x, codes, scales = operands(4)
    layer = Fp8Linear(512, 384, bias=False, device="cuda")
    assert not layer(x).any() and not layer(x).any()
    with torch.no_grad():
        layer.weight.copy_(codes)
        layer.weight_scale_inv.copy_(scales)
    for _ in range(3):
        assert torch.equal(layer(x), linear(x, codes, scales))
    assert torch.allclose(layer.cpu()(x.cpu()).float(), linear(x, codes, scales).cpu().float(), atol=0.5)


def test_tensors_on_several_devices_are_refused():
    x, codes, scales = operands()
    for wrong in [(x.cpu(), codes, scales), (x, codes.cpu(), scales), (x, codes, scales.cpu())]:
        with pytest.raises(ValueError, match="move them to one device"):
            linear(*wrong)


def test_compiled_and_transformed():
    x, codes, scales = operands()
    compiled = torch.compile(lambda x: linear(x, codes, scales), fullgraph=True)
    assert torch.equal(compiled(x), linear(x, codes, scales))
    values = octile.torch.dequantize(codes, scales, x.dtype)
    along = torch.func.jvp(lambda x: linear(x, codes, scales), (x,), (x,))[1]
    assert torch.allclose(along, x @ values.t(), rtol=0.02, atol=0.5)
    x.requires_grad_()
    linear(x, codes, scales).sum().backward()
    assert torch.allclose(x.grad, values.sum(0).expand_as(x), rtol=0.02, atol=0.5)
