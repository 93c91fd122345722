"""Lowers small JAX programs for TPU and records what they compute on CPU.

Writes NAME.mlir, NAME.generic.mlir for a few, and NAME.safetensors.gz beside this file: operands a00, a01
and so on, and results out00, out01 and so on. Run with jax, numpy and safetensors installed.
"""

import gzip
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from safetensors.numpy import save

HERE = pathlib.Path(__file__).parent
F32, I32, U32 = jnp.float32, jnp.int32, jnp.uint32


def dot(x, y, contract, batch=((), ()), **more):
    return lax.dot_general(x, y, (contract, batch), precision=lax.Precision.HIGHEST, **more)


def spec(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


FLOATS = spec((8, 6), F32)
LINE = spec((8,), F32)
INTEGERS = spec((8,), I32)
FEW = spec((4,), I32)
ONE = spec((), I32)
KEY = spec((2,), U32)

PROGRAMS = {
    "cumsum": (lambda x, y: (jnp.cumsum(x), jnp.cumsum(y, axis=1), lax.cummax(y)), [INTEGERS, FLOATS]),
    "cumulative": (lambda x: (lax.cumlogsumexp(x), lax.associative_scan(jnp.add, x)), [LINE]),
    "sort": (lambda x, y: (jnp.sort(x), jnp.argsort(x), jnp.argsort(y, axis=0)), [LINE, FLOATS]),
    "reductions": (
        lambda x: (jnp.argmax(x, axis=1), jnp.max(x, axis=0), jnp.any(x > 0), jnp.all(x > 0), jnp.prod(x)),
        [FLOATS],
    ),
    "reduce_two": (
        lambda x, y: lax.reduce(
            (x, y), (0.0, np.int32(0)), lambda a, b: (a[0] + b[0] * 2, a[1] + b[1]), (1,)
        ),
        [FLOATS, spec((8, 6), I32)],
    ),
    "windows": (
        lambda x: (
            lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
            lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
        ),
        [FLOATS],
    ),
    "gather": (
        lambda x, i: (
            x[i],
            x[:, i],
            jnp.take(x, i, axis=1),
            jnp.take_along_axis(x, jnp.broadcast_to(i[:, None], (4, 6)), axis=0, mode="clip"),
        ),
        [FLOATS, FEW],
    ),
    "scatter": (
        lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[i, 0].max(1.0), x.at[i + 6].set(u)),
        [FLOATS, FEW, spec((4, 6), F32)],
    ),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, num_segments=4), [LINE, INTEGERS]),
    "tables": (
        lambda i: (
            jax.nn.one_hot(i, 4),
            jnp.bincount(i, length=4),
            jnp.searchsorted(jnp.arange(4), i),
            jnp.repeat(i, 2, total_repeat_length=16),
        ),
        [INTEGERS],
    ),
    "repeat": (lambda x, n: jnp.repeat(x, n, total_repeat_length=16), [FEW, FEW]),
    "loops": (
        lambda n, x: (
            lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1)),
            lax.fori_loop(0, 4, lambda i, c: c.at[i].add(i), x),
            lax.scan(lambda c, y: (c + y, c * y), 0, x),
        ),
        [ONE, INTEGERS],
    ),
    "branches": (
        lambda p, x: (
            lax.cond(p > 0, lambda v: v + 1, lambda v: v * 2, x),
            lax.switch(p, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], x),
        ),
        [ONE, LINE],
    ),
    "dynamic_slices": (
        lambda x, i: (
            lax.dynamic_slice(x, (i, 0), (2, 6)),
            lax.dynamic_slice(x, (i + 100, 1), (2, 3)),
            lax.dynamic_update_slice(x, jnp.ones((2, 6)), (i, 1)),
        ),
        [FLOATS, ONE],
    ),
    "movement": (
        lambda x: (
            jnp.pad(x, ((1, 2), (0, 3))),
            lax.pad(x, 0.0, ((1, -1, 2), (0, 0, 1))),
            jnp.concatenate([x, x], 1),
            x[::2, 1:4],
            x[::-1],
            jnp.roll(x, 1, 0),
            jnp.transpose(x.reshape(2, 4, 6), (2, 0, 1)),
        ),
        [FLOATS],
    ),
    "math": (
        lambda x: (
            *(f(x) for f in (jnp.exp, jnp.log, jnp.tanh, jnp.sin, jnp.cos, lax.rsqrt, jnp.sqrt)),
            *(f(x) for f in (jax.nn.sigmoid, jnp.expm1, jnp.log1p, jnp.floor, jnp.ceil, jnp.round, jnp.sign)),
            *(f(x) for f in (jnp.cbrt, jnp.tan, lax.erf, jax.nn.gelu, jax.nn.softmax)),
            *(f(x) for f in (jnp.isfinite, jnp.isnan)),
            x**2, x**0.5, jnp.arctan2(x, x + 1), jnp.clip(x, 0, 1), jnp.remainder(x, 3.0),
        ),
        [FLOATS],
    ),
    "integers": (
        lambda x, y: (
            x // y, x % y, x & y, x | y, x ^ y, ~x, x << 1, x >> 1, lax.shift_right_logical(x, 1),
            jnp.abs(x), -x, jnp.minimum(x, y), jnp.maximum(x, y), lax.population_count(x), lax.clz(x),
            jnp.power(x, 2), jnp.sign(x), jnp.where(x > y, x, y),
        ),
        [INTEGERS, INTEGERS],
    ),
    "unsigned": (
        lambda x, y: (x // y, x % y, x >> 1, x < y, x.astype(F32), x.astype(I32), jnp.maximum(x, y)),
        [spec((8,), U32), spec((8,), U32)],
    ),
    "conversions": (
        lambda x: (
            *(x.astype(t) for t in (jnp.bfloat16, jnp.int8, jnp.uint8, bool, jnp.float16)),
            x.astype(jnp.float8_e4m3fn),
            x.astype(jnp.float8_e5m2),
            lax.bitcast_convert_type(x, I32),
            lax.bitcast_convert_type(x, jnp.uint8),
            lax.reduce_precision(x, 8, 7),
            (x * 4).astype(jnp.int4).astype(I32),
        ),
        [LINE],
    ),
    "dots": (
        lambda x, y, b, c: (
            dot(x, y, ((1,), (0,))),
            dot(x, x, ((1,), (1,))),
            dot(b, c, ((2,), (1,)), ((0,), (0,))),
            dot(x.astype(jnp.int8), y.astype(jnp.int8), ((1,), (0,)), preferred_element_type=I32),
        ),
        [FLOATS, spec((6, 4), F32), spec((2, 8, 6), F32), spec((2, 6, 4), F32)],
    ),
    "random_bits": (lambda k: jax.random.bits(jax.random.wrap_key_data(k), (4,)), [KEY]),
    "iota": (
        lambda: (jnp.arange(8), lax.broadcasted_iota(I32, (4, 6), 1), jnp.eye(4), jnp.linspace(0, 1, 5)),
        [],
    ),
    "top_k": (lambda x: lax.top_k(x, 2), [FLOATS]),
    "constants": (
        lambda x: (x + np.arange(200, dtype=np.float32), np.arange(200) % 3 == 0),
        [spec((200,), F32)],
    ),
    "barrier": (lambda x, y: lax.optimization_barrier((x, y)), [LINE, FEW]),
    "statistics": (lambda x: (jnp.median(x), jnp.var(x), jnp.linalg.norm(x)), [LINE]),
}

GENERIC = ["cumsum", "sort", "reductions", "loops", "branches", "movement", "scatter", "constants"]


def operand(number, shape):
    random = np.random.default_rng(number)
    dtype = np.dtype(shape.dtype)
    if dtype.kind == "f":
        return random.normal(size=shape.shape).astype(dtype)
    if dtype == np.uint32:
        return random.integers(1, 2**32, size=shape.shape, dtype=np.uint64).astype(dtype)
    return np.asarray(random.integers(1, 4, size=shape.shape), dtype)


def stored(value):
    value = np.asarray(value)
    wide = value.dtype.kind == "V" or str(value.dtype) in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    return np.asarray(value.astype(np.float32) if wide else value, order="C")


def write(name, function, shapes):
    lowered = jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",))
    (HERE / f"{name}.mlir").write_text(lowered.as_text())
    if name in GENERIC:
        module = lowered.compiler_ir("stablehlo").operation
        text = module.get_asm(print_generic_op_form=True, enable_debug_info=True)
        # File names without the folders of this machine.
        text = re.sub(r'"/[^"]*/([^"/]+\.py)"', r'"\1"', text)
        (HERE / f"{name}.generic.mlir").write_text(text + "\n")
    operands = [operand(number, shape) for number, shape in enumerate(shapes)]
    results = jax.tree.leaves(jax.jit(function)(*operands))
    tensors = {f"a{number:02}": value for number, value in enumerate(operands)}
    tensors |= {f"out{number:02}": stored(value) for number, value in enumerate(results)}
    (HERE / f"{name}.safetensors.gz").write_bytes(gzip.compress(save(tensors), mtime=0))


jax.config.update("jax_platforms", "cpu")
for name, (function, shapes) in PROGRAMS.items():
    write(name, function, shapes)
