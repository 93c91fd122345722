"""The operator ``octile::linear`` and the functions around it."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _functorch
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from octile import _native
from octile.torch import _checks

# An operator with a gradient costs some microseconds more in every call, so there is one without.
_library = torch.library.Library("octile", "DEF")
for _name in ("linear", "linear_inference"):
    _library.define(
        f"{_name}(Tensor x, Tensor weight, Tensor weight_scale_inv, bool remember=False,"
        " Tensor? x_scales=None, ScalarType? out_dtype=None) -> Tensor"
    )


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale_inv: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Returns x [..., K] times the transpose of an fp8 weight [N, K], plus bias [N].

    ``weight`` is float8_e4m3fn and contiguous, ``weight_scale_inv`` float32 with one multiplier per block of
    128, 256 or 512: checkpoints hold both so. ``x`` is float32, bfloat16 or float16 and is quantized to fp8
    in the call, with one scale per row and block of K; or it is float8_e4m3fn with its ``x_scales``
    [..., ceil(K/block)], row-major or column-major, with any padding. On GPUs column-major ones are the
    fastest, if each column begins at a multiple of 16 bytes. The result has the dtype of ``x`` (float32 for
    fp8), unless ``out_dtype`` is given; ``bias`` has the dtype of the result.

    All tensors are on one device: the CPU, or a Hopper GPU, where the product is queued on the current
    stream. The derivatives for ``x`` are those of the product without quantization; the weight gets none.
    """
    product = multiply(x, weight, weight_scale_inv, False, x_scales, out_dtype)
    return product if bias is None else add_bias(product, bias)


def multiply(*operands: Any) -> torch.Tensor:
    """The operator with its arguments in order: with derivatives where they may be asked for; the kernel
    itself where nothing watches the call, because PyTorch's dispatcher costs as much as a small product."""
    if not is_dynamo_compiling():
        product = _native.torch_linear(*operands)
        if product is not None:
            return product
    return dispatch(*operands)


def dispatch(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    remember: bool = False,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The operator through PyTorch's dispatcher."""
    if isinstance(x, torch.fx.Proxy):
        return _differentiable(x, weight, scales, remember, x_scales, out_dtype)
    is_transformed = forward_ad._current_level >= 0
    if not is_dynamo_compiling():
        given = {} if x_scales is None else {"x_scales": x_scales}
        _checks.check_tensors(x=x, weight=weight, weight_scale_inv=scales, **given)
        is_transformed |= _functorch.is_functorch_wrapped_tensor(x) and _has_gradient(x)
    if is_transformed:
        operator = _multiply_transformed
    else:
        operator = _differentiable if torch.is_grad_enabled() and x.requires_grad else _inference
    return operator(x, weight, scales, remember, x_scales, out_dtype)


def _has_gradient(x: torch.Tensor) -> bool:
    """Whether a gradient is asked for of a tensor, or of what `torch.func` and `torch.vmap` wrapped."""
    while not x.requires_grad and _functorch.is_functorch_wrapped_tensor(x):
        x = _functorch.get_unwrapped(x)
    return x.requires_grad


def _multiply_transformed(
    x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, *options: Any
) -> torch.Tensor:
    """The product under ``torch.func`` and forward-mode differentiation, which know PyTorch's own operators
    only: what is added is zero, and has the derivatives of the product without quantization."""
    fixed = x.detach()
    product = _inference(fixed, weight, scales, *options)
    if x.dtype is _checks.FP8:
        return product
    values = dequantize(weight, scales, x.dtype)
    return product + ((x - fixed) @ values.t()).to(product.dtype)


def add_bias(product: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Adds a bias to each row; autocast converts it."""
    if isinstance(product, torch.fx.Proxy):
        return product + bias
    if torch.is_autocast_enabled(product.device.type):
        bias = bias.to(product.dtype)
    _checks.check_bias(bias, product)
    return product + bias


def quantize(weight: torch.Tensor, block: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantizes a weight [N, K]: returns float8_e4m3fn codes and one float32 scale per block.

    Those of a weight on the device ``meta`` are there too, for models that are built before they are loaded.
    """
    _checks.check_tensors(weight=weight)
    if weight.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise TypeError(f"weight is {weight.dtype}: pass torch.float32, torch.bfloat16 or torch.float16")
    _checks.check_memory(weight=weight)
    if weight.is_meta or isinstance(weight, FakeTensor):
        return _checks.shapes_of(weight, block)
    values = weight.detach().to(device="cpu", dtype=torch.float32).resolve_neg().numpy()
    quantized = _native.quantize(values, block)
    codes = torch.from_numpy(quantized.codes.view("uint8").copy()).view(_checks.FP8)
    scales = torch.from_numpy(quantized.scales.copy())
    return codes.to(weight.device), scales.to(weight.device)


def dequantize(
    weight: torch.Tensor, weight_scale_inv: torch.Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Returns the values that codes and scales stand for."""
    _checks.check_tensors(weight=weight, weight_scale_inv=weight_scale_inv)
    _checks.check_memory(weight=weight, weight_scale_inv=weight_scale_inv)
    block = _checks.block_of(weight, weight_scale_inv)
    if weight.device != weight_scale_inv.device:
        devices = f"{weight.device}, {weight_scale_inv.device}"
        raise ValueError(f"weight and weight_scale_inv are on {devices}: move them to one device")
    rows, columns = weight.shape
    scales = weight_scale_inv.repeat_interleave(block, 0)[:rows]
    scales = scales.repeat_interleave(block, 1)[:, :columns]
    return (weight.to(torch.float32) * scales).to(dtype)


def _fake(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    remember: bool = False,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Shape and dtype of the result, with the errors of the product itself."""
    _, dtype = _checks.check(x, weight, scales, x_scales, out_dtype)
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=dtype)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, weight, scales, _, x_scales, _ = inputs
    if x_scales is not None:
        raise ValueError("fp8 activations have no gradient: detach x")
    ctx.save_for_backward(weight, scales)
    ctx.x_dtype = x.dtype


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    weight, scales = ctx.saved_tensors
    values = dequantize(weight, scales, gradient.dtype)
    return (gradient @ values).to(ctx.x_dtype), None, None, None, None, None


def _vmap(
    info: Any,
    in_dims: tuple[Any, ...],
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    remember: bool = False,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, int]:
    """A batch of activations is more rows; other batches are multiplied one after the other."""
    dims = dict(zip(("x", "weight", "scales", "remember", "x_scales"), in_dims))
    one_weight = dims["weight"] is None and dims["scales"] is None
    if one_weight and dims["x"] is not None and (x_scales is None) == (dims.get("x_scales") is None):
        x = x.movedim(dims["x"], 0).contiguous()
        if x_scales is not None:
            x_scales = x_scales.movedim(dims["x_scales"], 0).contiguous()
        return _inference(x, weight, scales, remember, x_scales, out_dtype), 0

    def entry(name: str, tensor: torch.Tensor | None, index: int) -> torch.Tensor | None:
        dim = dims.get(name)
        return tensor if tensor is None or dim is None else tensor.select(dim, index).contiguous()

    products = [
        _inference(
            entry("x", x, i), entry("weight", weight, i), entry("scales", scales, i), False,
            entry("x_scales", x_scales, i), out_dtype,
        )
        for i in range(info.batch_size)
    ]  # fmt: skip
    return torch.stack(products), 0


for _name in ("linear", "linear_inference"):
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, _native.torch_linear_kernel, _device)
    torch.library.register_fake(f"octile::{_name}", _fake, lib=_library)
torch.library.register_vmap("octile::linear_inference", _vmap, lib=_library)
torch.library.register_autograd("octile::linear", _backward, setup_context=_save_for_backward, lib=_library)
_differentiable = torch.ops.octile.linear.default
_inference = torch.ops.octile.linear_inference.default
