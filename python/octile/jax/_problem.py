"""What is multiplied, checked before anything is traced into XLA."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from octile import Weight

BLOCKS = (128, 256, 512)
CHIPS = ("tpu7x", "v6e", "v5p", "v5e", "v4")
SCALINGS = ("token", "block", "none")
CODES = jnp.dtype(jnp.float8_e4m3fn)
#: The library's names of element types.
NAMES = {
    jnp.dtype(jnp.float32): "f32",
    jnp.dtype(jnp.bfloat16): "bf16",
    jnp.dtype(jnp.float16): "f16",
    CODES: "f8e4m3",
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """The static part of a multiplication: everything but the number of rows."""

    n: int
    k: int
    block: int
    x_dtype: np.dtype
    x_scaling: str
    out_dtype: np.dtype
    packed: bool
    #: The TPU to lower for, if no device tells.
    chip: str | None

    @property
    def has_x_scales(self) -> bool:
        return self.x_dtype == CODES

    @property
    def x(self) -> str:
        return NAMES[self.x_dtype]

    @property
    def out(self) -> str:
        return NAMES[self.out_dtype]

    def x_scales_shape(self, x_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the scales that fp8 activations come with."""
        groups = blocks_of(self.k, self.block)
        if self.x_scaling == "block":
            return (blocks_of(math.prod(x_shape[:-1]), self.block), groups)
        return (*x_shape[:-1], groups)


def blocks_of(length: int, block: int) -> int:
    """Blocks that cover a length."""
    return -(-length // block)


def check_weight(codes: Any, scales: Any, block: int | None) -> tuple[int, int, int]:
    """Checks codes and scales; returns N, K and the block size."""
    if isinstance(codes, Weight):
        raise TypeError(
            "the weight is an octile.Weight: pass weight.codes and weight.scales,"
            " or what octile.jax.pack makes of them"
        )
    check_array("the weight", codes, (CODES, jnp.dtype(jnp.uint8)), "float8_e4m3fn (or uint8 with its bits)")
    check_array("scales", scales, (jnp.dtype(jnp.float32),), "float32")
    if codes.ndim != 2:
        raise ValueError(f"the weight has shape {codes.shape}, which is not [N, K]")
    n, k = codes.shape
    if n == 0 or k == 0:
        raise ValueError(f"the weight has shape {codes.shape}: N and K must be at least 1")
    if block is not None and block not in BLOCKS:
        raise ValueError(f"block {block!r} is not 128, 256 or 512")
    fits = [b for b in BLOCKS if block in (None, b) and (blocks_of(n, b), blocks_of(k, b)) == scales.shape]
    if not fits:
        expected = " or ".join(
            f"{(blocks_of(n, b), blocks_of(k, b))} for blocks of {b}" for b in BLOCKS if block in (None, b)
        )
        raise ValueError(f"scales have shape {scales.shape}, but a weight {(n, k)} has {expected}")
    # Several sizes fit only a weight that is one block, and then they mean the same.
    return n, k, fits[0]


def check_x(x: Any, x_scales: Any, x_scaling: str, out_dtype: Any) -> np.dtype:
    """Checks activations; returns the dtype of the result."""
    check_array("x", x, tuple(NAMES), "float32, bfloat16, float16 or float8_e4m3fn")
    if x.ndim == 0:
        raise ValueError("x is a scalar, not [..., K]")
    if x_scaling not in SCALINGS:
        raise ValueError(f"x_scaling {x_scaling!r} is not 'token', 'block' or 'none'")
    is_fp8 = jnp.dtype(x.dtype) == CODES
    if is_fp8 and x_scales is None:
        raise ValueError("x is fp8: pass its scales as x_scales")
    if is_fp8 and x_scaling == "none":
        raise ValueError("x is fp8 and has scales: x_scaling is 'token' or 'block'")
    if not is_fp8 and x_scales is not None:
        raise ValueError(f"x_scales are for fp8 activations, but x is {x.dtype}")
    if out_dtype is None:
        return jnp.dtype(jnp.float32 if is_fp8 else x.dtype)
    try:
        found = jnp.dtype(out_dtype)
    except TypeError:
        found = None
    if found not in NAMES or found == CODES:
        raise TypeError(f"out_dtype {out_dtype!r} is not float32, bfloat16 or float16")
    return found


def check_chip(chip: Any) -> None:
    """Checks the name of a TPU."""
    if chip is not None and chip not in CHIPS:
        raise ValueError(f"chip {chip!r} is not {', '.join(CHIPS[:-1])} or {CHIPS[-1]}")


def check_k(x: Any, k: int) -> None:
    """Checks that activations have as many columns as the weight."""
    if x.shape[-1] != k:
        raise ValueError(f"x has shape {x.shape}, but the weight has K = {k}")


def check_x_scales(problem: Problem, x: Any, x_scales: Any) -> None:
    """Checks the scales of fp8 activations."""
    check_array("x_scales", x_scales, (jnp.dtype(jnp.float32),), "float32")
    expected = problem.x_scales_shape(x.shape)
    if x_scales.shape != expected:
        raise ValueError(f"x_scales have shape {x_scales.shape}, but x {x.shape} has {expected}")


def check_array(what: str, array: Any, dtypes: tuple[np.dtype, ...], names: str) -> None:
    """Checks that something is an array of one of these dtypes."""
    if not (hasattr(array, "shape") and hasattr(array, "dtype")) or isinstance(array, jax.ShapeDtypeStruct):
        raise TypeError(f"{what} is {type(array).__name__}, not an array")
    try:
        found = jnp.dtype(array.dtype)
    except TypeError:
        found = None
    if found not in dtypes:
        raise TypeError(f"{what} is {array.dtype}, not {names}")
    if not all(isinstance(side, (int, np.integer)) for side in array.shape):
        raise ValueError(f"{what} has the symbolic shape {array.shape}: export a program for each shape")
