"""Building and running `octile`."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import tempfile
from typing import List, Optional

from . import PeerError


@dataclasses.dataclass(frozen=True)
class Shape:
    """A problem: x of m x k, a weight of n x k, and the side of its quantization blocks."""

    m: int
    n: int
    k: int
    quant_block: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}:{self.quant_block}"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of `octile bench` beside the shape."""

    x: str
    threads: int = 1
    isa: Optional[str] = None
    strategy: str = "strip"


def build(root: pathlib.Path) -> pathlib.Path:
    """Builds the release binary and returns its path."""
    if shutil.which("cargo") is None:
        raise PeerError("cargo was not found: install Rust, or name a binary with --octile")
    command = ["cargo", "build", "--release", "--package", "octile-cli", "--bin", "octile"]
    command += ["--message-format", "json-render-diagnostics"]
    result = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise PeerError("octile does not build: see the compiler's message above")
    messages = map(json.loads, result.stdout.splitlines())
    binaries = [message["executable"] for message in messages if message.get("executable")]
    return pathlib.Path(binaries[-1])


def version(binary: pathlib.Path) -> str:
    """The version that `octile --version` prints."""
    return _run([str(binary), "--version"]).split()[-1]


def sample_shapes(binary: pathlib.Path, sample: str, max_gflop: Optional[float]) -> List[Shape]:
    """The problems of a sample, as `octile bench` lists them."""
    command = [str(binary), "bench", "--sample", sample, "--list"]
    if max_gflop is not None:
        command += ["--max-gflop", str(max_gflop)]
    shapes = [line.split()[0].replace(":", "x").split("x") for line in _run(command).splitlines()]
    return [Shape(*map(int, numbers)) for numbers in shapes]


def take_samples(binary: pathlib.Path, shape: Shape, settings: Settings, samples: int, warmup: int) -> dict:
    """Runs `octile bench` once and returns its record."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "record.json"
        command = [str(binary), "bench", "--backend", "cpu", "--shape", str(shape), f"--json={path}"]
        command += ["--strategy", settings.strategy, "--x", settings.x, "--threads", str(settings.threads)]
        command += ["--iterations", str(samples), "--warmup", str(warmup)]
        if not settings.x.endswith("-plain"):
            command += ["--x-scales", "block"]
        if settings.isa is not None:
            command += ["--isa", settings.isa]
        _run(command)
        document = json.loads(path.read_text())
    return _only_timing(document, shape, settings, command)


def _only_timing(document: dict, shape: Shape, settings: Settings, command: List[str]) -> dict:
    """The timing with the machine's fields, after checking that it is the requested one."""
    records = [{**document["machine"], **timing} for timing in document["timings"]]
    asked = {**dataclasses.asdict(shape), "threads": settings.threads}
    if settings.isa is not None:
        asked["isa"] = settings.isa
    if len(records) != 1:
        raise PeerError(f"expected one timing from `{' '.join(command)}`, but got {len(records)}")
    different = [name for name, value in asked.items() if records[0][name] != value]
    if different:
        got = ", ".join(f"{name} {records[0][name]}" for name in different)
        raise PeerError(f"`{' '.join(command)}` measured something else: {got}")
    return records[0]


def _run(command: List[str]) -> str:
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise PeerError(f"cannot run {command[0]}: {error.strerror}") from error
    if result.returncode != 0:
        said = (result.stderr.strip() or result.stdout.strip()).replace("\n", "\n  ")
        raise PeerError(f"`{' '.join(command)}` failed with exit code {result.returncode}:\n  {said}")
    return result.stdout
