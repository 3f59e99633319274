"""Writes blocks.txt: random GGUF blocks of each quantised type and what the gguf package widens them to.

One line per type: its name, the bytes of the blocks in hex, the float32 values in hex (little-endian)."""
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
rng = np.random.default_rng(6)
for t, halves in HALVES.items():
    elems, size = GGML_QUANT_SIZES[t]
    n = 512 // elems // (2 if elems == 32 else 1)
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in halves:
        scale = rng.normal(0, 0.05, n).astype(np.float16)
        scale[0] = np.float16(6e-8)  # a subnormal
        blocks[:, at : at + 2] = scale.view(np.uint8).reshape(n, 2)
    floats = dequantize(blocks.reshape(1, -1), t).astype("<f4")
    sys.stdout.write(f"{t.name} {blocks.tobytes().hex()} {floats.tobytes().hex()}\n")
