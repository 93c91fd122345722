"""What a call of octile.jax.matmul costs over a trivial jitted operation, on the CPU.

    python python/bench/jax_overhead.py [record.json]

Both run in one process, in turns; medians over rounds.
"""

import json
import os
import platform
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

import octile
import octile.jax as oj

ROUNDS, CALLS = 31, 500


def seconds(function, arguments):
    start = time.perf_counter()
    for _ in range(CALLS):
        function(*arguments).block_until_ready()
    return (time.perf_counter() - start) / CALLS


def main():
    x = jnp.ones((1, 128), jnp.float32)
    codes = jnp.ones((1, 128), jnp.float8_e4m3fn)
    scales = jnp.ones((1, 1), jnp.float32)
    packed = oj.pack(codes, scales)
    dequantize = jax.jit(lambda x, codes, scales: x @ (codes.astype(jnp.float32) * scales).T)
    cases = {
        "x + 1, with the same arguments": (jax.jit(lambda x, codes, scales: x + 1), (x, codes, scales)),
        "dequantize, then x @ w.T": (dequantize, (x, codes, scales)),
        "matmul 1x1x128": (jax.jit(oj.matmul), (x, codes, scales)),
        "matmul 1x1x128, packed": (jax.jit(oj.matmul), (x, packed)),
    }
    times = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name].append(seconds(*case))
    medians = {name: statistics.median(found) * 1e6 for name, found in times.items()}
    trivial = medians["x + 1, with the same arguments"]
    for name, median in medians.items():
        print(f"{name:32}  {median:6.2f} us   {median - trivial:+6.2f} us over x + 1")
    if len(sys.argv) > 1:
        record = {
            "what": "microseconds per jitted call, median of rounds, cases in turns",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": f"{cpu_name()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}",
            "versions": {
                "python": platform.python_version(),
                "jax": jax.__version__,
                "numpy": np.__version__,
                "octile": octile.__version__,
            },
            "rounds": ROUNDS,
            "calls_per_round": CALLS,
            "median_us": medians,
            "samples_us": {name: [round(t * 1e6, 3) for t in found] for name, found in times.items()},
        }
        with open(sys.argv[1], "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")


def cpu_name():
    """The CPU, with its family and model: the name alone may not tell the design."""
    with open("/proc/cpuinfo") as file:
        first = file.read().split("\n\n")[0]
    found = dict(line.replace("\t", "").split(":", 1) for line in first.splitlines() if ":" in line)
    fields = [found.get(key, " unknown").strip() for key in ("model name", "cpu family", "model")]
    return "{} (family {}, model {})".format(*fields)


if __name__ == "__main__":
    main()
