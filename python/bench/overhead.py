#!/usr/bin/env python3
"""Times what a call from Python costs on the CPU, beyond the product itself.

  python3 python/bench/overhead.py --record overhead.json

The library's own time is that of `Multiplication.run` with addresses that are known ahead: Rust, plus one
call of a native function. All are timed in one run, interleaved, with one thread of PyTorch; a figure is the
median of the rounds. Times are those of the calling thread on its CPU, so that other programs do not count;
products of this size use no other thread.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import time

import numpy as np
import torch
from torch import nn

import octile
import octile.torch
from octile import _native
from octile.torch import Fp8Linear, linear


def contenders(n, k):
    """Ways to multiply one row; all in float32."""
    x = torch.randn(1, k)
    codes, scales = octile.torch.quantize(torch.randn(n, k))
    out = torch.empty(1, n)
    multiplication = _native.Multiplication(-1, n, k, 128, "float32", "float32", False)
    addresses = (x.data_ptr(), 0, codes.data_ptr(), scales.data_ptr(), out.data_ptr(), 1)
    layer = Fp8Linear(k, n, bias=False)
    layer.load_state_dict({"weight": codes, "weight_scale_inv": scales})
    packed = torch.empty(_native.packed_shape(n, k, 128), dtype=torch.uint8)
    _native.pack_into(codes.data_ptr(), scales.data_ptr(), n, k, 128, packed.data_ptr())
    packed_addresses = (x.data_ptr(), 0, packed.data_ptr(), packed.numel(), out.data_ptr(), 1)
    dense = octile.torch.dequantize(codes, scales)
    array, weight = x.numpy(), octile.Weight.from_codes(codes.view(torch.uint8).numpy(), scales.numpy())
    result = np.empty((1, n), np.float32)
    transposed = weight.dequantize().T
    return {
        # Tensors are named so that they stay alive: the library sees addresses only.
        "library, row-major weight": lambda out=out: multiplication.run(*addresses),
        "octile.torch.linear": lambda: linear(x, codes, scales),
        "library, packed weight": lambda packed=packed: multiplication.run_packed(*packed_addresses),
        "Fp8Linear": lambda: layer(x),
        "octile.matmul (numpy)": lambda: octile.matmul(array, weight),
        "torch.nn.functional.linear": lambda: nn.functional.linear(x, dense),
        "numpy.matmul": lambda: np.matmul(array, transposed, out=result),
    }


def measure(calls, rounds, count):
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time()
            for _ in range(count):
                call()
            samples[name].append((time.thread_time() - start) / count * 1e6)
    return samples


def machine():
    """The CPU, how many there are, and how busy."""
    with open("/proc/cpuinfo") as file:
        first = file.read().split("\n\n")[0]
    found = dict(line.replace("\t", "").split(":", 1) for line in first.splitlines() if ":" in line)
    # The name alone may not tell the design.
    fields = [found.get(key, " unknown").strip() for key in ("model name", "cpu family", "model")]
    name = "{} (family {}, model {})".format(*fields)
    return f"{name}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}; CPU time of the calling thread"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", metavar="FILE", help="write the samples there, as JSON")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    record = {
        "machine": machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "octile": octile.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "us": {},
    }
    for n, k in [(128, 128), (256, 512)]:
        for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
            with mode():
                samples = measure(contenders(n, k), arguments.rounds, arguments.calls)
            medians = {name: statistics.median(values) for name, values in samples.items()}
            record["us"][f"1x{n}x{k} {mode.__name__}"] = samples
            print(f"1x{n}x{k}, {mode.__name__}: us per call")
            for name, value in medians.items():
                print(f"  {value:8.2f}  {name}")
            linear_cost = medians["octile.torch.linear"] - medians["library, row-major weight"]
            layer_cost = medians["Fp8Linear"] - medians["library, packed weight"]
            print(f"  overhead: linear {linear_cost:.2f}, Fp8Linear {layer_cost:.2f}", flush=True)
    if arguments.record:
        with open(arguments.record, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
