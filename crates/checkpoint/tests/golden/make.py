#!/usr/bin/env python3
"""Writes quantizer.json: results of transformers' fine-grained fp8 quantizer on reproducible weights.

Weights are not stored: `hash32` generates them here and in tests/quantizer.rs. The file holds a CRC-32 of the
codes, and all bits of the scales. Needs torch and transformers:

    python crates/checkpoint/tests/golden/make.py
"""

import json
import pathlib
import types
import zlib

import numpy
import torch
import transformers
from transformers.integrations.finegrained_fp8 import Fp8Quantize
from transformers.utils.quantization_config import FineGrainedFP8Config

HERE = pathlib.Path(__file__).resolve().parent

# name, element type, rows, cols, seed, smallest biased exponent, number of exponents
CASES = [
    ("bf16", "bf16", 256, 384, 1, 110, 16),
    ("bf16 wide range", "bf16", 128, 256, 2, 60, 100),
    ("bf16 tiny", "bf16", 128, 128, 3, 1, 20),
    ("bf16 huge", "bf16", 128, 128, 4, 200, 54),
    ("bf16 powers of two", "bf16-power", 256, 256, 5, 100, 30),
    ("f16", "f16", 128, 256, 6, 1, 29),
    ("f16 subnormal", "f16", 128, 128, 7, 0, 1),
    ("f32", "f32", 256, 256, 8, 100, 24),
    ("f32 around powers of two", "f32-edge", 512, 512, 9, 0, 0),
    ("zeros", "zero", 128, 256, 10, 0, 0),
]


def hash32(seed: int, count: int) -> numpy.ndarray:
    """Hashes seed and index."""
    x = numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(seed << 32)
    for multiplier in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        x ^= x >> numpy.uint64(30)
        x = (x * numpy.uint64(multiplier)).astype(numpy.uint64)
    return ((x ^ (x >> numpy.uint64(31))) & numpy.uint64(0xFFFFFFFF)).astype(numpy.uint32)


def weight(kind: str, rows: int, cols: int, seed: int, smallest: int, count: int) -> torch.Tensor:
    h = hash32(seed, rows * cols).astype(numpy.int64)
    sign = h >> 31
    exponent = smallest + (h >> 23 & 0xFF) % max(count, 1)
    if kind == "bf16":
        bits = (sign << 15 | exponent << 7 | h & 0x7F).astype(numpy.uint16)
        values = torch.from_numpy(bits.view(numpy.int16)).view(torch.bfloat16)
    elif kind == "bf16-power":
        bits = (sign << 15 | exponent << 7).astype(numpy.uint16)
        values = torch.from_numpy(bits.view(numpy.int16)).view(torch.bfloat16)
    elif kind == "f16":
        bits = (sign << 15 | exponent << 10 | h & 0x3FF).astype(numpy.uint16)
        values = torch.from_numpy(bits.view(numpy.int16)).view(torch.float16)
    elif kind == "f32":
        bits = (sign << 31 | exponent << 23 | h & 0x7FFFFF).astype(numpy.uint32)
        values = torch.from_numpy(bits.view(numpy.int32)).view(torch.float32)
    elif kind == "f32-edge":
        # The largest magnitude of block b is 448 * 2^(b - 12), a few units in the last place more or less.
        row, col = numpy.divmod(numpy.arange(rows * cols), cols)
        block = row // 128 * (cols // 128) + col // 128
        is_edge = (row % 128 == 0) & (col % 128 == 0)
        edge = ((127 + 8 + block - 12) << 23 | 0x600000) + block - 8
        small = sign << 31 | (127 + block - 16) << 23 | h & 0x7FFFFF
        bits = numpy.where(is_edge, edge, small).astype(numpy.uint32)
        values = torch.from_numpy(bits.view(numpy.int32)).view(torch.float32)
    else:
        values = torch.zeros(rows * cols, dtype=torch.bfloat16)
    return values.reshape(rows, cols)


def main() -> None:
    cases = []
    for name, kind, rows, cols, seed, smallest, count in CASES:
        for scale_fmt in ("float", "ue8m0"):
            config = FineGrainedFP8Config(scale_fmt=scale_fmt)
            quantizer = Fp8Quantize(types.SimpleNamespace(quantization_config=config))
            result = quantizer.convert({"x.weight": weight(kind, rows, cols, seed, smallest, count)})
            codes = result["x.weight"].view(torch.uint8).numpy().tobytes()
            scales = (
                result["x.weight_scale_inv"].to(torch.float32).view(torch.int32).numpy().view(numpy.uint32)
            )
            cases.append(
                {
                    "name": name,
                    "kind": kind,
                    "rows": rows,
                    "cols": cols,
                    "seed": seed,
                    "smallest_exponent": smallest,
                    "exponents": count,
                    "ue8m0": scale_fmt == "ue8m0",
                    "codes_crc32": zlib.crc32(codes),
                    "scale_bits": scales.flatten().tolist(),
                }
            )
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "quantizer.json").write_text(
        f'{{"versions": {json.dumps(versions)}, "cases": [\n{lines}\n]}}\n'
    )


main()
