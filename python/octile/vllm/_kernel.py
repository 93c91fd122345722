"""The kernel class that vLLM chooses for a layer."""

from __future__ import annotations

import torch
from vllm.model_executor.kernels.linear import Fp8BlockScaledMMLinearKernel, FP8ScaledMMLinearLayerConfig
from vllm.model_executor.layers.quantization.input_quant_fp8 import QuantFP8
from vllm.model_executor.utils import replace_parameter
from vllm.platforms import current_platform

from octile import _native
from octile.torch._ops import multiply

_HOPPER = 90
_BLOCKS = (128, 256, 512)
_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class OctileFp8BlockScaledMMKernel(Fp8BlockScaledMMLinearKernel):
    """fp8 weights with one scale per square block; activations are quantized per token inside the product, or
    by vLLM where ``apply_input_quant`` is set."""

    apply_input_quant = False

    def __init__(self, config: FP8ScaledMMLinearLayerConfig) -> None:
        super().__init__(config)
        # The scale layout that the kernels for GPUs read fastest.
        self.quant_fp8 = QuantFP8(
            static=False,
            group_shape=config.activation_quant_key.scale.group_shape,
            column_major_scales=True,
            tma_aligned_scales=True,
            use_ue8m0=False,
        )

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        """Any CPU, and Hopper GPUs."""
        if current_platform.is_cpu():
            return True, None
        if (
            compute_capability is None
            and (capability := current_platform.get_device_capability()) is not None
        ):
            compute_capability = capability.to_int()
        if current_platform.is_cuda() and compute_capability == _HOPPER:
            return True, None
        return False, "requires a CPU or a Hopper GPU."

    @classmethod
    def can_implement(cls, config: FP8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        """Square blocks of 128, 256 or 512, and one activation scale per token and block."""
        supported, reason = super().can_implement(config)
        if not supported:
            return supported, reason
        rows, columns = config.weight_quant_key.scale.group_shape
        if rows != columns or columns not in _BLOCKS:
            return False, f"requires square blocks of 128, 256 or 512, got {rows} x {columns}."
        tokens, group = config.activation_quant_key.scale.group_shape
        if (tokens, group) != (1, columns):
            return False, f"requires one activation scale per 1 x {columns}, got {tokens} x {group}."
        if config.weight_quant_key.dtype != torch.float8_e4m3fn:
            return False, f"requires float8_e4m3fn weights, got {config.weight_quant_key.dtype}."
        if current_platform.is_cuda() and config.weight_shape[1] % 16:
            return False, f"requires a multiple of 16 input features on GPUs, got {config.weight_shape[1]}."
        for what, dtype in (("activations", config.input_dtype), ("results", config.out_dtype)):
            if dtype not in _FLOATS:
                return False, f"requires {what} of bfloat16, float16 or float32, got {dtype}."
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Keeps the weight as the checkpoint has it, contiguous, and the scales as f32."""
        params = self._get_layer_params(layer)
        name = params.WEIGHT_SCALE if params.weight_scale_inv is None else params.WEIGHT_SCALE_INV
        scale = getattr(params, name).data
        if scale.dtype is torch.uint8:
            scale = scale.view(torch.float8_e8m0fnu)
        replace_parameter(layer, params.WEIGHT, params.weight.data.contiguous())
        replace_parameter(layer, name, scale.to(torch.float32).contiguous())
        _native.torch_forget(getattr(layer, params.WEIGHT))

    def apply_block_scaled_mm(
        self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor
    ) -> torch.Tensor:
        """Multiplies activations. `As` has their scales, in any layout; it is a placeholder where they are
        not quantized."""
        x_scales = As if A.dtype is torch.float8_e4m3fn else None
        return multiply(A, B, Bs, True, x_scales, self.config.out_dtype)
