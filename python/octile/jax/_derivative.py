"""Derivatives for x: those of the multiplication without quantization, in both directions, of any order."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from octile.jax._packed import PackedWeight, unpack
from octile.jax._problem import Problem

#: ``t [..., K], codes, scales`` or ``t, packed`` -> ``[..., N]``; ``[..., N]`` -> ``[..., K]`` if transposed.
#: Linear in t. A primitive, so that the weight itself waits for the backward pass, and not its values in f32.
tangent_p = Primitive("octile_tangent")


def differentiable(problem: Problem, multiply: Any) -> Any:
    """The function ``multiply(x, *weight)`` with derivatives for x. Weights have none."""

    @jax.custom_jvp
    def product(*operands):
        return multiply(*operands)

    @product.defjvp
    def _(operands, tangents):
        if problem.has_x_scales:
            raise TypeError("fp8 activations have no gradient: pass x as float32, bfloat16 or float16")
        _, *weight = operands
        tangent = tangent_p.bind(tangents[0], *weight, problem=problem, transposed=False)
        return product(*operands), tangent

    return product


@tangent_p.def_impl
def _multiply(t: jax.Array, *weight: jax.Array, problem: Problem, transposed: bool) -> jax.Array:
    values = _dequantized(problem, weight).astype(t.dtype)
    product = jnp.matmul(t, values if transposed else values.T, preferred_element_type=jnp.float32)
    return product.astype(_dtype(problem, transposed))


@tangent_p.def_abstract_eval
def _abstract_eval(t: ShapedArray, *_: ShapedArray, problem: Problem, transposed: bool) -> ShapedArray:
    columns = problem.k if transposed else problem.n
    return t.update(shape=(*t.shape[:-1], columns), dtype=_dtype(problem, transposed), weak_type=False)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = tangent_p.bind(*primals, **params)
    if type(tangents[0]) is ad.Zero:
        return out, ad.Zero.from_primal_value(out)
    return out, tangent_p.bind(tangents[0], *primals[1:], **params)


def _transpose(cotangent: Any, t: Any, *weight: Any, problem: Problem, transposed: bool) -> Any:
    if type(cotangent) is ad.Zero:
        return [None] * (1 + len(weight))
    result = tangent_p.bind(cotangent, *weight, problem=problem, transposed=not transposed)
    return [result, *(None for _ in weight)]


def _batch(operands: Any, axes: Any, **params: Any) -> Any:
    t, *weight = operands
    if all(axis is None for axis in axes[1:]):
        return tangent_p.bind(jnp.moveaxis(t, axes[0], 0), *weight, **params), 0
    return jax.vmap(functools.partial(_multiply, **params), axes)(*operands), 0


def _dtype(problem: Problem, transposed: bool) -> Any:
    return problem.x_dtype if transposed else problem.out_dtype


def _dequantized(problem: Problem, weight: Any) -> jax.Array:
    """The values of a weight, in float32."""
    n, k, block = problem.n, problem.k, problem.block
    codes, scales = unpack(PackedWeight(weight[0], (n, k), block)) if problem.packed else weight
    spread = jnp.repeat(jnp.repeat(scales, block, 0)[:n], block, 1)[:, :k]
    return codes.astype(jnp.float32) * spread


ad.primitive_jvps[tangent_p] = _jvp
ad.primitive_transposes[tangent_p] = _transpose
batching.primitive_batchers[tangent_p] = _batch
mlir.register_lowering(tangent_p, mlir.lower_fun(_multiply, multiple_results=False))
