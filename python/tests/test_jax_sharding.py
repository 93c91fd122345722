"""octile.jax on eight devices: collectives, and results, wherever shards begin."""

import re

import pytest

from jax_cases import dequantized, from_numpy, operands, relative_error, same_bits

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import octile.jax as oj

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@pytest.fixture(scope="module")
def mesh():
    return make_mesh(AxisType.Auto)


def make_mesh(kind):
    if len(jax.devices()) < 8:
        pytest.skip("needs XLA_FLAGS=--xla_force_host_platform_device_count=8 before jax is imported")
    return jax.make_mesh((2, 4), ("d", "m"), axis_types=(kind,) * 2)


def put(mesh, array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def run(function, *arguments, **options):
    """The result, and how often each collective is in the program."""
    compiled = jax.jit(function, **options).lower(*arguments).compile()
    text = compiled.as_text()
    counts = {name: len(re.findall(rf"\b{name}(?:-start)?\(", text)) for name in COLLECTIVES}
    return compiled(*arguments), {name: count for name, count in counts.items() if count}


def test_rows_and_columns_are_split_without_communication(mesh):
    x, codes, scales = operands(64, 1024, 512)
    arguments = put(mesh, x, "d", None), put(mesh, codes, "m", None), put(mesh, scales, "m", None)
    out, collectives = run(oj.matmul, *arguments)
    assert not collectives and out.sharding.spec == P("d", "m")
    assert same_bits(out, from_numpy(x, codes, scales))
    # Scales that are not split are sliced where they are.
    out, collectives = run(oj.matmul, *arguments[:2], put(mesh, scales))
    assert not collectives and same_bits(out, from_numpy(x, codes, scales))


def test_k_is_split_with_one_all_reduce(mesh):
    x, codes, scales = operands(64, 256, 1024)
    arguments = put(mesh, x, "d", "m"), put(mesh, codes, None, "m"), put(mesh, scales, None, "m")
    out, collectives = run(oj.matmul, *arguments)
    assert collectives == {"all-reduce": 1}
    assert relative_error(out, from_numpy(x, codes, scales)) < 1e-6


def test_a_result_split_like_k_needs_one_reduce_scatter(mesh):
    x, codes, scales = operands(64, 256, 1024)
    arguments = put(mesh, x, "d", "m"), put(mesh, codes, None, "m"), put(mesh, scales, None, "m")

    def multiply(*arguments):
        specs = {"x_spec": P("d", "m"), "w_spec": P(None, "m"), "out_spec": P(("d", "m"), None)}
        return oj.sharded_matmul(*arguments, mesh=mesh, **specs)

    out, collectives = run(multiply, *arguments)
    assert collectives == {"reduce-scatter": 1} and out.sharding.spec == P(("d", "m"))
    assert relative_error(out, from_numpy(x, codes, scales)) < 1e-6


@pytest.mark.parametrize("spec", [("m", None), (None, "m"), (("d", "m"), None), (None, ("d", "m"))])
@pytest.mark.parametrize("shape", [(64, 384, 512), (64, 512, 384), (64, 640, 640), (24, 100, 200)])
def test_scale_blocks_are_never_split(mesh, shape, spec):
    x, codes, scales = operands(*shape)
    expected = from_numpy(x, codes, scales)
    for x_spec in (("d",), (None, "m"), ()):
        if shape[1 if spec[0] else 2] % (4 if "m" in spec else 8):
            continue
        arguments = put(mesh, x, *x_spec), put(mesh, codes, *spec), put(mesh, scales)
        out, _ = run(oj.matmul, *arguments)
        assert relative_error(out, expected) < 1e-6, (x_spec, spec)


def test_a_rule_that_splits_scale_blocks_would_be_wrong():
    """What the test above would miss if the error were small."""
    x, codes, scales = operands(64, 384, 512)
    right = dequantized(codes, scales)
    # Four shards of 96 rows, each with the scales from its own row on.
    wrong = [dequantized(codes[i : i + 96], scales[i // 128 :][:1]) for i in range(0, 384, 96)]
    assert relative_error(x @ np.concatenate(wrong).T, x @ right.T) > 0.05


@pytest.mark.parametrize("x_scaling", ["token", "block", "none"])
def test_activation_scales_are_never_split(mesh, x_scaling):
    x, codes, scales = operands(8 * 96, 256, 512)
    x[::7] *= 50
    arguments = put(mesh, x, ("d", "m"), None), put(mesh, codes), put(mesh, scales)
    out, _ = run(lambda *a: oj.matmul(*a, x_scaling=x_scaling), *arguments)
    assert same_bits(out, from_numpy(x, codes, scales, x_scaling=x_scaling))


def test_batched_activations_stay_split(mesh):
    x, codes, scales = operands(16 * 8, 512, 256)
    arguments = put(mesh, x.reshape(16, 8, 256), "d", None, None), put(mesh, codes, "m"), put(mesh, scales)
    expected = from_numpy(x, codes, scales).reshape(16, 8, 512)
    for function in (oj.matmul, jax.vmap(oj.matmul, (0, None, None))):
        out, collectives = run(function, *arguments)
        assert not collectives and out.sharding.spec == P("d", None, "m")
        assert same_bits(out, expected)


def test_packed_weights_are_split_along_n(mesh):
    x, codes, scales = operands(64, 1024, 384)
    packed = oj.pack(codes, scales)
    packed = jax.device_put(packed, packed.sharding(mesh, "m"))
    out, collectives = run(oj.matmul, put(mesh, x, "d"), packed)
    assert not collectives and out.sharding.spec == P("d", "m")
    assert same_bits(out, from_numpy(x, codes, scales))


def test_gradients_of_split_operands(mesh):
    x, codes, scales = operands(64, 512, 1024)
    expected = np.ones((64, 512)) @ dequantized(codes, scales)
    for spec in (P("m", None), P(None, "m")):
        x_spec = P("d", spec[1])
        arguments = put(mesh, x, *x_spec), put(mesh, codes, *spec), put(mesh, scales, *spec)
        gradient, _ = run(jax.grad(lambda *a: oj.matmul(*a).sum()), *arguments)
        assert relative_error(gradient, expected) < 1e-5
        split = jax.grad(lambda *a: oj.sharded_matmul(*a, mesh=mesh, x_spec=x_spec, w_spec=spec).sum())
        gradient, _ = run(split, *arguments)
        assert relative_error(gradient, expected) < 1e-5


@pytest.mark.parametrize("spec", [("m", None), (None, "m")])
def test_explicit_axes(spec):
    mesh = make_mesh(AxisType.Explicit)
    x, codes, scales = operands(64, 512, 1024)
    arguments = put(mesh, x, "d", spec[1]), put(mesh, codes, *spec), put(mesh, scales)
    out, collectives = run(oj.matmul, *arguments)
    assert collectives == ({"all-reduce": 1} if spec[1] else {})
    assert out.sharding.spec == P("d", spec[0]) and relative_error(out, from_numpy(x, codes, scales)) < 1e-6
    # Operands that are elsewhere are moved first.
    specs = {"x_spec": P("d", spec[1]), "w_spec": P(*spec)}
    moved = oj.sharded_matmul(x, codes, scales, mesh=mesh, **specs)
    assert same_bits(moved, out) and moved.sharding.spec == out.sharding.spec


def test_shard_map(mesh):
    x, codes, scales = operands(64, 512, 256)
    specs = {"in_specs": (P("d"), P("m"), P("m")), "out_specs": P("d", "m"), "check_vma": False}
    out = jax.jit(jax.shard_map(oj.matmul, mesh=mesh, **specs))(x, codes, scales)
    assert same_bits(out, from_numpy(x, codes, scales))


def test_splits_that_are_impossible_are_refused(mesh):
    x, codes, scales = operands(64, 384, 512)

    def refused(sentence, x_spec, w_spec, out_spec=None, array=x):
        specs = {"x_spec": x_spec, "w_spec": w_spec, "out_spec": out_spec}
        with pytest.raises((TypeError, ValueError), match=sentence):
            oj.sharded_matmul(array, codes, scales, mesh=mesh, **specs)

    refused("splits the weight .* inside of a scale block of 128", P(), P("m"))
    refused("has no axis 'z'", P("z"), P())
    refused("x_spec is str: pass a jax.sharding.PartitionSpec", "d", P())
    refused("w_spec is NoneType: pass a jax.sharding.PartitionSpec", P(), None)
    refused("w_spec .* has 3 entries for 2 dimensions", P(), P(None, None, "d"))
    refused("w_spec .* uses the axis 'd' twice", P(), P("d", "d"))
    refused("splits rows along 'm', which w_spec .* uses too", P("m"), P("m"))
    with pytest.raises(TypeError, match="mesh is dict: pass a jax.sharding.Mesh"):
        oj.sharded_matmul(x, codes, scales, mesh={"d": 2}, x_spec=P(), w_spec=P())
    refused("splits K other than w_spec", P(None, "d"), P(None, "m"))
    refused("does not divide the rows", P("m"), P(), array=x[:3])
    refused("out_spec .* is not what the operands give", P("d"), P(), P("m"))
    with pytest.raises(ValueError, match="split along N only"):
        packed = oj.pack(codes, scales)
        oj.sharded_matmul(x, packed, mesh=mesh, x_spec=P(), w_spec=P(None, "m"))
