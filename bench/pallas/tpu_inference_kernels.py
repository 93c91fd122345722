"""The kernels of tpu-inference (vLLM on TPU) that need nothing of its serving stack."""

import importlib
import pathlib
import site
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np

from jax_kernels import BF16, F32, normal
from lowering import Case, abstract_mesh, interpreter


def stand_in(name, **members):
    """A module in the place of one that would import vLLM and PyTorch."""
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


def prepare_imports():
    """Lets the kernels be imported alone: of their package they use helpers and a logger."""
    folders = [pathlib.Path(folder) / "tpu_inference" for folder in site.getsitepackages()]
    package = stand_in("tpu_inference")
    package.__path__ = [str(folder) for folder in folders if folder.exists()]
    logger = types.SimpleNamespace(
        **{level: lambda *_, **__: None for level in ("debug", "info", "warning", "error", "warning_once")}
    )
    stand_in("tpu_inference.logger", init_logger=lambda _: logger)
    stand_in(
        "tpu_inference.utils",
        align_to=lambda value, step: (value + step - 1) // step * step,
        get_device_name=lambda *_: "TPU v7",
        get_dtype_packing=lambda dtype: 32 // jax.dtypes.itemsize_bits(dtype),
        get_mesh_shape_product=lambda *_: 1,
        TPU_HEAD_SIZE_ALIGNMENT=128,
    )


prepare_imports()
kernels = lambda name: importlib.import_module(f"tpu_inference.kernels.{name}")
matmul = kernels("quantized_matmul.kernel")
blockwise = kernels("quantized_matmul.blockwise_kernel")
sizes = kernels("quantized_matmul.tuned_block_sizes")
encoder = kernels("flash_attention.kernel")
rpa2 = kernels("ragged_paged_attention.v2.kernel")
cache_update = kernels("ragged_paged_attention.v2.ragged_kv_cache_update")
rpa3 = kernels("ragged_paged_attention.v3.kernel")
rpa64 = kernels("ragged_paged_attention.v3.kernel_hd64")
megablox = kernels("megablox.gmm")
moe = kernels("fused_moe.v1.kernel")
conv = kernels("causal_conv1d.causal_conv1d")
sparse = kernels("structured_sparse_matmul.v1.spmm")
gather = kernels("collectives.all_gather_matmul")
mla = kernels("mla.v1.kernel")
triangle = kernels("gdn.triangle_solver")
rotary = kernels("experimental.deepseek_v4.rope")
mhc_post = kernels("experimental.deepseek_v4.mhc.post_kernel")
mhc_pre = kernels("experimental.deepseek_v4.mhc.pre_kernel")

FP8 = jnp.float8_e4m3fn


def case(name, function, operands, reference=None):
    """A case that is judged by JAX's interpreter unless it has another reference."""
    return Case(name, function, operands, reference or interpreter(function))


def matmul_case(name, weight):
    """x times a weight with one scale per output channel."""
    x = normal(0, 128, 256, dtype=BF16)
    integer = weight == jnp.int8
    w = normal(1, 256, 256, scale=30 if integer else 1).astype(weight)
    scale = np.abs(normal(2, 256, scale=0.01))
    blocks = sizes.TunedValue(128, 128, 128, 1)
    function = lambda x, w, scale: matmul.quantized_matmul_kernel(x, w, scale, tuned_value=blocks)
    reference = lambda x, w, scale: (
        jnp.asarray(x, F32) @ jnp.asarray(w, F32).T * jnp.asarray(scale)
    )
    return case(name, function, [x, w, scale], reference)


def quantizing_matmul_case():
    """x quantized to int8 in the kernel, times an int8 weight."""
    x = normal(0, 128, 256, dtype=BF16)
    w = normal(1, 256, 256, scale=30).astype(np.int8)
    scale = np.abs(normal(2, 256, scale=0.01))
    blocks = sizes.TunedValue(128, 128, 128, 1)
    function = lambda x, w, scale: matmul.quantized_matmul_kernel(
        x, w, scale, x_q_dtype=jnp.int8, tuned_value=blocks
    )
    return case("quantized_matmul-int8-x", function, [x, w, scale])


def blockwise_case():
    """x times a weight with one scale per 128 inputs and output channel."""
    x = normal(0, 128, 512, dtype=BF16)
    w = normal(1, 256, 512, dtype=FP8)
    scale = np.abs(normal(2, 4, 1, 256, scale=0.1))
    blocks = sizes.TunedValue(128, 256, 256, 1)
    function = lambda x, w, scale: blockwise.quantized_matmul_kernel(
        x, w, scale, block_size=128, tuned_value=blocks
    )

    def reference(x, w, scale):
        spread = jnp.repeat(jnp.asarray(scale)[:, 0], 128, axis=0).T
        return jnp.asarray(x, F32) @ (jnp.asarray(w, F32) * spread).T

    return case("blockwise_matmul-fp8", function, [x, w, scale], reference)


def encoder_case():
    """Attention over sequences of several lengths, without a cache."""
    q, k, v = (normal(seed, 256, 4, 128) for seed in range(3))
    lengths = np.array([100, 156], np.int32)
    function = lambda *operands: encoder.encoder_only_flash_attention(*operands)
    return case("encoder_flash_attention", function, [q, k, v, lengths])


def paged_state(q_lens, kv_lens, pages_per):
    """Tables of a batch of sequences: lengths, pages, starts, and kinds (all are mixed)."""
    seqs = len(q_lens)
    pages = np.random.default_rng(3).permutation(seqs * pages_per).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(q_lens)]).astype(np.int32)
    return np.array(kv_lens, np.int32), pages, starts, np.array([0, 0, seqs], np.int32)


def rpa2_case():
    """The second generation of ragged paged attention."""
    q_lens, pages_per = [1, 37, 16], 8
    kv_lens, pages, starts, _ = paged_state(q_lens, [50, 100, 16], pages_per)
    q, kv = normal(0, 64, 8, 128), normal(1, 3 * pages_per, 16, 4, 128)
    operands = [q, kv, kv_lens, pages.reshape(3, pages_per), starts, np.array([3], np.int32)]

    def function(*operands):
        run = rpa2.ragged_paged_attention
        out = run(*operands, sm_scale=0.1, num_kv_pages_per_block=4, num_queries_per_block=16)
        return out[: sum(q_lens)]

    reference = lambda *operands: rpa2.ref_ragged_paged_attention(*operands, sm_scale=0.1)
    return case("ragged_paged_attention-v2", function, operands, reference)


def cache_update_case():
    """New keys and values, copied into pages."""
    new, cache = normal(0, 32, 4, 128), normal(1, 128, 4, 128)
    slices = np.array([[0, 40, 100, 70], [0, 9, 17, 25], [9, 8, 8, 7]], np.int32)
    function = lambda *operands: cache_update.kv_cache_update(
        *operands, page_size=16, num_slices_per_block=2
    )

    def reference(new, slices, cache, count):
        out = np.array(cache)
        for to, source, length in slices.T[: count[0]]:
            out[to : to + length] = new[source : source + length]
        return out

    return case("kv_cache_update", function, [new, slices, cache, np.array([4], np.int32)], reference)


def rpa3_case(name, dtype, **options):
    """The third generation, which also updates the cache."""
    q_lens, pages_per, page = [1, 37, 16], 8, 16
    tables = paged_state(q_lens, [50, 100, 16], pages_per)
    tokens = 64
    q = normal(0, tokens, 8, 128, dtype=dtype)
    k, v = (normal(seed, tokens, 2, 128, dtype=dtype) for seed in (1, 2))
    cache = normal(4, *rpa3.get_kv_cache_shape(3 * pages_per, page, 2, 128, dtype), dtype=dtype)
    used = sum(q_lens)
    blocks = (16, 64, 16, 64)
    options = {"sm_scale": 0.1, **options}

    def function(*operands):
        out, cache = rpa3.ragged_paged_attention(
            *operands, d_block_sizes=blocks, p_block_sizes=blocks, m_block_sizes=blocks, **options
        )
        return out[:used], cache

    def reference(*operands):
        return rpa3.ref_ragged_paged_attention(*map(jnp.asarray, operands), **options)

    return case(name, function, [q, k, v, cache, *tables], reference)


def rpa64_case():
    """The third generation for heads of 64."""
    q_lens, pages_per, page = [1, 37, 16], 8, 16
    tables = paged_state(q_lens, [50, 100, 16], pages_per)
    q = normal(0, 64, 8, 64, dtype=BF16)
    k, v = (normal(seed, 64, 2, 64, dtype=BF16) for seed in (1, 2))
    cache = normal(4, *rpa64.get_kv_cache_shape(3 * pages_per, page, 2, 64, BF16), dtype=BF16)
    used = sum(q_lens)

    def function(*operands):
        run = rpa64.ragged_paged_attention_hd64
        out, cache = run(*operands, sm_scale=0.1, num_kv_pages_per_block=4, num_queries_per_block=16)
        return out[:used], cache

    def reference(*operands):
        return rpa64.ref_ragged_paged_attention_hd64(*map(jnp.asarray, operands), sm_scale=0.1)

    return case("ragged_paged_attention-v3-hd64", function, [q, k, v, cache, *tables], reference)


def gmm_case():
    """Grouped matmul with an fp8 weight, block scales and a bias."""
    group_sizes = np.array([100, 0, 156], np.int32)
    lhs, rhs = normal(0, 256, 256, dtype=BF16), normal(1, 3, 256, 128, dtype=FP8)
    scale, bias = np.abs(normal(2, 3, 2, 1, 128)), normal(3, 3, 1, 128)

    def function(lhs, rhs, group_sizes, scale, bias):
        return megablox.gmm(lhs, rhs, group_sizes, F32, scale, bias, tiling=(128, 128, 128))

    def reference(lhs, rhs, group_sizes, scale, bias):
        wide = jnp.asarray(rhs, F32) * jnp.repeat(jnp.asarray(scale)[:, :, 0], 128, axis=1)
        group = np.repeat(np.arange(3), group_sizes)
        return jnp.einsum("mk,mkn->mn", jnp.asarray(lhs, F32), wide[group]) + bias[group, 0]

    return case("megablox-gmm-fp8", function, [lhs, rhs, group_sizes, scale, bias], reference)


def moe_case(devices):
    """Mixture of experts with tokens exchanged between devices, in one kernel."""
    axes = {"data": 1, "model": devices}
    tokens = normal(0, 16 * devices, 256, dtype=BF16)
    experts = 8
    w1 = normal(1, experts, 2, 256, 256, dtype=BF16, scale=0.1)
    w2 = normal(2, experts, 256, 256, dtype=BF16, scale=0.1)
    gating = normal(3, 16 * devices, experts, dtype=BF16)
    block = {"bt": 16, "bf": 256, "bd1": 256, "bd2": 256, "btc": 16, "bfc": 256, "bd1c": 256, "bd2c": 256}
    function = lambda *operands: moe.fused_ep_moe(abstract_mesh(axes), *operands, 2, **block)
    reference = lambda *operands: moe.ref_moe(*map(jnp.asarray, operands), 2)
    return Case(f"fused_moe-{devices}", function, [tokens, w1, w2, gating], reference, axes)


def conv_case():
    """A causal convolution over ragged sequences that keeps their last rows."""
    x, state = normal(0, 64, 256), normal(1, 4, 3, 256)
    weight, bias = normal(2, 256, 1, 4), normal(3, 256)
    starts = np.array([0, 1, 30, 64], np.int32)
    operands = [x, state, weight, bias, starts, np.array([2, 0, 1], np.int32)]
    operands += [np.array([0, 0, 3], np.int32), np.array([True, False, True])]
    function = lambda *operands: conv.ragged_causal_conv1d(*operands, kernel_size=4, tile_size=16)

    def reference(x, state, weight, bias, starts, indices, _, initial):
        out, new = np.zeros_like(x), np.array(state)
        for seq, (first, end) in enumerate(zip(starts, starts[1:])):
            before = state[indices[seq]] * initial[seq]
            rows = np.concatenate([before, x[first:end]])
            for row in range(first, end):
                out[row] = (rows[row - first : row - first + 4] * weight[:, 0].T).sum(0) + bias
            new[indices[seq]] = rows[-3:]
        return out, new

    return case("ragged_causal_conv1d", function, operands, reference)


def all_gather_matmul_case(devices):
    """All-gather of x, overlapped with the matmul."""
    axes = {"x": devices}
    x, y = normal(0, 128 * devices, 256, dtype=BF16), normal(1, 256, 128 * devices, dtype=BF16)
    function = lambda x, y: gather.all_gather_matmul(x, y, abstract_mesh(axes), "x", bn=128, bk=128)
    reference = lambda x, y: jnp.asarray(x, F32) @ jnp.asarray(y, F32)
    return Case(f"all_gather_matmul-{devices}", function, [x, y], reference, axes)


def mla_case():
    """Multi-head latent attention over pages."""
    q_lens, pages_per, page = [1, 12, 8], 4, 16
    tables = paged_state(q_lens, [30, 50, 8], pages_per)
    tokens = 32
    q, rope = normal(0, tokens, 8, 512, dtype=BF16), normal(1, tokens, 8, 64, dtype=BF16)
    kv, k_rope = normal(2, tokens, 512, dtype=BF16), normal(3, tokens, 64, dtype=BF16)
    shape = mla.get_kv_cache_shape(3 * pages_per, page, 512 + 128, BF16)
    cache = normal(4, *shape, dtype=BF16)
    used = sum(q_lens)

    def function(*operands):
        run = mla.mla_ragged_paged_attention
        out, cache = run(*operands, sm_scale=0.04, num_kv_pages_per_block=2, num_queries_per_block=8)
        return out[:used], cache

    def reference(*operands):
        return mla.ref_mla_ragged_paged_attention(*map(jnp.asarray, operands), sm_scale=0.04)

    return case("mla_ragged_paged_attention", function, [q, rope, kv, k_rope, cache, *tables], reference)


def triangle_case(name, function):
    """The inverse of lower triangular matrices with a unit diagonal."""
    lower = np.tril(normal(0, 8, 64, 64, scale=0.05), -1) + np.eye(64, dtype=np.float32)
    return case(name, function, [lower], lambda a: jnp.linalg.inv(a))


def rotary_operands(*shape, dtype):
    cache = np.random.default_rng(1).uniform(-1, 1, (256, 64)).astype(np.float32)
    positions = np.random.default_rng(2).integers(0, 256, shape[0]).astype(np.int32)
    return [normal(0, *shape, dtype=dtype), positions, cache]


def mhc_post_case():
    """Mixing of residual streams."""
    x, residual = normal(0, 64, 256, dtype=BF16), normal(1, 64, 4, 256, dtype=BF16)
    post, comb = normal(2, 64, 4, 1), normal(3, 64, 4, 4)
    function = lambda *operands: mhc_post.mhc_post(*operands)
    return case("mhc_post", function, [x, residual, post, comb])


def mhc_pre_case():
    """The projection that decides the mixing."""
    x, fn = normal(0, 64, 1024, dtype=BF16), normal(1, 24, 1024, scale=0.05)
    function = lambda x, fn: mhc_pre.mhc_pre_mixes(x, fn)
    return case("mhc_pre", function, [x, fn])


def cases():
    """The kernels, each in its main form."""
    rope = lambda name, run, *shape, dtype: case(name, run, rotary_operands(*shape, dtype=dtype))
    return [
        matmul_case("quantized_matmul-fp8", FP8),
        matmul_case("quantized_matmul-int8", jnp.int8),
        quantizing_matmul_case(),
        blockwise_case(),
        encoder_case(),
        rpa2_case(),
        cache_update_case(),
        rpa3_case("ragged_paged_attention-v3", BF16),
        rpa3_case("ragged_paged_attention-v3-f32-window", F32, sliding_window=20, soft_cap=15.0),
        rpa64_case(),
        gmm_case(),
        moe_case(2),
        moe_case(4),
        conv_case(),
        all_gather_matmul_case(2),
        all_gather_matmul_case(4),
        mla_case(),
        triangle_case("newton_schulz_inverse", lambda a: triangle.newton_schulz_inverse_pallas(a)),
        triangle_case(
            "triangular_inverse", lambda a: triangle.decompose_triangular_matrix_inverse_pallas(a)
        ),
        rope("rope", lambda *o: rotary.rope(*o), 64, 4, 256, dtype=BF16),
        rope("qnorm_rope", lambda *o: rotary.qnorm_rope(*o), 64, 8, 256, dtype=BF16),
        rope("rope_quant", lambda *o: rotary.rope_quant(*o), 64, 128, dtype=BF16),
        mhc_post_case(),
        mhc_pre_case(),
    ]
