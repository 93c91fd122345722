"""The TPU kernels of tokamax."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from tokamax._src.ops.experimental.tpu.splash_attention import ring_attention_kernel as ring
from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_kernel as splash
from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_mask as masks
from tokamax._src.ops.linear_softmax_cross_entropy_loss import pallas_mosaic_tpu_kernel as loss
from tokamax._src.ops.ragged_dot import pallas_mosaic_tpu_kernel as ragged_dot

from jax_kernels import BF16, F32, normal
from lowering import Case, abstract_mesh

P = jax.sharding.PartitionSpec


def dense_attention(mask, q, k, v, soft_cap=None):
    """Attention with a dense mask in f32. `k` and `v` may lack the axis of heads."""
    q, k, v = (jnp.asarray(value, F32) for value in (q, k, v))
    k, v = (jnp.broadcast_to(value, (q.shape[0], *value.shape[-2:])) for value in (k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k)
    if soft_cap is not None:
        scores = soft_cap * jnp.tanh(scores / soft_cap)
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    return jnp.einsum("hqk,hkd->hqd", weights, v)


def splash_case(name, mask, heads, dtype, *, mqa=False, soft_cap=None, backward=False, scheduler=False):
    """Splash attention, whose grid visits only the blocks that the mask needs."""
    length = mask.shape[0]
    q = normal(0, heads, length, 128, dtype=dtype)
    shape = (length, 128) if mqa else (heads, length, 128)
    k, v = (normal(seed, *shape, dtype=dtype, scale=0.1) for seed in (1, 2))
    config = splash.SplashConfig(
        block_q=128,
        block_kv=128,
        block_q_dkv=128,
        block_kv_dkv=128,
        attn_logits_soft_cap=soft_cap,
        use_experimental_scheduler=scheduler,
    )
    make = splash.make_splash_mqa_single_device if mqa else splash.make_splash_mha_single_device
    kernel = make(mask, config=config)
    dense = np.asarray(mask[:, :])
    theirs = lambda q, k, v: dense_attention(dense, q, k, v, soft_cap)
    if not backward:
        return Case(name, lambda q, k, v: kernel(q, k, v), [q, k, v], theirs)
    gradient = lambda f: lambda q, k, v, g: jax.vjp(f, q, k, v)[1](g)
    g = normal(5, heads, length, 128, dtype=dtype)
    return Case(name, gradient(lambda q, k, v: kernel(q, k, v)), [q, k, v, g], gradient(theirs))


def ring_case():
    """Attention with keys and values that travel around a ring of devices."""
    axes = {"ring": 2}
    mask = masks.FullMask((512, 512))
    config = splash.SplashConfig(block_q=128, block_kv=128, block_q_dkv=128, block_kv_dkv=128)
    q, k, v = (normal(seed, 2, 512, 128, scale=0.3) for seed in range(3))
    kernel = ring.make_ring_attention(
        mask, config=config, is_mqa=False, ring_axis="ring", q_seq_shards=2, kv_seq_shards=2
    )
    mesh = abstract_mesh(axes)
    spec = P(None, "ring", None)

    def function(q, k, v):
        manual = kernel.manual_sharding_spec()
        run = jax.shard_map(
            lambda kernel, q, k, v: kernel(q, k, v),
            mesh=mesh,
            in_specs=(manual, spec, spec, spec),
            out_specs=spec,
            check_vma=False,
        )
        return run(kernel, q, k, v)

    reference = functools.partial(dense_attention, np.ones((512, 512), bool))
    return Case("ring_attention-2", function, [q, k, v], reference, axes)


def gmm_case(name, *, dtype=BF16, transpose=False, quantized=None):
    """Grouped matmul with tuned tiles."""
    sizes = (100, 0, 156, 256)
    lhs = normal(0, sum(sizes), 256, dtype=dtype)
    rhs = normal(1, len(sizes), *((128, 256) if transpose else (256, 128)), dtype=dtype)

    def function(lhs, rhs, sizes):
        return ragged_dot.gmm(
            lhs, rhs, sizes, jax.lax.Precision.DEFAULT, F32, transpose_rhs=transpose, lhs_qdtype=quantized,
            rhs_qdtype=quantized,
        )

    def reference(lhs, rhs, _):
        rhs = jnp.asarray(rhs, F32)
        rhs = rhs.swapaxes(1, 2) if transpose else rhs
        group = np.repeat(np.arange(len(sizes)), sizes)
        return jnp.einsum("mk,mkn->mn", jnp.asarray(lhs, F32), rhs[group])

    return Case(name, function, [lhs, rhs, np.array(sizes, np.int32)], reference)


def tgmm_case():
    """The gradient of the grouped matmul in its matrices."""
    sizes = (128, 200, 56, 128)
    lhs, rhs = normal(0, 256, sum(sizes), dtype=BF16), normal(1, sum(sizes), 128, dtype=BF16)
    ends = np.cumsum(sizes)

    def function(lhs, rhs, sizes):
        return ragged_dot.tgmm(lhs, rhs, sizes, jax.lax.Precision.DEFAULT, F32)

    def reference(lhs, rhs, _):
        lhs, rhs = jnp.asarray(lhs, F32), jnp.asarray(rhs, F32)
        parts = [(end - size, end) for size, end in zip(sizes, ends)]
        return jnp.stack([lhs[:, first:end] @ rhs[first:end] for first, end in parts])

    return Case("ragged_dot-tgmm", function, [lhs, rhs, np.array(sizes, np.int32)], reference)


def loss_operands():
    x = normal(0, 1024, 256)
    labels = np.random.default_rng(1).integers(0, 512, 1024).astype(np.int32)
    return [x, labels, normal(2, 256, 512, scale=0.05)]


def loss_case():
    """Projection and softmax cross-entropy in one kernel."""

    def function(x, labels, w):
        run = loss.linear_softmax_cross_entropy_loss_fwd_pallas_mosaic_tpu
        return run(x, labels, w, b_block_size=1024, h_block_size=128, v_block_size=256)

    def reference(x, labels, w):
        logits = x @ w
        lse = jax.nn.logsumexp(logits, axis=1)
        return (lse - jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]).sum(), lse

    return Case("linear_softmax_cross_entropy", function, loss_operands(), reference)


def cases():
    """Every kernel, in a form for each of its main options."""
    causal, local = masks.CausalMask((512, 512)), masks.LocalMask((512, 512), (128, 0), offset=0)
    return [
        splash_case("splash_attention-causal", causal, 2, F32),
        splash_case("splash_attention-local-bf16", local, 2, BF16),
        splash_case("splash_attention-mqa-soft_cap", causal, 4, F32, mqa=True, soft_cap=20.0),
        splash_case("splash_attention-scheduler", causal, 2, BF16, scheduler=True),
        splash_case("splash_attention-backward", causal, 2, F32, backward=True),
        ring_case(),
        gmm_case("ragged_dot-gmm"),
        gmm_case("ragged_dot-gmm-transposed", dtype=F32, transpose=True),
        tgmm_case(),
        loss_case(),
    ]
