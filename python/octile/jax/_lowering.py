"""The multiplication as a JAX primitive: XLA FFI on CPUs and CUDA devices, a Mosaic kernel on TPUs."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func
from jax.interpreters import mlir

from octile import _native
from octile.jax._problem import CHIPS, Problem, blocks_of

_TARGET = "octile_matmul"
#: What JAX calls the TPUs that kernels are generated for.
_CHIPS = {
    "TPU7x": "tpu7x",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v4": "v4",
}

#: ``x [M, K], codes [N, K], scales`` or ``x, packed``, then the scales of fp8 activations -> ``[M, N]``.
matmul_p = Primitive(_TARGET)


def register() -> None:
    """Registers the handlers with XLA."""
    handlers = _native.xla_handlers()
    jax.ffi.register_ffi_target(_TARGET, handlers["cpu"], platform="cpu")
    jax.ffi.register_ffi_target("octile_pack", handlers["pack"], platform="cpu")
    jax.ffi.register_ffi_target("octile_unpack", handlers["unpack"], platform="cpu")
    # Kernels are compiled before execution, which may be captured into a graph.
    stages = {"initialize": handlers["cuda"], "execute": handlers["cuda"]}
    jax.ffi.register_ffi_target(_TARGET, stages, platform="CUDA")


@matmul_p.def_impl
def _impl(*operands: Any, problem: Problem) -> jax.Array:
    return jax.jit(matmul_p.bind, static_argnames="problem")(*operands, problem=problem)


@matmul_p.def_abstract_eval
def _abstract_eval(x: ShapedArray, *_: ShapedArray, problem: Problem) -> ShapedArray:
    return x.update(shape=(x.shape[0], problem.n), dtype=problem.out_dtype, weak_type=False)


def _attributes(problem: Problem, m: int) -> dict[str, Any]:
    return {
        "m": np.int64(m),
        "n": np.int64(problem.n),
        "k": np.int64(problem.k),
        "block": np.int64(problem.block),
        "x": problem.x,
        "x_scaling": problem.x_scaling,
        "out": problem.out,
        "weight": "packed" if problem.packed else "rows",
    }


def _lower_cpu(ctx: mlir.LoweringRuleContext, *operands: Any, problem: Problem) -> Any:
    m = ctx.avals_in[0].shape[0]
    return jax.ffi.ffi_lowering(_TARGET)(ctx, *operands, **_attributes(problem, m))


def _lower_cuda(ctx: mlir.LoweringRuleContext, *operands: Any, problem: Problem) -> Any:
    _require_rows(problem, "CUDA devices")
    if problem.x_scaling == "none":
        raise ValueError("CUDA devices multiply fp8 activations only: x_scaling is 'token' or 'block'")
    if problem.k % 16:
        raise ValueError(f"K = {problem.k} is not a multiple of 16, which CUDA devices need")
    m = ctx.avals_in[0].shape[0]
    # A result and not a scratch allocation, so that the memory is still there when a graph is replayed.
    workspace = ShapedArray((_workspace_bytes(problem, m),), jnp.uint8)
    ctx = ctx.replace(avals_out=[*ctx.avals_out, workspace])
    return jax.ffi.ffi_lowering(_TARGET)(ctx, *operands, **_attributes(problem, m))[:1]


def _workspace_bytes(problem: Problem, m: int) -> int:
    """Room for quantized activations and their scales, in any layout that a kernel may choose."""
    if problem.has_x_scales:
        return 0
    padded = blocks_of(m, 128) * 128
    return padded * problem.k + 4 * padded * blocks_of(problem.k, problem.block) + 4096


def _lower_tpu(ctx: mlir.LoweringRuleContext, *operands: Any, problem: Problem) -> Any:
    _require_rows(problem, "TPUs")
    if getattr(ctx.module_context.axis_context, "num_devices", 1) > 1:
        raise NotImplementedError(
            "compilers for TPUs cannot partition this multiplication: call sharded_matmul, or use a mesh "
            "with explicit axes, or shard_map"
        )
    shape = (ctx.avals_in[0].shape[0], problem.n, problem.k)
    text = _native.tpu_module(
        _chip(ctx, problem),
        shape,
        problem.block,
        x=problem.x,
        x_scaling=problem.x_scaling,
        out=problem.out,
        libtpu=_libtpu_version(),
    )
    module_context = ctx.module_context
    module = ir.Module.parse(text, module_context.context)
    results = ir.SymbolTable(module.operation)["main"].type.results
    name = mlir.merge_mlir_modules(module_context.module, _TARGET, module, module_context.symbol_table)
    return func.CallOp(results, ir.FlatSymbolRefAttr.get(name), operands).results


def _libtpu_version() -> str | None:
    """Version of the compiler that JAX uses, if it is installed here."""
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return None


def _chip(ctx: mlir.LoweringRuleContext, problem: Problem) -> str:
    """The TPU that a program is lowered for."""
    if problem.chip is not None:
        return problem.chip
    kind = _device_kind(ctx)
    if kind is None:
        raise ValueError(
            "no device tells for which TPU to lower: pass chip='tpu7x' (or v6e, v5p, v5e, v4) to matmul"
        )
    if kind not in _CHIPS:
        raise ValueError(f"there are no kernels for {kind}, only for {', '.join(CHIPS)}")
    return _CHIPS[kind]


def _device_kind(ctx: mlir.LoweringRuleContext) -> str | None:
    """What JAX calls the device that a program is lowered for, if it is a TPU."""
    axis_context = ctx.module_context.axis_context
    mesh = getattr(axis_context, "mesh", None)
    abstract = [getattr(mesh, "abstract_device", None)]
    abstract.append(getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None))
    devices = list(getattr(axis_context, "device_assignment", None) or ())
    if isinstance(mesh, jax.sharding.Mesh):
        devices += mesh.devices.flat
    if not devices and jax.default_backend() == "tpu":
        devices = jax.local_devices()
    kinds = [device.device_kind for device in [*abstract, *devices[:1]] if device is not None]
    return next((kind for kind in kinds if kind.startswith("TPU")), None)


def _require_rows(problem: Problem, what: str) -> None:
    if problem.packed:
        raise ValueError(f"packed weights are for CPUs; on {what} call matmul(x, codes, scales)")


mlir.register_lowering(matmul_p, _lower_cpu, platform="cpu")
mlir.register_lowering(matmul_p, _lower_cuda, platform="cuda")
mlir.register_lowering(matmul_p, _lower_tpu, platform="tpu")
register()
