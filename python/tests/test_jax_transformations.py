"""octile.jax under transformations of JAX: derivatives in both directions, loops, shard_map, export."""

import pytest

from jax_cases import dequantized, from_numpy, operands, relative_error, same_bits

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec as P

import octile.jax as oj

X, CODES, SCALES = operands(6, 256, 384)
VALUES = dequantized(CODES, SCALES)
AWAY = np.random.default_rng(3).standard_normal((6, 256), dtype=np.float32)


@pytest.fixture(params=["codes", "packed"])
def weight(request):
    return (CODES, SCALES) if request.param == "codes" else (oj.pack(CODES, SCALES),)


def test_gradient_of_x(weight):
    expected = AWAY @ VALUES
    gradient = jax.jit(jax.grad(lambda x: (oj.matmul(x, *weight) * AWAY).sum()))(X)
    assert gradient.dtype == jnp.float32 and relative_error(gradient, expected) < 1e-5
    one = jax.vmap(jax.grad(lambda x, away: (oj.matmul(x, *weight) * away).sum()))(X, AWAY)
    assert relative_error(one, expected) < 1e-5


def test_forward_derivatives(weight):
    def multiply(x):
        return oj.matmul(x, *weight)

    primal, tangent = jax.jit(lambda x, t: jax.jvp(multiply, (x,), (t,)))(X, 2 * X)
    assert same_bits(primal, from_numpy(X, CODES, SCALES))
    assert relative_error(tangent, 2 * X @ VALUES.T) < 1e-5
    for jacobian in (jax.jacfwd, jax.jacrev):
        assert relative_error(jacobian(multiply)(X[0]), VALUES) < 1e-5
    batched = jax.jvp(jax.vmap(multiply), (X.reshape(2, 3, 384),), (X.reshape(2, 3, 384),))[1]
    assert relative_error(batched.reshape(6, 256), X @ VALUES.T) < 1e-5


def test_derivatives_have_the_dtypes_of_x_and_of_the_result():
    x = X.astype(jnp.bfloat16)
    multiply = lambda x: oj.matmul(x, CODES, SCALES, out_dtype=jnp.float32)  # noqa: E731
    result, pullback = jax.vjp(multiply, x)
    (gradient,) = pullback(AWAY)
    assert gradient.dtype == jnp.bfloat16 and relative_error(gradient, AWAY @ VALUES) < 1e-2
    assert jax.jvp(multiply, (x,), (x,))[1].dtype == result.dtype == jnp.float32


def test_second_derivatives(weight):
    def square(x):
        return (oj.matmul(x, *weight) ** 2).sum()

    expected = 2 * VALUES.T @ VALUES
    assert relative_error(jax.hessian(square)(X[0]), expected) < 1e-5
    twice = jax.grad(lambda x: jax.grad(square)(x).sum())(X)
    assert relative_error(twice, np.ones_like(X) @ expected) < 1e-5


def test_the_weight_itself_waits_for_the_backward_pass():
    """And not its values in float32, which take four times the memory."""
    _, pullback = jax.vjp(lambda x: oj.matmul(x, CODES, SCALES), X)
    assert {leaf.shape: leaf.dtype for leaf in jax.tree.leaves(pullback)} == {
        CODES.shape: CODES.dtype,
        SCALES.shape: SCALES.dtype,
    }
    assert not jax.grad(lambda s: oj.matmul(X, CODES, s).sum())(SCALES).any(), "weights have no gradient"


def test_vmap_over_weights_has_derivatives():
    others = [operands(0, 256, 384, seed=seed)[1:] for seed in range(2)]
    x, away = X.reshape(2, 3, 384), AWAY.reshape(2, 3, 256)
    expected = np.stack([a @ dequantized(*w) for a, w in zip(away, others)])
    for weights in (
        [np.stack(arrays) for arrays in zip(*others)],
        [jax.tree.map(lambda *a: jnp.stack(a), *(oj.pack(*w) for w in others))],
    ):
        gradient = jax.vmap(jax.grad(lambda x, away, *w: (oj.matmul(x, *w) * away).sum()))(x, away, *weights)
        assert relative_error(gradient, expected) < 1e-5


def test_loops_and_rematerialization():
    codes, scales = CODES[:, :256], SCALES[:, :2]

    def layer(x, weight):
        return jnp.tanh(oj.matmul(x, *weight) / 50)

    def layers(x, weights, layer):
        return jax.lax.scan(lambda x, weight: (layer(x, weight), None), x, weights)[0]

    weights = (np.stack([codes] * 3), np.stack([scales] * 3))
    x = X[:, :256]
    expected = layer(layer(layer(x, (codes, scales)), (codes, scales)), (codes, scales))
    assert relative_error(jax.jit(layers, static_argnums=2)(x, weights, layer), expected) < 1e-6
    plain = jax.grad(lambda x: layers(x, weights, layer).sum())(x)
    again = jax.grad(lambda x: layers(x, weights, jax.checkpoint(layer)).sum())(x)
    assert same_bits(plain, again)


def test_shard_map_with_types_that_vary():
    """`check_vma` is on unless turned off; the gradient of what is replicated is summed."""
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,))
    for specs, out_spec in (((P("d"), P(), P()), P("d")), ((P(), P("d"), P("d")), P(None, "d"))):
        split = jax.shard_map(oj.matmul, mesh=mesh, in_specs=specs, out_specs=out_spec)
        assert same_bits(jax.jit(split)(X, CODES, SCALES), from_numpy(X, CODES, SCALES))
        gradient = jax.grad(lambda x: (split(x, CODES, SCALES) * AWAY).sum())(X)
        assert relative_error(gradient, AWAY @ VALUES) < 1e-5
        tangent = jax.jvp(lambda x: split(x, CODES, SCALES), (X,), (X,))[1]
        assert relative_error(tangent, X @ VALUES.T) < 1e-5


def test_exported_programs_run_again(weight):
    pytest.importorskip("flatbuffers", reason="jax.export needs the package flatbuffers")
    check = jax.export.DisabledSafetyCheck.custom_call("octile_matmul")
    exported = jax.export.export(jax.jit(oj.matmul), disabled_checks=[check])(X, *weight)
    again = jax.export.deserialize(exported.serialize())
    assert same_bits(again.call(X, *weight), from_numpy(X, CODES, SCALES))


def test_exported_programs_have_gradients():
    pytest.importorskip("flatbuffers", reason="jax.export needs the package flatbuffers")
    check = jax.export.DisabledSafetyCheck.custom_call("octile_matmul")
    exported = jax.export.export(jax.jit(oj.matmul), disabled_checks=[check])(X, CODES, SCALES)
    again = jax.export.deserialize(exported.serialize(vjp_order=1))
    gradient = jax.grad(lambda x: (again.call(x, CODES, SCALES) * AWAY).sum())(X)
    assert relative_error(gradient, AWAY @ VALUES) < 1e-5


def test_symbolic_shapes_are_refused():
    (rows,) = jax.export.symbolic_shape("m")
    x = jax.ShapeDtypeStruct((rows, 384), jnp.float32)
    with pytest.raises(ValueError, match=r"x has the symbolic shape \(m, 384\): export a program for each"):
        jax.export.export(jax.jit(oj.matmul))(x, CODES, SCALES)


def test_64_bit_types_change_nothing():
    with jax.enable_x64(True):
        assert same_bits(jax.jit(oj.matmul)(X, CODES, SCALES), from_numpy(X, CODES, SCALES))
        assert jax.grad(lambda x: oj.matmul(x, CODES, SCALES).sum())(X).dtype == jnp.float32
