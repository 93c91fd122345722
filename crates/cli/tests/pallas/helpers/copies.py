from jax.experimental.pallas import tpu as pltpu
import jax.numpy as jnp


def start(src, dst, sem):
    copy = pltpu.make_async_copy(src, dst, sem)
    copy.start()
    return copy


def clear(ref):
    ref[...] = jnp.zeros_like(ref)
