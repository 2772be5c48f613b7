"""Holds hotpath's quantizer against llama.cpp's on SmolLM2.

    pip install gguf llama-cpp-python
    python scripts/verify_quant.py bin/hotpath MODELS --shared ../shared [--chars 150000] [--keep FOLDER]

SmolLM2's weights, decoded to F32, are quantized by both, and the same evaluator (hotpath
score --precision f32) gives the perplexity of each file on the beginning of WikiText-2's test
part. Fails where hotpath's file is more than 0.5 per cent worse.
"""
import argparse
import ctypes
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp

FTYPES = {"Q8_0": 7, "Q6_K": 18, "Q5_K_M": 17, "Q4_K_M": 15}
OTHERS = {"Q5_K_S": 16, "Q4_K_S": 14, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "IQ4_NL": 25, "Q3_K_M": 12, "Q2_K": 10}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("hotpath")
    a.add_argument("models", type=pathlib.Path)
    a.add_argument("--shared", type=pathlib.Path, default=pathlib.Path("../shared"))
    a.add_argument("--chars", type=int, default=150_000, help="how much of the corpus")
    a.add_argument("--all", action="store_true", help="other file types too")
    a.add_argument("--keep", type=pathlib.Path)
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        folder = o.keep or pathlib.Path(tmp)
        folder.mkdir(exist_ok=True)
        sys.exit(compare(o, folder))


def compare(o, folder):
    corpus = (o.shared / "corpus/wikitext2-test.txt").read_text()[: o.chars]
    texts = folder / "texts.jsonl"
    with texts.open("w") as f:
        part = ""
        for line in corpus.splitlines(keepends=True):
            part += line
            if len(part) > 2500:
                f.write(json.dumps({"text": part}) + "\n")
                part = ""
    f32 = folder / "f32.gguf"
    if not f32.exists():
        quantize(o, o.models / "SmolLM2-135M-Instruct.Q4_1.gguf", f32, "F32")
    failed = 0
    base, tokens = perplexity(o, f32, texts)
    print(f"F32      {base:9.4f}  ({tokens} tokens of {o.chars} characters)", flush=True)
    for name, ftype in (FTYPES | OTHERS if o.all else FTYPES).items():
        ours, theirs = folder / f"ours-{name}.gguf", folder / f"theirs-{name}.gguf"
        quantize(o, f32, ours, name)
        p = llama_cpp.llama_model_quantize_default_params()
        p.ftype, p.nthread = ftype, 2
        if llama_cpp.llama_model_quantize(str(f32).encode(), str(theirs).encode(), ctypes.byref(p)) != 0:
            raise SystemExit(f"llama.cpp failed to make {name}")
        a, b = perplexity(o, ours, texts)[0], perplexity(o, theirs, texts)[0]
        worse = a / b - 1
        bad = name in FTYPES and worse > 0.005
        failed += bad
        print(f"{name:8} {a:9.4f}  llama.cpp's {b:9.4f}  {100 * worse:+.3f} %  "
              f"{ours.stat().st_size} and {theirs.stat().st_size} bytes{'  FAILED' if bad else ''}", flush=True)
        if not o.keep:
            ours.unlink(), theirs.unlink()
    return 1 if failed else 0


def quantize(o, source, target, name):
    subprocess.run([o.hotpath, "quantize", source, target, name], check=True, stdout=subprocess.DEVNULL)


def perplexity(o, model, texts):
    out = subprocess.run([o.hotpath, "score", "-m", model, "-f", texts, "--precision", "f32", "--format", "jsonl"],
                         check=True, capture_output=True, text=True).stdout
    total = n = 0
    for line in out.splitlines():
        nll = json.loads(line)["nll"]
        total += sum(nll)
        n += len(nll)
    return math.exp(total / n), n


main()
