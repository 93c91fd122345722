"""octile.jax on the CPU: equal to numpy bit by bit, under every transformation."""

import gc
import pickle

import pytest

from jax_cases import as_jax, dequantized, from_numpy, operands, relative_error, same_bits

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import octile
import octile.jax as oj

SHAPES = [(1, 1, 1), (3, 130, 257), (5, 256, 512), (64, 384, 640), (200, 96, 1000)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("x_scaling", ["token", "block", "none"])
def test_results_equal_numpy_bit_by_bit(shape, dtype, x_scaling):
    x, codes, scales = operands(*shape, dtype=jnp.dtype(dtype))
    for out_dtype in (jnp.float32, jnp.bfloat16, None):
        expected = from_numpy(x, codes, scales, x_scaling=x_scaling, out_dtype=out_dtype)
        found = oj.matmul(*as_jax(x, codes, scales), x_scaling=x_scaling, out_dtype=out_dtype)
        assert same_bits(found, expected)
        packed = oj.pack(*as_jax(codes, scales))
        found = jax.jit(oj.matmul, static_argnames=("x_scaling", "out_dtype"))(
            jnp.asarray(x), packed, x_scaling=x_scaling, out_dtype=out_dtype
        )
        assert same_bits(found, expected)


@pytest.mark.parametrize("block", [256, 512])
def test_larger_blocks(block):
    x, codes, scales = operands(7, 600, 1030, block=block)
    expected = from_numpy(x, codes, scales)
    assert same_bits(oj.matmul(x, codes, scales), expected)
    assert same_bits(oj.matmul(x, oj.pack(codes, scales)), expected)
    exact = x @ dequantized(codes, scales, block).T
    assert relative_error(oj.matmul(x, codes, scales, x_scaling="none"), exact) < 1e-5


def test_fp8_activations_with_scales():
    x, codes, scales = operands(9, 256, 300, dtype=ml_dtypes.float8_e4m3fn)
    x_scales = np.random.default_rng(1).random((9, 3), dtype=np.float32)
    expected = from_numpy(x, codes, scales, x_scales=x_scales)
    assert same_bits(oj.matmul(x, codes, scales, x_scales=x_scales), expected)
    assert same_bits(oj.matmul(x, oj.pack(codes, scales), x_scales=x_scales), expected)
    batched = jax.vmap(lambda x, s: oj.matmul(x, codes, scales, x_scales=s))(
        x.reshape(3, 3, 300), x_scales.reshape(3, 3, 3)
    )
    assert same_bits(batched.reshape(9, 256), expected)
    blocks = from_numpy(x, codes, scales, x_scales=x_scales[:1], x_scaling="block")
    assert same_bits(oj.matmul(x, codes, scales, x_scales=x_scales[:1], x_scaling="block"), blocks)


def test_codes_may_be_bits():
    x, codes, scales = operands(4, 128, 128)
    assert same_bits(oj.matmul(x, codes.view(np.uint8), scales), oj.matmul(x, codes, scales))


def test_leading_dimensions_and_no_rows():
    x, codes, scales = operands(12, 256, 384)
    expected = from_numpy(x, codes, scales)
    found = jax.jit(oj.matmul)(x.reshape(2, 3, 2, 384), codes, scales)
    assert same_bits(found.reshape(12, 256), expected)
    assert same_bits(oj.matmul(x[0], codes, scales), expected[0])
    empty = jax.jit(oj.matmul)(jnp.zeros((0, 384), jnp.bfloat16), codes, scales)
    assert empty.shape == (0, 256) and empty.dtype == jnp.bfloat16


def test_vmap_over_activations_and_over_weights():
    x, codes, scales = operands(12, 256, 384)
    expected = from_numpy(x, codes, scales).reshape(4, 3, 256)
    over_x = jax.jit(jax.vmap(oj.matmul, (0, None, None)))
    assert same_bits(over_x(x.reshape(4, 3, 384), codes, scales), expected)
    assert "while" not in over_x.lower(x.reshape(4, 3, 384), codes, scales).as_text(), "no loop"
    others = [operands(0, 256, 384, seed=seed)[1:] for seed in range(4)]
    stacked = [np.stack(arrays) for arrays in zip(*others)]
    found = jax.jit(jax.vmap(oj.matmul))(x.reshape(4, 3, 384), *stacked)
    for i, (codes, scales) in enumerate(others):
        assert same_bits(found[i], from_numpy(x.reshape(4, 3, 384)[i], codes, scales))
    blocks = jax.vmap(lambda x: oj.matmul(x, codes, scales, x_scaling="block"))(x.reshape(4, 3, 384))
    assert same_bits(blocks[1], from_numpy(x[3:6], codes, scales, x_scaling="block"))


def test_packed_weights_are_pytrees():
    x, codes, scales = operands(5, 300, 260)
    packed = oj.pack(codes, scales)
    assert len(jax.tree.leaves(packed)) == 1 and packed.data.dtype == jnp.uint8
    restored = pickle.loads(pickle.dumps(jax.tree.map(np.asarray, packed)))
    assert same_bits(oj.matmul(x, restored), from_numpy(x, codes, scales))
    back = oj.unpack(packed)
    assert same_bits(back[0], codes) and same_bits(back[1], scales)
    inside = jax.jit(lambda x, codes, scales: oj.matmul(x, oj.pack(codes, scales)))(x, codes, scales)
    assert same_bits(inside, from_numpy(x, codes, scales))


X, CODES, SCALES = operands(3, 256, 384)
WEIGHT = octile.Weight.from_codes(CODES, SCALES)
WRONG = {
    "x is float64, not float32, bfloat16, float16 or float8_e4m3fn": lambda: oj.matmul(
        X.astype(np.float64), CODES, SCALES
    ),
    "x is list, not an array": lambda: oj.matmul(X.tolist(), CODES, SCALES),
    "x is a scalar, not [..., K]": lambda: oj.matmul(X[0, 0], CODES, SCALES),
    "x has shape (3, 383), but the weight has K = 384": lambda: oj.matmul(X[:, 1:], CODES, SCALES),
    "the weight is float32, not float8_e4m3fn": lambda: oj.matmul(X, CODES.astype(np.float32), SCALES),
    "the weight has shape (2, 128, 384), which is not [N, K]": lambda: oj.matmul(
        X, CODES.reshape(2, 128, 384), SCALES
    ),
    "the weight has shape (0, 384): N and K must be at least 1": lambda: oj.matmul(X, CODES[:0], SCALES[:0]),
    "scales are missing": lambda: oj.matmul(X, CODES),
    "the weight is an octile.Weight: pass weight.codes and weight.scales": lambda: oj.matmul(X, WEIGHT),
    "the weight is an octile.Weight": lambda: oj.pack(WEIGHT, SCALES),
    "the weight is int, not an array": lambda: oj.matmul(X, 3, SCALES),
    "x is NoneType, not an array": lambda: oj.matmul(None, CODES, SCALES),
    "chip 'tpu99' is not tpu7x, v6e, v5p, v5e or v4": lambda: oj.matmul(X, CODES, SCALES, chip="tpu99"),
    "the packed weight is ndarray, not what octile.jax.pack returns": lambda: oj.unpack(CODES),
    "block -1 is not 128, 256 or 512": lambda: oj.matmul(X, CODES, SCALES, block=-1),
    "scales is bfloat16, not float32": lambda: oj.matmul(X, CODES, SCALES.astype(ml_dtypes.bfloat16)),
    "scales have shape (2, 2), but a weight (256, 384) has (2, 3) for blocks of 128 or (1, 2) for": lambda: (
        oj.matmul(X, CODES, SCALES[:, 1:])
    ),
    "scales have shape (2, 3), but a weight (256, 384) has (1, 2) for blocks of 256": lambda: oj.matmul(
        X, CODES, SCALES, block=256
    ),
    "block 64 is not 128, 256 or 512": lambda: oj.matmul(X, CODES, SCALES, block=64),
    "x_scaling 'row' is not 'token', 'block' or 'none'": lambda: oj.matmul(X, CODES, SCALES, x_scaling="row"),
    "is not float32, bfloat16 or float16": lambda: oj.matmul(X, CODES, SCALES, out_dtype=np.int32),
    "out_dtype 'flaot32' is not": lambda: oj.matmul(X, CODES, SCALES, out_dtype="flaot32"),
    "x is fp8: pass its scales as x_scales": lambda: oj.matmul(X.astype(CODES.dtype), CODES, SCALES),
    "x_scales are for fp8 activations, but x is float32": lambda: oj.matmul(
        X, CODES, SCALES, x_scales=SCALES
    ),
    "x_scales have shape (2, 3), but x (3, 384) has (3, 3)": lambda: oj.matmul(
        X.astype(CODES.dtype), CODES, SCALES, x_scales=SCALES
    ),
    "a packed weight contains its scales": lambda: oj.matmul(X, oj.pack(CODES, SCALES), SCALES),
    "fp8 activations have no gradient": lambda: jax.vjp(
        lambda s: oj.matmul(X.astype(CODES.dtype), CODES, SCALES, x_scales=s), np.ones((3, 3), np.float32)
    )[1](np.ones((3, 256), np.float32)),
    "x is ShapeDtypeStruct, not an array": lambda: oj.matmul(
        jax.ShapeDtypeStruct(X.shape, X.dtype), CODES, SCALES
    ),
    "the packed weight has shape (256,), which is not (N, K)": lambda: oj.matmul(
        X, oj.PackedWeight(CODES, (256,), 128)
    ),
    "the packed weight has shape (256, 3.0), which is not (N, K)": lambda: oj.unpack(
        oj.PackedWeight(CODES, (256, 3.0), 128)
    ),
    f"the packed weight has shape ({1 << 80}, 384), which": lambda: oj.matmul(
        X, oj.PackedWeight(CODES, (1 << 80, 384), 128)
    ),
    "the packed weight (256, 384) holds uint8": lambda: oj.matmul(
        X, oj.PackedWeight(oj.pack(CODES, SCALES).data[1:], (256, 384), 128)
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_wrong_arguments_are_refused_before_anything_runs(sentence):
    with pytest.raises((TypeError, ValueError)) as raised:
        WRONG[sentence]()
    assert sentence in str(raised.value)
    assert str(raised.value).count("\n") == 0


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_rows_that_are_not_finite_give_nan(dtype):
    x, codes, scales = as_jax(*operands(5, 130, 257, dtype=jnp.dtype(dtype)))
    expected = oj.matmul(x, codes, scales).at[jnp.array([1, 3])].set(jnp.nan)
    x = x.at[1, 7].set(jnp.nan).at[3, 256].set(-jnp.inf)
    for weight in ((codes, scales), (oj.pack(codes, scales),)):
        assert same_bits(jax.jit(oj.matmul)(x, *weight), expected)


def test_rows_of_codes_that_are_nan_give_nan():
    x, codes, scales = operands(5, 130, 257, dtype=CODES.dtype)
    x_scales = np.ones((5, 3), np.float32)
    expected = from_numpy(x, codes, scales, x_scales=x_scales)
    expected[[1, 3]] = np.nan
    x.view(np.uint8)[1, 7], x.view(np.uint8)[3, 256] = 0x7F, 0xFF
    assert same_bits(oj.matmul(x, codes, scales, x_scales=x_scales), expected)


def test_values_that_the_kernel_refuses():
    bad = SCALES.copy()
    bad[1, 2] = np.nan
    with pytest.raises(ValueError, match="scale"):
        oj.pack(CODES, bad)
    with pytest.raises(jax.errors.JaxRuntimeError, match="octile: .*scale"):
        jax.block_until_ready(jax.jit(oj.matmul)(X, CODES, bad))
    packed = oj.pack(CODES, SCALES)
    spoiled = oj.PackedWeight(jnp.zeros_like(packed.data), packed.shape, packed.block)
    with pytest.raises(jax.errors.JaxRuntimeError, match="octile: "):
        jax.block_until_ready(jax.jit(oj.matmul)(X, spoiled))
    for place, sentence in ((0, "panel 3 of the packed weight has no header"), (-1, "panel 3 .* holds NaN")):
        data = np.array(packed.data)
        data[3, place] = 0x7F
        with pytest.raises(ValueError, match=sentence):
            oj.unpack(oj.PackedWeight(jnp.asarray(data), packed.shape, packed.block))


def test_other_platforms_refuse_packed_weights():
    packed = oj.pack(CODES, SCALES)
    for platform in ("cuda", "tpu"):
        with pytest.raises(ValueError, match="packed weights are for CPUs"):
            jax.jit(oj.matmul).trace(X, packed).lower(lowering_platforms=(platform,))


def test_cuda_programs_have_a_workspace():
    text = jax.jit(oj.matmul).trace(X, CODES, SCALES).lower(lowering_platforms=("cuda",)).as_text()
    assert "@octile_matmul" in text and "ui8>" in text
    with pytest.raises(ValueError, match="K = 380 is not a multiple of 16"):
        jax.jit(oj.matmul).trace(X[:, :380], CODES[:, :380], SCALES).lower(lowering_platforms=("cuda",))
    with pytest.raises(ValueError, match="x_scaling is 'token' or 'block'"):
        call = jax.jit(lambda *a: oj.matmul(*a, x_scaling="none"))
        call.trace(X, CODES, SCALES).lower(lowering_platforms=("cuda",))


def test_memory_is_constant_over_100_000_calls():
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    multiply = jax.jit(oj.matmul)
    x, codes, scales = as_jax(*operands(1, 128, 128))
    packed = oj.pack(codes, scales)

    def calls(count):
        for _ in range(count // 2):
            multiply(x, codes, scales).block_until_ready()
            multiply(x, packed).block_until_ready()
        gc.collect()

    calls(2000)
    before = resident()
    calls(100_000)
    assert resident() - before < 8 << 20
