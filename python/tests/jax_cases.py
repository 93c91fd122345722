"""Operands and references that the JAX tests share. Import it before jax."""

import os

import pytest

for name, value in {
    "JAX_PLATFORMS": "cpu",
    # Eight devices, for the sharding tests.
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    # libtpu compiles without a TPU, and does not look for one.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "tpu7x-8",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_STDERR_LOG_LEVEL": "3",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}.items():
    os.environ.setdefault(name, value)

pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import octile  # noqa: E402


def operands(m, n, k, *, block=128, dtype=np.float32, seed=0):
    """Random activations, codes and scales."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((m, k), dtype=np.float32).astype(dtype)
    codes = random.standard_normal((n, k), dtype=np.float32).astype(ml_dtypes.float8_e4m3fn)
    scales = random.random((-(-n // block), -(-k // block)), dtype=np.float32) + np.float32(0.5)
    return x, codes, scales


def dequantized(codes, scales, block=128):
    """The values of a weight, in float64."""
    n, k = codes.shape
    spread = np.repeat(np.repeat(scales, block, 0)[:n], block, 1)[:, :k]
    return codes.astype(np.float64) * spread


def from_numpy(x, codes, scales, **options):
    """What the numpy level computes for the same operands, the first dimensions of x folded into rows."""
    weight = octile.Weight.from_codes(np.asarray(codes), np.asarray(scales))
    return octile.matmul(np.asarray(x), weight, **options)


def relative_error(found, expected):
    """The largest difference, relative to the largest value."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return np.abs(found - expected).max() / np.abs(expected).max()


def same_bits(found, expected):
    """Whether two arrays are equal in type, shape and every bit."""
    found, expected = np.asarray(found), np.asarray(expected)
    same = found.dtype == expected.dtype and found.shape == expected.shape
    return same and found.tobytes() == expected.tobytes()


def as_jax(*arrays):
    """The arrays on a JAX device."""
    return [jnp.asarray(array) for array in arrays]
