"""octile.jax for TPUs: compiled by libtpu without a TPU, and run by octile's simulator."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from jax_cases import from_numpy, operands, relative_error

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import octile.jax as oj

FP8 = jnp.float8_e4m3fn
TOPOLOGIES = {"tpu7x": "tpu7x:2x2x1", "v6e": "v6e:2x2", "v5p": "v5p:2x2x1"}


def topology(name):
    """A topology of the libtpu that the tests of the command keep, or of an installed one."""
    kept = sorted(pathlib.Path(os.environ.get("OCTILE_TOOLS", "")).glob("libtpu-*/libtpu/libtpu.so"))
    if kept:
        os.environ.setdefault("TPU_LIBRARY_PATH", str(kept[-1]))
    else:
        pytest.importorskip("libtpu", reason="libtpu is not installed: pip install 'jax[tpu]'")
    return topologies.get_topology_desc(platform="tpu", topology_name=name)


def lower(function, *arguments):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",))


def shapes(m, n, k, dtype, *shardings):
    given = [((m, k), dtype), ((n, k), FP8), ((-(-n // 128), -(-k // 128)), jnp.float32)]
    return [jax.ShapeDtypeStruct(*shape, sharding=sharding) for shape, sharding in zip(given, shardings)]


@pytest.mark.parametrize("chip", TOPOLOGIES)
@pytest.mark.parametrize("shape", [(16, 384, 512), (200, 300, 400)])
def test_libtpu_compiles(chip, shape):
    device = SingleDeviceSharding(topology(TOPOLOGIES[chip]).devices[0])
    for x_scaling in ("token", "block", "none"):
        arguments = shapes(*shape, jnp.bfloat16, *[device] * 3)
        lowered = lower(lambda *a: oj.matmul(*a, x_scaling=x_scaling), *arguments)
        assert lowered.compile().as_text().count("tpu_custom_call") == 1


def test_kernels_are_in_the_serialized_dialect():
    x, codes, scales = operands(16, 384, 512, dtype=jnp.bfloat16)
    text = lower(lambda *a: oj.matmul(*a, chip="v6e"), x, codes, scales).as_text()
    config = json.loads(re.search(r'backend_config = "(\{.*?\})"', text)[1].replace("\\22", '"'))
    assert config["custom_call_config"]["serialization_format"] == 1


def test_exported_programs_compile():
    """Lowered here for a chip that is not here, stored, and compiled by its compiler."""
    pytest.importorskip("flatbuffers", reason="jax.export needs the package flatbuffers")
    x, codes, scales = operands(16, 384, 512, dtype=jnp.bfloat16)
    multiply = jax.jit(lambda *a: oj.matmul(*a, chip="v6e"))
    stored = jax.export.export(multiply, platforms=["tpu"])(x, codes, scales).serialize()
    exported = jax.export.deserialize(stored)
    assert exported.platforms == ("tpu",)
    device = SingleDeviceSharding(topology(TOPOLOGIES["v6e"]).devices[0])
    arguments = shapes(16, 384, 512, jnp.bfloat16, *[device] * 3)
    assert lower(exported.call, *arguments).compile().as_text().count("tpu_custom_call") == 1


def test_lowering_needs_a_chip():
    with pytest.raises(ValueError, match="no device tells for which TPU to lower: pass chip='tpu7x'"):
        lower(oj.matmul, *operands(16, 128, 128))
    with pytest.raises(ValueError, match="v9"):
        lower(lambda *a: oj.matmul(*a, chip="v9"), *operands(16, 128, 128))


def write_safetensors(path, **arrays):
    names = {"float32": "F32", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3"}
    header, data = {}, b""
    for name, array in arrays.items():
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": names[array.dtype.name], "shape": array.shape, "data_offsets": offsets}
        data += array.tobytes()
    header = json.dumps(header).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def simulate(folder, lowered, **arrays):
    """Runs a lowered program in octile's simulator; returns its first result, as float32."""
    write_safetensors(folder / "operands.safetensors", **arrays)
    (folder / "lowered.mlir").write_text(lowered.as_text())
    command = [sys.executable, "-m", "octile", "simulate", "lowered.mlir"]
    command += ["--tensors", "operands.safetensors", "--operands", ",".join(arrays)]
    command += ["--save", "results.safetensors"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    data = (folder / "results.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    (tensor,) = [v for name, v in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"]
    start, end = tensor["data_offsets"]
    assert tensor["dtype"] == "F32"
    return np.frombuffer(data[8 + length :][start:end], np.float32).reshape(tensor["shape"])


@pytest.mark.parametrize("x_scaling", ["token", "block", "none"])
@pytest.mark.parametrize("shape", [(16, 384, 512), (130, 200, 300)])
def test_the_simulator_agrees_with_numpy(tmp_path, shape, x_scaling):
    x, codes, scales = operands(*shape, dtype=jnp.bfloat16)
    options = {"x_scaling": x_scaling, "out_dtype": jnp.float32}
    lowered = lower(lambda *a: oj.matmul(*a, chip="tpu7x", **options), x, codes, scales)
    found = simulate(tmp_path, lowered, x=x, codes=codes, scales=scales)
    # Where the kernel scales in bf16 it rounds once more.
    assert relative_error(found, from_numpy(x, codes, scales, **options)) < 5e-3


def test_128_devices():
    """Two cores of each chip of a 4x4x4 torus: 16-way data parallel, 8-way tensor parallel."""
    devices = np.array(topology("tpu7x:4x4x4").devices)
    assert devices.size == 128
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = Mesh(devices.reshape(16, 8), ("data", "model"), axis_types=(kind,) * 2)
        for x_spec, w_spec, out_spec, expected in [
            (P("data", None), P("model", None), None, {}),
            (P("data", "model"), P(None, "model"), None, {"all-reduce": 1}),
            (P("data", "model"), P(None, "model"), P(("data", "model"), None), {"reduce-scatter": 1}),
        ]:
            if kind == AxisType.Explicit and out_spec is not None:
                continue
            shardings = [NamedSharding(mesh, spec) for spec in (x_spec, w_spec, w_spec)]

            def multiply(*arguments):
                if kind == AxisType.Explicit:
                    return oj.matmul(*arguments)
                specs = {"x_spec": x_spec, "w_spec": w_spec, "out_spec": out_spec}
                return oj.sharded_matmul(*arguments, mesh=mesh, **specs)

            text = lower(multiply, *shapes(1024, 4096, 4096, jnp.bfloat16, *shardings)).compile().as_text()
            names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
            counts = {name: len(re.findall(rf"\b{name}(?:-start)?\(", text)) for name in names}
            assert {name: count for name, count in counts.items() if count} == expected
            assert text.count("tpu_custom_call") == 1


def test_automatic_partitioning_says_what_to_do():
    mesh = Mesh(np.array(topology("tpu7x:2x2x1").devices), ("model",), axis_types=(AxisType.Auto,))
    shardings = [NamedSharding(mesh, spec) for spec in (P(), P("model"), P("model"))]
    with pytest.raises(NotImplementedError, match="call sharded_matmul, or use a mesh with explicit axes"):
        lower(oj.matmul, *shapes(16, 1024, 512, jnp.bfloat16, *shardings))
