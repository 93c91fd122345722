"""Weights in the order in which the fastest CPU kernel reads them."""

from __future__ import annotations

import dataclasses
import json
import operator
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from octile import _native
from octile.jax import _lowering  # noqa: F401, registers the handlers
from octile.jax._problem import CODES, blocks_of, check_weight

#: Rows of a weight that are packed together: shards along N are multiples.
PANEL_ROWS = 32
#: Sides that no array has.
_TOO_LONG = 1 << 63


@dataclasses.dataclass(frozen=True)
class PackedWeight:
    """A weight [N, K] packed for CPUs: a pytree with one array, ``data`` [ceil(N/32), bytes] of uint8.

    Scales are inside. It can be passed through ``jit``, donated, saved like any array, and sharded along its
    first axis, which is N in panels of 32 rows.
    """

    data: Any
    shape: tuple[int, int]
    block: int

    def sharding(self, mesh: jax.sharding.Mesh, axis: Any) -> PackedWeight:
        """The shardings that split N along an axis of a mesh, for ``jax.device_put`` or ``in_shardings``."""
        spec = jax.sharding.PartitionSpec(axis, None)
        return dataclasses.replace(self, data=jax.sharding.NamedSharding(mesh, spec))


jax.tree_util.register_dataclass(PackedWeight, data_fields=["data"], meta_fields=["shape", "block"])


def _read_aux(text: bytes) -> tuple[tuple[int, int], int]:
    shape, block = json.loads(text)
    return tuple(shape), block


# So that programs which take packed weights can be exported.
jax.export.register_pytree_node_serialization(
    PackedWeight,
    serialized_name="octile.PackedWeight",
    serialize_auxdata=lambda aux: json.dumps(aux).encode(),
    deserialize_auxdata=_read_aux,
)


def pack(codes: jax.Array, scales: jax.Array, block: int | None = None) -> PackedWeight:
    """Packs codes [N, K] and scales for CPUs. The block size follows from the shapes, unless given."""
    n, k, block = check_weight(codes, scales, block)
    shape = jax.ShapeDtypeStruct(_native.packed_shape(n, k, block), jnp.uint8)
    data = _call("octile_pack", shape, (n, k), block, as_codes(codes), jnp.asarray(scales))
    return PackedWeight(data, (n, k), block)


def unpack(packed: PackedWeight) -> tuple[jax.Array, jax.Array]:
    """The codes [N, K] and scales that were packed.

    Checks every panel, where ``matmul`` looks at the first and the last one only: damaged bytes are refused.
    """
    check_packed(packed)
    n, k = packed.shape
    scales = (blocks_of(n, packed.block), blocks_of(k, packed.block))
    results = (jax.ShapeDtypeStruct((n, k), CODES), jax.ShapeDtypeStruct(scales, jnp.float32))
    return _call("octile_unpack", results, packed.shape, packed.block, packed.data)


def _call(target: str, results: Any, shape: tuple[int, int], block: int, *operands: Any) -> Any:
    n, k = shape
    attributes = {"n": np.int64(n), "k": np.int64(k), "block": np.int64(block)}
    call = jax.ffi.ffi_call(target, results, vmap_method="sequential")
    if any(isinstance(operand, jax.core.Tracer) for operand in operands):
        return call(*operands, **attributes)
    try:
        return jax.block_until_ready(call(*operands, **attributes))
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        raise ValueError(str(error).partition("octile: ")[2] or str(error)) from None


def as_codes(codes: Any) -> jax.Array:
    """Codes as float8_e4m3fn, whose bits uint8 may hold."""
    codes = jnp.asarray(codes)
    return codes if codes.dtype == CODES else jax.lax.bitcast_convert_type(codes, CODES)


def check_packed(packed: PackedWeight) -> None:
    """Checks that the array is one that ``pack`` makes for this shape."""
    if not isinstance(packed, PackedWeight):
        raise TypeError(f"the packed weight is {type(packed).__name__}, not what octile.jax.pack returns")
    try:
        n, k = map(operator.index, packed.shape)
    except (TypeError, ValueError):
        n, k = 0, 0
    if not (0 < n < _TOO_LONG and 0 < k < _TOO_LONG):
        raise ValueError(f"the packed weight has shape {packed.shape!r}, which is not (N, K)")
    expected = _native.packed_shape(n, k, packed.block)
    data = packed.data
    if not hasattr(data, "shape") or data.shape != expected or data.dtype != jnp.uint8:
        found = f"{getattr(data, 'dtype', type(data).__name__)} {getattr(data, 'shape', '')}".strip()
        raise ValueError(
            f"the packed weight {packed.shape} holds {found}, not uint8 {expected}: "
            "pack the codes again, or pass a shard to matmul inside shard_map with its own shape"
        )
