"""Threads, signals, memory, and the bits of the Rust library."""

import gc
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import octile


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def write_safetensors(path, tensors):
    """Writes a safetensors file; a tensor is (dtype name, array)."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize(
    ("suffix", "dtype", "cast"),
    [
        ("weight_scale_inv", "F32", np.float32),
        ("weight_scale", "BF16", ml_dtypes.bfloat16),
        ("weight_scale", "F8_E8M0", ml_dtypes.float8_e8m0fnu),
    ],
)
def test_a_layer_of_a_checkpoint(tmp_path, suffix, dtype, cast):
    weight = octile.quantize(normal(300, 260))
    path = tmp_path / "model.safetensors"
    scales = weight.scales.astype(cast)
    tensors = {
        "before": ("F32", normal(7)),
        "up.weight": ("F8_E4M3", weight.codes),
        f"up.{suffix}": (dtype, scales),
        "after": ("F32", normal(9)),
    }
    write_safetensors(path, tensors)
    loaded = octile.load_safetensors(path, "up")
    assert loaded == octile.Weight.from_codes(weight.codes, scales.astype(np.float32))
    with pytest.raises(ValueError, match="tensor down.weight: not in this file"):
        octile.load_safetensors(str(path), "down")
    whole = path.read_bytes()
    for broken in (
        b"",
        whole[:5],
        whole[:100],
        whole[:-40],
        struct.pack("<Q", 1 << 60) + whole[8:],
        b"{" * 99,
    ):
        path.write_bytes(broken)
        with pytest.raises(ValueError) as caught:
            octile.load_safetensors(path, "up")
        assert "\n" not in str(caught.value)


def test_the_bits_of_the_command(tmp_path):
    """What the command quantizes, Python decodes to the bits that the command decodes it to."""

    def command(*arguments):
        done = subprocess.run([sys.executable, "-m", "octile", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    names = [tmp_path / f"{name}.safetensors" for name in ("dense", "fp8", "decoded")]
    dense, fp8, decoded = map(str, names)
    layer = "model.layers.0.mlp.up_proj"
    write_safetensors(names[0], {f"{layer}.weight": ("F32", normal(256, 384))})
    command("quantize", dense, "--output", fp8)
    command("dequantize", fp8, "--output", decoded, "--dtype", "f32")
    values = safetensors.numpy.load_file(decoded)[f"{layer}.weight"]
    assert np.array_equal(octile.load_safetensors(fp8, layer).dequantize(), values)


def test_threads_get_the_same_bits():
    weight = octile.quantize(normal(300, 520))
    x = normal(20, 520, seed=1)
    expected = octile.matmul(x, octile.quantize(normal(300, 520)))
    results = []

    def work():
        for _ in range(20):
            results.append(np.array_equal(octile.matmul(x, weight), expected))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160 and all(results)


def test_rows_do_not_depend_on_each_other():
    weight = octile.quantize(normal(256, 512))
    x = normal(300, 512, seed=1)
    y = octile.matmul(x, weight)
    for rows in (slice(0, 1), slice(7, 9), slice(100, 231)):
        assert np.array_equal(octile.matmul(x[rows], weight), y[rows])


def test_the_gil_is_released():
    weight = octile.quantize(normal(2048, 2048))
    x = normal(1024, 2048, seed=1)
    octile.matmul(x[:1], weight)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    most = 0
    # A busy machine may not run the other thread during the first one.
    for _ in range(50):
        begin = time.perf_counter()
        octile.matmul(x, weight)
        end = time.perf_counter()
        most = max(most, sum(begin < at < end for at in ticks))
        if most >= 3:
            break
    stop.set()
    thread.join()
    sys.setswitchinterval(switch)
    assert most >= 3, f"{most} ticks during a product"


def test_ctrl_c_interrupts_a_long_product():
    program = """
import numpy as np, octile, signal
# A shell may have started this with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
weight = octile.quantize(np.ones((2048, 2048), np.float32))
x = np.ones((1 << 14, 2048), np.float16)
print("ready", flush=True)
try:
    while True:
        octile.matmul(x, weight)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    try:
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.stdout.close()


def test_functions_are_lowered_by_jax():
    program = """
import sys
sys.modules["jax"] = None
import octile
try:
    octile.simulate(abs, 1)
except octile.Error as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "JAX lowers functions, and is not installed: pip install jax, or pass a module\n"


def test_a_forked_child_can_multiply():
    weight = octile.quantize(normal(512, 512))
    x = normal(512, 512, seed=1)
    expected = octile.matmul(x, weight)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(octile.matmul(x, weight), expected) else 1)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert ended[1] == 0


def test_memory_is_constant_over_100_000_calls():
    weight = octile.quantize(normal(128, 128))
    x = normal(1, 128)
    codes, scales = x.astype(weight.codes.dtype), np.ones((1, 1), np.float32)

    def calls(count):
        for _ in range(count // 4):
            octile.matmul(x, weight)
            octile.matmul(codes, weight, x_scales=scales, out_dtype="bfloat16")
            weight.codes, weight.scales  # noqa: B018
            try:
                octile.matmul(x[:, :100], weight)
            except ValueError:
                pass
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = calls(4_000)
    assert calls(100_000) - before < 4 << 20
