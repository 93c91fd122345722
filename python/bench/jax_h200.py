"""octile.jax on a CUDA device: results, jit, command buffers, several streams of calls, and time.

    python python/bench/jax_h200.py [record.json]

Needs a Hopper GPU, jax with its CUDA plugin, and the wheel. Exits with 1 if a check fails.
"""

import argparse
import json
import os
import statistics
import sys
import time

# Command buffers also for custom calls, from the first operation on.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL "
    "--xla_gpu_graph_min_graph_size=1",
)

import jax
import jax.numpy as jnp
import numpy as np

import octile
import octile.jax as oj

FAILED = []


def check(name, passed, detail=""):
    print(f"{'ok  ' if passed else 'FAIL'}  {name}  {detail}", flush=True)
    if not passed:
        FAILED.append(name)


def operands(m, n, k, dtype=jnp.bfloat16, seed=0):
    random = np.random.default_rng(seed)
    weight = octile.quantize(random.standard_normal((n, k), dtype=np.float32))
    x = random.standard_normal((m, k), dtype=np.float32)
    return jnp.asarray(x, dtype), jnp.asarray(weight.codes), jnp.asarray(weight.scales), weight


def error(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return np.abs(found - expected).max() / np.abs(expected).max()


def attempt(name, function):
    try:
        function()
    except Exception as exception:  # noqa: BLE001 (the next check may still tell something)
        check(name, False, f"{type(exception).__name__}: {str(exception).splitlines()[0][:300]}")


def correctness():
    for m, n, k in [(1, 512, 512), (7, 1000, 1040), (16, 4096, 4096), (300, 640, 384), (4096, 4096, 4096)]:
        for dtype in (jnp.bfloat16, jnp.float32, jnp.float16):
            x, codes, scales, weight = operands(m, n, k, dtype)
            # The same fp8 activations, on the CPU.
            same = octile.matmul(np.asarray(x), weight, out_dtype="float32")
            exact = np.asarray(x, np.float64) @ weight.dequantize().astype(np.float64).T
            jitted = jax.jit(oj.matmul, static_argnames="out_dtype")
            for name, function in {"eager": oj.matmul, "jit": jitted}.items():
                out = function(x, codes, scales, out_dtype=jnp.float32)
                against_cpu, against_exact = error(out, same), error(out, exact)
                # Tensor cores keep fewer bits inside of a chain of MMAs than the CPU.
                passed = against_cpu < 2e-3 and against_exact < 0.08
                errors = f"{against_cpu:.1e} {against_exact:.1e}"
                check(f"{m}x{n}x{k} {jnp.dtype(dtype)} {name}", passed, errors)
    x, codes, scales, _ = operands(64, 512, 512)
    block = jax.jit(lambda *a: oj.matmul(*a, x_scaling="block"))(x, codes, scales)
    check("block scales", error(block, oj.matmul(x, codes, scales)) < 0.1)
    random = np.random.default_rng(0)
    fp8 = jnp.asarray(random.standard_normal((64, 512)), jnp.float8_e4m3fn)
    x_scales = jnp.asarray(random.random((64, 4)), jnp.float32)
    found = jax.jit(oj.matmul)(fp8, codes, scales, x_scales=x_scales)
    wide = np.asarray(fp8, np.float64) * np.repeat(np.asarray(x_scales), 128, 1)
    _, _, _, weight = operands(64, 512, 512)
    check("fp8 activations", error(found, wide @ weight.dequantize().astype(np.float64).T) < 2e-3)


def transformations():
    x, codes, scales, weight = operands(32, 512, 512)
    expected = oj.matmul(x, codes, scales)
    batched = jax.jit(jax.vmap(oj.matmul, (0, None, None)))(x.reshape(4, 8, 512), codes, scales)
    check("vmap", error(batched.reshape(32, 512), expected) < 1e-2)
    stacked = jax.jit(jax.vmap(oj.matmul, (None, 0, 0)))(x, jnp.stack([codes] * 3), jnp.stack([scales] * 3))
    check("vmap over weights", error(stacked[2], expected) < 1e-2)
    gradient = jax.jit(jax.grad(lambda x: oj.matmul(x, codes, scales).astype(jnp.float32).sum()))(x)
    check("grad", error(gradient, np.ones((32, 512)) @ weight.dequantize()) < 2e-2)
    check("no rows", oj.matmul(x[:0], codes, scales).shape == (0, 512))
    attempt_refused("wrong K", lambda: oj.matmul(x[:, :500], codes[:, :500], scales))


def attempt_refused(name, function):
    try:
        jax.block_until_ready(function())
    except (ValueError, TypeError) as exception:
        return check(f"refused: {name}", True, str(exception))
    check(f"refused: {name}", False, "no exception")


def command_buffers():
    """A chain of layers, replayed many times with changing operands: captured work must read the new ones."""
    layers = [operands(8, 1024, 1024, seed=seed)[1:3] for seed in range(6)]

    def chain(x, layers):
        for codes, scales in layers:
            x = oj.matmul(x, codes, scales)
            x = x / jnp.maximum(jnp.abs(x).max(), 1)
        return x

    compiled = jax.jit(chain)
    other = jax.jit(chain, compiler_options={"xla_gpu_enable_command_buffer": ""})
    passed = True
    for seed in range(50):
        x = operands(8, 8, 1024, seed=seed)[0]
        garbage = jnp.full((1 << 20,), seed, jnp.float32) * 2  # reuses memory that was freed
        found = compiled(x, layers)
        passed &= bool(jnp.array_equal(found, other(x, layers)))
        del garbage
    check("50 replays of a captured chain equal plain launches", passed)
    stable = all(bool(jnp.array_equal(compiled(x, layers), compiled(x, layers))) for _ in range(20))
    check("replays repeat bit by bit", stable)


def memory():
    x, codes, scales, _ = operands(4, 512, 512)
    multiply = jax.jit(oj.matmul)
    multiply(x, codes, scales).block_until_ready()
    device = jax.devices()[0]
    before = device.memory_stats()["bytes_in_use"]
    for _ in range(100_000):
        out = multiply(x, codes, scales)
    out.block_until_ready()
    del out
    after = device.memory_stats()["bytes_in_use"]
    check("10^5 calls at constant memory", after - before < 1 << 20, f"{after - before} bytes")


def repeated(function, count):
    """The function applied many times in one program, each time to other activations."""

    def run(xs, *weight):
        return jax.lax.map(lambda x: function(x, *weight), xs)

    return jax.jit(run), count


def timing():
    rows = []
    for n, k in [(4096, 4096), (7168, 2048), (2112, 7168)]:
        for m in (1, 16, 64, 256, 1024, 4096):
            x, codes, scales, weight = operands(m, n, k)
            dense = jnp.asarray(weight.dequantize(), jnp.bfloat16).T
            count = 64 if m <= 256 else 8
            xs = jnp.stack([x] * count)
            ours, _ = repeated(lambda x, c, s: oj.matmul(x, c, s), count)
            theirs, _ = repeated(lambda x, w: x @ w, count)
            one = jax.jit(oj.matmul)
            samples = {"octile": [], "bf16": [], "dispatch": []}
            jax.block_until_ready([ours(xs, codes, scales), theirs(xs, dense), one(x, codes, scales)])
            for _ in range(15):
                for name, function, arguments, calls in (
                    ("octile", ours, (xs, codes, scales), count),
                    ("bf16", theirs, (xs, dense), count),
                    ("dispatch", one, (x, codes, scales), 1),
                ):
                    start = time.perf_counter()
                    jax.block_until_ready(function(*arguments))
                    samples[name].append((time.perf_counter() - start) / calls * 1e6)
            row = {name: statistics.median(found) for name, found in samples.items()}
            rows.append({"m": m, "n": n, "k": k, "median_us": row, "samples_us": samples})
            print(
                f"{m:5}x{n}x{k}: octile {row['octile']:8.1f} us, jnp.dot bf16 {row['bf16']:8.1f} us, "
                f"ratio {row['bf16'] / row['octile']:.2f}; one call with dispatch {row['dispatch']:.1f} us",
                flush=True,
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description="Checks and times octile.jax on a Hopper GPU")
    parser.add_argument("record", nargs="?", help="write the samples there, as JSON")
    arguments = parser.parse_args()
    device = jax.devices()[0]
    if device.platform != "gpu":
        sys.exit(f"jax_h200.py: JAX finds no CUDA device, only {jax.devices()}")
    print(device.device_kind, "jax", jax.__version__, "octile", octile.__version__)
    for section in (correctness, transformations, command_buffers, memory):
        attempt(section.__name__, section)
    rows = timing()
    if arguments.record:
        record = {
            "what": "microseconds per multiplication inside of one program (lax.map), cases in turns",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": device.device_kind,
            "versions": {"jax": jax.__version__, "octile": octile.__version__, "numpy": np.__version__},
            "failed_checks": FAILED,
            "rows": rows,
        }
        with open(arguments.record, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
    print(f"{len(FAILED)} checks failed" if FAILED else "all checks passed")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
