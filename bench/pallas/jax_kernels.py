"""The kernels of `jax.experimental.pallas.ops.tpu`."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import all_gather, example_kernel, flash_attention, matmul
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention_kernel as paged
from jax.experimental.pallas.ops.tpu.paged_attention import quantization_utils
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as ragged
from jax.experimental.pallas.ops.tpu.random import philox, threefry
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from lowering import Case, abstract_mesh

# The package exports a function of the same name as this module.
megablox = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
BF16, F32 = jnp.bfloat16, jnp.float32


def normal(seed, *shape, dtype=F32, scale=1.0):
    """Reproducible random values."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return np.asarray(values, np.float32).astype(dtype)


def attention(q, k, v, mask=None, scale=1.0):
    """Attention over [..., length, width] in f32."""
    q, k, v = (jnp.asarray(value, F32) for value in (q, k, v))
    scores = jnp.einsum("...qd,...kd->...qk", q, k) * scale
    if mask is not None:
        scores = jnp.where(mask, scores, -1e30)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores, axis=-1), v)


def causal_mask(rows, cols):
    """True where a query may look at a key."""
    return np.arange(rows)[:, None] >= np.arange(cols)[None, :]


def flash_case(name, batch, heads, length, width, dtype, *, causal=False, segments=False, bias=False):
    """Flash attention forward."""
    q, k, v = (normal(seed, batch, heads, length, width, dtype=dtype) for seed in range(3))
    ids = np.sort(np.random.default_rng(3).integers(0, 3, (batch, length)), axis=1).astype(np.int32)
    ab = normal(4, batch, heads, length, length) if bias else None
    scale = width**-0.5

    def function(q, k, v, *rest):
        rest = list(rest)
        added = rest.pop(0) if bias else None
        marks = flash_attention.SegmentIds(rest[0], rest[0]) if segments else None
        return flash_attention.flash_attention(q, k, v, added, marks, causal=causal, sm_scale=scale)

    def reference(q, k, v, *rest):
        mask = jnp.ones((batch, 1, length, length), bool)
        if causal:
            mask &= causal_mask(length, length)
        if segments:
            mask &= (ids[:, :, None] == ids[:, None, :])[:, None]
        scores = jnp.einsum("...qd,...kd->...qk", q.astype(F32), k.astype(F32))
        scores = (scores + (ab if bias else 0)) * scale
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
        return jnp.einsum("...qk,...kd->...qd", weights, v.astype(F32))

    rest = ([ab] if bias else []) + ([ids] if segments else [])
    return Case(name, function, [q, k, v, *rest], reference)


def flash_backward_case():
    """The gradient of flash attention: three kernels in one module."""
    q, k, v, g = (normal(seed, 1, 2, 256, 128) for seed in range(4))
    scale = 128**-0.5
    ours = functools.partial(flash_attention.flash_attention, causal=True, sm_scale=scale)
    mask = causal_mask(256, 256)
    theirs = lambda q, k, v: attention(q, k, v, mask, scale)
    gradient = lambda f: lambda q, k, v, g: jax.vjp(f, q, k, v)[1](g)
    return Case("flash_attention-backward", gradient(ours), [q, k, v, g], gradient(theirs))


def splash_case(name, mask, length, heads, dtype, *, mqa=False, sinks=False, soft_cap=None, backward=False):
    """Splash attention: only the blocks that the mask needs."""
    q = normal(0, heads, length, 128, dtype=dtype)
    shape = (length, 128) if mqa else (heads, length, 128)
    k, v = (normal(seed, *shape, dtype=dtype, scale=0.1) for seed in (1, 2))
    multi = masks.MultiHeadMask([mask] * heads)
    make = splash.make_splash_mqa if mqa else splash.make_splash_mha
    block = splash.BlockSizes(
        block_q=128, block_kv=128, block_q_dkv=128, block_kv_dkv=128, block_q_dq=128, block_kv_dq=128
    )
    kernel = make(
        multi, head_shards=1, q_seq_shards=1, block_sizes=block, attn_logits_soft_cap=soft_cap
    )
    dense = np.stack([np.asarray(mask[:, :])] * heads)

    def theirs(q, k, v):
        q, k, v = (jnp.asarray(value, F32) for value in (q, k, v))
        k, v = (jnp.broadcast_to(value, q.shape) for value in (k, v))
        scores = jnp.einsum("hqd,hkd->hqk", q, k)
        if soft_cap is not None:
            scores = soft_cap * jnp.tanh(scores / soft_cap)
        weights = jax.nn.softmax(jnp.where(dense, scores, -1e30), axis=-1)
        return jnp.einsum("hqk,hkd->hqd", weights, v)

    if not backward:
        return Case(name, kernel, [q, k, v], theirs)
    g = normal(5, heads, length, 128, dtype=dtype)
    gradient = lambda f: lambda q, k, v, g: jax.vjp(f, q, k, v)[1](g)
    return Case(name, gradient(kernel), [q, k, v, g], gradient(theirs))


def paged_case(name, *, quantized=False, inline=True, megacore=None, dtype=F32):
    """Decoding with keys and values in pages."""
    batch, heads, kv_heads, width, page, pages_per = 4, 8, 2, 128, 16, 8
    pages = batch * pages_per
    q = normal(0, batch, heads, width, dtype=dtype, scale=width**-0.5)
    k, v = (normal(seed, kv_heads, pages, page, width, dtype=dtype) for seed in (1, 2))
    lengths = np.array([5, 64, 128, 77], np.int32)
    table = np.random.default_rng(3).permutation(pages).reshape(batch, pages_per).astype(np.int32)
    run = functools.partial(
        paged.paged_attention, pages_per_compute_block=4, inline_seq_dim=inline, megacore_mode=megacore
    )

    def function(q, k, v, lengths, table):
        if quantized:
            k, v = (quantization_utils.quantize_to_int8(value) for value in (k, v))
            k, v = (quantization_utils.QuantizedTensor(*value) for value in (k, v))
        return run(q, k, v, lengths, table)

    def reference(q, k, v, lengths, table):
        if quantized:
            codes = map(quantization_utils.quantize_to_int8, (k, v))
            k, v = (quantization_utils.unquantize_from_int8(value, F32) for value in codes)
        k, v = (
            jnp.asarray(value, F32)[:, table].reshape(kv_heads, batch, -1, width).swapaxes(0, 1)
            for value in (k, v)
        )
        grouped = jnp.asarray(q, F32).reshape(batch, kv_heads, heads // kv_heads, width)
        mask = np.arange(k.shape[2])[None, None, None] < lengths[:, None, None, None]
        return attention(grouped, k, v, mask).reshape(batch, heads, width)

    return Case(name, function, [q, k, v, lengths, table], reference)


def ragged_case(name, *, window=None, soft_cap=None, dtype=F32):
    """Prefill and decode sequences in one batch, with keys and values in pages."""
    heads, kv_heads, width, page, pages_per = 8, 2, 128, 16, 8
    q_lens, kv_lens_used = [1, 37, 16, 1], [50, 100, 16, 1]
    seqs = len(q_lens)
    tokens = 64
    q = normal(0, tokens, heads, width, dtype=dtype)
    kv = normal(1, seqs * pages_per, page, 2 * kv_heads, width, dtype=dtype)
    kv_lens = np.array(kv_lens_used, np.int32)
    table = np.random.default_rng(3).permutation(seqs * pages_per).reshape(seqs, pages_per)
    starts = np.concatenate([[0], np.cumsum(q_lens)]).astype(np.int32)
    used = int(starts[-1])
    options = {"sm_scale": width**-0.5, "sliding_window": window, "soft_cap": soft_cap}

    def function(*operands):
        run = ragged.ragged_paged_attention
        out = run(*operands, **options, num_kv_pages_per_block=4, num_queries_per_block=16)
        return out[:used]

    def reference(*operands):
        return ragged.ref_ragged_paged_attention(*operands, **options)

    operands = [q, kv, kv_lens, table.astype(np.int32), starts, np.array([seqs], np.int32)]
    return Case(name, function, operands, reference)


def gmm_case(name, *, dtype=F32, transpose=False, offset=None, sizes=(100, 0, 156, 256)):
    """Grouped matmul: rows of `lhs` times their group's matrix."""
    rows = sum(sizes)
    lhs = normal(0, rows, 256, dtype=dtype)
    rhs = normal(1, len(sizes), *((128, 256) if transpose else (256, 128)), dtype=dtype)
    group_sizes = np.array(sizes, np.int32)

    def function(lhs, rhs, group_sizes):
        return megablox.gmm(lhs, rhs, group_sizes, F32, transpose_rhs=transpose)

    def reference(lhs, rhs, group_sizes):
        rhs = jnp.asarray(rhs, F32)
        rhs = rhs.swapaxes(1, 2) if transpose else rhs
        group = np.repeat(np.arange(len(sizes)), sizes)
        return jnp.einsum("mk,mkn->mn", jnp.asarray(lhs, F32), rhs[group])

    return Case(name, function, [lhs, rhs, group_sizes], reference)


def tgmm_case():
    """The gradient of the grouped matmul in its matrices."""
    sizes = (128, 200, 56, 128)
    lhs, rhs = normal(0, 256, sum(sizes)), normal(1, sum(sizes), 128)
    ends = np.cumsum(sizes)

    def reference(lhs, rhs, _):
        parts = [(end - size, end) for size, end in zip(sizes, ends)]
        return jnp.stack([lhs[:, first:end] @ rhs[first:end] for first, end in parts])

    function = lambda lhs, rhs, sizes: megablox.tgmm(lhs, rhs, sizes, F32)
    return Case("megablox-tgmm", function, [lhs, rhs, np.array(sizes, np.int32)], reference)


def matmul_case(name, rows, cols, depth, dtype):
    """The blocked matmul with an accumulator."""
    x, y = normal(0, rows, depth, dtype=dtype), normal(1, depth, cols, dtype=dtype)
    function = lambda x, y: matmul.matmul(
        x, y, block_shape=(128, 128), block_k=128, out_dtype=F32
    )
    return Case(name, function, [x, y], lambda x, y: jnp.asarray(x, F32) @ jnp.asarray(y, F32))


def all_gather_case(devices):
    """All-gather in both directions of a ring."""
    mesh = {"x": devices}
    x = normal(0, devices * 32, 128)
    function = lambda x: all_gather.all_gather(x, mesh=abstract_mesh(mesh), axis_name="x")
    return Case(f"all_gather-{devices}", function, [x], lambda x: x, mesh)


def random_case(name, generate):
    """Counter-based random bits."""
    key = np.array([17, 42], np.uint32)
    return Case(name, generate, [key])


def cases():
    """Every kernel, in a form for each of its main options."""
    causal, window = masks.CausalMask((512, 512)), masks.LocalMask((512, 512), (128, 0), offset=0)
    return [
        Case("double", example_kernel.double, [normal(0, 64, 128)], lambda x: 2 * x),
        matmul_case("matmul-f32", 256, 384, 512, F32),
        matmul_case("matmul-bf16", 256, 384, 512, BF16),
        flash_case("flash_attention", 1, 2, 256, 128, F32),
        flash_case("flash_attention-causal", 2, 2, 384, 128, F32, causal=True),
        flash_case("flash_attention-bf16", 1, 2, 512, 128, BF16, causal=True),
        flash_case("flash_attention-segments", 2, 2, 256, 128, F32, segments=True),
        flash_case("flash_attention-bias", 1, 2, 256, 128, F32, bias=True),
        flash_case("flash_attention-2048", 1, 8, 2048, 128, F32, causal=True),
        flash_backward_case(),
        splash_case("splash_attention-causal", causal, 512, 2, F32),
        splash_case("splash_attention-local-bf16", window, 512, 2, BF16),
        splash_case("splash_attention-mqa", causal, 512, 4, F32, mqa=True),
        splash_case("splash_attention-soft_cap", causal, 512, 2, F32, soft_cap=20.0),
        splash_case("splash_attention-backward", causal, 512, 2, F32, backward=True),
        paged_case("paged_attention"),
        paged_case("paged_attention-bf16", dtype=BF16),
        paged_case("paged_attention-grid", inline=False),
        paged_case("paged_attention-int8", quantized=True),
        ragged_case("ragged_paged_attention"),
        ragged_case("ragged_paged_attention-bf16", dtype=BF16),
        ragged_case("ragged_paged_attention-window", window=20, soft_cap=15.0),
        gmm_case("megablox-gmm"),
        gmm_case("megablox-gmm-bf16", dtype=BF16),
        gmm_case("megablox-gmm-transposed", transpose=True),
        tgmm_case(),
        all_gather_case(4),
        all_gather_case(2),
    ]
