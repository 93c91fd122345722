"""Lowers a kernel that controls both MXUs itself. Run with jax 0.10.2; writes block_scaled.mlir beside it.

Each MXU multiplies by 256 columns of its own, one slice of K after the other. While they multiply, the
weights of the next slice are dequantized and pushed.
"""

import pathlib

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

F8, BF, F32 = jnp.float8_e4m3fn, jnp.bfloat16, jnp.float32
M, N, K, SIDE = 256, 512, 512, 256


def kernel(scales, x_hbm, w_hbm, out, x, w, semaphores):
    copies = [pltpu.make_async_copy(x_hbm, x, semaphores.at[0])]
    for block in range(N // SIDE):
        rows = pl.ds(block * SIDE, SIDE)
        copies.append(pltpu.make_async_copy(w_hbm.at[rows], w.at[rows], semaphores.at[1 + block]))
    for copy in copies:
        copy.start()
    copies[0].wait()

    def push(mxu, k):
        columns = pl.ds(k * SIDE, SIDE)
        weights = w[mxu * SIDE : (mxu + 1) * SIDE, columns].astype(F32) * scales[mxu, k]
        pltpu.matmul_push_rhs(weights.astype(BF), staging_register=0, mxu_index=mxu, transpose=True)

    copies[1].wait()
    push(0, 0)
    copies[2].wait()
    push(1, 0)

    def step(k, carry):
        for mxu in range(2):
            lhs = x[:, pl.ds(k * SIDE, SIDE)]
            pltpu.matmul_acc_lhs(acc_addr=64 * mxu, lhs=lhs, mxu_index=mxu, load_staged_rhs=0)

        @pl.when(k + 1 < K // SIDE)
        def _():
            push(0, k + 1)
            push(1, k + 1)

        return carry

    jax.lax.fori_loop(0, K // SIDE, step, 0)
    for mxu in range(2):
        sums = pltpu.matmul_pop(acc_addr=64 * mxu, shape=(M, SIDE), dtype=F32, mxu_index=mxu)
        out[:, mxu * SIDE : (mxu + 1) * SIDE] = sums


def block_scaled(scales, x, w):
    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)] * 2,
            out_specs=pl.BlockSpec((M, N), lambda i, scales: (0, 0)),
            scratch_shapes=[
                pltpu.VMEM((M, K), BF),
                pltpu.VMEM((N, K), F8),
                pltpu.SemaphoreType.DMA((3,)),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), F32),
        name="block_scaled",
    )(scales, x, w)


if __name__ == "__main__":
    shapes = [jax.ShapeDtypeStruct(*spec) for spec in [((2, 2), F32), ((M, K), BF), ((N, K), F8)]]
    lowered = jax.jit(block_scaled).trace(*shapes).lower(lowering_platforms=("tpu",))
    pathlib.Path(__file__).with_suffix(".mlir").write_text(lowered.as_text())
