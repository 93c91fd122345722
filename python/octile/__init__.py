"""FP8 matrix multiplication with one scale per 2-D block.

    import numpy as np
    import octile

    weight = octile.quantize(np.random.randn(256, 512).astype(np.float32), block=128)
    y = octile.matmul(np.ones((3, 512), np.float32), weight)

``octile.torch`` and ``octile.jax`` do the same for PyTorch and JAX; import them to use them.
"""

from octile._native import Weight, __version__, load_safetensors, matmul, quantize

__all__ = ["Weight", "__version__", "load_safetensors", "matmul", "quantize"]
