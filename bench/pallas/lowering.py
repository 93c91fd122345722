"""Lowers Pallas kernels for TPU without a TPU, and writes them with operands and expected results."""

import dataclasses
import json
import os
import pathlib
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

# Without these, libtpu searches for a TPU for minutes.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "tpu7x-8")
os.environ.setdefault("TPU_MIN_LOG_LEVEL", "3")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import ml_dtypes
import numpy as np
from jax.experimental.pallas import tpu as pltpu

CHIP = "TPU7x"
DTYPES = {
    np.dtype("bool"): "BOOL",
    np.dtype("int8"): "I8",
    np.dtype("uint8"): "U8",
    np.dtype("int16"): "I16",
    np.dtype("uint16"): "U16",
    np.dtype("int32"): "I32",
    np.dtype("uint32"): "U32",
    np.dtype("int64"): "I64",
    np.dtype("float16"): "F16",
    np.dtype("float32"): "F32",
    np.dtype("float64"): "F64",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(ml_dtypes.float8_e4m3fn): "F8_E4M3",
    np.dtype(ml_dtypes.float8_e5m2): "F8_E5M2",
}
"""Names of element types in safetensors files."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A function that calls Pallas kernels, with operands and the expected result.

    `reference` computes the result with other means than the kernel, or is None where there is none.
    `mesh` names the axes and sizes of a device mesh for functions with collectives.
    """

    name: str
    function: Callable
    operands: Sequence[Any]
    reference: Optional[Callable] = None
    mesh: Optional[Dict[str, int]] = None


def interpreter(function: Callable) -> Callable:
    """A reference for kernels without another one: JAX's own TPU interpreter, on the CPU."""

    def run(*operands):
        # Kernels ask the mesh for the chip's properties.
        with jax.sharding.use_abstract_mesh(abstract_mesh({})):
            with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
                return jax.jit(function)(*operands)

    return run


def abstract_mesh(axes: Dict[str, int]) -> jax.sharding.AbstractMesh:
    """A mesh of devices that need not exist. With no axes: one device."""
    device = jax._src.mesh.AbstractDevice(device_kind=CHIP, num_cores=1, platform="tpu")
    types = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.sharding.AbstractMesh(
        tuple(axes.values()), tuple(axes), axis_types=types, abstract_device=device
    )


def lower(case: Case):
    """The lowered computation, as JAX hands it to the TPU compiler."""
    with jax.sharding.use_abstract_mesh(abstract_mesh(case.mesh or {})):
        return jax.jit(case.function).trace(*case.operands).lower(lowering_platforms=("tpu",))


def expected(case: Case) -> Tuple[np.ndarray, ...]:
    """The flattened results of the reference; nothing without one."""
    if case.reference is None:
        return ()
    with jax.default_matmul_precision("highest"):
        return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(case.reference(*case.operands)))


def tensors(case: Case, lowered) -> Dict[str, np.ndarray]:
    """Operands `a00`, `a01`, … in the order of `@main`'s arguments, and results.

    A single result is called `out`, several `out0`, `out1`, …. JAX drops arguments that a function ignores,
    so the order is that of the arguments it kept.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tuple(case.operands))]
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    named = {f"a{index:02}": leaves[which] for index, which in enumerate(kept)}
    avals = jax.tree.leaves(lowered.out_info)
    for index, (aval, result) in enumerate(zip(avals, expected(case))):
        if aval.shape != result.shape:
            raise ValueError(f"{case.name}: result {index} is {result.shape}, the kernel's is {aval.shape}")
        named[f"out{index}" if len(avals) > 1 else "out"] = result.astype(aval.dtype)
    return named


def write_tensors(path: pathlib.Path, named: Dict[str, np.ndarray]) -> None:
    """Writes a safetensors file, in the given order."""
    header, data = {}, bytearray()
    for name, array in named.items():
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        data += np.ascontiguousarray(array).tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))


def write(case: Case, folder: pathlib.Path) -> List[str]:
    """Writes `lowered.mlir` and `tensors.safetensors` into a folder. Returns the expected results' names."""
    folder.mkdir(parents=True, exist_ok=True)
    lowered = lower(case)
    (folder / "lowered.mlir").write_text(lowered.as_text())
    named = tensors(case, lowered)
    write_tensors(folder / "tensors.safetensors", named)
    return [name for name in named if name.startswith("out")]
