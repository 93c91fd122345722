"""The command inside the wheel."""

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
