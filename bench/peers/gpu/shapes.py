"""The shapes that are compared: the benchmark suite, and the layers of DeepSeek-V3 at five batch sizes."""

SUITE = [
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (1024, 4096, 2048),
    (2048, 2048, 4096),
    (8192, 8192, 8192),
]
LAYERS = [(2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)]
ROWS = [1, 16, 64, 128, 4096]

SHAPES = SUITE + [(m, n, k) for m in ROWS for n, k in LAYERS]
