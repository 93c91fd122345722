import functools
import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import copies


def kernel(table, x_hbm, o_ref, buffer, sem, *, steps):
    i = pl.program_id(0)

    @pl.when(i == 0)
    def _():
        copies.clear(buffer)

    copy = copies.start(x_hbm.at[pl.ds(table[i] * 8, 8)], buffer, sem)

    def body(k, carry):
        o_ref[...] = buffer[...] * 2.0
        return carry

    jax.lax.fori_loop(0, steps, body, 0)
    copy.wait()


def double(table, x):
    return pl.pallas_call(
        functools.partial(kernel, steps=2),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
        ),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )(table, x)


table = jax.ShapeDtypeStruct((4,), jnp.int32)
x = jax.ShapeDtypeStruct((32, 128), jnp.float32)
lowered = jax.jit(double).trace(table, x).lower(lowering_platforms=("tpu",))
open(sys.argv[1], "w").write(lowered.as_text())
