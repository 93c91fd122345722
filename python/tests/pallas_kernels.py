"""Pallas TPU kernels, correct and with planted bugs. Tests find the lines by their comments."""

import functools
import pathlib

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = (8, 128)


def line_of(comment: str) -> int:
    """The number of the line with this comment."""
    lines = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}")]
    return number


def _call(kernel, x, **options):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **options)(x)


def _with_copy(kernel, x):
    """A call with the operand in HBM, a buffer in VMEM and a DMA semaphore."""
    scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA]
    return _call(kernel, x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], scratch_shapes=scratch)


def double(x):
    """2 x, by blocks of the pipeline."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec(BLOCK, lambda i: (i, 0))
    return _call(kernel, x, grid=(x.shape[0] // BLOCK[0],), in_specs=[spec], out_specs=spec)


def copied(x):
    """2 x, through a DMA."""

    def kernel(x_hbm, o_ref, buffer, arrived):
        copy = pltpu.make_async_copy(x_hbm, buffer, arrived)
        copy.start()
        copy.wait()
        o_ref[...] = buffer[...] * 2

    return _with_copy(kernel, x)


def racy(x):
    """2 x, but the buffer is read before the DMA has arrived."""

    def kernel(x_hbm, o_ref, buffer, arrived):
        copy = pltpu.make_async_copy(x_hbm, buffer, arrived)
        copy.start()  # race: DMA
        o_ref[...] = buffer[...] * 2  # race: read
        copy.wait()

    return _with_copy(kernel, x)


def deadlocked(x):
    """Waits for a DMA that was never started."""

    def kernel(x_hbm, o_ref, buffer, arrived):
        o_ref[...] = jnp.zeros_like(o_ref)
        pltpu.make_async_copy(x_hbm, buffer, arrived).wait()  # deadlock

    return _with_copy(kernel, x)


def uninitialized(x):
    """Computes with a buffer that nobody has written."""

    def kernel(x_hbm, o_ref, buffer, arrived):
        o_ref[...] = buffer[...] * 2  # uninitialized

    return _with_copy(kernel, x)


def leaking(x):
    """Ends with a DMA that nobody has waited for."""

    def kernel(x_hbm, o_ref, buffer, arrived):
        o_ref[...] = jnp.zeros_like(o_ref)
        pltpu.make_async_copy(x_hbm, buffer, arrived).start()  # leak

    return _with_copy(kernel, x)


def sum_and_codes(tree, factor, unused):
    """A tree in, a tree out, several types, a static argument and one that is not used."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * factor + y_ref[...].astype(jnp.float32)

    x, y = tree["x"], tree["more"][0]
    total = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)
    return {"total": total, "narrow": (total.astype(jnp.bfloat16), total.astype(jnp.float8_e4m3fn))}


def matmul(x, w):
    """x w, in f32 blocks."""

    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)

    rows, width = x.shape[0], w.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, width), x.dtype),
        grid=(rows // 128,),
        in_specs=[pl.BlockSpec((128, x.shape[1]), lambda i: (i, 0)), pl.BlockSpec(w.shape, lambda i: (0, 0))],
        out_specs=pl.BlockSpec((128, width), lambda i: (i, 0)),
    )(x, w)


def pipelined(x):
    """2 x by `emit_pipeline`, which asks JAX for the chip."""

    def kernel(x_hbm, o_hbm):
        def body(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        spec = pl.BlockSpec(BLOCK, lambda i: (i, 0))
        grid = (x_hbm.shape[0] // BLOCK[0],)
        pltpu.emit_pipeline(body, grid=grid, in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return _call(kernel, x, in_specs=[anywhere], out_specs=anywhere)


def shifted(x):
    """Every device of the axis `x` sends its part to its right neighbour."""

    def kernel(x_ref, o_ref, sent, received):
        me, devices = jax.lax.axis_index("x"), jax.lax.axis_size("x")
        right = jax.lax.rem(me + 1, devices)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, received, device_id=(right,))
        copy.start()
        copy.wait()

    def part(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        semaphores = [pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
        return _call(kernel, x, in_specs=[anywhere], out_specs=anywhere, scratch_shapes=semaphores)

    axis = jax.sharding.PartitionSpec("x")
    return jax.shard_map(part, in_specs=axis, out_specs=axis, check_vma=False)(x)


jitted_sum_and_codes = functools.partial(jax.jit, static_argnums=1)(sum_and_codes)
