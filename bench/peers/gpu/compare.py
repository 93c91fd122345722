"""Times Octile and its peers on one GPU, alternating shape by shape, and writes every sample to a record.

    python3 bench/peers/gpu/compare.py --octile PATH/gpu_sweep --record FILE

`gpu_sweep` is built with `cargo build --release -p octile-harness --example gpu_sweep`. Each round measures
cold-cache time (median of event-timed calls after an L2 flush) and graph-replay time (per call). The faster
of the two counts, and the best of three rounds, for every library.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

from shapes import SHAPES, parse, sample

try:
    import torch
except ImportError as error:
    sys.exit(f"compare.py: {sys.executable} cannot import PyTorch ({error}): use a Python that has it")

import torch_peers

FLUSH_BYTES = 256 << 20
ROUNDS = 3
# At its power limit a GPU slows down within milliseconds: long work starts from rest, for every library.
LONG_WORK = 1 << 33
REST_S = 0.1


class Octile:
    """The process that times Octile, one shape per line of input."""

    def __init__(self, path):
        self.folder = tempfile.TemporaryDirectory()
        try:
            self.process = subprocess.Popen(
                [path, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            sys.exit(f"compare.py: cannot run {path}: {error.strerror}; name the gpu_sweep example")

    def load(self, inputs):
        """Passes the operands of a shape."""
        path = f"{self.folder.name}/operands"
        parts = [inputs.x.view(torch.uint8), inputs.w.view(torch.uint8), inputs.x_scales, inputs.w_scales]
        with open(path, "wb") as file:
            for part in parts:
                part.cpu().numpy().tofile(file)
        self.loaded = (inputs.shape, path)

    def time(self, m, n, k):
        shape, path = self.loaded
        assert shape == (m, n, k), "load the operands of this shape first"
        self.process.stdin.write(f"{m}x{n}x{k}:128 {path}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"compare.py: gpu_sweep ended at {m}x{n}x{k}; the shapes before it are in the record")
        return json.loads(answer)


def time_call(run, flush, calls, replays, rest=0.0):
    """Microseconds per call: with a cold cache, and in a graph of `replays` calls."""
    run()
    torch.cuda.synchronize()
    time.sleep(rest)
    flushed = []
    for _ in range(calls):
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        flushed.append(start.elapsed_time(end) * 1e3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(replays):
            run()
    torch.cuda.synchronize()
    time.sleep(rest)
    graph.replay()
    replayed = []
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        replayed.append(start.elapsed_time(end) * 1e3 / replays)
    return {"flushed_us": statistics.median(flushed), "graph_us": statistics.median(replayed)}


def unless_refused(block_scaled, inputs):
    """A library's call, or None where it refuses the shape: samples have ragged ones."""
    try:
        return block_scaled(inputs)
    except (AssertionError, RuntimeError, ValueError) as error:
        shape = "x".join(map(str, inputs.shape))
        print(f"{block_scaled.__module__} refuses {shape}: {str(error).splitlines()[:1]}", file=sys.stderr)
        return None


def compare(shape, octile, flush, others):
    """Times every library on one shape, in alternation."""
    m, n, k = shape
    inputs = torch_peers.Inputs(m, n, k)
    octile.load(inputs)
    peers = {
        "cublaslt_block": torch_peers.block_scaled(inputs),
        "cublaslt_tensor": torch_peers.per_tensor(inputs),
    }
    for name, block_scaled in others.items():
        peers[name] = unless_refused(block_scaled, inputs)
    calls = 7 if m * n * k > 1 << 36 else 11
    # About 10^12 operations per graph, so that the cost of launching it is negligible.
    replays = min(max(10, 10**12 // (2 * m * n * k)), 100)
    rest = REST_S if m * n * k > LONG_WORK else 0.0
    times = {}
    supported = {name: run for name, run in peers.items() if run is not None}
    timed = lambda run: lambda: time_call(run, flush, calls, replays, rest)
    runs = {name: timed(run) for name, run in supported.items()}
    runs["octile"] = lambda: octile.time(m, n, k)
    names = list(runs)
    for at in range(ROUNDS):
        # Rotate the order: what follows a hot GPU is slower.
        for name in names[at % len(names) :] + names[: at % len(names)]:
            torch.cuda.synchronize()
            times.setdefault(name, []).append(runs[name]())
    best = lambda samples: min(min(s["flushed_us"], s["graph_us"]) for s in samples)
    tflops = {name: 2 * m * n * k / best(samples) / 1e6 for name, samples in times.items()}
    return {"m": m, "n": n, "k": k, "tflops": tflops, "samples": times}


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--octile", required=True, help="the gpu_sweep example")
    parser.add_argument("--record", required=True, help="record to write")
    parser.add_argument(
        "--triton", action="store_true", help="also time a Triton kernel (compiles for a minute)"
    )
    parser.add_argument(
        "--deepgemm", action="store_true", help="also time DeepGEMM, which must be installed"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--shapes", nargs="*", help="MxNxK ... (default: shapes.txt)")
    which.add_argument("--sample", help="shapes of `octile bench --sample`: fit, judge, or a number")
    parser.add_argument("--cli", default="octile", help="the octile command, for --sample (default: octile)")
    args = parser.parse_args()
    shapes = [parse(shape) for shape in args.shapes] if args.shapes else SHAPES
    if args.sample:
        shapes = sample(args.cli, args.sample)
    if not torch.cuda.is_available():
        sys.exit("compare.py: PyTorch finds no NVIDIA GPU: run it on a machine that has one")
    others = {}
    if args.triton:
        import triton_peer

        others["triton_block"] = triton_peer.block_scaled
    if args.deepgemm:
        import deepgemm_peer

        others["deep_gemm"] = deepgemm_peer.block_scaled
    octile, flush = Octile(args.octile), torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
    results = []
    print("| M,N,K | octile | cuBLASLt block | ratio | fp8 per tensor | Triton block | DeepGEMM | kernel |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in shapes:
        result = compare(shape, octile, flush, others)
        results.append(result)
        tflops = result["tflops"]
        show = lambda name: f"{tflops[name]:.1f}" if name in tflops else "-"
        ratio = f"{tflops['octile'] / tflops['cublaslt_block']:.2f}" if "cublaslt_block" in tflops else "-"
        kernel = result["samples"]["octile"][0]["kernel"]
        print(
            f"| {','.join(map(str, shape))} | {show('octile')} | {show('cublaslt_block')} | {ratio} "
            f"| {show('cublaslt_tensor')} | {show('triton_block')} | {show('deep_gemm')} | {kernel} |",
            flush=True,
        )
        with open(args.record, "w") as file:
            record = {"machine": machine, "sample": args.sample, "results": results}
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
