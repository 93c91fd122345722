"""Layers with fp8 weights."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling

from octile import _native
from octile.torch._checks import check_block, check_features
from octile.torch._ops import add_bias, dispatch, quantize


class Fp8Linear(nn.Module):
    """A linear layer with an fp8 weight and one scale per block, for inference.

    Its state dict is that of Hugging Face's fp8 checkpoints: ``weight`` (float8_e4m3fn [N, K]),
    ``weight_scale_inv`` (float32, one multiplier per block) and ``bias``, of the dtype of the activations.

    The first call on a CPU packs the weight into a copy that the kernels read faster; later calls on a GPU
    read the weight before the preceding kernel has finished. So call ``repack()`` after writing to the
    parameters where PyTorch does not count it: in place through ``.data``, and to tensors made in inference
    mode.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        block: int = 128,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        block = check_block(block)
        check_features(in_features=in_features, out_features=out_features)
        self.in_features, self.out_features, self.block = in_features, out_features, block
        codes = torch.zeros(out_features, in_features, dtype=torch.float8_e4m3fn, device=device)
        scales = torch.ones(-(-out_features // block), -(-in_features // block), device=device)
        self.weight = nn.Parameter(codes, requires_grad=False)
        self.weight_scale_inv = nn.Parameter(scales.float(), requires_grad=False)
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)

    @classmethod
    def from_linear(cls, linear: nn.Linear, block: int = 128) -> Fp8Linear:
        """Quantizes the weight of a layer; the bias is shared."""
        layer = cls(linear.in_features, linear.out_features, bias=False, block=block, device="meta")
        codes, scales = quantize(linear.weight, block)
        layer.weight = nn.Parameter(codes, requires_grad=False)
        layer.weight_scale_inv = nn.Parameter(scales, requires_grad=False)
        layer.bias = linear.bias
        layer.train(linear.training)
        return layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Parameters are slow to look up as attributes; parametrizations and replicas have no others.
        own = self._parameters
        product = None if is_dynamo_compiling() else _native.torch_layer(x, own)
        if product is None:
            product = dispatch(x, self.weight, self.weight_scale_inv, True)
        bias = own["bias"] if "bias" in own else self.bias
        return product if bias is None else add_bias(product, bias)

    def repack(self) -> None:
        """Has the next call treat the weight as a new one."""
        _native.torch_forget(self.weight)

    def extra_repr(self) -> str:
        shape = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{shape}, bias={self.bias is not None}, block={self.block}"

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Fp8Linear:
        """Moves the layer. The weight keeps its types where others are cast, as by ``model.to(dtype)``."""
        _native.torch_forget(self.weight)

        def keep_types(tensor: torch.Tensor) -> torch.Tensor:
            if tensor is not self.weight and tensor is not self.weight_scale_inv:
                return fn(tensor)
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(keep_types, recurse)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Takes over scales in other float types, which some checkpoints have, as float32."""
        name = f"{prefix}weight_scale_inv"
        scales = state_dict.get(name)
        others = (torch.bfloat16, torch.float16, getattr(torch, "float8_e8m0fnu", None))
        if isinstance(scales, torch.Tensor) and scales.dtype in others:
            state_dict[name] = scales.float()
        # torch would convert values, and codes of another type or whole numbers would become wrong weights.
        for part, wanted in (("weight", torch.float8_e4m3fn), ("weight_scale_inv", torch.float32)):
            given = state_dict.get(f"{prefix}{part}")
            if isinstance(given, torch.Tensor) and given.dtype is not wanted:
                raise TypeError(f"{prefix}{part} is {given.dtype}: Fp8Linear loads {wanted}")
        # Where PyTorch swaps tensors instead of copying, nothing may refer to them.
        _native.torch_forget(self.weight)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        _native.torch_forget(self.weight)


def replace_linears(model: nn.Module, skip: Iterable[str] = ("lm_head",), block: int = 128) -> int:
    """Replaces each ``nn.Linear`` below ``model`` by an ``Fp8Linear``, and returns their number.

    ``skip`` holds names of layers to leave alone, or patterns such as ``*.gate``: of the whole name, as in
    ``model.named_modules()``, or of its last part. The layers of an ``nn.TransformerEncoderLayer``, whose
    weights PyTorch reads in a fused kernel, stay as they are.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}: pass a torch.nn.Module")
    skip = (skip,) if isinstance(skip, str) else tuple(skip)
    if not all(isinstance(pattern, str) for pattern in skip):
        raise TypeError(f"skip is {skip!r}: pass names or patterns")

    def is_skipped(name: str) -> bool:
        last = name.rpartition(".")[2]
        return any(fnmatch.fnmatchcase(name, s) or fnmatch.fnmatchcase(last, s) for s in skip)

    # A layer that is used in several places stays one layer.
    replaced: dict[nn.Linear, Fp8Linear] = {}
    for parent_name, parent in list(model.named_modules()):
        if isinstance(parent, nn.TransformerEncoderLayer):
            continue
        for child_name, child in list(parent._modules.items()):
            name = f"{parent_name}.{child_name}" if parent_name else child_name
            if type(child) is not nn.Linear or is_skipped(name):
                continue
            if child not in replaced:
                replaced[child] = Fp8Linear.from_linear(child, block)
            setattr(parent, child_name, replaced[child])
    return len(replaced)
