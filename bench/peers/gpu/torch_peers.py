"""PyTorch's fp8 GEMMs: cuBLASLt with block scales, and with one scale per tensor."""

import torch
import torch.nn.functional as F

BLOCK = 128
LARGEST = 448.0


def quantize(values, block_rows):
    """Quantizes in blocks of `block_rows` x 128."""
    rows, cols = values.shape
    padded = F.pad(values, (0, -cols % BLOCK, 0, -rows % block_rows))
    blocks = padded.view(padded.shape[0] // block_rows, block_rows, padded.shape[1] // BLOCK, BLOCK)
    scales = blocks.abs().amax(dim=(1, 3), keepdim=True).clamp(min=1e-12) / LARGEST
    codes = (blocks / scales).view(padded.shape)[:rows, :cols].to(torch.float8_e4m3fn)
    return codes.contiguous(), scales[:, 0, :, 0].contiguous()


class Inputs:
    """The operands of one shape, and the expected result."""

    def __init__(self, m, n, k):
        generator = torch.Generator(device="cuda").manual_seed(1)
        x = torch.randn(m, k, device="cuda", generator=generator)
        w = torch.randn(n, k, device="cuda", generator=generator)
        self.shape = (m, n, k)
        self.x, self.x_scales = quantize(x, 1)
        self.w, self.w_scales = quantize(w, BLOCK)
        self.expected = x[:16] @ w.t()

    def agrees(self, result):
        error = (result[:16].float() - self.expected).norm() / self.expected.norm()
        return bool(error < 0.06)


def block_scaled(inputs):
    """cuBLASLt with 1 x 128 and 128 x 128 scales; None if it does not support the shape."""
    one, square = F.ScalingType.BlockWise1x128, F.ScalingType.BlockWise128x128
    x_scales = inputs.x_scales.t().contiguous().t()
    w_scales = F.pad(inputs.w_scales, (0, -inputs.w_scales.shape[1] % 4))
    for scales in (w_scales.t(), w_scales, inputs.w_scales.t(), inputs.w_scales):

        def run(scales=scales):
            return F.scaled_mm(
                inputs.x, inputs.w.t(), x_scales, one, scales, square, output_dtype=torch.bfloat16
            )

        try:
            if inputs.agrees(run()):
                return run
        except (RuntimeError, ValueError):
            torch.cuda.synchronize()
    return None


def per_tensor(inputs):
    """cuBLASLt with one scale per tensor and fast accumulation: an upper bound, not a peer."""
    one = torch.ones((), device="cuda")

    def run():
        return torch._scaled_mm(
            inputs.x, inputs.w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    try:
        run()
        return run
    except RuntimeError:
        return None
