"""FP8 matrix multiplication with one scale per 2-D block.

    import numpy as np
    import octile

    weight = octile.quantize(np.random.randn(256, 512).astype(np.float32), block=128)
    y = octile.matmul(np.ones((3, 512), np.float32), weight)

``octile.torch`` and ``octile.jax`` do the same for PyTorch and JAX; import them to use them. ``simulate``
runs Pallas TPU kernels without a TPU and finds their bugs, ``inspect`` compiles them and counts cycles;
``octile.testing`` has assertions for tests.
"""

from octile._command import Error
from octile._findings import Event, Finding, SourceLine
from octile._inspect import Check, Inspection, KernelFacts, LineCycles, inspect
from octile._native import Weight, __version__, load_safetensors, matmul, quantize
from octile._simulate import Simulation, SimulationFailed, simulate

__all__ = [
    "Check",
    "Error",
    "Event",
    "Finding",
    "Inspection",
    "KernelFacts",
    "LineCycles",
    "Simulation",
    "SimulationFailed",
    "SourceLine",
    "Weight",
    "__version__",
    "inspect",
    "load_safetensors",
    "matmul",
    "quantize",
    "simulate",
]
