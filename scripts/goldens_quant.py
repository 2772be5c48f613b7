"""Writes internal/tensor/testdata/{blocks.*,errors.*}: block formats as gguf decodes
them, and the errors of llama.cpp's quantizers.

    pip install gguf numpy safetensors llama-cpp-python
    python scripts/goldens_quant.py MODELS

blocks.TYPE are random block bytes, scales at the ends of a half's range among them, and
blocks.TYPE.f32 what gguf decodes them to. errors.f32 has rows of several kinds of
weights (normal, heavy-tailed, of the two real models in MODELS), errors.weight the
importance of their columns, and errors.json the square errors, plain and weighted, that
are left after llama.cpp has quantized them.
"""
import ctypes
import json
import pathlib
import sys

import gguf
import llama_cpp
import numpy as np
from safetensors.numpy import load_file

OUT = pathlib.Path(__file__).parent.parent / "internal/tensor/testdata"
TYPES = "Q4_0 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()
# Where the halves of a block lie.
HALVES = {"Q4_0": [0], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
ROWS, COLS = 8, 768


def blocks(rng):
    for name in TYPES:
        t = gguf.GGMLQuantizationType[name]
        length, size = gguf.GGML_QUANT_SIZES[t]
        n = 4096 // length
        b = rng.integers(0, 256, (n, size), dtype=np.uint8)
        halves = np.array([0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x0000, 0x8000], np.uint16)
        for i, at in enumerate(HALVES[name]):
            h = b[:, at:at + 2].copy().view(np.uint16)
            h[(h & 0x7c00) == 0x7c00] ^= 0x4000  # infinities and NaN are no scales
            h[:8, 0] = np.roll(halves, 3 * i)
            b[:, at:at + 2] = h.view(np.uint8)
        if name == "MXFP4":
            b[:4, 0] = [0, 1, 2, 254]
        b.tofile(OUT / f"blocks.{name.lower()}")
        x = gguf.quants.dequantize(b.reshape(1, -1), t).astype(np.float32)
        assert x.size == 4096
        x.tofile(OUT / f"blocks.{name.lower()}.f32")


def sources(rng, models):
    mini = load_file(models / "all-MiniLM-L6-v2/model.safetensors")
    smol = {t.name: t for t in gguf.GGUFReader(models / "SmolLM2-135M-Instruct.Q4_1.gguf").tensors}
    down = smol["blk.7.ffn_down.weight"]
    real = gguf.quants.dequantize(down.data, down.tensor_type)[:ROWS // 2].reshape(ROWS, COLS)
    return {
        "normal": rng.normal(0, 0.02, (ROWS, COLS)),
        "heavy": rng.standard_t(3, (ROWS, COLS)) * 0.02,
        "minilm": mini["encoder.layer.3.intermediate.dense.weight"][:2 * ROWS].reshape(ROWS, COLS),
        "smollm2": real,
    }


def main():
    models = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(5)
    blocks(rng)
    xs = {k: np.ascontiguousarray(v, np.float32) for k, v in sources(rng, models).items()}
    weight = np.exp(rng.normal(0, 1.5, COLS)).astype(np.float32)
    np.concatenate([x.ravel() for x in xs.values()]).tofile(OUT / "errors.f32")
    weight.tofile(OUT / "errors.weight")

    lib = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib/libggml-base.so"))
    floats = ctypes.POINTER(ctypes.c_float)
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, floats, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [floats]
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t

    def error(t, x, w):
        length, size = gguf.GGML_QUANT_SIZES[t]
        out = np.zeros((ROWS, COLS // length * size), np.uint8)
        n = lib.ggml_quantize_chunk(int(t), x.ctypes.data_as(floats), out.ctypes.data, 0, ROWS, COLS,
                                    None if w is None else w.ctypes.data_as(floats))
        assert n == out.size
        e = gguf.quants.dequantize(out, t).astype(np.float64) - x
        return float((e * e * (1 if w is None else w)).sum())

    result = {}
    for name in TYPES + ["Q8_0", "Q4_1"]:
        t = gguf.GGMLQuantizationType[name]
        result[name] = {k: [error(t, x, None), error(t, x, weight)] for k, x in xs.items()}
    with open(OUT / "errors.json", "w") as f:
        json.dump({"rows": ROWS, "cols": COLS, "sources": list(xs), "llama.cpp": result}, f, indent=1)


main()
