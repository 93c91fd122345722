"""The shapes: the benchmark suite, and the layers of DeepSeek-V3 at five batch sizes."""

import pathlib
import subprocess


def parse(shape):
    """Parses `MxNxK`."""
    return tuple(map(int, shape.split("x")))


def sample(octile, name):
    """The problems of a sample, as the command lists them."""
    command = [octile, "bench", "--sample", name, "--list"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [parse(line.split(":")[0]) for line in listed.splitlines()]


SHAPES = [parse(line) for line in pathlib.Path(__file__).with_name("shapes.txt").read_text().split()]
