"""Kernels for the comparison of findings: correct ones, and ones with a planted bug.

The scenarios are those that JAX tests its TPU interpreter with (DMAs and reads in the wrong order, ring
collectives, two devices that write the same place, uninitialized memory, steps in another order), and bugs
that authors of Pallas kernels report.
"""

import dataclasses
import functools
from typing import Optional

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention as flash

from lowering import Case

F32 = jnp.float32
P = jax.sharding.PartitionSpec
ANY = pl.BlockSpec(memory_space=pl.ANY)
VMEM = pl.BlockSpec(memory_space=pltpu.VMEM)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
MESH = pl.DeviceIdType.MESH
RING = 4


@dataclasses.dataclass(frozen=True)
class Study:
    """A case, and the bug in it. `hangs` marks bugs on which JAX's interpreter never returns."""

    case: Case
    bug: Optional[str] = None
    hangs: bool = False
    slow: bool = False


def normal(seed, *shape):
    """Reproducible random values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def out(*shape):
    """An f32 result."""
    return jax.ShapeDtypeStruct(shape, F32)


def kernel_call(kernel, **options):
    """A function that calls a kernel. JAX decides in it, not here, whether to interpret the kernel."""
    return lambda *operands: pl.pallas_call(kernel, **options)(*operands)


def over_devices(local, in_specs, out_specs):
    """Runs `local` on every device of the mesh that is in use when it is called."""
    map_ = lambda: jax.shard_map(local, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    return lambda *operands: map_()(*operands)


def neighbours():
    """The devices to the left and to the right."""
    me = lax.axis_index("x")
    return lax.rem(me + RING - 1, RING), lax.rem(me + 1, RING)


def barrier_with(devices):
    """Waits until all of `devices` have arrived, if they wait for this one, too."""
    barrier = pltpu.get_barrier_semaphore()
    for device in devices:
        pl.semaphore_signal(barrier, 1, device_id=(device,), device_id_type=MESH)
    pl.semaphore_wait(barrier, len(devices))


def collective(kernel, result, scratch, in_spec=VMEM, out_spec=VMEM, barrier=True, **options):
    """A kernel call on each device's rows of x."""
    params = pltpu.CompilerParams(collective_id=0) if barrier else None

    def local(x):
        call = pl.pallas_call(
            kernel,
            in_specs=[in_spec],
            out_specs=out_spec,
            out_shape=result,
            scratch_shapes=scratch,
            compiler_params=params,
            **options,
        )
        return call(x)

    return over_devices(local, P("x"), P("x"))


def ring_case(name, function, operands, reference, bug=None, hangs=False):
    """A study on a ring of devices."""
    return Study(Case(name, function, operands, reference, {"x": RING}), bug, hangs)


def copy_study(wait_first):
    """A DMA into VMEM, and a read before or after the wait."""

    def kernel(x, o, buffer, semaphore):
        copy = pltpu.make_async_copy(x, buffer, semaphore)
        copy.start()
        if wait_first:
            copy.wait()
        o[...] = buffer[...] + 1.0
        if not wait_first:
            copy.wait()

    function = kernel_call(
        kernel,
        in_specs=[ANY],
        out_specs=VMEM,
        out_shape=out(8, 128),
        scratch_shapes=[pltpu.VMEM((8, 128), F32), DMA],
    )
    name = "copy" if wait_first else "copy, read before the wait"
    case = Case(name, function, [normal(0, 8, 128)], lambda x: x + 1)
    return Study(case, None if wait_first else "race")


def double_buffer_study(bug=None):
    """Two buffers in turn; the bug starts a DMA into the buffer that is still to be read."""
    count, rows = 8, 64

    def kernel(x, o, buffers, semaphores):
        load = lambda i, slot: pltpu.make_async_copy(
            x.at[pl.ds(i * rows, rows)], buffers.at[slot], semaphores.at[slot]
        )
        load(0, 0).start()
        load(1, 1).start()

        @pl.loop(0, count)
        def _(i):
            slot = lax.rem(i, 2)
            load(i, slot).wait()
            store = lambda: o.__setitem__((pl.ds(i * rows, rows), slice(None)), jnp.exp(buffers[slot]))
            if not bug:
                store()

            @pl.when(i + 2 < count)
            def _():
                load(i + 2, slot).start()

            if bug:
                store()

    function = kernel_call(
        kernel,
        in_specs=[ANY],
        out_specs=VMEM,
        out_shape=out(count * rows, 128),
        scratch_shapes=[pltpu.VMEM((2, rows, 128), F32), DMA((2,))],
    )
    name = "two buffers" + (", refilled before the last read" if bug else "")
    return Study(Case(name, function, [normal(0, count * rows, 128)], np.exp), bug)


def permute_study(barrier):
    """Every device sends its rows to the right; without a barrier they may arrive before the zeros."""

    def kernel(x, o, buffer, send, receive):
        left, right = neighbours()
        if barrier:
            buffer[...] = jnp.zeros_like(buffer)
            barrier_with([left, right])
        else:
            buffer[...] = jnp.zeros_like(buffer)
        copy = pltpu.make_async_remote_copy(x, buffer, send, receive, device_id=(right,), device_id_type=MESH)
        copy.start()
        copy.wait()
        o[...] = buffer[...]

    scratch = [pltpu.VMEM((8, 128), F32), DMA, DMA]
    function = collective(kernel, out(8, 128), scratch, barrier=barrier)
    name = "permute" + ("" if barrier else ", no barrier")
    reference = lambda x: np.roll(x, 8, axis=0)
    return ring_case(name, function, [normal(0, 8 * RING, 128)], reference, None if barrier else "race")


def all_gather_study():
    """The ring all-gather of the Pallas documentation's kind: one chunk further per step."""

    def kernel(x, o, local, send, receive):
        step = pl.program_id(0)
        me = lax.axis_index("x")
        left, right = neighbours()

        @pl.when(step == 0)
        def _():
            barrier_with([left, right])
            pltpu.async_copy(x, o.at[me], local).wait()

        chunk = lax.rem(me - step + RING, RING)
        copy = pltpu.make_async_remote_copy(
            o.at[chunk], o.at[chunk], send, receive.at[step], device_id=(right,), device_id_type=MESH
        )
        copy.start()
        copy.wait()

    scratch = [DMA, DMA, DMA((RING - 1,))]
    function = collective(kernel, out(RING, 8, 128), scratch, ANY, ANY, grid=(RING - 1,))
    reference = lambda x: np.concatenate([x.reshape(RING, 8, 128)] * RING)
    return ring_case("ring all-gather", function, [normal(0, 8 * RING, 128)], reference)


def all_reduce_study(capacity):
    """The ring all-reduce through two buffers; without capacity signals a sender can run ahead."""

    def kernel(x, o, buffers, send, receive, ready):
        left, right = neighbours()
        barrier_with([left, right])
        buffers[0] = x[...]
        o[...] = x[...]
        for step in range(RING - 1):
            slot = step % 2
            if capacity:
                pl.semaphore_signal(ready, 1, device_id=(left,), device_id_type=MESH)
                pl.semaphore_wait(ready, 1)
            copy = pltpu.make_async_remote_copy(
                buffers.at[slot],
                buffers.at[1 - slot],
                send.at[slot],
                receive.at[slot],
                device_id=(right,),
                device_id_type=MESH,
            )
            copy.start()
            copy.wait()
            o[...] += buffers[1 - slot]

    scratch = [pltpu.VMEM((2, 8, 128), F32), DMA((2,)), DMA((2,)), REGULAR]
    function = collective(kernel, out(8, 128), scratch)
    name = "ring all-reduce" + ("" if capacity else ", no capacity signal")
    reference = lambda x: np.concatenate([x.reshape(RING, 8, 128).sum(0)] * RING)
    return ring_case(name, function, [normal(0, 8 * RING, 128)], reference, None if capacity else "race")


def reduce_scatter_study():
    """Sums that travel around the ring, each with a pipeline inside that adds blocks."""
    rows = 16

    def add(x, y, o):
        o[...] = x[...] + y[...]

    def kernel(x, o, received, send, receive):
        me = lax.axis_index("x")
        left, right = neighbours()
        barrier_with([left, right])
        pltpu.sync_copy(x.at[lax.rem(me + RING - 1, RING)], o)
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pipeline = pltpu.emit_pipeline(add, grid=(rows // 8,), in_specs=[block, block], out_specs=[block])
        for step in range(RING - 1):
            copy = pltpu.make_async_remote_copy(
                o, received.at[step], send, receive.at[step], device_id=(right,), device_id_type=MESH
            )
            copy.start()
            copy.wait()
            chunk = lax.rem(me + 2 * RING - 2 - step, RING)
            pipeline(received.at[step], x.at[chunk], o)

    def local(x):
        call = pl.pallas_call(
            kernel,
            in_specs=[ANY],
            out_specs=[ANY, ANY],
            out_shape=[out(rows, 128), out(RING - 1, rows, 128)],
            scratch_shapes=[DMA, DMA((RING - 1,))],
            compiler_params=pltpu.CompilerParams(collective_id=0),
        )
        return call(x[0])[0][None]

    function = over_devices(local, P("x"), P("x"))
    operands = [normal(0, RING, RING, rows, 128)]
    return ring_case("ring reduce-scatter with a pipeline", function, operands, lambda x: x.sum(0))


def senders_study(pairs, bug=None):
    """DMAs from device to device as a table says; the bug lets two devices write to the same one."""
    table = np.array(pairs, np.int32)

    def kernel(table, x, o, send, receive):
        me = lax.axis_index("x")
        barrier_with(list(range(RING)))
        received = 0
        for index in range(len(pairs)):
            source, target = table[index, 0], table[index, 1]
            copy = pltpu.make_async_remote_copy(
                x, o, send, receive, device_id=(target,), device_id_type=MESH
            )

            @pl.when(source == me)
            def _():
                copy.start()
                copy.wait_send()

            received += jnp.where(target == me, 1, 0)

        @pl.loop(0, received)
        def _(_):
            pltpu.make_async_copy(x, o, receive).wait()

    def local(table, x):
        call = pl.pallas_call(
            kernel,
            in_specs=[SMEM, ANY],
            out_specs=ANY,
            out_shape=out(8, 128),
            scratch_shapes=[DMA, DMA],
            compiler_params=pltpu.CompilerParams(collective_id=0),
        )
        return call(table, x)

    function = over_devices(local, (P(None), P("x")), P("x"))
    name = "sends by a table" + (", two to one device" if bug else "")
    # With the bug, a device receives nothing, so there is no reference.
    return ring_case(name, function, [table, normal(0, 8 * RING, 128)], None, bug)


def wait_send_study():
    """The result is read after the own send, before the neighbour's rows have arrived."""

    def kernel(x, o, buffer, send, receive):
        left, right = neighbours()
        barrier_with([left, right])
        copy = pltpu.make_async_remote_copy(x, buffer, send, receive, device_id=(right,), device_id_type=MESH)
        copy.start()
        copy.wait_send()
        o[...] = buffer[...]
        copy.wait_recv()

    function = collective(kernel, out(8, 128), [pltpu.VMEM((8, 128), F32), DMA, DMA])
    reference = lambda x: np.roll(x, 8, axis=0)
    operands = [normal(0, 8 * RING, 128)]
    return ring_case("permute, only the send waited for", function, operands, reference, "race")


def missing_signal_study():
    """A barrier that waits for both neighbours, of which only one signals."""

    def kernel(x, o):
        left, _ = neighbours()
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=(left,), device_id_type=MESH)
        pl.semaphore_wait(barrier, 2)
        o[...] = x[...]

    function = collective(kernel, out(8, 128), [])
    operands = [normal(0, 8 * RING, 128)]
    return ring_case("barrier, a signal missing", function, operands, lambda x: x, "deadlock", hangs=True)


def matmul_study(initialize=True):
    """A blocked matmul with an accumulator, which the bug does not clear."""

    def kernel(x, y, o, sum_):
        if initialize:

            @pl.when(pl.program_id(2) == 0)
            def _():
                sum_[...] = jnp.zeros_like(sum_)

        sum_[...] += jnp.dot(x[...], y[...], preferred_element_type=F32)
        o[...] = sum_[...]

    block = functools.partial(pl.BlockSpec, (128, 128))
    function = kernel_call(
        kernel,
        grid=(4, 4, 4),
        in_specs=[block(lambda i, j, k: (i, k)), block(lambda i, j, k: (k, j))],
        out_specs=block(lambda i, j, k: (i, j)),
        out_shape=out(512, 512),
        scratch_shapes=[pltpu.VMEM((128, 128), F32)],
    )
    name = "matmul" + ("" if initialize else ", accumulator not cleared")
    case = Case(name, function, [normal(0, 512, 512), normal(1, 512, 512)], lambda x, y: x @ y)
    return Study(case, None if initialize else "uninitialized read")


def parallel_study():
    """A running sum over a grid dimension that is declared parallel."""

    def kernel(x, o, total):
        @pl.when(pl.program_id(0) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += x[...]
        o[...] = total[...]

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    function = kernel_call(
        kernel,
        grid=(8,),
        in_specs=[block],
        out_specs=block,
        out_shape=out(64, 128),
        scratch_shapes=[pltpu.VMEM((8, 128), F32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )
    reference = lambda x: np.cumsum(x.reshape(8, 8, 128), axis=0).reshape(64, 128)
    case = Case("running sum over a parallel dimension", function, [normal(0, 64, 128)], reference)
    return Study(case, "order")


def out_of_bounds_study():
    """A block of rows that ends behind the operand."""

    def kernel(start, x, o):
        o[...] = x[pl.ds(start[0], 16), :]

    function = kernel_call(kernel, in_specs=[SMEM, VMEM], out_specs=VMEM, out_shape=out(16, 128))
    operands = [np.array([56], np.int32), normal(0, 64, 128)]
    return Study(Case("rows behind the end", function, operands), "out of bounds")


def attention_study(heads, length, slow=False):
    """JAX's flash attention kernel."""
    operands = [normal(seed, 1, heads, length, 128) for seed in range(3)]
    function = functools.partial(flash.flash_attention, causal=True, sm_scale=128**-0.5)
    name = f"flash attention 1x{heads}x{length}x128"
    # The MXU rounds f32 operands to bf16, the CPU does not: results are compared elsewhere.
    return Study(Case(name, lambda q, k, v: function(q, k, v), operands), slow=slow)


def studies():
    """All studies, in the order of the report."""
    return [
        copy_study(wait_first=True),
        copy_study(wait_first=False),
        double_buffer_study(),
        double_buffer_study("race"),
        matmul_study(),
        matmul_study(initialize=False),
        parallel_study(),
        out_of_bounds_study(),
        permute_study(barrier=True),
        permute_study(barrier=False),
        wait_send_study(),
        all_gather_study(),
        all_reduce_study(capacity=True),
        all_reduce_study(capacity=False),
        reduce_scatter_study(),
        senders_study([[0, 1], [1, 2], [2, 3], [3, 0]]),
        senders_study([[0, 1], [1, 2], [3, 2], [3, 0]], "race"),
        missing_signal_study(),
        attention_study(2, 512),
        attention_study(8, 2048, slow=True),
    ]
