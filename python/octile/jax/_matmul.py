"""The multiplication, with its derivative and its batching rule."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.sharding import PartitionSpec

from octile import Weight
from octile.jax._derivative import differentiable
from octile.jax._packed import PackedWeight, as_codes, check_packed
from octile.jax._partition import partitioned
from octile.jax._problem import Problem, check_chip, check_k, check_weight, check_x, check_x_scales
from octile.jax._sharded import check_specs, explicit_mesh, split_by_specs, split_by_types, varying_alike


def matmul(
    x: jax.Array,
    weight: jax.Array | PackedWeight,
    scales: jax.Array | None = None,
    *,
    x_scales: jax.Array | None = None,
    x_scaling: str = "token",
    block: int | None = None,
    out_dtype: Any = None,
    chip: str | None = None,
) -> jax.Array:
    """Multiplies x [..., K] by the transpose of a weight [N, K]; the result is [..., N].

    The weight is codes (float8_e4m3fn) with float32 scales [ceil(N/block), ceil(K/block)], or what ``pack``
    made of them for CPUs. x is float32, bfloat16 or float16, and is quantized to fp8 with one scale per row
    and block of K (x_scaling="token"), per square block ("block"), or not at all ("none"; CPUs and TPUs). Or
    x is float8_e4m3fn, and x_scales its scales. The result has the dtype out_dtype, by default that of x, or
    float32 for fp8. Derivatives for x are those of the multiplication without quantization, forward and
    backward; weights have none.

    chip names the TPU to generate a kernel for (tpu7x, v6e, v5p, v5e, v4) where no device tells, as in
    ``jax.export`` on a machine without TPUs.
    """
    problem, operands = _checked(x, weight, scales, x_scales, x_scaling, block, out_dtype, chip)
    if 0 in x.shape:
        return jnp.zeros((*x.shape[:-1], problem.n), problem.out_dtype)
    return _run(*operands, problem=problem)


def sharded_matmul(
    x: jax.Array,
    weight: jax.Array | PackedWeight,
    scales: jax.Array | None = None,
    *,
    mesh: Any,
    x_spec: PartitionSpec,
    w_spec: PartitionSpec,
    out_spec: PartitionSpec | None = None,
    x_scales: jax.Array | None = None,
    x_scaling: str = "token",
    block: int | None = None,
    out_dtype: Any = None,
    chip: str | None = None,
) -> jax.Array:
    """Multiplies as ``matmul`` does, split among the devices of a mesh.

    x_spec and w_spec name the mesh axes that split x [..., K] and the weight [N, K]. Splitting M and N needs
    no communication. Splitting K needs one all-reduce, or one reduce-scatter if out_spec splits a row
    dimension along the axes of K too. Shards of the weight must consist of whole scale blocks.
    """
    problem, operands = _checked(x, weight, scales, x_scales, x_scaling, block, out_dtype, chip)
    check_specs(mesh, x, x_spec=x_spec, w_spec=w_spec, out_spec=out_spec)
    if 0 in x.shape:
        raise ValueError(f"x has shape {x.shape}: no rows can be split")
    return _run_split(*operands, problem=problem, mesh=mesh, specs=(x_spec, w_spec, out_spec))


def _checked(x, weight, scales, x_scales, x_scaling, block, out_dtype, chip) -> tuple[Problem, tuple]:
    out_dtype = check_x(x, x_scales, x_scaling, out_dtype)
    check_chip(chip)
    is_packed = isinstance(weight, PackedWeight)
    if is_packed:
        if scales is not None or block is not None:
            raise ValueError("a packed weight contains its scales and its block size: pass neither")
        check_packed(weight)
        (n, k), block = weight.shape, weight.block
        operands = (x, weight.data)
    else:
        if scales is None and not isinstance(weight, Weight):
            raise ValueError("scales are missing: pass codes and scales, or a packed weight")
        n, k, block = check_weight(weight, scales, block)
        operands = (x, as_codes(weight), scales)
    check_k(x, k)
    problem = Problem(n, k, block, jnp.dtype(x.dtype), x_scaling, out_dtype, is_packed, chip)
    if x_scales is not None:
        check_x_scales(problem, x, x_scales)
        operands = (*operands, x_scales)
    return problem, operands


@functools.partial(jax.jit, static_argnames="problem", inline=True)
def _run(*operands: jax.Array, problem: Problem) -> jax.Array:
    if explicit_mesh(operands) is not None:
        return split_by_types(problem, _multiply, *operands)
    return _multiply(problem, *operands)


@functools.partial(jax.jit, static_argnames=("problem", "mesh", "specs"), inline=True)
def _run_split(*operands: jax.Array, problem: Problem, mesh: Any, specs: Any) -> jax.Array:
    return split_by_specs(problem, _multiply, mesh, specs, *operands)


def _multiply(problem: Problem, *operands: jax.Array) -> jax.Array:
    return _differentiable(problem)(*varying_alike(operands))


@functools.cache
def _differentiable(problem: Problem) -> Any:
    return differentiable(problem, _batched(problem))


@functools.cache
def _batched(problem: Problem) -> Any:
    @custom_vmap
    def multiply(x, *rest):
        return partitioned(problem, x.ndim)(x, *rest)

    @multiply.def_vmap
    def _(axis_size, in_batched, x, *rest):
        x_batched, *rest_batched = in_batched
        weights = 1 if problem.packed else 2
        if x_batched and problem.x_scaling != "block" and not any(rest_batched[:weights]):
            if problem.has_x_scales and not rest_batched[-1]:
                rest = (*rest[:-1], jnp.broadcast_to(rest[-1], (axis_size, *rest[-1].shape)))
            # The batch is more rows.
            return multiply(x, *rest), True
        batched = [array for array, is_batched in zip((x, *rest), in_batched) if is_batched]

        def one(slices):
            slices = iter(slices)
            return multiply(*(next(slices) if b else a for a, b in zip((x, *rest), in_batched)))

        return jax.lax.map(one, batched), True

    return multiply
