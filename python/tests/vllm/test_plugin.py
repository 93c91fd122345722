"""The vLLM plugin, against the classes of vLLM itself, on the CPU."""

import importlib.metadata
import importlib.util
import json
import os

import pytest

# vLLM asks for the platform when it is imported.
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
torch = pytest.importorskip("torch", reason="vLLM needs PyTorch")
if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed", allow_module_level=True)

import octile.torch  # noqa: E402
import octile.vllm  # noqa: E402
from vllm import distributed  # noqa: E402
from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.model_executor.kernels import linear as kernels  # noqa: E402
from vllm.model_executor.layers.quantization.utils.quant_utils import (  # noqa: E402
    GroupShape,
    create_fp8_quant_key,
)
from vllm.model_executor.models.llama import LlamaMLP  # noqa: E402
from vllm.platforms import PlatformEnum, current_platform  # noqa: E402
from vllm.utils.torch_utils import set_default_torch_dtype  # noqa: E402

pytestmark = pytest.mark.skipif(not current_platform.is_cpu(), reason="these tests are for vLLM on a CPU")
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 512,
    "max_position_embeddings": 128,
    "quantization_config": {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    },
}
NAME = "OctileFp8BlockScaledMMKernel"


@pytest.fixture(autouse=True)
def registered():
    octile.vllm.register()
    with set_current_vllm_config(VllmConfig()):
        yield


def chosen(weight=(128, 128), activations=(1, 128), static=False, **options):
    """The kernel that vLLM chooses for a layer."""
    defaults = {"weight_shape": (384, 256), "input_dtype": torch.bfloat16, "out_dtype": torch.bfloat16}
    return kernels.init_fp8_linear_kernel(
        activation_quant_key=create_fp8_quant_key(static=static, group_shape=GroupShape(*activations)),
        weight_quant_key=create_fp8_quant_key(static=True, group_shape=GroupShape(*weight)),
        **{**defaults, **options},
    )


def test_vllm_finds_the_plugin():
    (plugin,) = importlib.metadata.entry_points(group="vllm.general_plugins", name="octile")
    assert plugin.load() is octile.vllm.register
    from vllm.plugins import load_plugins_by_group

    assert load_plugins_by_group("vllm.general_plugins")["octile"] is octile.vllm.register


def test_registering_again_changes_nothing():
    octile.vllm.register()
    for platform in (PlatformEnum.CPU, PlatformEnum.CUDA):
        names = [kernel.__name__ for kernel in kernels._POSSIBLE_FP8_BLOCK_KERNELS[platform]]
        assert names[0] == NAME and names.count(NAME) == 1 and len(names) > 1


def test_vllm_chooses_the_kernel():
    assert type(chosen()).__name__ == NAME
    assert type(chosen(weight=(256, 256), activations=(1, 256))).__name__ == NAME


def test_layers_that_it_does_not_support_are_left_to_vllm(monkeypatch):
    cls = type(chosen())
    config = chosen().config
    for weight, activations, reason in [
        ((64, 64), (1, 64), "requires square blocks of 128, 256 or 512, got 64 x 64."),
        ((64, 128), (1, 128), "got 64 x 128."),
        ((128, 128), (1, 64), "requires one activation scale per 1 x 128, got 1 x 64."),
    ]:
        config.weight_quant_key = create_fp8_quant_key(static=True, group_shape=GroupShape(*weight))
        config.activation_quant_key = create_fp8_quant_key(static=False, group_shape=GroupShape(*activations))
        possible, why = cls.can_implement(config)
        assert not possible and why.endswith(reason)
    assert chosen(out_dtype=torch.float32).config.out_dtype is torch.float32
    assert not cls.can_implement(chosen(out_dtype=torch.float16).config)[1]
    odd = chosen(weight_shape=(384, 200)).config
    assert cls.can_implement(odd) == (True, None)
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda self: False)
    assert cls.is_supported(90) == (False, "requires a CPU or a Hopper GPU.")
    monkeypatch.setattr(type(current_platform), "is_cuda", lambda self: True)
    assert cls.is_supported(90) == (True, None)
    assert not cls.is_supported(100)[0] and not cls.is_supported(89)[0]
    assert cls.can_implement(odd)[1] == "requires a multiple of 16 input features on GPUs, got 200."


def test_it_can_be_disabled(monkeypatch):
    import vllm.envs

    monkeypatch.setenv("VLLM_DISABLED_KERNELS", NAME)
    assert vllm.envs.VLLM_DISABLED_KERNELS == [NAME]
    try:
        assert type(chosen()).__name__ != NAME
    except ValueError as error:
        # vLLM's own kernels for CPUs need AMX.
        assert "disabled by environment variable" in str(error)


def fp8_layer(scale_name="weight_scale_inv", scale_type=torch.float32):
    """A layer as vLLM loads it, and its quantized weight."""
    torch.manual_seed(1)
    layer = torch.nn.Module()
    codes, scales = octile.torch.quantize(torch.randn(384, 256))
    if scale_type is not torch.float32:
        scales = torch.exp2(scales.log2().round())
    layer.register_parameter("weight", torch.nn.Parameter(codes, requires_grad=False))
    layer.register_parameter(scale_name, torch.nn.Parameter(scales.to(scale_type), requires_grad=False))
    layer.input_scale = None
    return layer, codes, scales


@pytest.mark.parametrize("scale_name", ["weight_scale_inv", "weight_scale"])
@pytest.mark.parametrize("scale_type", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
def test_the_product_is_that_of_octile(scale_name, scale_type):
    layer, codes, scales = fp8_layer(scale_name, scale_type)
    kernel = chosen()
    kernel.process_weights_after_loading(layer)
    assert getattr(layer, scale_name).dtype is torch.float32
    bias = torch.randn(384, dtype=torch.bfloat16)
    for shape in [(1, 256), (2, 5, 256), (0, 256)]:
        x = torch.randn(shape, dtype=torch.bfloat16)
        product = kernel.apply_weights(layer, x, bias)
        assert torch.equal(product, octile.torch.linear(x, codes, scales) + bias)
        assert product.shape == (*shape[:-1], 384) and product.dtype is torch.bfloat16


def test_activations_may_be_quantized_by_vllm(monkeypatch):
    monkeypatch.setattr(type(chosen()), "apply_input_quant", True)
    layer, codes, scales = fp8_layer()
    kernel = chosen()
    kernel.process_weights_after_loading(layer)
    quantizes = kernel.quant_fp8
    assert quantizes.column_major_scales and quantizes.tma_aligned_scales and not quantizes.use_ue8m0
    for shape in [(1, 256), (2, 5, 256)]:
        x = torch.randn(shape, dtype=torch.bfloat16)
        product = kernel.apply_weights(layer, x)
        x_codes, x_scales = quantizes(x.view(-1, 256))
        assert x_codes.dtype is torch.float8_e4m3fn and x_scales.shape == (x_codes.shape[0], 2)
        options = {"x_scales": x_scales.contiguous(), "out_dtype": torch.bfloat16}
        assert torch.equal(product.view(-1, 384), octile.torch.linear(x_codes, codes, scales, **options))
        exact = octile.torch.linear(x, codes, scales).float()
        assert (product.float() - exact).abs().max() < 0.01 * exact.abs().max()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("is_quantized_by_vllm", [False, True])
def test_rows_that_are_not_finite_do_not_stop_others(monkeypatch, is_quantized_by_vllm, value):
    """vLLM warms up with memory that nothing was written to, and pads batches with it."""
    monkeypatch.setattr(type(chosen()), "apply_input_quant", is_quantized_by_vllm)
    layer, codes, scales = fp8_layer()
    kernel = chosen()
    kernel.process_weights_after_loading(layer)
    x = torch.randn(3, 256, dtype=torch.bfloat16)
    x[1, 5] = value
    product = kernel.apply_weights(layer, x)
    assert product[1].isnan().all() and product[[0, 2]].isfinite().all()


def test_the_weight_is_packed_once():
    layer, _, _ = fp8_layer()
    kernel = chosen()
    kernel.process_weights_after_loading(layer)
    x = torch.randn(1, 256, dtype=torch.bfloat16)
    product = kernel.apply_weights(layer, x)
    # What is written like this goes unnoticed, so the second call shows which copy it reads.
    layer.weight.data.view(torch.uint8).zero_()
    assert product.any() and torch.equal(kernel.apply_weights(layer, x), product)
    kernel.process_weights_after_loading(layer)
    assert not kernel.apply_weights(layer, x).any()


@pytest.fixture
def one_process(tmp_path):
    """vLLM's process groups, for one process."""
    store = f"file://{tmp_path}/store"
    distributed.init_distributed_environment(1, 0, store, local_rank=0, backend="gloo")
    distributed.ensure_model_parallel_initialized(1, 1)
    yield
    distributed.destroy_model_parallel()
    distributed.destroy_distributed_environment()


def test_layers_of_a_model_run_with_it(tmp_path, one_process):
    """vLLM reads a model's configuration, creates its MLP, chooses the kernel, and calls it."""
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    model = ModelConfig(model=str(tmp_path), skip_tokenizer_init=True, dtype="bfloat16", enforce_eager=True)
    config = VllmConfig(model_config=model)
    with set_current_vllm_config(config), set_default_torch_dtype(torch.bfloat16):
        mlp = LlamaMLP(256, 384, "silu", quant_config=config.quant_config, prefix="mlp")
    torch.manual_seed(2)
    weights = []
    for layer in (mlp.gate_up_proj, mlp.down_proj):
        assert type(layer.quant_method.fp8_linear).__name__ == NAME
        codes, scales = octile.torch.quantize(torch.randn(layer.weight.shape))
        layer.weight.data.copy_(codes)
        layer.weight_scale_inv.data.copy_(scales)
        layer.quant_method.process_weights_after_loading(layer)
        weights.append((codes, scales))
    x = torch.randn(3, 256, dtype=torch.bfloat16)
    gate, up = octile.torch.linear(x, *weights[0]).chunk(2, dim=-1)
    hidden = torch.nn.functional.silu(gate) * up
    assert torch.equal(mlp(x), octile.torch.linear(hidden, *weights[1]))
    product, _ = mlp.gate_up_proj(x)
    exact = x.float() @ octile.torch.dequantize(*weights[0]).T
    assert (product - exact).abs().max() < 0.05 * exact.abs().max()


def test_torch_compile_has_no_graph_break():
    layer, codes, scales = fp8_layer()
    kernel = chosen()
    kernel.process_weights_after_loading(layer)
    compiled = torch.compile(lambda x: kernel.apply_weights(layer, x), fullgraph=True, backend="aot_eager")
    x = torch.randn(4, 256, dtype=torch.bfloat16)
    assert torch.equal(compiled(x), octile.torch.linear(x, codes, scales))


def test_a_vllm_without_the_list_is_left_alone(monkeypatch, caplog):
    monkeypatch.delattr(kernels, "_POSSIBLE_FP8_BLOCK_KERNELS")
    octile.vllm.register()
    assert "vLLM does not use the kernels of octile: cannot import name" in caplog.text
