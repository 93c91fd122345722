"""The shapes: the benchmark suite, and the layers of DeepSeek-V3 at five batch sizes."""

import pathlib


def parse(shape):
    """Parses `MxNxK`."""
    return tuple(map(int, shape.split("x")))


SHAPES = [parse(line) for line in pathlib.Path(__file__).with_name("shapes.txt").read_text().split()]
