#!/usr/bin/env python3
"""Checks and times octile.torch on a Hopper GPU, from Python, overhead included.

  PYTHONPATH=site python3 python/bench/h200.py --record h200-python.json

where the wheel was installed with `pip install --no-deps --target site octile-*.whl`. Every library is timed
in the same run, interleaved; a figure is the median of the rounds. The exit code is 1 if a check failed.
"""

import argparse
import datetime
import importlib.metadata
import json
import platform
import statistics
import sys
import time

import torch

import octile
import octile.torch
from octile.torch import Fp8Linear, linear

ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
# [N, K] of DeepSeek-V3 (q_b, o, dense up and down) and of Qwen3-8B (gate and up, down).
WEIGHTS = [(24576, 1536), (7168, 16384), (4096, 7168), (7168, 2048), (24576, 4096), (4096, 12288)]
BLOCK = 128
FAILURES = []


def check(name, ok, detail=""):
    print(f"{'ok    ' if ok else 'FAILED'}  {name}{'  ' + detail if detail else ''}", flush=True)
    if not ok:
        FAILURES.append(name)


def attempt(name, test):
    """Runs a test; an exception is a failure of it alone."""
    try:
        test()
    except Exception as error:  # noqa: BLE001
        check(name, False, f"{type(error).__name__}: {error}")


def weight_of(n, k, device="cuda"):
    """Random codes and scales, made on the GPU: quantizing this much on the CPU would take longer."""
    codes = (torch.randn(n, k, device=device) * 64).to(torch.float8_e4m3fn)
    scales = torch.rand(-(-n // BLOCK), -(-k // BLOCK), device=device) / 4096 + 1e-4
    return codes, scales


def token_groups(x):
    """Codes of x with one scale per row and block of K. As in Octile, values are multiplied by the reciprocal
    of the scale: a division would round bfloat16 and float16 values between two codes the other way."""
    m, k = x.shape
    groups = torch.nn.functional.pad(x.float(), (0, -k % BLOCK)).view(m, -1, BLOCK)
    # By a tensor: torch multiplies by the reciprocal of a number on GPUs.
    scales = groups.abs().amax(2).clamp(min=1e-30) / torch.full((), 448.0, device=x.device)
    return (groups * (1 / scales)[:, :, None]).view(m, -1)[:, :k].to(torch.float8_e4m3fn), scales


def correctness():
    for m, n, k in [(1, 128, 128), (3, 300, 528), (17, 4096, 7168), (256, 7168, 2048), (1000, 1536, 4096)]:
        codes, scales = weight_of(n, k)
        values = octile.torch.dequantize(codes, scales).double()
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            x = torch.randn(m, k, device="cuda").to(dtype)
            x_codes, x_scales = token_groups(x)
            x_values = x_codes.double() * x_scales.double().repeat_interleave(BLOCK, 1)[:, :k]
            exact = x_values @ values.T
            scale = exact.abs().max()
            wide = linear(x, codes, scales, out_dtype=torch.float32)
            error = ((wide.double() - exact).abs().max() / scale).item()
            given = linear(x_codes, codes, scales, x_scales=x_scales)
            given_error = ((given.double() - exact).abs().max() / scale).item()
            narrow = linear(x, codes, scales)
            same = torch.equal(narrow, wide.to(dtype))
            ok = error < 1e-3 and given_error < 1e-3 and same and narrow.dtype == dtype
            check(f"{m}x{n}x{k} {dtype}", ok, f"error {error:.1e}, codes given {given_error:.1e}")
    x = torch.randn(5, 1536, device="cuda", dtype=torch.bfloat16)
    codes, scales = weight_of(512, 1536)
    y = linear(x, codes, scales)
    check("repeated bits", all(torch.equal(linear(x, codes, scales), y) for _ in range(20)))
    check("views", torch.equal(linear(x.view(5, 1, 1536), codes, scales).view(5, 512), y))
    strided = torch.randn(5, 3072, device="cuda", dtype=torch.bfloat16)[:, ::2]
    check(
        "strided x", torch.equal(linear(strided, codes, scales), linear(strided.contiguous(), codes, scales))
    )
    odd = torch.randn(1536 * 5 + 1, device="cuda", dtype=torch.bfloat16)[1:].view(5, 1536)
    check("misaligned x", torch.equal(linear(odd, codes, scales), linear(odd.clone(), codes, scales)))
    check("no rows", linear(x[:0], codes, scales).shape == (0, 512))
    on_cpu = linear(x.cpu(), codes.cpu(), scales.cpu(), out_dtype=torch.float32)
    on_gpu = linear(x, codes, scales, out_dtype=torch.float32).cpu()
    check(
        "CPU and GPU agree", torch.allclose(on_cpu, on_gpu, rtol=2e-3, atol=2e-3 * on_cpu.abs().max().item())
    )
    x.requires_grad_()
    linear(x, codes, scales).float().square().sum().backward()
    expected = (2 * y.float()).to(torch.bfloat16) @ octile.torch.dequantize(codes, scales, torch.bfloat16)
    check("gradient", torch.allclose(x.grad, expected, rtol=2e-2, atol=2e-2 * expected.abs().max().item()))


def streams_and_graphs():
    codes, scales = weight_of(4096, 4096)
    x = torch.randn(16, 4096, device="cuda", dtype=torch.bfloat16)
    expected = linear(x, codes, scales)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        # The producer is on the side stream, so the product must be, too.
        late = torch.zeros_like(x)
        torch.cuda._sleep(20_000_000)
        late.copy_(x)
        y = linear(late, codes, scales)
    side.synchronize()
    check("current stream", torch.equal(y, expected))

    graph = torch.cuda.CUDAGraph()
    static = torch.zeros_like(x)
    with torch.cuda.graph(graph):
        captured = linear(torch.relu(static), codes, scales) * 2
    for seed in range(3):
        torch.manual_seed(seed)
        static.copy_(torch.randn_like(static))
        graph.replay()
        check(f"graph replay {seed}", torch.equal(captured, linear(torch.relu(static), codes, scales) * 2))

    def unsynchronized():
        torch.cuda.synchronize()
        torch.cuda._sleep(400_000_000)
        start = time.perf_counter()
        linear(x, codes, scales)
        elapsed = time.perf_counter() - start
        torch.cuda.synchronize()
        return elapsed

    elapsed = min(unsynchronized() for _ in range(3))
    check("no synchronization", elapsed < 0.01, f"queued in {elapsed * 1e6:.0f} us behind a busy stream")
    torch.cuda.set_sync_debug_mode("error")
    linear(x, codes, scales)
    torch.cuda.set_sync_debug_mode("default")


def compiled():
    layer = Fp8Linear(4096, 1024, device="cuda", dtype=torch.bfloat16)
    codes, scales = weight_of(1024, 4096)
    bias = torch.randn(1024, device="cuda", dtype=torch.bfloat16)
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales, "bias": bias})
    check("layer", torch.equal(layer.weight.view(torch.uint8), codes.view(torch.uint8)))
    for options in ({}, {"mode": "reduce-overhead"}, {"dynamic": True}):
        fast = torch.compile(lambda x: torch.relu(layer(x)), fullgraph=True, **options)
        with torch.inference_mode():
            for m in (1, 7, 64):
                x = torch.randn(m, 4096, device="cuda", dtype=torch.bfloat16)
                ok = all(
                    torch.allclose(fast(x), torch.relu(layer(x)), rtol=1e-2, atol=1e-2) for _ in range(3)
                )
                check(f"torch.compile {options} M={m}", ok)
    x = torch.randn(3, 4096, device="cuda", dtype=torch.bfloat16)
    for test in ("test_faketensor", "test_autograd_registration", "test_aot_dispatch_dynamic"):
        torch.library.opcheck(torch.ops.octile.linear.default, (x, codes, scales), test_utils=test)
        check(f"opcheck {test}", True)


def wrong_operands():
    codes, scales = weight_of(256, 512)
    x = torch.randn(3, 512, device="cuda")
    shifted = torch.zeros(256 * 512 + 1, device="cuda", dtype=torch.uint8)[1:].view(256, 512)
    for name, arguments in {
        "x on the CPU": (x.cpu(), codes, scales),
        "weight on the CPU": (x, codes.cpu(), scales),
        "scales on the CPU": (x, codes, scales.cpu()),
        "x on meta": (x.to("meta"), codes, scales),
        "wrong K": (x[:, :256], codes, scales),
        "wrong dtype": (x.double(), codes, scales),
        "strided weight": (x, codes.t().contiguous().t(), scales),
        "misaligned weight": (x, shifted.view(torch.float8_e4m3fn), scales),
        "odd K": (x[:, :500].contiguous(), codes[:, :500].contiguous(), scales),
    }.items():
        try:
            linear(*arguments)
        except (ValueError, TypeError, RuntimeError) as error:
            check(f"refused: {name}", "\n" not in str(error), str(error))
        else:
            check(f"refused: {name}", False, "no exception")
    torch.cuda.synchronize()


def memory():
    codes, scales = weight_of(512, 512)
    layer = Fp8Linear(512, 512, bias=False, device="cuda")
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales})
    x = torch.randn(4, 512, device="cuda", dtype=torch.bfloat16)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def calls(count):
        with torch.inference_mode():
            for _ in range(count // 2):
                linear(x, codes, scales)
                layer(x)
        torch.cuda.synchronize()
        return resident(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]

    host, reserved, free = calls(2_000)
    host_after, reserved_after, free_after = calls(100_000)
    ok = host_after - host < 8 << 20 and reserved_after == reserved and free_after == free
    check("memory over 100,000 calls", ok, f"host {host_after - host} bytes, device {free - free_after}")


def several_gpus():
    count = torch.cuda.device_count()
    if count < 2:
        print(f"not run: several GPUs ({count} here)")
        return
    for index in range(count):
        codes, scales = weight_of(512, 512, f"cuda:{index}")
        x = torch.randn(4, 512, device=f"cuda:{index}", dtype=torch.bfloat16)
        y = linear(x, codes, scales)
        expected = linear(x.to("cuda:0"), codes.to("cuda:0"), scales.to("cuda:0"))
        check(f"cuda:{index}", torch.equal(y.to("cuda:0"), expected))


def microseconds(call, calls):
    """Time per call on the GPU's clock, launch overhead included: calls follow each other on one stream."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls * 1e3


def deep_gemm_call(x_codes, x_scales, codes, scales):
    """A call of DeepGEMM, if it is here and its result agrees with Octile's."""
    import deep_gemm

    # Versions before 2 have it under the other name.
    multiply = getattr(deep_gemm, "fp8_gemm_nt", None) or deep_gemm.gemm_fp8_fp8_bf16_nt
    # It wants the scales of x MN-major, each column at a multiple of 16 bytes: made ahead, not timed.
    m, blocks = x_scales.shape
    aligned = -(-m // 4) * 4
    padded = torch.zeros(blocks * aligned, device=x_scales.device).as_strided((m, blocks), (1, aligned))
    padded.copy_(x_scales)
    out = torch.empty(m, codes.shape[0], device=codes.device, dtype=torch.bfloat16)

    def call():
        multiply((x_codes, padded), (codes, scales), out)
        return out

    expected = linear(x_codes, codes, scales, x_scales=x_scales)
    error = ((call().float() - expected).abs().max() / expected.abs().max()).item()
    if not error < 0.01:
        raise ValueError(f"its result differs from Octile's by {error:.1e}")
    return call


def contenders(m, n, k):
    """The libraries that are here, each with the same codes and scales where it takes them."""
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    codes, scales = weight_of(n, k)
    x_codes, x_scales = token_groups(x)
    x_codes, x_scales = x_codes.contiguous(), x_scales.contiguous()
    out = torch.bfloat16
    calls = {
        "octile, bf16 x": lambda: linear(x, codes, scales),
        "octile, fp8 x": lambda: linear(x_codes, codes, scales, x_scales=x_scales, out_dtype=out),
    }
    dense = octile.torch.dequantize(codes, scales, torch.bfloat16)
    calls["torch bf16 linear"] = lambda: torch.nn.functional.linear(x, dense)
    # One scale per row and per output: another operation, with fewer scales; cuBLAS's fast path.
    rows, columns = torch.rand(m, 1, device="cuda"), torch.rand(1, n, device="cuda")
    by_row = lambda: torch._scaled_mm(x_codes, codes.t(), rows, columns, out_dtype=out)
    # The same operation: 1 x 128 scales of x, MN-major, and 128 x 128 scales of the weight.
    mn_major = x_scales.t().contiguous().t()
    by_block = lambda: torch._scaled_mm(x_codes, codes.t(), mn_major, scales.t(), out_dtype=out)
    for name, call in {
        "torch._scaled_mm, row scales": by_row,
        "torch._scaled_mm, block scales": by_block,
    }.items():
        try:
            call()
            calls[name] = call
        except (RuntimeError, ValueError) as error:
            SKIPPED.setdefault(name, f"{m}x{n}x{k}: {str(error).splitlines()[0][:120]}")
    try:
        calls["DeepGEMM, fp8 x"] = deep_gemm_call(x_codes, x_scales, codes, scales)
    except Exception as error:  # noqa: BLE001
        SKIPPED.setdefault("DeepGEMM", f"{m}x{n}x{k}: {type(error).__name__}: {error}")
    return calls


SKIPPED = {}


def graphed(call, calls=20):
    """A graph of many calls, whose replay costs no Python."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return lambda: graph.replay(), calls


def speed(rows, weights, rounds):
    results = []
    for n, k in weights:
        for m in rows:
            calls = contenders(m, n, k)
            graphs = {}
            for name, call in calls.items():
                for _ in range(3):
                    call()
                try:
                    graphs[name] = graphed(call)
                except Exception as error:  # noqa: BLE001
                    SKIPPED.setdefault(f"graph of {name}", str(error).splitlines()[0])
            eager = {name: [] for name in calls}
            replay = {name: [] for name in graphs}
            count = max(5, min(100, 20_000_000_000 // (m * n * k + 1)))
            for _ in range(rounds):
                for name, call in calls.items():
                    eager[name].append(microseconds(call, count))
                for name, (launch, per_launch) in graphs.items():
                    replay[name].append(microseconds(launch, max(1, count // per_launch)) / per_launch)
            entry = {"m": m, "n": n, "k": k, "eager_us": eager, "graph_us": replay}
            results.append(entry)
            medians = {name: statistics.median(samples) for name, samples in eager.items()}
            in_graph = {name: statistics.median(samples) for name, samples in replay.items()}
            shown = "  ".join(
                f"{name} {medians[name]:.1f}/{in_graph.get(name, float('nan')):.1f}" for name in medians
            )
            print(f"{m}x{n}x{k}  us eager/graph:  {shown}", flush=True)
            del calls, graphs
            torch.cuda.empty_cache()
    return results


def overhead():
    """Time of the Python side alone: calls that the GPU finishes sooner than the CPU queues them."""
    codes, scales = weight_of(128, 128)
    x = torch.randn(1, 128, device="cuda", dtype=torch.bfloat16)
    dense = torch.randn(128, 128, device="cuda", dtype=torch.bfloat16)
    layer = Fp8Linear(128, 128, bias=False, device="cuda")
    x_codes, x_scales = token_groups(x)
    calls = {
        "octile.torch.linear, bf16 x": lambda: linear(x, codes, scales),
        "octile.torch.linear, fp8 x": lambda: linear(x_codes, codes, scales, x_scales=x_scales),
        "Fp8Linear": lambda: layer(x),
        "torch.nn.functional.linear": lambda: torch.nn.functional.linear(x, dense),
    }
    found = {name: [] for name in calls}
    with torch.inference_mode():
        for _ in range(7):
            for name, call in calls.items():
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(1000):
                    call()
                found[name].append((time.perf_counter() - start) / 1000 * 1e6)
    torch.cuda.synchronize()
    for name, samples in found.items():
        print(f"CPU time of a call: {name} {statistics.median(samples):.2f} us")
    return found


def version_of(package):
    """Version of a package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def shape_of(text):
    """N and K of an argument such as 4096x7168."""
    n, k = (int(side) for side in text.split("x"))
    return n, k


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", metavar="FILE", help="write the samples there, as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument(
        "--weights", nargs="*", type=shape_of, default=WEIGHTS, metavar="NxK", help="weights to time"
    )
    parser.add_argument("--no-timing", action="store_true")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("h200.py: PyTorch finds no GPU")
    torch.manual_seed(0)
    for test in (correctness, streams_and_graphs, compiled, wrong_operands, several_gpus, memory):
        attempt(test.__name__, test)
    record = {
        "machine": torch.cuda.get_device_name(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {
            "octile": octile.__version__,
            "torch": torch.__version__,
            "deep_gemm": version_of("deep_gemm"),
            "python": platform.python_version(),
        },
        "failures": FAILURES,
    }
    if not arguments.no_timing:
        record["overhead_us"] = overhead()
        record["speed"] = speed(arguments.rows, arguments.weights, arguments.rounds)
        record["not_run"] = SKIPPED
        for name, reason in SKIPPED.items():
            print(f"not run: {name} ({reason})")
    if arguments.record:
        with open(arguments.record, "w") as file:
            json.dump(record, file, indent=1)
    print(f"{len(FAILURES)} failures" + "".join(f"\n  {name}" for name in FAILURES))
    sys.exit(1 if FAILURES else 0)


if __name__ == "__main__":
    main()
