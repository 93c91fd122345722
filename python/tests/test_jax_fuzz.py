"""Random arguments for JAX: results or one sentence, and never a crash."""

import functools

import ml_dtypes
import pytest

from fuzzing import check_sentence, generators

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp
import numpy as np

import octile.jax as oj

WIDE = [np.float32, np.float16, ml_dtypes.bfloat16]
FP8 = ml_dtypes.float8_e4m3fn
OTHERS = [np.float64, np.int32, np.uint8, np.dtype(">f4"), np.bool_, np.complex64, ml_dtypes.float8_e5m2]
OTHERS += [np.dtype("O"), np.dtype("M8[s]"), np.dtype([("a", "f4")]), ml_dtypes.int4]
ALL = [*WIDE, FP8, *OTHERS]
# Each shape is compiled once.
SIDES = [1, 3, 128, 130]


def array(generator, *shape, dtypes):
    """An array of numpy or JAX, or something else."""
    dtype = np.dtype(generator.choice(dtypes))
    values = np.random.default_rng(generator.randrange(100)).standard_normal(shape)
    with np.errstate(all="ignore"):
        values *= generator.choice([1] * 12 + [0, 1e30, np.inf, np.nan])
        made = values.astype(np.int64).astype(dtype) if dtype.kind == "M" else values.astype(dtype)
    kind = generator.randrange(60)
    if kind == 0:
        made = np.asfortranarray(made)
    elif kind == 1:
        made.setflags(write=False)
    elif kind == 2:
        made = made[None]
    elif kind == 3 and made.size:
        made = made.reshape(-1)[0:1].reshape(())
    elif kind == 4:
        made = np.ma.masked_array(made, np.zeros(made.shape, bool))
    elif kind == 5 and made.size and made.ndim == 2:
        made = np.broadcast_to(made[:1], (1 << 45, made.shape[1]))
    elif kind == 6:
        made = generator.choice([None, made.tolist(), 1.5, "x", object(), jax.ShapeDtypeStruct((3, 3), FP8)])
    elif kind < 35 and dtype in (*WIDE, FP8, np.int32, np.uint8, np.bool_, np.complex64):
        made = jnp.asarray(made)
    return made


def call(generator):
    """One product; returns its result and the shape that it should have."""
    m, n, k = (generator.choice(SIDES if generator.random() < 0.95 else [0]) for _ in range(3))
    block = generator.choice([128, 128, 128, 256, 100])
    x = array(generator, m, k, dtypes=generator.choice([WIDE, WIDE, ALL]))
    codes = array(generator, n, k, dtypes=generator.choice([[FP8], [FP8], [FP8], ALL]))
    scales = array(generator, -(-n // block), -(-k // block), dtypes=[np.float32])
    if isinstance(scales, (np.ndarray, jax.Array)) and scales.size < 1 << 20:
        scales = abs(scales)
    weight, options = (codes, scales), {}
    kind = generator.randrange(10)
    if kind < 2:
        packed = oj.pack(codes, scales)
        if kind == 1:
            data = np.array(packed.data)
            data[generator.randrange(data.shape[0]), generator.randrange(data.shape[1])] ^= 0x7F
            packed = oj.PackedWeight(data, packed.shape, generator.choice([128, 512, 7]))
        weight = (packed,)
    elif kind == 2:
        options["block"] = generator.choice([None, 128, 512, -1, 1 << 70, "128"])
    if generator.random() < 0.2:
        options["x_scales"] = array(generator, m, -(-k // block), dtypes=[np.float32])
    if generator.random() < 0.3:
        options["x_scaling"] = generator.choice(["token", "block", "none"] * 3 + ["", None, 1])
    if generator.random() < 0.3:
        options["out_dtype"] = generator.choice([*ALL, "bfloat16", "x", None, 3])
    if generator.random() < 0.1:
        options["chip"] = generator.choice(["v6e", "tpu99", 3])
    multiply = oj.matmul
    arrays = (x, *jax.tree.leaves(weight))
    if generator.random() < 0.3 and all(isinstance(array, jax.Array) for array in arrays):
        # What is no array, jit refuses in its own words.
        options.pop("x_scales", None)
        multiply = jax.jit(functools.partial(oj.matmul, **options))
        options = {}
    y = jax.block_until_ready(multiply(x, *weight, **options))
    return y, (*x.shape[:-1], n)


def test_matmul():
    passed = 0
    for generator in generators(400):
        try:
            y, shape = call(generator)
        except (ValueError, TypeError) as error:
            check_sentence(error, generator)
        except jax.errors.JaxRuntimeError as error:
            # What the kernel refuses when it runs.
            expected = ("octile: ", "Out of memory")
            assert any(words in str(error) for words in expected), f"seed {generator.number}: {error}"
        else:
            passed += 1
            assert y.shape == shape, f"seed {generator.number}"
    assert passed > 50
