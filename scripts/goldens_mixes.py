"""Writes internal/quant/testdata/mixes.json: the encoding that llama.cpp gives every
tensor of several made-up models, by file type.

    pip install gguf numpy llama-cpp-python
    python scripts/goldens_mixes.py

The models have real names and tiny matrices: what llama.cpp chooses depends on names,
layers, heads, experts and the length of rows only.
"""
import ctypes
import json
import pathlib
import tempfile

import gguf
import llama_cpp
import numpy as np

OUT = pathlib.Path(__file__).parent.parent / "internal/quant/testdata/mixes.json"
FTYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q6_K": 18, "Q5_K_M": 17, "Q5_K_S": 16, "Q5_1": 9, "Q5_0": 8,
          "Q4_K_M": 15, "Q4_K_S": 14, "Q4_1": 3, "Q4_0": 2, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": 38, "Q3_K_L": 13,
          "Q3_K_M": 12, "Q3_K_S": 11, "Q2_K": 10}  # Q2_K_S asks for an importance of every matrix
# name -> architecture, layers, heads, key-value heads, experts, tied, width
MODELS = {
    "plain": ("llama", 20, 4, 4, 0, False, 256),
    "grouped": ("llama", 17, 4, 1, 0, False, 256),
    "tied": ("llama", 9, 4, 2, 0, True, 96),
    "experts": ("llama", 9, 4, 2, 8, False, 256),
    "few-experts": ("llama", 9, 4, 2, 4, False, 256),
    "falcon": ("falcon", 18, 4, 4, 0, False, 256),
}


def make(path, arch, layers, heads, kv, experts, tied, width):
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(layers)
    w.add_context_length(64)
    w.add_embedding_length(width)
    w.add_feed_forward_length(256)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_layer_norm_eps(1e-5)
    w.add_vocab_size(2)
    w.add_rope_dimension_count(width // heads)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(2)
    shapes = {}

    def tensor(name, *dims):
        shapes[name] = list(dims)
        w.add_tensor(name, np.zeros(dims, np.float32) + np.sin(np.arange(dims[-1], dtype=np.float32)))

    tensor("token_embd.weight", 2, width)
    tensor("output_norm.weight", width)
    if not tied:
        tensor("output.weight", 2, width)
    for i in range(layers):
        names = ["attn_qkv"] if arch == "falcon" else ["attn_q", "attn_k", "attn_v"]
        for name in names + ["attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
            cols = 256 if name == "ffn_down" else width
            if experts and name.startswith("ffn"):
                tensor(f"blk.{i}.{name}_exps.weight", experts, 2, cols)
            else:
                tensor(f"blk.{i}.{name}.weight", 2, cols)
        tensor(f"blk.{i}.attn_norm.weight", width)
        if experts:
            tensor(f"blk.{i}.ffn_gate_inp.weight", experts, width)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return shapes


def choices(source, target, ftype, importance):
    p = llama_cpp.llama_model_quantize_default_params()
    p.ftype, p.nthread = ftype, 1
    if importance:
        x = np.ones(256, np.float32)
        entry = llama_cpp.llama_model_imatrix_data * 2
        entries = entry()
        entries[0].name = b"blk.0.ffn_down.weight"
        entries[0].data = x.ctypes.data_as(type(entries[0].data))
        entries[0].size = x.size
        p.imatrix = ctypes.cast(entries, type(p.imatrix))
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(p)) != 0:
        raise SystemExit(f"{source}: llama.cpp failed on file type {ftype}")
    return {t.name: t.tensor_type.name for t in gguf.GGUFReader(target).tensors}


def main():
    out = {}
    with tempfile.TemporaryDirectory() as tmp:
        for name, m in MODELS.items():
            source = pathlib.Path(tmp) / "source.gguf"
            shapes = make(source, *m)
            types = {}
            for importance in (False, True):
                for mix, ftype in FTYPES.items():
                    if importance and (name != "plain" or mix not in ("Q4_0", "Q5_0", "IQ4_XS", "IQ4_NL")):
                        continue
                    chosen = choices(source, pathlib.Path(tmp) / "target.gguf", ftype, importance)
                    # Short: the tensors of each encoding but F32, in the order of shapes.
                    order = list(shapes)
                    by = {}
                    for t, d in chosen.items():
                        by.setdefault(d, []).append(order.index(t))
                    types[mix + ("+importance" if importance else "")] = {d: sorted(v) for d, v in by.items() if d != "F32"}
            arch, layers, heads, kv, experts, _, _ = m
            out[name] = {"arch": arch, "layers": layers, "group": heads // kv, "experts": experts,
                         "tensors": [[t, s] for t, s in shapes.items()], "mixes": types}
    OUT.write_text(json.dumps(out, separators=(",", ":")).replace('},"', '},\n"') + "\n")


main()
