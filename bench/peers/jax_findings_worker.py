"""Lowers the kernels of jax_findings_cases.py, and runs them in JAX's TPU interpreter on request.

Reads one JSON object per line and answers with one. With a number as argument it runs that kernel once.
"""

import os
import pathlib
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pallas"))

import lowering

import jax
import numpy as np
from jax._src.pallas.mosaic import tpu_info
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax.experimental.pallas import tpu as pltpu

from harness.serve import serve
from jax_findings_cases import studies

# Pipelines ask for the chip's properties.
tpu_info.registry["cpu"] = lambda: tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_7X, 1)
STUDIES = studies()
COMPILED = {}


def context(case):
    """The mesh of the host's devices that a case needs."""
    axes = case.mesh or {"x": 1}
    sizes = tuple(axes.values())
    devices = np.array(jax.devices()[: np.prod(sizes)]).reshape(sizes)
    types = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.set_mesh(jax.sharding.Mesh(devices, tuple(axes), axis_types=types))


def interpret(study, races, compiled=True):
    """Runs a kernel. Returns seconds and the results."""
    key = study.case.name, races
    params = pltpu.InterpretParams(detect_races=races)
    # A function of its own, because JAX would reuse what it compiled before.
    function = lambda *operands: study.case.function(*operands)
    with context(study.case), pltpu.force_tpu_interpret_mode(params):
        run = COMPILED.setdefault(key, jax.jit(function)) if compiled else jax.jit(function)
        start = time.perf_counter()
        results = jax.block_until_ready(run(*study.case.operands))
        return time.perf_counter() - start, [np.asarray(leaf) for leaf in jax.tree.leaves(results)]


def findings(study):
    """What JAX says about a kernel: whether races were found, the exception, or NaN in the results."""
    try:
        _, results = interpret(study, True)
    except Exception as error:
        pltpu.reset_tpu_interpret_mode_state()
        COMPILED.clear()
        lines = [line for line in str(error).splitlines() if "Error" in line]
        return {"raised": (lines or [type(error).__name__])[-1].strip()[:200]}
    wrong = None
    if study.case.reference is not None:
        expected = jax.tree.leaves(study.case.reference(*study.case.operands))
        close = [np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(results, expected)]
        wrong = not all(close)
    return {
        "races": bool(interpreter.races.races_found),
        "nan": any(np.isnan(result).any() for result in results),
        "wrong": wrong,
    }


def answer(request, state):
    """Handles one request. Returns the state, which is not used, and the answer."""
    study = STUDIES[request["study"]]
    if "folder" in request:
        start = time.perf_counter()
        lowering.write(study.case, pathlib.Path(request["folder"]))
        seconds = time.perf_counter() - start
        jax.clear_caches()  # Else JAX reuses traces that were made for the TPU.
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(study.case.operands))
        return state, {"bytes": size, "lowering_ms": 1e3 * seconds}
    if "findings" in request:
        return state, findings(study)
    start = time.process_time()
    seconds, _ = interpret(study, True, request["compiled"])
    return state, {"samples_ms": [1e3 * seconds], "processor_ms": 1e3 * (time.process_time() - start)}


def describe(study):
    """What the script needs to know about a study."""
    return {"name": study.case.name, "bug": study.bug, "hangs": study.hangs, "slow": study.slow}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(findings(STUDIES[int(sys.argv[1])]))
    else:
        serve({"jax": jax.__version__, "studies": [describe(study) for study in STUDIES]}, answer)
