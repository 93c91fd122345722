"""How XLA's partitioner splits the multiplication, on CPUs and CUDA devices.

XLA calls back into Python with the shardings that it propagated. Compilers for TPUs do not; for those there
is ``sharded_matmul``, and meshes with explicit axes.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding

from octile.jax._packed import PANEL_ROWS
from octile.jax._problem import Problem
from octile.jax._split import Split, axes_of, local


@functools.cache
def partitioned(problem: Problem, x_rank: int) -> Any:
    """The multiplication of x [..., K] with its partitioning rule."""

    @custom_partitioning
    def octile_matmul(*operands):
        return local(problem, *operands)

    rule, sizes = _rule(problem, x_rank)
    partition = functools.partial(_partition, problem)
    octile_matmul.def_partition(partition, sharding_rule=rule, **sizes)
    # TPUs get the kernel itself, which says what to do if there are several.
    alone = functools.partial(local, problem)
    return functools.partial(jax.lax.platform_dependent, tpu=alone, default=octile_matmul)


def _rule(problem: Problem, x_rank: int) -> tuple[str, dict[str, int]]:
    """Which dimensions correspond, for Shardy: ``m k, n k, p q -> m n``."""
    rows = [f"m{i}" for i in range(x_rank - 1)]
    operands, n, sizes = [[*rows, "k"]], "n", {}
    if not problem.packed:
        operands += [["n", "k"], ["p", "q"]]
    else:
        operands.append(["panels", "bytes"])
        if problem.n % PANEL_ROWS == 0:
            n, sizes = "(panels r)", {"r": PANEL_ROWS}
    if problem.has_x_scales:
        operands.append(["s", "g"] if problem.x_scaling == "block" else [*rows, "g"])
    return ", ".join(map(" ".join, operands)) + " -> " + " ".join([*rows, n]), sizes


def _partition(problem: Problem, mesh: jax.sharding.Mesh, operands: Any, result: Any) -> Any:
    x, w, out = (axes_of(a.sharding.spec, len(a.shape)) for a in (operands[0], operands[1], result))
    split = Split.choose(problem, mesh.shape, operands[0].shape, x, w, out)
    shardings = tuple(NamedSharding(mesh, spec) for spec in split.operands())
    multiply = functools.partial(split.multiply, local)
    return mesh, multiply, NamedSharding(mesh, split.result()), shardings
