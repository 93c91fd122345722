"""Times PyTorch for torch_cpu.py, which starts it. One JSON object per line in, one per line out:

    {"prepare": {"m": 512, "n": 512, "k": 512, "quant_block": 128, "paths": ["f32"]}}          -> {}
    {"time": "f32", "threads": 1, "samples": 5, "warmup": 1, "limit_s": 1}   -> {"samples_ms": [...]}

The operands: x of m x k, and a weight of n x k in f8e4m3fn with one f32 scale per block. Only the steps that
a path names are timed: x is converted beforehand, and for `f32` and `bf16` the weight is dequantized.
"""

import sys
import time

from harness.serve import serve

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"{sys.executable} cannot import PyTorch ({error}): name a Python that can with --python")

SEED = 1
# Largest accepted difference from the f64 result, relative to its largest element.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


def quantize(weight, qb):
    """Quantizes a weight, one scale per block; blocks at the edges may be partial."""
    n, k = weight.shape
    padded = F.pad(weight, (0, -k % qb, 0, -n % qb))
    blocks = padded.view(padded.shape[0] // qb, qb, padded.shape[1] // qb, qb)
    scales = blocks.abs().amax((1, 3)) / 448
    codes = (blocks / scales[:, None, :, None]).view(padded.shape)[:n, :k]
    return codes.contiguous().to(torch.float8_e4m3fn), scales


def dequantize(codes, scales, qb, dtype):
    """Dequantizes a weight in as few passes as eager PyTorch allows."""
    n, k = codes.shape
    if n % qb or k % qb:
        spread = scales.to(dtype).repeat_interleave(qb, 0)[:n].repeat_interleave(qb, 1)[:, :k]
        return codes.to(dtype).mul_(spread)
    blocks = codes.to(dtype).view(n // qb, qb, k // qb, qb)
    return blocks.mul_(scales[:, None, :, None].to(dtype)).view(n, k)


def dequantize_and_multiply(x, codes, scales, qb):
    """The path that starts from the fp8 weight."""
    return x @ dequantize(codes, scales, qb, x.dtype).T


def make_paths(m, n, k, quant_block, paths):
    """Operands for one shape, and the functions to time on them, by name; checks those of `paths`."""
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(SEED)
    codes, scales = quantize(torch.randn(n, k, generator=generator), quant_block)
    x = torch.randn(m, k, generator=generator)
    weight = dequantize(codes, scales, quant_block, torch.float32)
    functions = {}
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        x_ready, weight_ready = x.to(dtype), weight.to(dtype)
        compiled = torch.compile(dequantize_and_multiply, dynamic=False)
        # Default arguments, because a closure would capture the operands of the last iteration.
        functions[name] = lambda x=x_ready, w=weight_ready: x @ w.T
        functions[f"fp8 to {name}"] = lambda x=x_ready: dequantize_and_multiply(x, codes, scales, quant_block)
        functions[f"fp8 to {name}, compiled"] = lambda x=x_ready, f=compiled: f(x, codes, scales, quant_block)
    expected = x.double() @ weight.double().T
    for name in paths:
        check(name, functions[name](), expected)
    return functions


def check(name, result, expected):
    """Rejects a path with a wrong result."""
    error = ((result.double() - expected).abs().max() / expected.abs().max()).item()
    if not error <= TOLERANCE[result.dtype]:
        raise ValueError(f"path '{name}' is wrong: its largest error is {error:.1e} of the largest element")


def take_samples(path, samples, warmup, limit_s):
    """Times up to `samples` runs, in milliseconds; starts none after `limit_s` seconds."""
    for _ in range(warmup):
        path()
    times = []
    begin = time.perf_counter()
    while len(times) < samples and (not times or time.perf_counter() - begin < limit_s):
        start = time.perf_counter()
        path()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def answer(request, paths):
    """Handles one request. Returns the prepared paths and the answer."""
    if "prepare" in request:
        return make_paths(**request["prepare"]), {}
    torch.set_num_threads(request["threads"])
    times = take_samples(paths[request["time"]], request["samples"], request["warmup"], request["limit_s"])
    return paths, {"samples_ms": times}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    serve({"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}, answer, {})
