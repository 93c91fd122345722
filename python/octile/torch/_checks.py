"""What the operands of a product must be; each error is one sentence."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.compiler import is_dynamo_compiling

FP8 = torch.float8_e4m3fn
_NAMES = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    FP8: "float8_e4m3fn",
}
_FLOATS = "torch.float32, torch.bfloat16 or torch.float16"
_BLOCKS = (128, 256, 512)


def check(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    x_scales: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> tuple[int, torch.dtype]:
    """Checks types, shapes and devices; returns the block size and the dtype of the result."""
    block = block_of(weight, scales)
    if x.dtype not in _NAMES:
        raise TypeError(f"x is {x.dtype}: pass {_FLOATS}")
    if out_dtype is None:
        out_dtype = torch.float32 if x.dtype is FP8 else x.dtype
    elif not isinstance(out_dtype, torch.dtype) or out_dtype not in _NAMES or out_dtype is FP8:
        raise TypeError(f"out_dtype is {out_dtype}: pass {_FLOATS}")
    if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"x has shape {list(x.shape)}, but the weight has K = {weight.shape[1]}")
    if x_scales is not None or x.dtype is FP8:
        _check_x_scales(x, x_scales, block)
    if not x.device == weight.device == scales.device:
        devices = f"{x.device}, {weight.device}, {scales.device}"
        raise ValueError(f"x, weight and weight_scale_inv are on {devices}: move them to one device")
    return block, out_dtype


def check_in_memory(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    x_scales: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> tuple[int, str, str, torch.dtype | None]:
    """Checks strides too. Returns the block size, the names of the dtypes of x and of the result, and the
    result's dtype unless it is that of x."""
    block, out_dtype = check(x, weight, scales, x_scales, out_dtype)
    if not (weight.is_contiguous() and scales.is_contiguous()):
        raise ValueError("weight and weight_scale_inv must be contiguous: call .contiguous() once, ahead")
    return block, _NAMES[x.dtype], _NAMES[out_dtype], None if out_dtype is x.dtype else out_dtype


def block_of(weight: torch.Tensor, scales: torch.Tensor) -> int:
    """Side of a quantization block, from the shapes; the smallest where several fit."""
    if weight.dtype is not FP8 or scales.dtype is not torch.float32:
        raise TypeError(
            f"weight is {weight.dtype} and weight_scale_inv is {scales.dtype}:"
            " pass torch.float8_e4m3fn and torch.float32"
        )
    if weight.dim() != 2 or scales.dim() != 2:
        raise ValueError(
            f"weight has shape {list(weight.shape)} and weight_scale_inv {list(scales.shape)}: pass matrices"
        )
    for block in _BLOCKS:
        if all(-(-side // block) == count for side, count in zip(weight.shape, scales.shape)):
            return block
    raise ValueError(
        f"weight_scale_inv has shape {list(scales.shape)}, but the weight {list(weight.shape)} needs one"
        " scale per block of 128, 256 or 512"
    )


def shapes_of(weight: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of a weight without values."""
    block = check_block(block)
    if weight.dim() != 2 or 0 in weight.shape:
        raise ValueError(f"weight has shape {list(weight.shape)}: pass a matrix [N, K]")
    scales = [-(-side // block) for side in weight.shape]
    return weight.new_empty(weight.shape, dtype=FP8), weight.new_empty(scales, dtype=torch.float32)


def check_block(block: Any) -> int:
    """Checks the side of a quantization block."""
    if block not in _BLOCKS:
        raise ValueError(f"block {block!r} is not 128, 256 or 512")
    return int(block)


def check_features(**counts: Any) -> None:
    """Checks the sides of a weight."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{name} is {count!r}: pass a positive integer")


def check_tensors(**operands: Any) -> None:
    """Checks that operands are tensors with elements in memory."""
    for name, tensor in operands.items():
        if not isinstance(tensor, torch.Tensor):
            kind = None if tensor is None else type(tensor).__name__
            raise TypeError(f"{name} is {kind}: pass a tensor")
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            kinds = {"nested": tensor.is_nested, "quantized": tensor.is_quantized, str(tensor.layout): True}
            layout = next(kind for kind, is_kind in kinds.items() if is_kind)
            raise TypeError(f"{name} is {layout}: pass a strided tensor")


def check_memory(**operands: torch.Tensor) -> None:
    """Checks that the storage of tensors was not freed, where PyTorch itself would crash."""
    if is_dynamo_compiling():
        return
    for name, tensor in operands.items():
        if isinstance(tensor, FakeTensor) or not (tensor.is_cpu and tensor.numel()):
            continue
        if not _has_memory(tensor):
            raise ValueError(f"{name} has no memory: its storage was freed")


def check_bias(bias: torch.Tensor, product: torch.Tensor) -> None:
    """Checks that a bias is what can be added to each row, with the dtype of the result."""
    check_tensors(bias=bias)
    check_memory(bias=bias)
    if bias.device != product.device:
        raise ValueError(f"bias is on {bias.device}, and x on {product.device}: move them to one device")
    columns = product.shape[-1:]
    if bias.shape != columns or bias.dtype is not product.dtype:
        raise ValueError(
            f"bias is {bias.dtype} {list(bias.shape)}: pass {product.dtype} {list(columns)}, as the result is"
        )


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor on the CPU has memory."""
    try:
        # Nothing lies in the first page: these are offsets.
        return tensor.data_ptr() >= 4096
    except RuntimeError:
        # A wrapper around the tensor that has it, as under torch.func.
        return True


def _check_x_scales(x: torch.Tensor, x_scales: torch.Tensor | None, block: int) -> None:
    if x_scales is None:
        raise ValueError("x is float8_e4m3fn: pass its scales as x_scales")
    if x.dtype is not FP8:
        raise ValueError(f"x_scales is given, but x is {x.dtype}: leave x_scales out")
    if x_scales.device != x.device:
        raise ValueError(f"x and x_scales are on {x.device}, {x_scales.device}: move them to one device")
    expected = (*x.shape[:-1], -(-x.shape[-1] // block))
    if x_scales.dtype is not torch.float32 or x_scales.shape != expected:
        raise ValueError(
            f"x_scales is {x_scales.dtype} {list(x_scales.shape)}: pass torch.float32 {list(expected)}"
        )
