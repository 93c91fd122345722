"""The multiplication split by ``shard_map``: on every platform, and in exported programs."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.sharding import AxisType, PartitionSpec

from octile.jax._problem import Problem
from octile.jax._split import Split, axes_of


def explicit_mesh(operands: tuple[jax.Array, ...]) -> Any:
    """The mesh whose explicit axes split the operands, if there is one."""
    for operand in operands:
        mesh = getattr(jax.typeof(operand).sharding, "mesh", None)
        if mesh is not None and not mesh.empty and AxisType.Explicit in mesh.axis_types:
            return mesh
    return None


def varying_alike(operands: tuple[jax.Array, ...]) -> list[jax.Array]:
    """The operands with the types that `jax.shard_map` requires of one operation: if one of them varies along
    a mesh axis, all do. The gradient of one that did not is then summed along that axis."""
    varying = [_varying(jax.typeof(operand)) for operand in operands]
    axes = frozenset().union(*varying)
    return [_vary(operand, axes - own) if axes - own else operand for operand, own in zip(operands, varying)]


def _varying(kind: Any) -> frozenset[str]:
    """The mesh axes along which an array of this type varies: before JAX 0.10 they had another name."""
    manual = getattr(kind, "mat", None)
    return getattr(kind, "vma", frozenset()) if manual is None else manual.varying


def _vary(operand: jax.Array, axes: frozenset[str]) -> jax.Array:
    names = tuple(sorted(axes))
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(operand, names, to="varying")
    return jax.lax.pvary(operand, names)


def split_by_types(problem: Problem, multiply: Any, *operands: jax.Array) -> jax.Array:
    """Splits as the types of the operands say."""
    mesh = explicit_mesh(operands)
    x, w = (axes_of(jax.typeof(operand).sharding.spec, operand.ndim) for operand in operands[:2])
    split = Split.choose(problem, mesh.shape, operands[0].shape, x, w, None)
    return _shard_map(split, mesh, multiply)(*operands)


def split_by_specs(
    problem: Problem,
    multiply: Any,
    mesh: Any,
    specs: tuple[PartitionSpec, PartitionSpec, PartitionSpec | None],
    *operands: jax.Array,
) -> jax.Array:
    """Splits as the caller says, or refuses."""
    ranks = (operands[0].ndim, 2, operands[0].ndim)
    x, w, out = (None if s is None else axes_of(s, rank) for s, rank in zip(specs, ranks))
    for axis in {axis for axes in x[:-1] for axis in axes} & set(w[0] + w[1]):
        raise ValueError(f"x_spec {specs[0]} splits rows along {axis!r}, which w_spec {specs[1]} uses too")
    split = Split.choose(problem, mesh.shape, operands[0].shape, x, w, out)
    weight = "32 rows of a packed weight" if problem.packed else f"a scale block of {problem.block}"
    if split.n != w[0] or (split.k != w[1] and not problem.packed):
        shape = (problem.n, problem.k)
        raise ValueError(f"w_spec {specs[1]} splits the weight {shape} inside of {weight}: use fewer devices")
    if problem.packed and w[1]:
        raise ValueError("a packed weight is split along N only: pack each shard of K on its own")
    if x[-1] != split.k:
        raise ValueError(f"x_spec {specs[0]} splits K other than w_spec {specs[1]}")
    if list(split.rows) != x[:-1]:
        raise ValueError(f"x_spec {specs[0]} does not divide the rows of x {operands[0].shape} evenly")
    if out is not None and axes_of(split.result(), len(out)) != out:
        raise ValueError(f"out_spec {specs[2]} is not what the operands give, {split.result()}")
    return _shard_map(split, mesh, multiply)(*operands)


def check_specs(mesh: Any, x: Any, **specs: PartitionSpec | None) -> None:
    """Checks that specs are of this mesh, and as long as what they split."""
    if not isinstance(mesh, (jax.sharding.Mesh, jax.sharding.AbstractMesh)):
        raise TypeError(f"mesh is {type(mesh).__name__}: pass a jax.sharding.Mesh")
    for name, spec in specs.items():
        if spec is None and name == "out_spec":
            continue
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"{name} is {type(spec).__name__}: pass a jax.sharding.PartitionSpec")
        rank = 2 if name == "w_spec" else x.ndim
        if len(spec) > rank:
            raise ValueError(f"{name} {spec} has {len(spec)} entries for {rank} dimensions")
        used = [axis for axes in axes_of(spec, rank) for axis in axes]
        for axis in used:
            if axis not in mesh.shape:
                raise ValueError(f"the mesh has no axis {axis!r}, only {tuple(mesh.shape)}")
            if used.count(axis) > 1:
                raise ValueError(f"{name} {spec} uses the axis {axis!r} twice")


def _shard_map(split: Split, mesh: Any, multiply: Any) -> Any:
    # Kernels do not say along which axes their results vary.
    local = jax.shard_map(
        functools.partial(split.multiply, multiply),
        mesh=mesh,
        in_specs=split.operands(),
        out_specs=split.result(),
        check_vma=False,
    )
    if AxisType.Explicit not in mesh.axis_types:
        return local
    # Explicit axes are part of the types of operands, which must be as the split has them.
    placed = [jax.sharding.NamedSharding(mesh, spec) for spec in split.operands()]
    return lambda *operands: local(*map(jax.sharding.reshard, operands, placed))
