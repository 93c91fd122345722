"""A double-buffered Pallas kernel, right and with a data race, for `octile simulate`.

Needs `pip install jax`, no TPU. Writes, beside this file, lowered.mlir and lowered_racy.mlir (as JAX lowers
them), correct.mlir and racy.mlir (the Mosaic text inside), and tensors.safetensors.
"""

import contextlib
import functools
import io
import json
import pathlib
import re
import struct

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TILES, ROWS, COLS = 4, 8, 128


def kernel(x, out, buffer, arrived, result, stored, *, racy):
    """out = 3 * x + 1, a tile at a time; the next tile is fetched while this one is computed."""

    def fetch(tile, slot):
        rows = pl.ds(tile * ROWS, ROWS)
        return pltpu.make_async_copy(x.at[rows], buffer.at[slot], arrived.at[slot])

    fetch(0, 0).start()

    @pl.loop(0, TILES)
    def _(tile):
        slot = lax.rem(tile, 2)

        @pl.when(tile + 1 < TILES)
        def _():
            fetch(tile + 1, 1 - slot).start()

        if not racy:
            fetch(tile, slot).wait()
        result[...] = 3 * buffer[slot] + 1
        if racy:
            fetch(tile, slot).wait()  # Too late: the buffer has been read.
        store = pltpu.make_async_copy(result, out.at[pl.ds(tile * ROWS, ROWS)], stored)
        store.start()
        store.wait()


def call(x, racy):
    """The kernel, with operands in HBM and two buffers in VMEM."""
    return pl.pallas_call(
        functools.partial(kernel, racy=racy),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((2, ROWS, COLS), x.dtype),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((ROWS, COLS), x.dtype),
            pltpu.SemaphoreType.DMA,
        ],
        debug=True,  # Prints the Mosaic module while it is lowered.
        name="double_buffer",
    )(x)


def lowered_texts(x, racy):
    """The lowered module, and the Mosaic module in it as text."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        lowered = jax.jit(call, static_argnums=1).trace(x, racy).lower(lowering_platforms=("tpu",))
    text = printed.getvalue()
    return lowered.as_text(), text[text.rindex("\nmodule ") + 1 :].rstrip() + "\n"


def write_tensors(path, tensors):
    """Writes a safetensors file of f32 tensors."""
    header, data = {}, b""
    for name, array in tensors.items():
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    # Recorded file names must not depend on the machine.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", re.escape(f"{here}/"))
    x = np.arange(TILES * ROWS * COLS, dtype=np.float32).reshape(-1, COLS)
    for racy, lowered, mosaic in [(False, "lowered", "correct"), (True, "lowered_racy", "racy")]:
        texts = lowered_texts(jnp.asarray(x), racy)
        (here / f"{lowered}.mlir").write_text(texts[0])
        (here / f"{mosaic}.mlir").write_text(texts[1])
    write_tensors(here / "tensors.safetensors", {"x": x, "out": 3 * x + 1})
