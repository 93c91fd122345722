"""The native half of octile."""

import os
from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "Multiplication",
    "Weight",
    "__version__",
    "load_safetensors",
    "matmul",
    "pack_into",
    "packed_shape",
    "quantize",
    "run_command",
    "torch_forget",
    "torch_layer",
    "torch_linear",
    "torch_linear_kernel",
    "torch_remembered",
    "tpu_module",
    "xla_handlers",
]

__version__: str

@final
class Weight:
    """A matrix of N x K fp8 codes (e4m3fn) with one float32 scale per block."""

    @staticmethod
    def from_codes(
        codes: npt.NDArray[Any], scales: npt.NDArray[np.float32], block: int | None = None
    ) -> Weight:
        """Takes codes [N, K] (float8_e4m3fn or uint8) and scales [ceil(N/block), ceil(K/block)]."""

    @property
    def codes(self) -> npt.NDArray[Any]:
        """The codes, a read-only view: float8_e4m3fn, or uint8 without the package ml_dtypes."""

    @property
    def scales(self) -> npt.NDArray[np.float32]:
        """The scales, one per block, a read-only view."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""

    @property
    def block(self) -> int:
        """Side of the square that shares a scale: 128, 256 or 512."""

    def dequantize(self) -> npt.NDArray[np.float32]:
        """The values that codes and scales stand for."""

    def __eq__(self, value: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def quantize(w: npt.NDArray[Any], block: int = 128) -> Weight:
    """Quantizes a matrix [N, K]: one scale per block x block square, the largest magnitude / 448."""

def matmul(
    x: npt.NDArray[Any],
    weight: Weight,
    *,
    x_scales: npt.NDArray[np.float32] | None = None,
    x_scaling: Literal["token", "block", "none"] = "token",
    out_dtype: npt.DTypeLike | None = None,
) -> npt.NDArray[Any]:
    """Multiplies x [..., K] by the transpose of a weight [N, K], on the CPU; the result is [..., N]."""

def load_safetensors(path: str | os.PathLike[str], name: str) -> Weight:
    """Reads the layer `name` of a safetensors file."""

@final
class Multiplication:
    """A multiplication of one shape and type on one device. Not for users: addresses are trusted."""

    def __new__(
        cls,
        device: int,
        n: int,
        k: int,
        block: int,
        x_dtype: str,
        out_dtype: str,
        constant_weight: bool,
    ) -> Multiplication: ...
    def run(self, x: int, x_scales: int, w: int, w_scales: int, out: int, m: int) -> None: ...
    def run_packed(self, x: int, x_scales: int, packed: int, packed_bytes: int, out: int, m: int) -> None: ...

def torch_linear(
    x: Any,
    weight: Any,
    weight_scale_inv: Any,
    remember: bool = False,
    x_scales: Any = None,
    out_dtype: Any = None,
) -> Any | None:
    """Multiplies as torch_linear_kernel does, or returns None where PyTorch must see the operator."""

def torch_linear_kernel(
    x: Any,
    weight: Any,
    weight_scale_inv: Any,
    remember: bool = False,
    x_scales: Any = None,
    out_dtype: Any = None,
) -> Any:
    """Multiplies PyTorch tensors: the operator's kernel for CPUs and GPUs."""

def torch_layer(x: Any, parameters: dict[str, Any]) -> Any | None:
    """Multiplies by the weight among a module's parameters, as torch_linear does."""

def torch_forget(weight: Any) -> None:
    """Has the next call of a layer with this weight start anew."""

def torch_remembered() -> int:
    """Number of weights that are remembered."""

def packed_shape(n: int, k: int, block: int) -> tuple[int, int]:
    """Rows and bytes per row of a packed weight."""

def pack_into(codes: int, scales: int, n: int, k: int, block: int, out: int) -> None:
    """Packs the weight at these addresses, which are trusted."""

def xla_handlers() -> dict[str, Any]:
    """Handlers for jax.ffi.register_ffi_target, as capsules: cpu, cuda, pack, unpack."""

def tpu_module(
    chip: str,
    shape: tuple[int, int, int],
    block: int,
    *,
    x: str,
    x_scaling: str,
    out: str,
    libtpu: str | None = None,
) -> str:
    """The StableHLO module of one multiplication, shape (M, N, K), on a TPU.

    libtpu is the version that will compile it: tuned tiles count for one version.
    """

def run_command(arguments: Sequence[str], restart: Sequence[str]) -> int:
    """Runs the octile command and returns its exit code."""
