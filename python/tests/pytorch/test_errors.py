"""Wrong operands: one sentence each, and never a crash."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: cargo xtask test-torch")

import octile.torch
from octile.torch import Fp8Linear, linear

FP8 = torch.float8_e4m3fn
X = torch.randn(3, 260)
CODES, SCALES = octile.torch.quantize(torch.randn(130, 260))
META = torch.device("meta")


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: linear(X[:, :128], CODES, SCALES),
            ValueError,
            "x has shape [3, 128], but the weight has K = 260",
        ),
        (lambda: linear(torch.tensor(1.0), CODES, SCALES), ValueError, "x has shape []"),
        (lambda: linear(X.double(), CODES, SCALES), TypeError, "x is torch.float64: pass torch.float32"),
        (
            lambda: linear(X, CODES.float(), SCALES),
            TypeError,
            "weight is torch.float32 and weight_scale_inv is",
        ),
        (lambda: linear(X, CODES, SCALES.half()), TypeError, "weight_scale_inv is torch.float16"),
        (
            lambda: linear(X, CODES, SCALES[:1]),
            ValueError,
            "weight_scale_inv has shape [1, 3], but the weight",
        ),
        (lambda: linear(X, CODES[0], SCALES), ValueError, "weight has shape [260]"),
        (lambda: linear(X, CODES.t().contiguous().t(), SCALES), ValueError, "must be contiguous"),
        (lambda: linear(X, CODES.to(META), SCALES), ValueError, "move them to one device"),
        (lambda: linear(X, CODES, SCALES, out_dtype=torch.int8), TypeError, "out_dtype is torch.int8"),
        (lambda: linear(X, CODES, SCALES, out_dtype=FP8), TypeError, "out_dtype is torch.float8_e4m3fn"),
        (lambda: linear(X.to(FP8), CODES, SCALES), ValueError, "pass its scales as x_scales"),
        (lambda: linear(X, CODES, SCALES, x_scales=X), ValueError, "leave x_scales out"),
        (lambda: linear(X.to(FP8), CODES, SCALES, x_scales=X), ValueError, "pass torch.float32 [3, 3]"),
        (lambda: linear(torch.ones(()).to(FP8), CODES, SCALES, x_scales=X), ValueError, "x has shape []"),
        (lambda: linear(X / 0, CODES, -SCALES), ValueError, "scale"),
        (lambda: linear(X, CODES, -SCALES), ValueError, "scale"),
        (lambda: linear(X, CODES, misaligned(SCALES)), ValueError, "misaligned"),
        (lambda: linear(X, CODES, None), TypeError, "weight_scale_inv is None: pass a tensor"),
        (lambda: linear(X.numpy(), CODES, SCALES), TypeError, "x is ndarray: pass a tensor"),
        (lambda: linear(None, CODES, SCALES), TypeError, "x is None: pass a tensor"),
        (lambda: linear(X, 1, SCALES), TypeError, "weight is int: pass a tensor"),
        (lambda: linear(X, CODES, SCALES, x_scales=1.0), TypeError, "x_scales is float: pass a tensor"),
        (lambda: linear(X, CODES, SCALES, out_dtype="half"), TypeError, "out_dtype is half: pass"),
        (lambda: linear(X.view((1,) * 7 + (3, 260)), CODES, SCALES), ValueError, "x has 9 dimensions"),
        (lambda: linear(X.to_sparse(), CODES, SCALES), TypeError, "x is torch.sparse_coo: pass a strided"),
        (
            lambda: linear(torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), CODES, SCALES),
            TypeError,
            "x is quantized: pass a strided tensor",
        ),
        (lambda: linear(X, CODES, SCALES, torch.ones(1)), ValueError, "bias is torch.float32 [1]: pass"),
        (lambda: linear(X, CODES, SCALES, torch.ones(3, 130)), ValueError, "bias is torch.float32 [3, 130]"),
        (lambda: linear(X, CODES, SCALES, torch.ones(130).half()), ValueError, "bias is torch.float16 [130]"),
        (lambda: linear(X, CODES, SCALES, torch.ones(130, device=META)), ValueError, "bias is on meta, and"),
        (lambda: linear(X, CODES, SCALES, 1.0), TypeError, "bias is float: pass a tensor"),
        (lambda: Fp8Linear(8, 8, block=64), ValueError, "block 64 is not 128, 256 or 512"),
        (lambda: Fp8Linear(0, 8), ValueError, "in_features is 0: pass a positive integer"),
        (lambda: Fp8Linear(8, 8.5), ValueError, "out_features is 8.5: pass a positive integer"),
        (lambda: octile.torch.replace_linears("model"), TypeError, "model is str: pass a torch.nn.Module"),
        (lambda: octile.torch.quantize(torch.randn(3)), ValueError, "w has shape [3]"),
        (lambda: octile.torch.quantize(CODES), TypeError, "weight is torch.float8_e4m3fn: pass"),
        (lambda: octile.torch.quantize(torch.ones(8, 8).int()), TypeError, "weight is torch.int32: pass"),
        (lambda: octile.torch.quantize(X.numpy()), TypeError, "weight is ndarray: pass a tensor"),
        (lambda: octile.torch.quantize(X, block=-1), ValueError, "block -1 is not 128, 256 or 512"),
        (lambda: octile.torch.quantize(X, block=1 << 80), ValueError, "is not 128, 256 or 512"),
        (lambda: octile.torch.quantize(X.to(META)[0]), ValueError, "weight has shape [260]: pass a matrix"),
        (lambda: octile.torch.quantize(X.to(META), 64), ValueError, "block 64 is not 128, 256 or 512"),
        (lambda: octile.torch.dequantize(CODES, SCALES.to(META)), ValueError, "move them to one device"),
        (lambda: octile.torch.dequantize(CODES, None), TypeError, "weight_scale_inv is None: pass a tensor"),
    ],
)
def test_wrong_arguments_get_one_sentence(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def misaligned(tensor):
    raw = bytearray(tensor.numel() * 4 + 1)
    copy = torch.frombuffer(raw, dtype=torch.float32, count=tensor.numel(), offset=1).view(tensor.shape)
    copy.copy_(tensor)
    return copy


def test_tensors_without_memory_are_refused():
    codes, scales = octile.torch.quantize(torch.randn(128, 256))
    x = torch.randn(4, 256)
    freed = [tensor.clone() for tensor in (x, codes, scales)]
    for tensor in freed:
        tensor.untyped_storage().resize_(0)
    for operands in [(freed[0], codes, scales), (x, freed[1], scales), (x, codes, freed[2])]:
        with pytest.raises(ValueError, match="no memory"):
            octile.torch.linear(*operands)
    calls = [lambda: octile.torch.quantize(freed[0]), lambda: octile.torch.dequantize(freed[1], scales)]
    for call in [*calls, lambda: octile.torch.dequantize(codes, freed[2])]:
        with pytest.raises(ValueError, match="no memory"):
            call()
    bias = torch.ones(128)
    bias.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="bias has no memory"):
        octile.torch.linear(x, codes, scales, bias)
    x_codes = x.to(torch.float8_e4m3fn)
    strided = torch.randn(256, 4).t(), torch.ones(2, 2, 2).permute(2, 1, 0)
    for tensor in strided:
        tensor.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="no memory"):
        octile.torch.linear(strided[0], codes, scales)
    with pytest.raises(ValueError, match="no memory"):
        octile.torch.linear(x_codes.view(2, 2, 256), codes, scales, x_scales=strided[1])
    with pytest.raises(ValueError, match="one device"):
        octile.torch.linear(x_codes, codes, scales, x_scales=torch.ones(4, 2, device="meta"))


def test_calls_that_are_watched_pass_the_dispatcher():
    """Elsewhere the kernel is called directly, which a mode or a profiler would not see."""
    codes, scales = octile.torch.quantize(torch.randn(128, 256))
    x = torch.randn(4, 256)
    expected = octile.torch.linear(x, codes, scales)
    with torch.profiler.profile() as profile:
        assert torch.equal(octile.torch.linear(x, codes, scales), expected)
    assert any(event.key == "octile::linear_inference" for event in profile.key_averages())
    negated = torch.conj(torch.complex(x, -x)).imag
    assert negated.is_neg() and torch.equal(octile.torch.linear(negated, codes, scales), expected)
    for negated in (x, -x), (codes.float(), -codes.float()):
        weight = torch.conj(torch.complex(*negated)).imag
        assert weight.is_neg()
        assert torch.equal(octile.torch.quantize(weight)[1], octile.torch.quantize(negated[0])[1])
    # PyTorch cannot negate codes.
    with pytest.raises(NotImplementedError, match="neg"):
        octile.torch.linear(x, torch._neg_view(codes), scales)
    batched = torch.vmap(lambda row: octile.torch.linear(row, codes, scales))(x)
    assert torch.equal(batched, expected)


def test_models_are_built_before_they_are_loaded():
    model = torch.nn.Sequential(torch.nn.Linear(260, 130, device="meta"))
    assert octile.torch.replace_linears(model) == 1 and model[0].weight.is_meta
    assert model[0].weight.dtype is FP8 and model[0].weight_scale_inv.shape == (2, 3)
    state = {"0.weight": CODES, "0.weight_scale_inv": SCALES, "0.bias": torch.ones(130)}
    model.load_state_dict(state, assign=True)
    assert torch.equal(model(X), linear(X, CODES, SCALES, state["0.bias"]))


def test_state_dicts_with_other_types_are_refused():
    """torch would convert them to wrong weights."""
    layer = Fp8Linear(260, 130, bias=False)
    for state in [
        {"weight": CODES.view(torch.uint8), "weight_scale_inv": SCALES},
        {"weight": CODES.float(), "weight_scale_inv": SCALES},
        {"weight": CODES, "weight_scale_inv": SCALES.int()},
    ]:
        with pytest.raises((TypeError, RuntimeError), match="Fp8Linear loads"):
            layer.load_state_dict(state)


def test_fp8_activations_have_no_gradient():
    codes = X.to(FP8).requires_grad_()
    with pytest.raises(ValueError, match="no gradient"):
        linear(codes, CODES, SCALES, x_scales=torch.ones(3, 3))


def test_one_pattern_may_be_a_string():
    model = torch.nn.ModuleDict({"lm_head": torch.nn.Linear(8, 8), "up": torch.nn.Linear(8, 8)})
    assert octile.torch.replace_linears(model, skip="lm_head") == 1
    with pytest.raises(TypeError, match="pass names or patterns"):
        octile.torch.replace_linears(model, skip=[1])


def test_layers_that_pytorch_fuses_stay():
    encoder = torch.nn.TransformerEncoderLayer(128, 2, batch_first=True).eval()
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), encoder)
    assert octile.torch.replace_linears(model) == 1
    with torch.inference_mode():
        assert model(torch.randn(2, 3, 128)).isfinite().all()


def test_parameters_that_pytorch_swaps():
    layer = Fp8Linear(260, 130, bias=False)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer(X)
        layer.load_state_dict({"weight": CODES, "weight_scale_inv": SCALES})
        assert torch.equal(layer(X), linear(X, CODES, SCALES))
        assert torch.equal(layer.half()(X), linear(X, CODES, SCALES))
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
