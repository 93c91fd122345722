"""Which dimensions are split among devices, and what each device then computes.

Rows of x (M) and rows of the weight (N) are split without communication; K is split with one all-reduce, or
one reduce-scatter if the result is split along the same axes. A dimension of the weight is split between
scale blocks only: a shard that began inside of one would be multiplied with the scale of another block.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from octile.jax._lowering import matmul_p
from octile.jax._packed import PANEL_ROWS
from octile.jax._problem import Problem

#: Mesh axes that split one dimension.
Axes = tuple[str, ...]


def local(problem: Problem, x: jax.Array, *rest: jax.Array) -> jax.Array:
    """Multiplies on one device: x [..., K] -> [..., N]."""
    rows = math.prod(x.shape[:-1])
    if problem.has_x_scales:
        *weight, x_scales = rest
        rest = (*weight, x_scales.reshape(-1, x_scales.shape[-1]))
    out = matmul_p.bind(x.reshape(rows, problem.k), *rest, problem=problem)
    return out.reshape(*x.shape[:-1], problem.n)


@dataclasses.dataclass(frozen=True)
class Split:
    """Mesh axes that split each dimension of one multiplication."""

    problem: Problem
    sizes: Mapping[str, int]
    rows: tuple[Axes, ...]
    n: Axes
    k: Axes
    #: The dimension of the result that is split along the axes of K too, by a reduce-scatter.
    scattered: int | None

    @classmethod
    def choose(
        cls, problem: Problem, sizes: Mapping[str, int], x_shape: Sequence[int], x: Any, w: Any, out: Any
    ) -> Split:
        """Splits as operands and result are split, where scale blocks permit. The weight decides."""
        unit = PANEL_ROWS if problem.packed else problem.block
        n = _whole(w[0], sizes, problem.n, unit)
        k = () if problem.packed else _whole(w[1], sizes, problem.k, problem.block)
        free = [tuple(axis for axis in axes if axis not in n + k) for axes in x[:-1]]
        if problem.x_scaling == "block":
            # Rows share scales too: only the first dimension is split, and between blocks.
            free = [axes if i == 0 else () for i, axes in enumerate(free)]
            unit = problem.block // math.gcd(problem.block, math.prod(x_shape[1:-1]))
        else:
            unit = 1
        rows = tuple(_whole(axes, sizes, extent, unit) for axes, extent in zip(free, x_shape))
        scattered = None
        for dimension, axes in enumerate(rows if k else ()):
            count = _count(axes + k, sizes)
            if out is not None and out[dimension] == axes + k and x_shape[dimension] % count == 0:
                scattered = dimension
        return cls(problem, sizes, rows, n, k, scattered)

    def operands(self) -> tuple[PartitionSpec, ...]:
        """How the operands are split."""
        specs = [_spec(*self.rows, self.k)]
        specs += [_spec(self.n, ())] if self.problem.packed else [_spec(self.n, self.k)] * 2
        if self.problem.has_x_scales:
            rows = (self.rows or ((),))[:1] if self.problem.x_scaling == "block" else self.rows
            specs.append(_spec(*rows, self.k))
        return tuple(specs)

    def result(self) -> PartitionSpec:
        """How the result is split."""
        rows = [axes + self.k if i == self.scattered else axes for i, axes in enumerate(self.rows)]
        return _spec(*rows, self.n)

    def multiply(self, multiply: Any, *operands: jax.Array) -> jax.Array:
        """What one device computes, given a way to multiply its shards."""
        problem = self.problem
        n, k = problem.n // _count(self.n, self.sizes), problem.k // _count(self.k, self.sizes)
        shard = dataclasses.replace(problem, n=n, k=k)
        if not self.k:
            return multiply(shard, *operands)
        # Partial sums are added in float32 and rounded once.
        partial = multiply(dataclasses.replace(shard, out_dtype=jnp.dtype(jnp.float32)), *operands)
        if self.scattered is None:
            total = jax.lax.psum(partial, self.k)
        else:
            total = jax.lax.psum_scatter(partial, self.k, scatter_dimension=self.scattered, tiled=True)
        return total.astype(problem.out_dtype)


def axes_of(spec: Any, rank: int) -> list[Axes]:
    """The mesh axes that split each dimension."""
    spec = tuple(spec) + (None,) * (rank - len(spec))
    return [() if axes is None else (axes,) if isinstance(axes, str) else tuple(axes) for axes in spec]


def _spec(*dimensions: Axes) -> PartitionSpec:
    return PartitionSpec(*[axes or None for axes in dimensions])


def _whole(axes: Axes, sizes: Mapping[str, int], length: int, unit: int) -> Axes:
    """The axes, if each of their shards consists of whole units; or none."""
    return axes if length % (_count(axes, sizes) * unit) == 0 else ()


def _count(axes: Axes, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[axis] for axis in axes)
