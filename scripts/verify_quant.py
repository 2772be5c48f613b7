"""Holds hotpath's quantizer against llama.cpp's on SmolLM2.

    pip install gguf llama-cpp-python
    python scripts/verify_quant.py bin/hotpath MODELS --shared ../shared [--chars 0] [--keep FOLDER]

SmolLM2's weights, decoded to F32, are quantized by both, and the same evaluator (hotpath
perplexity, windows of 512 tokens) measures each file on the beginning of WikiText-2's test part,
or with --chars 0 on all of it. Fails where hotpath's file is more than 0.5 per cent worse.

With --imatrix (pip install torch transformers too) both also quantize with one importance
matrix, computed on WikiText-2's validation part.

With --keep the files and every measurement stay in FOLDER: a run that was interrupted goes on,
and the parts can be done on different machines. --make writes the files and measures nothing;
where they are all there, neither llama.cpp nor Python packages are needed to measure them.
"""
import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FTYPES = {"Q8_0": 7, "Q6_K": 18, "Q5_K_M": 17, "Q4_K_M": 15}
OTHERS = {"Q5_K_S": 16, "Q4_K_S": 14, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "IQ4_NL": 25, "Q3_K_M": 12, "Q2_K": 10}
LIMIT = 0.005
# The matrices whose importance is known, as transformers and as GGUF name them.
MATRICES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("hotpath")
    a.add_argument("models", type=pathlib.Path)
    a.add_argument("--shared", type=pathlib.Path, default=pathlib.Path("../shared"))
    a.add_argument("--chars", type=int, default=150_000, help="how much of the corpus; 0 for all of it")
    a.add_argument("--precision", default="f32", help="that perplexity computes in")
    a.add_argument("--all", action="store_true", help="other file types too")
    a.add_argument("--imatrix", action="store_true", help="with an importance matrix too")
    a.add_argument("--keep", type=pathlib.Path, help="folder of files and measurements")
    a.add_argument("--make", action="store_true", help="write the files into --keep and measure nothing")
    o = a.parse_args()
    if o.make and not o.keep:
        a.error("--make needs --keep")
    with tempfile.TemporaryDirectory() as tmp:
        o.folder = o.keep or pathlib.Path(tmp)
        o.folder.mkdir(exist_ok=True)
        sys.exit(compare(o))


def compare(o):
    corpus = (o.shared / "corpus/wikitext2-test.txt").read_text()[: o.chars or None]
    o.texts = o.folder / "corpus.txt"
    o.texts.write_text(corpus)
    f32 = o.folder / "f32.gguf"
    make(f32, lambda to: quantize(o, o.models / "SmolLM2-135M-Instruct.Q4_1.gguf", to, "F32"))
    if not o.make:
        base = perplexity(o, f32)
        print(f"F32          {base['ppl']:9.4f}  ({base['scored']} of {base['tokens']} tokens, {len(corpus)} characters)", flush=True)
    failed = 0
    for importance in (False, True) if o.imatrix else (False,):
        for name, ftype in (FTYPES | OTHERS if o.all else FTYPES).items():
            label = name + ("-imatrix" if importance else "")
            ours, theirs = o.folder / f"ours-{label}.gguf", o.folder / f"theirs-{label}.gguf"
            weights = imatrix(o, f32) if importance and not (ours.exists() and theirs.exists()) else None
            make(ours, lambda to: quantize(o, f32, to, name, weights))
            make(theirs, lambda to: llamacpp(f32, to, name, ftype, weights))
            if o.make:
                print(f"{label:14} {ours.stat().st_size} and {theirs.stat().st_size} bytes", flush=True)
                continue
            a, b = perplexity(o, ours)["ppl"], perplexity(o, theirs)["ppl"]
            worse = a / b - 1
            bad = name in FTYPES and worse > LIMIT
            failed += bad
            print(f"{label:14} {a:9.4f}  llama.cpp's {b:9.4f}  {100 * worse:+.3f} %  "
                  f"{ours.stat().st_size} and {theirs.stat().st_size} bytes{'  FAILED' if bad else ''}", flush=True)
            if not o.keep:
                ours.unlink(), theirs.unlink()
    return 1 if failed else 0


def make(path, write):
    """Leaves a file that is there alone; a new one appears when it is complete."""
    if not path.exists():
        part = path.with_suffix(".part.gguf")
        write(part)
        part.rename(path)


def quantize(o, source, target, name, weights=None):
    extra = ["--imatrix", weights] if weights else []
    subprocess.run([o.hotpath, "quantize", source, target, name, *extra], check=True, stdout=subprocess.DEVNULL)


def llamacpp(source, target, name, ftype, weights):
    import llama_cpp

    p = llama_cpp.llama_model_quantize_default_params()
    p.ftype, p.nthread = ftype, os.cpu_count()
    if weights:
        import gguf
        import numpy as np

        sums = {t.name: np.array(t.data, np.float32).ravel() for t in gguf.GGUFReader(weights).tensors}
        names = [n.removesuffix(".in_sum2") for n in sums if n.endswith(".in_sum2")]
        means = [sums[n + ".in_sum2"] / sums[n + ".counts"][0] for n in names]
        entries = (llama_cpp.llama_model_imatrix_data * (len(names) + 1))()  # the last one has no name
        for e, n, x in zip(entries, names, means):
            e.name, e.data, e.size = n.encode(), x.ctypes.data_as(type(e.data)), x.size
        p.imatrix = ctypes.cast(entries, type(p.imatrix))
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(p)) != 0:
        raise SystemExit(f"llama.cpp failed to make {name}")


def imatrix(o, f32):
    """Sums the squares of what every matrix is multiplied with, as llama.cpp's imatrix does."""
    path = o.folder / "imatrix.gguf"
    if path.exists():
        return path
    import gguf
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(f32.parent, gguf_file=f32.name, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(f32.parent, gguf_file=f32.name)
    sums, window, windows = {}, 512, 32

    def hook(name):
        def add(_, inputs):
            sums[name] = sums.get(name, 0) + inputs[0].double().square().sum((0, 1))
        return add

    for i, layer in enumerate(model.model.layers):
        for module, name in MATRICES.items():
            layer.get_submodule(module).register_forward_pre_hook(hook(f"blk.{i}.{name}.weight"))
    text = (o.shared / "corpus/wikitext2-valid.txt").read_text()[:300_000]
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids[0, : window * windows]
    with torch.no_grad():
        for part in ids.view(windows, window):
            model.model(part[None])
    part = path.with_suffix(".part.gguf")
    w = gguf.GGUFWriter(part, "")
    w.add_type("imatrix")
    w.add_array("imatrix.datasets", ["wikitext2-valid.txt"])
    w.add_uint32("imatrix.chunk_count", windows)
    w.add_uint32("imatrix.chunk_size", window)
    for name, x in sums.items():
        w.add_tensor(name + ".in_sum2", x.float().numpy()[None])
        w.add_tensor(name + ".counts", torch.full((1, 1), float(ids.numel())).numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    part.rename(path)
    return path


def perplexity(o, model):
    """Measures a file, unless an earlier run has."""
    kept = o.folder / "perplexities.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    key = f"{model.name} {model.stat().st_size} bytes, {o.chars} characters, {o.precision}"
    if key not in known:
        begin = time.time()
        out = subprocess.run([o.hotpath, "perplexity", "-m", model, "-f", o.texts, "--precision", o.precision, "--format", "json"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        known[key] = json.loads(out) | {"seconds": round(time.time() - begin, 1)}
        part = kept.with_suffix(".part")
        part.write_text(json.dumps(known, indent=1) + "\n")
        part.rename(kept)
    return known[key]


main()
