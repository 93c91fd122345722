"""What torch_cpu.py compares: shapes, contenders and targets."""

import os
import pathlib
from typing import Dict, List, NamedTuple, Optional, Tuple

from harness.comparison import Target
from harness.octile import Settings, Shape

SQUARES = (Shape(512, 512, 512, 128), Shape(1024, 1024, 1024, 256), Shape(2048, 2048, 2048, 512))
ONE_ROW, SIXTEEN_ROWS = Shape(1, 4096, 4096, 128), Shape(16, 4096, 4096, 128)
SIXTY_FOUR_ROWS = Shape(64, 4096, 4096, 128)
LAYERS = (Shape(16, 7168, 2048, 128), Shape(64, 7168, 2048, 128))
LARGE = (Shape(2048, 2048, 2048, 128), Shape(4096, 4096, 4096, 128))
FEW_ROWS_X = ("bf16", "f32", "bf16-plain", "f32-plain")

WIDE_PATHS = ("f32", "bf16")
FP8_PATHS = ("fp8 to f32", "fp8 to bf16", "fp8 to f32, compiled", "fp8 to bf16, compiled")
AVX2_ALLOWANCE = 0.9
"""Fraction of the target ratios required with AVX2 alone."""


class Lane(NamedTuple):
    """Instruction set that both sides may use."""

    name: str
    octile_isa: Optional[str]
    environment: Dict[str, str]
    """Variables that PyTorch reads at start."""


ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
AVX2_ONLY = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
NATIVE = Lane("native", None, ONE_THREAD)
ONE_OVER_BF16 = Lane("one thread over bf16", None, ONE_THREAD)
ALL_OVER_BF16 = Lane("all threads over bf16", None, {})
AVX2 = Lane("avx2", "avx2", {**ONE_THREAD, **AVX2_ONLY})


class Group(NamedTuple):
    """Contenders that alternate, and the targets among them."""

    shape: Shape
    lane: Lane
    octile: Dict[str, Settings]
    torch: Dict[str, Tuple[str, int]]
    """Contender -> path and threads."""
    targets: Tuple[Target, ...]

    @property
    def name(self) -> str:
        return f"{self.shape} {self.lane.name}"


def torch_paths() -> Dict[str, Tuple[str, int]]:
    """Every path, with one thread."""
    return {f"torch {path}": (path, 1) for path in (*WIDE_PATHS, *FP8_PATHS)}


def square_group(shape: Shape, lane: Lane) -> Group:
    """fp8 activations, one thread; the largest shape also with two."""
    allowance = AVX2_ALLOWANCE if lane is AVX2 else 1
    ours = "octile fp8"
    contenders = {ours: Settings("fp8", isa=lane.octile_isa)}
    peers = torch_paths()
    fp8_peers = tuple(f"torch {path}" for path in FP8_PATHS)
    targets = [
        Target(f"{shape} {lane.name}, over f32", ours, ("torch f32",), 0.95 * allowance),
        Target(f"{shape} {lane.name}, over fp8", ours, fp8_peers, 1.2 * allowance),
    ]
    if shape == SQUARES[-1] and lane is NATIVE:
        contenders["octile fp8, 2 threads"] = Settings("fp8", threads=2)
        peers["torch f32, 2 threads"] = ("f32", 2)
        targets.append(Target(f"{shape} 2 threads over 1", "octile fp8, 2 threads", (ours,), 1.8))
    return Group(shape, lane, contenders, peers, tuple(targets))


def few_rows_group(shape: Shape, lane: Lane, at_least: float) -> Group:
    """bf16 and f32 activations, quantized on the fly or (plain) not at all."""
    allowance = AVX2_ALLOWANCE if lane is AVX2 else 1
    contenders = {f"octile {x}": Settings(x, isa=lane.octile_isa) for x in FEW_ROWS_X}
    what = f"{shape} {lane.name}, over f32"
    targets = tuple(Target(what, ours, ("torch f32",), at_least * allowance) for ours in contenders)
    return Group(shape, lane, contenders, torch_paths(), targets)


def bf16_group(shape: Shape, lane: Lane) -> Group:
    """fp8 weights against weights that PyTorch has in bf16. The target holds where both have AMX."""
    threads = 1 if lane is ONE_OVER_BF16 else os.cpu_count() or 1
    ours, peer = "octile fp8", "torch bf16"
    at_least = 2.0 if shape.m == 1 else 1.5
    has_amx = "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
    targets = (Target(f"{shape} {lane.name}", ours, (peer,), at_least),) if has_amx else ()
    return Group(shape, lane, {ours: Settings("fp8", threads=threads)}, {peer: ("bf16", threads)}, targets)


def sample_groups(shapes: List[Shape]) -> List[Group]:
    """Every shape against weights that PyTorch has in bf16, with all threads."""
    return [bf16_group(shape, ALL_OVER_BF16) for shape in shapes]


def all_groups() -> List[Group]:
    """Everything that is compared, lane by lane."""
    shapes = (*SQUARES, *LARGE, ONE_ROW, SIXTEEN_ROWS, SIXTY_FOUR_ROWS, *LAYERS)
    groups = [bf16_group(shape, lane) for lane in (ONE_OVER_BF16, ALL_OVER_BF16) for shape in shapes]
    for lane in (NATIVE, AVX2):
        groups += [square_group(shape, lane) for shape in SQUARES]
        groups += [few_rows_group(ONE_ROW, lane, 3.0), few_rows_group(SIXTEEN_ROWS, lane, 2.0)]
    return groups
