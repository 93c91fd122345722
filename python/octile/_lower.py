"""Lowers JAX functions for TPU, on machines without one."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import linecache
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._command import Error

_DEVICE_KINDS = {
    "tpu7x": "TPU7x", "v6e": "TPU v6 lite", "v5e": "TPU v5 lite", "v5p": "TPU v5", "v4": "TPU v4",
}  # fmt: skip
"""What JAX calls the chips."""


@dataclasses.dataclass(frozen=True)
class Module:
    """A module for `octile simulate` and `octile inspect`.

    `operands` are arrays in the order of the module's arguments, or None if only their shapes are known.
    `results` are the shapes and types of the results, and `tree` their structure; both are None for a module
    that was lowered elsewhere.
    """

    name: str
    content: bytes | pathlib.Path
    operands: list[np.ndarray[Any, Any]] | None
    results: list[Any] | None = None
    tree: Any = None

    def write(self, folder: str) -> pathlib.Path:
        """Writes the module and returns its path.

        Sources that exist in memory only, such as the cells of a notebook, are written beside it, where the
        command looks for the lines that it quotes.
        """
        if isinstance(self.content, pathlib.Path):
            # A name that begins with a dash would be an option of the command.
            return pathlib.Path(os.path.abspath(self.content))
        for file in list(linecache.cache):
            if file.endswith(".py") and not os.path.exists(file):
                source = "".join(linecache.getlines(file))
                pathlib.Path(folder, os.path.basename(file)).write_text(source, encoding="utf-8")
        path = pathlib.Path(folder, f"{self.name}.mlir")
        path.write_bytes(self.content)
        return path

    @property
    def has_kernels(self) -> bool:
        """Whether a TPU kernel is called, or the module is one."""
        content = self.content.read_bytes() if isinstance(self.content, pathlib.Path) else self.content
        return b"tpu_custom_call" in content or b"stablehlo" not in content

    def unflatten(self, arrays: Sequence[Any]) -> Any:
        """The results in the structure of the function; a tuple where that is not known."""
        if self.tree is None:
            return tuple(arrays)
        import jax

        return jax.tree.unflatten(self.tree, arrays)


def lower(f: Any, args: Sequence[Any], chip: str, mesh: Any = None) -> Module:
    """Lowers a function, or takes a module that was lowered before."""
    is_stored = isinstance(f, (bytes, str, os.PathLike))
    if is_stored or hasattr(f, "as_text"):
        if mesh is not None:
            raise Error("`mesh` is for functions that are lowered here: leave it out")
        return _stored(f, args) if is_stored else _lowered(f, args)
    if callable(f):
        if importlib.util.find_spec("jax") is None:
            raise Error("JAX lowers functions, and is not installed: pip install jax, or pass a module")
        return _function(f, args, chip, mesh)
    raise Error(f"cannot lower {type(f).__name__}: pass a JAX function, a lowered one, or a module")


def _stored(f: bytes | str | os.PathLike[str], args: Sequence[Any]) -> Module:
    """A module in memory or in a file. Only text has several lines."""
    operands = [np.asarray(arg) for arg in args] or None
    if isinstance(f, bytes):
        return Module("module", f, operands)
    if isinstance(f, str) and "\n" in f:
        return Module("module", f.encode(), operands)
    return Module(pathlib.Path(f).name, pathlib.Path(f), operands)


def _lowered(lowered: Any, args: Sequence[Any]) -> Module:
    """A function that JAX has lowered, which dropped the arguments that it does not use."""
    import jax

    operands = _values(jax.tree.leaves(tuple(args)))
    if operands is not None:
        if len(operands) != lowered.in_tree.num_leaves:
            wanted = lowered.in_tree.num_leaves
            raise Error(f"the lowered function takes {wanted} arrays, but {len(operands)} were given")
        kept = lowered._lowering.compile_args.get("kept_var_idx", range(len(operands)))
        operands = [operands[index] for index in sorted(kept)]
    results, tree = jax.tree.flatten(lowered.out_info)
    return Module("lowered", lowered.as_text().encode(), operands, results, tree)


def _function(f: Callable[..., Any], args: Sequence[Any], chip: str, mesh: Any) -> Module:
    """Lowers a function: arrays and shapes become operands, other arguments are passed as they are."""
    import jax

    leaves, structure = jax.tree.flatten(tuple(args))
    arrays = (np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, arrays)]

    def main(*operands: Any) -> Any:
        filled = list(leaves)
        for place, operand in zip(places, operands):
            filled[place] = operand
        return f(*jax.tree.unflatten(structure, filled))

    name = getattr(f, "__name__", None) or type(f).__name__
    main.__name__ = name = name if name.isidentifier() else "function"
    operands = [leaves[place] for place in places]
    # Data may live on any device here; what is lowered knows shapes only.
    types = [jax.dtypes.canonicalize_dtype(operand.dtype) for operand in operands]
    shapes = [jax.ShapeDtypeStruct(np.shape(operand), dtype) for operand, dtype in zip(operands, types)]
    with _tpu(chip, mesh):
        # With all arguments kept, the module's arguments are the operands, in order.
        lowered = jax.jit(main, keep_unused=True).trace(*shapes).lower(lowering_platforms=("tpu",))
    text = lowered.as_text()
    if _axes(mesh) and "sdy.mesh" not in text and "mhlo.sharding" not in text:
        raise Error(f"{name} has no `shard_map` that takes its mesh from the context: leave out `mesh`")
    results, tree = jax.tree.flatten(lowered.out_info)
    return Module(name, text.encode(), _values(operands), results, tree)


def _values(leaves: Sequence[Any]) -> list[np.ndarray[Any, Any]] | None:
    """The operands as numpy arrays; None if they are shapes."""
    import jax

    shapes = [isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves]
    if all(shapes):
        return None
    if any(shapes):
        raise Error("some arguments are arrays and others shapes: pass arrays, or shapes for random operands")
    try:
        arrays = [np.asarray(leaf) for leaf in leaves]
    except TypeError as error:
        raise Error(f"an argument cannot be converted to a numpy array: {error}") from error
    return [array.astype(jax.dtypes.canonicalize_dtype(array.dtype)) for array in arrays]


def _tpu(chip: str, mesh: Any) -> contextlib.AbstractContextManager[Any]:
    """A context in which JAX sees a TPU, or a mesh of TPUs, that need not exist.

    Kernels ask for the properties of the chip, and `shard_map` without a mesh for that of the context.
    """
    from jax import sharding

    kind = _DEVICE_KINDS.get(str(chip).lower())
    if kind is None:
        raise Error(f"unknown chip {chip}: use one of {', '.join(_DEVICE_KINDS)}")
    if mesh is None and hasattr(sharding, "get_abstract_mesh"):
        mesh = sharding.get_abstract_mesh()
    axes = _axes(mesh)
    try:
        # Older versions of JAX do not ask for the platform.
        known = {field.name for field in dataclasses.fields(sharding.AbstractDevice)}
        properties: dict[str, Any] = {"device_kind": kind, "num_cores": 1, "platform": "tpu"}
        device = sharding.AbstractDevice(**{name: properties[name] for name in known & properties.keys()})
        types = getattr(mesh, "axis_types", None) or (sharding.AxisType.Auto,) * len(axes)
        whole = sharding.AbstractMesh(
            tuple(axes.values()), tuple(axes), axis_types=types, abstract_device=device
        )
        return sharding.use_abstract_mesh(whole)
    except (AttributeError, TypeError) as error:
        if axes:
            raise Error(
                f"this version of JAX cannot lower for a mesh that does not exist: {error}"
            ) from error
        # Still older ones do not know such devices; most kernels need none.
        return contextlib.nullcontext()


def _axes(mesh: Any) -> dict[str, int]:
    """The names and sizes of the axes of a mesh."""
    sizes = {} if mesh is None else mesh if isinstance(mesh, Mapping) else getattr(mesh, "shape", None)
    if not isinstance(sizes, Mapping) or not all(
        isinstance(name, str) and isinstance(size, int) and size > 0 for name, size in sizes.items()
    ):
        raise Error(f"`mesh` is {mesh!r}: pass the sizes of its axes, such as {{'x': 4}}")
    return dict(sizes)
