"""Runs a Pallas kernel in JAX's TPU interpreter on request, and writes the same kernel as Mosaic text.

The kernel: x and w in fp8 with one scale per block, explicit DMAs into two buffers, one semaphore per buffer
and operand, tiles equal to quantization blocks. Reads one JSON object per line and answers with one.
"""

import contextlib
import functools
import io
import json
import os
import pathlib
import struct
import time

# Without these, libtpu searches for a TPU for minutes.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "tpu7x-8")
os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental import topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import SingleDeviceSharding

from harness.serve import serve

FP8, F32 = jnp.float8_e4m3fn, jnp.float32
X, W, W_SCALE, X_SCALE, OUT = range(5)
NAMES = {np.dtype("float32"): "F32", np.dtype(FP8): "F8_E4M3"}


def kernel(grid, block, x, w, w_scale, x_scale, out, x2, w2, w_scale2, x_scale2, out2, acc, semaphores):
    """One grid step: start the next DMAs, wait for this step's, multiply; store after the last k-block."""
    m, n, k = (pl.program_id(axis) for axis in range(3))
    rows, cols, depth = grid
    tile = m * cols + n
    step = tile * depth + k
    slot = lax.rem(step, 2)

    def copies(m, n, k, slot):
        rows_of = lambda index: pl.ds(index * block, block)
        pairs = (
            (x.at[rows_of(m), rows_of(k)], x2, X),
            (w.at[rows_of(n), rows_of(k)], w2, W),
            (w_scale.at[n, k], w_scale2, W_SCALE),
            (x_scale.at[m, k], x_scale2, X_SCALE),
        )
        copy = lambda source, buffer, which: pltpu.make_async_copy(
            source, buffer.at[slot], semaphores.at[slot, which]
        )
        return [copy(*pair) for pair in pairs]

    def copy_out(tile, slot):
        where = pl.ds(lax.div(tile, cols) * block, block), pl.ds(lax.rem(tile, cols) * block, block)
        return pltpu.make_async_copy(out2.at[slot], out.at[where], semaphores.at[slot, OUT])

    @pl.when(step == 0)
    def _():
        for copy in copies(m, n, k, slot):
            copy.start()

    @pl.when(step + 1 < rows * cols * depth)
    def _():
        next_k = lax.rem(k + 1, depth)
        next_tile = tile + (k + 1) // depth
        for copy in copies(next_tile // cols, lax.rem(next_tile, cols), next_k, 1 - slot):
            copy.start()

    for copy in copies(m, n, k, slot):
        copy.wait()

    @pl.when(k == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    product = lax.dot_general(x2[slot], w2[slot], (((1,), (1,)), ((), ())), preferred_element_type=F32)
    acc[...] += product * (x_scale2[slot] * w_scale2[slot])

    @pl.when(k == depth - 1)
    def _():
        out_slot = lax.rem(tile, 2)

        @pl.when(tile >= 2)
        def _():
            copy_out(tile - 2, out_slot).wait()

        out2[out_slot] = acc[...]
        copy_out(tile, out_slot).start()

        @pl.when(tile == rows * cols - 1)
        def _():
            copy_out(tile, out_slot).wait()

            @pl.when(tile >= 1)
            def _():
                copy_out(tile - 1, 1 - out_slot).wait()


def call(size, block, **options):
    """The kernel call for square matrices."""
    count = size // block
    far = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        functools.partial(kernel, (count,) * 3, block),
        out_shape=jax.ShapeDtypeStruct((size, size), F32),
        grid=(count,) * 3,
        in_specs=[far] * 4,
        out_specs=far,
        scratch_shapes=[
            pltpu.VMEM((2, block, block), FP8),
            pltpu.VMEM((2, block, block), FP8),
            pltpu.VMEM((2, 1, 1), F32),
            pltpu.VMEM((2, 1, 1), F32),
            pltpu.VMEM((2, block, block), F32),
            pltpu.VMEM((block, block), F32),
            pltpu.SemaphoreType.DMA((2, 5)),
        ],
        **options,
    )


def operands(size, block):
    """Reproducible random operands."""
    random = np.random.default_rng(7)
    count = size // block
    codes = lambda: np.asarray(random.standard_normal((size, size)) * 40, np.float32).astype(FP8)
    scales = lambda: random.uniform(0.01, 0.02, (count, count, 1, 1)).astype(np.float32)
    return [codes(), codes(), scales(), scales()]


def mosaic_text(size, block, arguments):
    """The module that JAX hands to the TPU compiler."""
    device = topologies.get_topology_desc(platform="tpu", topology_name="tpu7x:2x2x1").devices[0]
    sharding = SingleDeviceSharding(device)
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in arguments]
    abstract = jax._src.mesh.AbstractDevice(device_kind=device.device_kind, num_cores=1, platform="tpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=abstract)
    printed = io.StringIO()
    with jax.sharding.use_abstract_mesh(mesh), contextlib.redirect_stdout(printed):
        jax.jit(call(size, block, debug=True)).trace(*shapes).lower(lowering_platforms=("tpu",))
    text = printed.getvalue()
    return text[text.rindex("\nmodule ") + 1 :]


def write_tensors(path, tensors):
    """Writes a safetensors file, in the given order."""
    header, data = {}, b""
    for name, array in tensors.items():
        array = np.ascontiguousarray(array)
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def prepare(size, block, folder):
    """Compiles for the interpreter, and writes the kernel, its operands and JAX's result."""
    arguments = operands(size, block)
    interpret = lambda races: pltpu.InterpretParams(detect_races=races)
    runs = {races: jax.jit(call(size, block, interpret=interpret(races))) for races in (False, True)}
    result = np.asarray(runs[False](*arguments))
    folder = pathlib.Path(folder)
    (folder / "kernel.mlir").write_text(mosaic_text(size, block, arguments))
    names = ("x", "w_q", "w_scale", "x_scale", "out")
    write_tensors(folder / "tensors.safetensors", dict(zip(names, [*arguments, result])))
    return arguments, runs


def answer(request, ready):
    """Handles one request. Returns the new state and the answer."""
    if "prepare" in request:
        return prepare(**request["prepare"]), {}
    arguments, runs = ready
    start = time.perf_counter()
    jax.block_until_ready(runs[request["races"]](*arguments))
    return ready, {"samples_ms": [1e3 * (time.perf_counter() - start)]}


if __name__ == "__main__":
    serve({"jax": jax.__version__}, answer)
