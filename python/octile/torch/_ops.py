"""The operator ``octile::linear`` and the functions around it."""

from __future__ import annotations

from typing import Any

import torch

from octile import _native
from octile.torch._layer_state import layer_state

_FP8 = torch.float8_e4m3fn
_NAMES = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float8_e4m3fn: "float8_e4m3fn",
}
_BLOCKS = (128, 256, 512)
# Other types of tensors have operators of their own.
_PLAIN = (torch.Tensor, torch.nn.Parameter)

# What is planned and compiled once, by device, shapes and types.
_multiplications: dict[tuple[object, ...], _native.Multiplication] = {}
# A program with more shapes than this has no fixed set: those of the CPU start over rather than grow. Those
# of GPUs stay, since a captured graph may launch their kernels.
_MOST_MULTIPLICATIONS = 4096

# An operator with a gradient costs some microseconds more in every call, so there is one without.
_library = torch.library.Library("octile", "DEF")
for _name in ("linear", "linear_inference"):
    _library.define(
        f"{_name}(Tensor x, Tensor weight, Tensor weight_scale_inv, int layer=0,"
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
    """Returns x [..., K] times the transpose of an fp8 weight [N, K], plus bias.

    ``weight`` is float8_e4m3fn and contiguous, ``weight_scale_inv`` float32 with one multiplier per block of
    128, 256 or 512: checkpoints hold both so. ``x`` is float32, bfloat16 or float16 and is quantized to fp8
    in the call, with one scale per row and block of K; or it is float8_e4m3fn with its ``x_scales``
    [..., ceil(K/block)]. The result has the dtype of ``x`` (float32 for fp8), unless ``out_dtype`` is given.

    All tensors are on one device: the CPU, or a Hopper GPU, where the product is queued on the current
    stream. The gradient for ``x`` is that of the product without quantization; the weight gets none.
    """
    if x_scales is None and out_dtype is None:
        product = operator(x, weight, weight_scale_inv)(x, weight, weight_scale_inv)
    else:
        multiply = _differentiable if _needs_gradient(x) else _inference
        product = multiply(x, weight, weight_scale_inv, 0, x_scales, out_dtype)
    return product if bias is None else product + bias


def operator(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> Any:
    """The operator for these operands: with a gradient where one may be asked for; the kernel itself where
    nothing watches the call, because PyTorch's dispatcher costs as much as a small product."""
    if _needs_gradient(x):
        return _differentiable
    if torch.compiler.is_compiling() or _is_watched():
        return _inference
    if not (type(x) in _PLAIN and type(weight) in _PLAIN and type(scales) in _PLAIN):
        return _inference
    if x.is_neg() or scales.is_neg():
        return _inference
    # Other layouts, other devices such as meta, and mixtures are the dispatcher's.
    if x.layout is not torch.strided:
        return _inference
    if x.is_cpu and weight.is_cpu and scales.is_cpu:
        return _multiply_on_cpu
    return _multiply_on_gpu if x.is_cuda and weight.is_cuda and scales.is_cuda else _inference


def _needs_gradient(x: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and isinstance(x, torch.Tensor) and x.requires_grad


def _is_watched() -> bool:
    """Whether modes, transformations, a tracer or a profiler must see each operator."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
        or torch.autograd._profiler_enabled()
    )


def quantize(weight: torch.Tensor, block: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantizes a weight [N, K]: returns float8_e4m3fn codes and one float32 scale per block."""
    values = weight.detach().to(device="cpu", dtype=torch.float32).numpy()
    quantized = _native.quantize(values, block)
    codes = torch.from_numpy(quantized.codes.view("uint8").copy()).view(_FP8)
    scales = torch.from_numpy(quantized.scales.copy())
    return codes.to(weight.device), scales.to(weight.device)


def dequantize(
    weight: torch.Tensor, weight_scale_inv: torch.Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Returns the values that codes and scales stand for."""
    rows, columns = weight.shape
    block = _block(weight, weight_scale_inv)
    scales = weight_scale_inv.repeat_interleave(block, 0)[:rows]
    scales = scales.repeat_interleave(block, 1)[:, :columns]
    return (weight.to(torch.float32) * scales).to(dtype)


def _multiply_on_cpu(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    layer: int = 0,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    multiplication, out, rows = _prepare(-1, x, weight, scales, x_scales, out_dtype, False)
    x = x.contiguous()
    x_scales_at = 0 if x_scales is None else x_scales.data_ptr()
    state = layer_state(layer) if layer else None
    if state is None:
        multiplication.run(
            x.data_ptr(), x_scales_at, weight.data_ptr(), scales.data_ptr(), out.data_ptr(), rows
        )
    else:
        copy = state.packed(weight, scales, multiplication.block)
        multiplication.run_packed(
            x.data_ptr(), x_scales_at, copy.data_ptr(), copy.numel(), out.data_ptr(), rows
        )
    return out


def _multiply_on_gpu(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    layer: int = 0,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    device = weight.get_device()
    state = layer_state(layer) if layer else None
    # A weight that is as the last call found it cannot be what the preceding kernel is writing.
    is_constant = state is not None and state.is_unchanged(weight, scales)
    multiplication, out, rows = _prepare(device, x, weight, scales, x_scales, out_dtype, is_constant)
    x = x.contiguous()
    if x.data_ptr() % 16:
        x = x.clone()
    # The allocator reuses memory in the order of the stream, so the workspace may be freed once it is queued.
    size = multiplication.workspace_bytes(rows)
    workspace = x.new_empty(size, dtype=torch.uint8) if size else None
    multiplication.enqueue(
        torch._C._cuda_getCurrentRawStream(device),
        x.data_ptr(),
        0 if x_scales is None else x_scales.data_ptr(),
        weight.data_ptr(),
        scales.data_ptr(),
        out.data_ptr(),
        0 if workspace is None else workspace.data_ptr(),
        rows,
    )
    if state is not None and not is_constant:
        # The next call may be captured into a graph, which cannot compile.
        _find(device, x, weight, scales, out_dtype, True).prepare(rows)
    return out


def _prepare(
    device: int,
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    x_scales: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    is_constant: bool,
) -> tuple[_native.Multiplication, torch.Tensor, int]:
    """Checks the operands, finds their multiplication, allocates the result, and counts the rows of x."""
    multiplication = _find(device, x, weight, scales, out_dtype, is_constant)
    if x_scales is not None or x.dtype is _FP8:
        _check_x_scales(x, x_scales, multiplication.block)
        if not (x_scales.is_contiguous() and x.is_contiguous()):
            raise ValueError("x and x_scales must be contiguous")
    shape, (n, k) = x.shape, weight.shape
    if not shape or shape[-1] != k:
        raise _wrong_columns(x, k)
    if x.get_device() != device or weight.get_device() != device or scales.get_device() != device:
        raise _several_devices(x, weight, scales)
    if not (weight.is_contiguous() and scales.is_contiguous()):
        raise ValueError("weight and weight_scale_inv must be contiguous: call .contiguous() once, ahead")
    if out_dtype is None and x_scales is None and len(shape) == 2:
        # The same as below, a microsecond sooner.
        rows = shape[0]
        return multiplication, x.new_empty(rows, n), rows
    out = x.new_empty((*shape[:-1], n), dtype=_result_dtype(x, out_dtype))
    return multiplication, out, x.numel() // k


def _find(
    device: int,
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    out_dtype: torch.dtype | None,
    is_constant: bool,
) -> _native.Multiplication:
    """Finds the multiplication of these shapes and types; they are checked when it is built."""
    if weight is None or scales is None:
        # The dispatcher lets None pass for a tensor.
        name = "weight" if weight is None else "weight_scale_inv"
        raise TypeError(f"{name} is None: pass a tensor")
    key = (
        device, weight.shape, scales.shape, weight.dtype, scales.dtype, x.dtype, out_dtype, is_constant
    )  # fmt: skip
    multiplication = _multiplications.get(key)
    if multiplication is None:
        block = _block(weight, scales)
        names = _dtype_name("x", x.dtype), _dtype_name("out_dtype", _result_dtype(x, out_dtype))
        multiplication = _native.Multiplication(device, *weight.shape, block, *names, is_constant)
        if len(_multiplications) >= _MOST_MULTIPLICATIONS and device < 0:
            for old in [key for key in _multiplications if key[0] == device]:
                _multiplications.pop(old, None)
        _multiplications[key] = multiplication
    return multiplication


def _fake(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    layer: int = 0,
    x_scales: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Shape and dtype of the result, with the errors of the product itself."""
    block = _block(weight, scales)
    _dtype_name("x", x.dtype)
    _dtype_name("out_dtype", _result_dtype(x, out_dtype))
    if x_scales is not None or x.dtype is _FP8:
        _check_x_scales(x, x_scales, block)
    if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
        raise _wrong_columns(x, weight.shape[1])
    if not x.device == weight.device == scales.device:
        raise _several_devices(x, weight, scales)
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=_result_dtype(x, out_dtype))


def _block(weight: torch.Tensor, scales: torch.Tensor) -> int:
    """Side of a quantization block, from the shapes; the smallest where several fit."""
    if weight.dtype is not _FP8 or scales.dtype is not torch.float32:
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


def _check_x_scales(x: torch.Tensor, x_scales: torch.Tensor | None, block: int) -> None:
    if x_scales is None:
        raise ValueError("x is float8_e4m3fn: pass its scales as x_scales")
    if x.dtype is not _FP8:
        raise ValueError(f"x_scales is given, but x is {x.dtype}: leave x_scales out")
    if x_scales.device != x.device:
        raise ValueError(f"x and x_scales are on {x.device}, {x_scales.device}: move them to one device")
    expected = (*x.shape[:-1], -(-x.shape[-1] // block))
    if x_scales.dtype is not torch.float32 or x_scales.shape != expected:
        raise ValueError(
            f"x_scales is {x_scales.dtype} {list(x_scales.shape)}: pass torch.float32 {list(expected)}"
        )


def _result_dtype(x: torch.Tensor, out_dtype: torch.dtype | None) -> torch.dtype:
    if out_dtype is not None:
        return out_dtype
    return torch.float32 if x.dtype is _FP8 else x.dtype


def _dtype_name(what: str, dtype: torch.dtype) -> str:
    name = _NAMES.get(dtype)
    if name is None or (what == "out_dtype" and dtype is _FP8):
        allowed = "torch.float32, torch.bfloat16 or torch.float16"
        raise TypeError(f"{what} is {dtype}: pass {allowed}")
    return name


def _wrong_columns(x: torch.Tensor, columns: int) -> ValueError:
    return ValueError(f"x has shape {list(x.shape)}, but the weight has K = {columns}")


def _several_devices(*tensors: torch.Tensor) -> ValueError:
    devices = ", ".join(str(tensor.device) for tensor in tensors)
    return ValueError(f"x, weight and weight_scale_inv are on {devices}: move them to one device")


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


for _name in ("linear", "linear_inference"):
    _library.impl(_name, _multiply_on_cpu, "CPU")
    _library.impl(_name, _multiply_on_gpu, "CUDA")
    torch.library.register_fake(f"octile::{_name}", _fake, lib=_library)
torch.library.register_autograd("octile::linear", _backward, setup_context=_save_for_backward, lib=_library)
_differentiable = torch.ops.octile.linear.default
_inference = torch.ops.octile.linear_inference.default
