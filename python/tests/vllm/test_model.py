"""A whole model in vLLM on the CPU, with the kernels of the plugin, against transformers without quantization
of activations."""

import importlib.util
import json
import os
import shutil

import pytest

# vLLM reads these when it is imported; the last lets functions of this test run in its worker.
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
torch = pytest.importorskip("torch", reason="vLLM needs PyTorch")
if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed", allow_module_level=True)

import octile.torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import Qwen3Config, Qwen3ForCausalLM  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402

pytestmark = pytest.mark.skipif(not current_platform.is_cpu(), reason="this test is for vLLM on a CPU")
CONFIG = Qwen3Config(
    architectures=["Qwen3ForCausalLM"],
    hidden_size=256,
    intermediate_size=512,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    num_hidden_layers=2,
    vocab_size=512,
    max_position_embeddings=256,
    tie_word_embeddings=False,
    dtype="bfloat16",
)
QUANTIZATION = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
PROMPT = [5, 17, 99, 301, 42, 7]


def write_checkpoint(folder):
    """Writes a random model with block-scaled fp8 weights; returns one with the values they stand for."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(CONFIG).float().eval()
    tensors = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=1 if "embed" in name else parameter.shape[1] ** -0.5)
            if name.endswith("_proj.weight"):
                codes, scales = octile.torch.quantize(parameter)
                parameter.copy_(octile.torch.dequantize(codes, scales))
                tensors |= {name: codes, f"{name}_scale_inv": scales}
            else:
                tensors[name] = parameter.to(torch.bfloat16)
                parameter.copy_(tensors[name])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**CONFIG.to_dict(), "quantization_config": QUANTIZATION}
    (folder / "config.json").write_text(json.dumps(config))
    return model


def kernels_of(model):
    """Names of the kernels of a model's layers, and how many weights Octile remembers; runs in the worker."""
    from octile import _native

    methods = [getattr(layer, "quant_method", None) for layer in model.modules()]
    kernels = [type(method.fp8_linear).__name__ for method in methods if hasattr(method, "fp8_linear")]
    return kernels, _native.torch_remembered()


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_model_runs_with_it(tmp_path, is_compiled):
    if is_compiled and shutil.which("g++") is None:
        pytest.skip("torch.compile needs g++ on a CPU")
    reference = write_checkpoint(tmp_path)
    llm = LLM(
        str(tmp_path),
        skip_tokenizer_init=True,
        enforce_eager=not is_compiled,
        max_model_len=64,
        max_num_seqs=2,
    )
    sampling = SamplingParams(max_tokens=8, temperature=0, logprobs=5, ignore_eos=True, detokenize=False)
    (answer,) = llm.generate([{"prompt_token_ids": PROMPT}], sampling, use_tqdm=False)
    ((kernels, remembered),) = llm.apply_model(kernels_of)
    # qkv, o, gate and up, and down of each layer.
    assert kernels == ["OctileFp8BlockScaledMMKernel"] * 8
    assert remembered == 8
    generated = answer.outputs[0]
    tokens = torch.tensor([PROMPT + list(generated.token_ids)])
    with torch.no_grad():
        expected = reference(tokens).logits[0, len(PROMPT) - 1 : -1].log_softmax(-1)
    for position, found in enumerate(generated.logprobs):
        for token, logprob in found.items():
            assert logprob.logprob == pytest.approx(expected[position, token].item(), abs=0.3)
