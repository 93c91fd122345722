"""The numpy level: weights, products, errors."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import octile

FP8 = ml_dtypes.float8_e4m3fn
FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16]


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def exact_product(codes, x_scales, weight):
    """The product of quantized operands in float64: scales of x are per row and block of K."""
    block = weight.block
    x = codes.astype(np.float64) * np.repeat(x_scales, block, axis=1)[:, : codes.shape[1]]
    return x @ weight.dequantize().astype(np.float64).T


def quantize_tokens(x, block):
    """Codes of x, one scale per row and block of K, as the kernels choose them."""
    m, k = x.shape
    padded = np.zeros((m, -(-k // block) * block), np.float32)
    padded[:, :k] = x
    groups = padded.reshape(m, -1, block)
    scales = np.abs(groups).max(axis=2) / np.float32(448)
    scales[scales == 0] = 1
    # The kernels multiply by the reciprocal.
    codes = (groups * (np.float32(1) / scales)[:, :, None]).reshape(m, -1)[:, :k].astype(FP8)
    return codes, scales


@pytest.mark.parametrize("block", [128, 256, 512])
def test_a_weight_holds_codes_and_scales(block):
    w = normal(300, 520)
    weight = octile.quantize(w, block=block)
    assert weight.shape == (300, 520) and weight.block == block
    assert repr(weight) == f"octile.Weight(shape=(300, 520), block={block})"
    assert weight.codes.dtype == FP8 and weight.codes.shape == (300, 520)
    assert weight.scales.dtype == np.float32
    assert weight.scales.shape == (-(-300 // block), -(-520 // block))
    assert weight.scales[0, 0] == np.abs(w[:block, :block]).max() / np.float32(448)
    scales = np.repeat(np.repeat(weight.scales, block, 0), block, 1)[:300, :520]
    assert np.array_equal(weight.dequantize(), weight.codes.astype(np.float32) * scales)
    assert np.abs(weight.dequantize() - w).max() <= np.abs(w).max() / 16


def test_codes_and_scales_are_views_that_outlive_the_weight():
    weight = octile.quantize(normal(256, 256))
    assert np.shares_memory(weight.codes.view(np.uint8), weight.codes.view(np.uint8))
    codes, scales = weight.codes, weight.scales
    before = codes.view(np.uint8).sum(dtype=np.int64), scales.sum()
    del weight
    np.ones(1 << 20)
    assert (codes.view(np.uint8).sum(dtype=np.int64), scales.sum()) == before
    with pytest.raises(ValueError, match="read-only"):
        scales[0, 0] = 1


def test_a_weight_comes_back_from_its_parts_and_from_a_pickle():
    weight = octile.quantize(normal(130, 260))
    assert octile.Weight.from_codes(weight.codes, weight.scales) == weight
    assert octile.Weight.from_codes(weight.codes.view(np.uint8), weight.scales, block=128) == weight
    assert pickle.loads(pickle.dumps(weight)) == weight
    assert octile.quantize(normal(130, 260, seed=1)) != weight


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 128, 128), (3, 300, 520), (65, 256, 384)])
def test_a_product_is_that_of_the_quantized_operands(dtype, shape):
    m, n, k = shape
    weight = octile.quantize(normal(n, k))
    x = normal(m, k, dtype=dtype, seed=1)
    expected = exact_product(*quantize_tokens(x.astype(np.float32), 128), weight)
    tolerance = 1e-5 * np.abs(expected).max()
    assert np.abs(octile.matmul(x, weight, out_dtype=np.float32) - expected).max() <= tolerance
    y = octile.matmul(x, weight)
    assert y.dtype == x.dtype
    assert np.array_equal(y, octile.matmul(x, weight, out_dtype=np.float32).astype(dtype))


def test_unquantized_and_block_scaled_activations():
    weight = octile.quantize(normal(256, 256))
    x = normal(130, 256, seed=1)
    exact = x.astype(np.float64) @ weight.dequantize().astype(np.float64).T
    plain = octile.matmul(x, weight, x_scaling="none")
    assert np.abs(plain - exact).max() <= 1e-5 * np.abs(exact).max()
    per_block = octile.matmul(x, weight, x_scaling="block")
    assert 1e-5 < np.abs(per_block - exact).max() / np.abs(exact).max() < 0.1
    assert not np.array_equal(per_block, octile.matmul(x, weight))


def test_codes_with_scales_give_the_bits_of_quantization_in_the_call():
    weight = octile.quantize(normal(256, 300))
    x = normal(5, 300, seed=1)
    codes, scales = quantize_tokens(x, 128)
    y = octile.matmul(codes, weight, x_scales=scales)
    assert y.dtype == np.float32
    assert np.array_equal(y, octile.matmul(x, weight))
    assert np.array_equal(y, octile.matmul(codes.view(np.uint8), weight, x_scales=scales))


def test_leading_dimensions_strides_and_empty_batches():
    weight = octile.quantize(normal(130, 260))
    x = normal(4, 6, 520, seed=1)
    strided = x[:, ::2, ::2]
    y = octile.matmul(strided, weight)
    assert y.shape == (4, 3, 130)
    assert np.array_equal(y[1, 2], octile.matmul(np.ascontiguousarray(strided[1, 2]), weight))
    assert octile.matmul(np.zeros((0, 260), np.float32), weight).shape == (0, 130)
    fortran = np.asfortranarray(x[0, :, :260])
    assert np.array_equal(octile.matmul(fortran, weight), octile.matmul(x[0, :, :260].copy(), weight))
    raw = bytearray(260 * 4 + 1)
    misaligned = np.frombuffer(raw, np.float32, 260, offset=1)
    assert not misaligned.flags.aligned
    assert np.array_equal(octile.matmul(misaligned, weight), np.zeros(130, np.float32))


def test_out_dtypes():
    weight = octile.quantize(normal(128, 128))
    x = normal(2, 128)
    for dtype in [*FLOATS, "bfloat16", "float16", "float32"]:
        expected = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        assert octile.matmul(x, weight, out_dtype=dtype).dtype == expected


WEIGHT = octile.quantize(normal(128, 256))
X = normal(2, 256)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: octile.matmul(X[:, :255], WEIGHT), ValueError, "x has shape [2, 255], but the weight has K"),
        (lambda: octile.matmul([1.0], WEIGHT), TypeError, "x is list: pass a numpy array"),
        (lambda: octile.matmul(X.astype(">f4"), WEIGHT), TypeError, "x has dtype >f4: pass float32"),
        (lambda: octile.matmul(X.astype(np.float64), WEIGHT), TypeError, "x has dtype float64: pass"),
        (lambda: octile.matmul(np.float32(1), WEIGHT), TypeError, "x is numpy.float32: pass a numpy array"),
        (lambda: octile.matmul(np.array(1, np.float32), WEIGHT), ValueError, "x is a scalar: pass a matrix"),
        (lambda: octile.matmul(X.astype(FP8), WEIGHT), ValueError, "pass their scales as x_scales"),
        (lambda: octile.matmul(X, WEIGHT, x_scales=X), ValueError, "leave x_scales out"),
        (lambda: octile.matmul(X.astype(FP8), WEIGHT, x_scales=X[:1]), ValueError, "but x needs scales"),
        (lambda: octile.matmul(X, WEIGHT, x_scaling=1), ValueError, "x_scaling 1 is not 'token', 'block'"),
        (lambda: octile.matmul(X, WEIGHT, x_scaling="row"), ValueError, "x_scaling 'row' is not 'token'"),
        (
            lambda: octile.matmul(X, WEIGHT, out_dtype=np.int8),
            TypeError,
            "is not float32, bfloat16 or float16",
        ),
        (lambda: octile.matmul(X, WEIGHT, out_dtype=FP8), TypeError, "is not float32, bfloat16 or float16"),
        (lambda: octile.matmul(X, X), TypeError, "weight is numpy.ndarray: pass what octile.quantize"),
        (lambda: octile.matmul(np.ma.masked_less(X, 0), WEIGHT), TypeError, "x is a masked array: pass its"),
        (lambda: octile.matmul(X / 0, WEIGHT), ValueError, "only finite numbers can be quantized"),
        (lambda: octile.quantize(X, block=64), ValueError, "block 64 is not 128, 256 or 512"),
        (lambda: octile.quantize(X, block=-128), ValueError, "block -128 is not 128, 256 or 512"),
        (lambda: octile.quantize(X, block=1 << 80), ValueError, "is not 128, 256 or 512"),
        (lambda: octile.quantize(X, block="a"), ValueError, "block 'a' is not 128, 256 or 512"),
        (lambda: octile.quantize(np.ma.masked_less(X, 0)), TypeError, "w is a masked array"),
        (lambda: octile.quantize(X.astype(np.int32)), TypeError, "w has dtype int32: pass float32"),
        (lambda: octile.Weight.from_codes(WEIGHT.codes, WEIGHT.scales, -1), ValueError, "block -1 is not"),
        (lambda: octile.quantize(X[0]), ValueError, "w has shape [256]: pass a matrix"),
        (lambda: octile.quantize(X.astype(FP8)), TypeError, "w has dtype float8_e4m3fn: pass float32"),
        (
            lambda: octile.quantize(WEIGHT.codes.view(np.uint8)),
            TypeError,
            "w has dtype uint8: pass float32, bfloat16 or float16",
        ),
        (
            lambda: octile.matmul(X.astype(FP8), WEIGHT, x_scales=np.ones((2, 2))),
            TypeError,
            "x_scales has dtype float64: pass float32",
        ),
        (
            lambda: octile.matmul(X.astype(FP8), WEIGHT, x_scales=X[:, :2], x_scaling="none"),
            ValueError,
            "x holds fp8 codes, which have scales: x_scaling is 'token' or 'block'",
        ),
        (lambda: octile.quantize(np.full((2, 2), np.nan, np.float32)), ValueError, "NaN"),
        (lambda: octile.quantize(np.zeros((0, 4), np.float32)), ValueError, "0"),
        (lambda: octile.Weight.from_codes(WEIGHT.codes, X), ValueError, "scales have shape [2, 256]"),
        (lambda: octile.Weight.from_codes(X, WEIGHT.scales), TypeError, "codes has dtype float32"),
        (lambda: octile.Weight(), TypeError, "cannot create 'octile.Weight' instances"),
        (lambda: octile.load_safetensors("/no/such/file", "a"), FileNotFoundError, "cannot read /no"),
    ],
)
def test_wrong_arguments_get_one_sentence(call, error, sentence):
    with np.errstate(divide="ignore", invalid="ignore"), pytest.raises(error) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
