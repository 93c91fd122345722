"""PyTorch: linear layers with fp8 weights, on CPUs and Hopper GPUs.

import octile.torch

y = octile.torch.linear(x, weight, weight_scale_inv)      # one product; operands stay where they are
layer = octile.torch.Fp8Linear(4096, 11008)               # loads Hugging Face's fp8 checkpoints
octile.torch.replace_linears(model, skip=["lm_head"])     # quantizes the layers of a model
"""

from octile.torch._modules import Fp8Linear, replace_linears
from octile.torch._ops import dequantize, linear, quantize

__all__ = ["Fp8Linear", "dequantize", "linear", "quantize", "replace_linears"]
