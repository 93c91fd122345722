"""vLLM: linear layers with block-scaled fp8 weights, on CPUs and Hopper GPUs.

Where vLLM and Octile are installed together, vLLM calls `register` in each of its processes, and uses Octile
for layers that it supports. ``VLLM_DISABLED_KERNELS=OctileFp8BlockScaledMMKernel`` turns it off, as does a
``VLLM_PLUGINS`` without ``octile``.
"""

import logging

__all__ = ["register"]


def register() -> None:
    """Puts Octile first among vLLM's kernels for block-scaled fp8 weights. Calling it again changes nothing.

    vLLM's own `register_linear_kernel` has no kind for block scales, so the list behind it is changed. If a
    version of vLLM has no such list, a warning says so, and vLLM uses its own kernels.
    """
    try:
        from vllm.model_executor.kernels.linear import _POSSIBLE_FP8_BLOCK_KERNELS as possible
        from vllm.platforms import PlatformEnum

        from octile.vllm._kernel import OctileFp8BlockScaledMMKernel as kernel
    except (ImportError, AttributeError) as error:
        logging.getLogger(__name__).warning("vLLM does not use the kernels of octile: %s", error)
        return
    for platform in (PlatformEnum.CPU, PlatformEnum.CUDA):
        kernels = possible.setdefault(platform, [])
        if kernel not in kernels:
            kernels.insert(0, kernel)
