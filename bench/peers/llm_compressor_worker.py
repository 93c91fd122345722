"""Quantizes a folder with llm-compressor on the CPU and prints the seconds, without imports."""

import json
import sys
import time

import torch
from llmcompressor import __version__
from llmcompressor import model_free_ptq

source, target, workers = sys.argv[1:]
start = time.perf_counter()
model_free_ptq(
    model_stub=source,
    save_directory=target,
    scheme="FP8_BLOCK",
    ignore=["lm_head", "re:.*embed_tokens"],
    max_workers=int(workers),
    device="cpu",
)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "llmcompressor": __version__, "torch": torch.__version__}))
