"""The shapes: the benchmark suite, and the layers of DeepSeek-V3 at five batch sizes."""

import pathlib
import subprocess
import sys


def parse(shape):
    """Parses `MxNxK`."""
    try:
        sizes = tuple(map(int, shape.split("x")))
    except ValueError:
        sizes = ()
    if len(sizes) != 3 or min(sizes) < 1:
        sys.exit(f"compare.py: '{shape}' is no shape: write MxNxK, such as 16x4096x7168")
    return sizes


def sample(octile, name):
    """The problems of a sample, as the command lists them."""
    command = [octile, "bench", "--sample", name, "--list"]
    try:
        listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"compare.py: cannot list the sample with {octile} ({error}): name the command with --cli")
    return [parse(line.split(":")[0]) for line in listed.splitlines()]


SHAPES = [parse(line) for line in pathlib.Path(__file__).with_name("shapes.txt").read_text().split()]
