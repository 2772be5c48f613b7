"""Holds hotpath embed against sentence-transformers on the real MiniLM: prompts, shorter
vectors, texts that are empty, broken or too long, quantized vectors, every format.

    python scripts/verify_embedder.py bin/hotpath .cache/models [--precision f32]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from sentence_transformers import SentenceTransformer, quantize_embeddings

TEXTS = ["", " ", "a man plays guitar", "Zürich, 北京 and 🙂", "tab\tand\u00a0space", "one " * 400, "x" * 5000, "[CLS] inside [SEP]"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hotpath")
    parser.add_argument("models")
    parser.add_argument("--precision", default="f32")
    a = parser.parse_args()
    path = os.path.join(a.models, "all-MiniLM-L6-v2")
    reference = SentenceTransformer(path, device="cpu")
    least = 0.9999 if a.precision == "f32" else 0.9995
    failed = []

    def run(*args, stdin=None):
        done = subprocess.run([a.hotpath, "embed", "-m", path, "--precision", a.precision, *args], input=stdin, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"{args}: {done.stderr.decode()}")
        return done.stdout

    def embed(texts, *args):
        lines = "".join(json.dumps({"text": t}) + "\n" for t in texts).encode()
        out = run("-f", "-", "--input", "jsonl", "--format", "jsonl", *args, stdin=lines)
        return np.array([json.loads(line)["embedding"] for line in out.splitlines()])

    def check(what, got, want, least=least):
        got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
        cosine = (got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)
        print(f"{what:32} least cosine {cosine.min():.7f}")
        if got.shape != want.shape or not cosine.min() >= least:
            failed.append(what)

    whole = reference.encode(TEXTS, normalize_embeddings=True)
    check("texts", embed(TEXTS), whole)
    check("with a prompt", embed(TEXTS, "--prompt", "query: "), reference.encode(TEXTS, prompt="query: ", normalize_embeddings=True))
    check("128 dimensions", embed(TEXTS, "--dim", "128"), reference.encode(TEXTS, truncate_dim=128, normalize_embeddings=True))
    check("as they come", embed(TEXTS, "--normalize=false"), reference.encode(TEXTS))
    broken = b"a \xff b\nc \xe2\x82\n"
    got = run("-f", "-", "--format", "bin", stdin=broken)
    check("broken UTF-8", np.frombuffer(got, "<f4").reshape(2, -1), reference.encode(broken.decode("utf-8", "replace").splitlines(), normalize_embeddings=True))

    with tempfile.TemporaryDirectory() as folder:
        for i, text in enumerate(TEXTS):
            with open(os.path.join(folder, f"{i}.txt"), "w") as f:
                f.write(text)
        for quantize in ["binary", "ubinary"]:
            out = os.path.join(folder, "out.npy")
            run("-f", folder, "-o", out, "--quantize", quantize)
            got, want = np.load(out), quantize_embeddings(whole, quantize)
            same = (got == want).mean()
            print(f"{quantize:32} {same:.4f} of bytes are equal")
            # A value near zero may fall on either side.
            if got.dtype != want.dtype or got.shape != want.shape or same < 0.97:
                failed.append(quantize)
        out = os.path.join(folder, "out.npy")
        run("-f", folder, "-o", out, "--quantize", "int8")
        check("int8", np.load(out), whole, least=0.999)
    if failed:
        sys.exit("differ: " + ", ".join(failed))


main()
