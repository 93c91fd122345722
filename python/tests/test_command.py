"""The command inside the wheel."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

import octile


def octile_command(*arguments, **options):
    command = [sys.executable, "-m", "octile", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_version_and_exit_codes():
    assert octile_command("--version").stdout == f"octile {octile.__version__}\n"
    assert octile_command("no-such-command").returncode == 2
    failed = octile_command("verify", "/no/such/folder")
    assert failed.returncode == 2 and failed.stderr.startswith("octile: ")


def test_the_script_is_on_the_path():
    script = os.path.join(sysconfig.get_path("scripts"), "octile")
    if not os.path.exists(script):
        script = shutil.which("octile")
    if script is None:
        pytest.skip("not run: the package was installed without its scripts (pip install --target)")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout.startswith("octile ")


def test_a_kernel_is_tested_on_the_cpu():
    tested = octile_command("test", "--shape", "4x128x256:128", "--backend", "cpu")
    assert tested.returncode == 0, tested.stderr


def test_ctrl_c_ends_the_command():
    bench = [sys.executable, "-m", "octile", "bench", "--shape", "2048x2048x2048:128", "--backend", "cpu"]
    # A shell may have started this with interrupts ignored.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(bench, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, handler)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, stderr
    assert "interrupted by SIGINT" in stderr


def test_tiles_of_a_tuned_table_are_lowered(tmp_path):
    environment = {"VIRTUAL_ENV": sys.prefix, **os.environ, "OCTILE_TUNED_DIR": str(tmp_path)}
    # Both turn tables off; conftest.py sets the second one.
    for variable in ("OCTILE_TUNED", "OCTILE_BATCH_INVARIANT"):
        environment.pop(variable, None)
    # Of several shapes: the default tile of one may be the best.
    shapes = ["--shape=32x2560x512:128", "--shape=48x768x512:128", "--shape=100x640x384:128"]
    arguments = ["--backend", "tpu", "--chip", "v5e", *shapes, "--out", "bf16", "--json"]
    tuned = octile_command("tune", *arguments, env=environment)
    if "libtpu not found" in tuned.stderr:
        pytest.skip("libtpu is missing: run `octile tools install tpu`")
    entries = [shape["entry"] for shape in json.loads(tuned.stdout)["shapes"]]
    entry = next(entry for entry in entries if entry["choice"] is not None)
    shape = tuple(entry["problem"][size] for size in "mnk")
    version = entry["with"]["driver"].removeprefix("libtpu ")
    # In another process, because tables are read once.
    script = f"""
from octile import _native
lowered = [
    _native.tpu_module("v5e", {shape}, 128, x="f8e4m3", x_scaling="token", out="bf16", libtpu=libtpu)
    for libtpu in (None, "0.0.1", {version!r})
]
assert lowered[0] == lowered[1]
print(lowered[0] != lowered[2])
"""
    for variables, differs in ({}, "True"), ({"OCTILE_TUNED": "off"}, "False"):
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env={**environment, **variables}
        )
        assert run.stdout.strip() == differs, run.stderr
