"""DeepGEMM's block-scaled GEMM."""

import deep_gemm
import torch


def block_scaled(inputs):
    """A call of fp8_gemm_nt. The scales of x are MN-major and aligned beforehand, as for every library."""
    m, n, _ = inputs.shape
    blocks, aligned = inputs.x_scales.shape[1], -(-m // 4) * 4
    x_scales = torch.zeros(blocks * aligned, device="cuda").as_strided((m, blocks), (1, aligned))
    x_scales.copy_(inputs.x_scales)
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

    def run():
        deep_gemm.fp8_gemm_nt((inputs.x, x_scales), (inputs.w, inputs.w_scales), out)
        return out

    return run if inputs.agrees(run()) else None
