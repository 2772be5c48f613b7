"""Holds GGUF files of hotpath convert against sentence-transformers and llama.cpp.

    pip install llama-cpp-python sentence-transformers gguf
    python scripts/verify_convert.py bin/hotpath MODELS --shared ../shared [--converter convert_hf_to_gguf.py]

MiniLM as F16 and Q8_0: the vectors of llama.cpp and of hotpath from our file, and, with
--converter, from the file of llama.cpp's own converter, against sentence-transformers
(cosine 0.9999 and 0.999). The small generators beside the tests: token ids and log
likelihoods of llama.cpp from our file against hotpath's from the directory.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np
from sentence_transformers import SentenceTransformer

GENERATORS = ["llama", "llama-odd", "gpt2"]
LIMITS = {"f16": 0.9999, "q8_0": 0.999}


def run(*args):
    return subprocess.run([str(a) for a in args], check=True, capture_output=True, text=True).stdout


def unit(x):
    x = np.asarray(x, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def llama_vectors(path, texts):
    m = llama_cpp.Llama(str(path), embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=2, verbose=False)
    return unit([m.embed(t) for t in texts])


def hotpath_vectors(o, path, texts, tmp):
    f = tmp / "texts.jsonl"
    f.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    out = run(o.hotpath, "embed", "-m", path, "-f", f, "--format", "jsonl", "--precision", "f32")
    return unit([json.loads(line)["embedding"] for line in out.splitlines()])


def minilm(o, tmp):
    source = o.models / "all-MiniLM-L6-v2"
    with open(o.shared / "sts/stsb-en-dev.csv") as f:
        texts = [row[0] for row in csv.reader(f)][:o.texts]
    want = unit(SentenceTransformer(str(source), device="cpu").encode(texts))
    ok = True

    def check(what, got, limit):
        nonlocal ok
        cos = (got * want).sum(1)
        good = cos.min() >= limit
        ok &= bool(good)
        print(f"MiniLM {what:34} cosine mean {cos.mean():.6f} least {cos.min():.6f} {'' if good else f'FAILED, expected {limit}'}", flush=True)

    for kind, limit in LIMITS.items():
        ours = tmp / f"ours-{kind}.gguf"
        run(o.hotpath, "convert", source, "-o", ours, "--type", kind)
        check(f"{kind}, our file in hotpath", hotpath_vectors(o, ours, texts, tmp), limit)
        check(f"{kind}, our file in llama.cpp", llama_vectors(ours, texts), 0.999 if kind == "f16" else 0.998)
        if o.converter:
            theirs = tmp / f"theirs-{kind}.gguf"
            run(sys.executable, o.converter, source, "--outfile", theirs, "--outtype", kind)
            check(f"{kind}, llama.cpp's file in hotpath", hotpath_vectors(o, theirs, texts, tmp), limit)
            same = np.abs(llama_vectors(ours, texts) - llama_vectors(theirs, texts)).max()
            print(f"MiniLM {kind}: llama.cpp's vectors of both files differ by at most {same:.2e}")
            ok &= bool(same < 1e-5)
    return ok


def generators(o, tmp):
    ok = True
    for name in GENERATORS:
        source = pathlib.Path(__file__).parent.parent / "internal/testmodels/testdata" / name
        text = "To be, or not to be: that is the question 12 345\n  and so on"
        path = tmp / f"{name}.gguf"
        run(o.hotpath, "convert", source, "-o", path, "--type", "f32")
        want = json.loads(run(o.hotpath, "score", "-m", source, "--format", "jsonl", "--precision", "f32", text).splitlines()[0])
        m = llama_cpp.Llama(str(path), n_ctx=128, logits_all=True, n_threads=1, verbose=False)
        ids = m.tokenize(text.encode(), add_bos=False, special=True)
        m.eval(ids)
        logits = np.array(m.scores[: len(ids)], np.float64)
        p = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(1, keepdims=True)
        nll = -p[np.arange(len(ids) - 1), ids[1:]]
        same = ids == want["ids"]
        diff = float(np.abs(nll - want["nll"]).max()) if same else float("nan")
        good = same and diff < 2e-2  # llama.cpp rounds keys and values to f16
        ok &= good
        print(f"{name:10} ids {'equal' if same else 'DIFFER'}, nll within {diff:.5f} {'' if good else 'FAILED'}", flush=True)
    return ok


def main():
    a = argparse.ArgumentParser()
    a.add_argument("hotpath")
    a.add_argument("models", type=pathlib.Path)
    a.add_argument("--shared", type=pathlib.Path, default=pathlib.Path("../shared"))
    a.add_argument("--converter", type=pathlib.Path)
    a.add_argument("--texts", type=int, default=100)
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        a = generators(o, pathlib.Path(tmp))
        b = minilm(o, pathlib.Path(tmp))
    sys.exit(0 if a and b else 1)


main()
