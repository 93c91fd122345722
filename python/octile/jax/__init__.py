"""Block-scaled fp8 matrix multiplication for JAX, on CPUs, CUDA devices and TPUs.

    import octile.jax as oj

    y = oj.matmul(x, codes, scales)         # codes [N, K] float8_e4m3fn, scales [ceil(N/128), ceil(K/128)]
    packed = oj.pack(codes, scales)         # once, for CPUs: a pytree
    y = oj.matmul(x, packed)

``matmul`` works under ``jit``, ``vmap``, ``grad`` (for x), ``shard_map`` and ``jax.export``, and is split
among devices as its operands are: see docs/distributed.md.
"""

from octile.jax._matmul import matmul, sharded_matmul
from octile.jax._packed import PackedWeight, pack, unpack

__all__ = ["PackedWeight", "matmul", "pack", "sharded_matmul", "unpack"]
