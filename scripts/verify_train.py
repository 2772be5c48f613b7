#!/usr/bin/env python3
"""Trains small models with hotpath for a few steps, opens the results in llama.cpp and compares.

    pip install llama-cpp-python numpy tokenizers
    python scripts/verify_train.py bin/hotpath MODELS [--only char bpe lora contrastive mlm embedder]

char, bpe: decoders from random weights, with tokenizers that are learnt from the text; lora: SmolLM2
from MODELS, adapters merged into its quantized weights. Each is held to llama.cpp by the tokens of
awkward texts and their way back to text (char: without the characters that the training text lacks),
by the log-likelihoods of a text, and by a greedy continuation: llama.cpp's token must be one that
hotpath's likelihoods cannot tell from the best.
contrastive: MiniLM from MODELS, trained on pairs; mlm, embedder: a BERT from random weights, trained
on masked tokens and on pairs; all by the cosines of their vectors. The head of masked tokens has no place in GGUF, so it is not compared.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np
from tokenizers import Tokenizer

TEXT = pathlib.Path(__file__).parent.parent / "internal/testmodels/testdata/shakespeare.txt"
AWKWARD = [
    "To be, or not to be: that is the question 12 345\n  and so on", "  two  spaces, tabs\t\tand\r\n\r\nends  ",
    "na\u00efve \u00dcn\u00efcode \u4f60\u597d \U0001F600\u200d\U0001F4BB e\u0301", "don't 'tis we'll", "\u00a0\u2028\u3000x",
]
CONTROLS = "".join(map(chr, range(1, 0x250)))  # SmolLM2 has no tokens for some of them
BYTES = "\0" + "".join(map(chr, range(0x80))) + "".join(chr(c) for c in range(0x80, 0x10000, 97) if not 0xd800 <= c < 0xe000) + "\U0010ffff"


def run(*args):
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(map(str, args))}: exit status {out.returncode}\n{out.stderr[-2000:]}")
    return out.stdout


def train(o, tmp, name, config):
    """The newest checkpoint of a run, and the same in F32 as a GGUF file."""
    file, out = tmp / f"{name}.json", tmp / name
    file.write_text(json.dumps({"out": str(out), "warmup": 1, "lr": 1e-3, **config}))
    run(o.hotpath, "train", file, "--precision", "f32")
    checkpoint, whole = sorted(out.glob("step-*"))[-1], tmp / f"{name}.gguf"
    if (checkpoint / "model.gguf").exists():
        run(o.hotpath, "quantize", checkpoint / "model.gguf", whole, "F32")
    else:
        run(o.hotpath, "convert", checkpoint, "-o", whole, "--type", "f32")
    return checkpoint, whole


def score(o, model, text):
    return json.loads(run(o.hotpath, "score", "-m", model, "--format", "jsonl", "--precision", "f32", "--", text).splitlines()[0])


def opened(path):
    return llama_cpp.Llama(str(path), n_ctx=256, logits_all=True, n_threads=2, verbose=False)


def llama_nll(m, ids):
    m.reset()
    m.eval(ids)
    logits = np.array(m.scores[: len(ids)], np.float64)
    p = logits - logits.max(1, keepdims=True)
    p -= np.log(np.exp(p).sum(1, keepdims=True))
    return -p[np.arange(len(ids) - 1), ids[1:]]


def decoder(o, name, checkpoint, gguf, every_byte, base=None, chars=None):
    """chars: the only characters that come back from tokens, None: all."""
    m = opened(gguf)
    ok = True

    def check(what, good, more=""):
        nonlocal ok
        ok &= bool(good)
        print(f"{name:12} {what:40} {'holds' if good else 'FAILED'} {more}", flush=True)

    texts, wrong = AWKWARD + [CONTROLS, BYTES] if every_byte else AWKWARD, []
    file, back = gguf.parent / "texts.jsonl", gguf.parent / "ids.jsonl"
    file.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))

    def tokenize(*args):
        return [json.loads(line) for line in run(o.hotpath, "tokenize", "--special=false", "--format", "jsonl", *args).strip("\n").split("\n")]

    ours = {path: [line["ids"] for line in tokenize("-m", path, "-f", file)] for path in (checkpoint, gguf)}
    hugging = Tokenizer.from_file(str(checkpoint / "tokenizer.json")) if (checkpoint / "tokenizer.json").exists() else None
    kept = ["".join(c for c in text if chars is None or c in chars) for text in texts]
    for i, text in enumerate(texts):
        if hugging and (hugging.encode(text).ids != ours[checkpoint][i] or hugging.decode(ours[checkpoint][i]) != kept[i]):
            wrong.append(("Hugging Face's tokenizers", text[:40]))
        theirs = m.tokenize(text.encode(), add_bos=False, special=False)
        if not ours[checkpoint][i] == ours[gguf][i] == theirs:
            wrong.append(("ids", text[:40], len(ours[checkpoint][i]), len(ours[gguf][i]), len(theirs)))
        if m.detokenize(theirs) != kept[i].encode():
            wrong.append(("llama.cpp's text", text[:40]))
    back.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in ours[checkpoint]))
    for path in (checkpoint, gguf):
        wrong += [("our text", text[:40]) for text, line in zip(kept, tokenize("-m", path, "-f", back, "--decode")) if line["text"] != text]
    check("ids and texts of awkward texts", not wrong, str(wrong[:4]) if wrong else "")

    text = TEXT.read_text()[:100]
    want = score(o, checkpoint, text)
    merged = score(o, gguf, text)
    ids = m.tokenize(text.encode(), add_bos=False, special=True)
    same = ids == want["ids"] == merged["ids"]
    diff = float(np.abs(llama_nll(m, ids) - want["nll"]).max()) if same else float("nan")
    check("log-likelihoods", same and diff < 2e-2, f"within {diff:.5f}")  # llama.cpp rounds keys and values to f16
    if base:  # and activations to 8 bits, before quantized weights
        of_base = float(np.abs(llama_nll(opened(base), ids) - score(o, base, text)["nll"]).max())
        mixed = float(np.abs(llama_nll(opened(checkpoint / "model.gguf"), ids) - want["nll"]).max())
        check("log-likelihoods, quantized", mixed < 2 * of_base, f"within {mixed:.5f}, the model before training within {of_base:.5f}")

    start = ids[:12]
    got = json.loads(run(o.hotpath, "run", "-m", checkpoint, "--raw", "-p", m.detokenize(start).decode(), "-n", 16, "--temp", 0, "--precision", "f32", "--ignore-eos", "--format", "json"))["ids"]
    m.reset()
    m.eval(start)
    worst, equal = 0.0, 0
    for id in got:
        row = np.array(m.scores[m.n_tokens - 1], np.float64)
        equal += int(row.argmax()) == id
        worst = max(worst, float(row.max() - row[id]))
        m.eval([id])
    check("greedy continuation", worst < 2e-2, f"{equal} of {len(got)} ids equal, others within {worst:.5f} of the best logit")
    return ok


def vectors(o, name, checkpoint, gguf, **options):
    texts = [line for line in TEXT.read_text().splitlines() if line.strip()][:30]

    def unit(x):
        x = np.asarray(x, np.float64)
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def ours(path):
        out = run(o.hotpath, "embed", "-m", path, "--precision", "f32", "--format", "jsonl", "--", *texts)
        return unit([json.loads(line)["embedding"] for line in out.splitlines()])

    m = llama_cpp.Llama(str(gguf), embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=2, verbose=False, **options)
    theirs, a, b = unit([m.embed(t) for t in texts]), ours(checkpoint), ours(gguf)
    ok = True
    for what, x in (("our GGUF file in hotpath", b), ("our GGUF file in llama.cpp", theirs)):
        least = float((a * x).sum(1).min())
        ok &= least > 0.9999
        print(f"{name:12} {what:40} {'holds' if least > 0.9999 else 'FAILED'} least cosine {least:.6f}", flush=True)
    return ok


def pairs(tmp):
    lines = [line for line in TEXT.read_text().splitlines() if len(line.split()) > 3]
    file = tmp / "pairs.jsonl"
    file.write_text("".join(json.dumps({"anchor": a, "positive": b}) + "\n" for a, b in zip(lines, lines[1:])))
    return file


def chats(tmp):
    file = tmp / "chats.jsonl"
    turns = [("What is the capital of France?", "Paris."), ("Say hello.", "Hello there!"), ("Count to three.", "One, two, three."), ("Name a colour.", "Blue.")]
    file.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n" for q, a in turns * 4))
    return file


CASES = {
    "char": lambda o, tmp: decoder(o, "char", *train(o, tmp, "char", {"model": {"architecture": "gpt2", "d_model": 64, "n_layers": 2, "n_heads": 4, "context": 256, "tokenizer": "char"},
                                                                      "data": str(TEXT), "steps": 60, "batch_tokens": 512, "seq_len": 64}), every_byte=True, chars=set(TEXT.read_text())),
    "bpe": lambda o, tmp: decoder(o, "bpe", *train(o, tmp, "bpe", {"model": {"architecture": "llama", "d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab": 400, "context": 256, "tokenizer": "bpe"},
                                                                   "data": str(TEXT), "steps": 60, "batch_tokens": 512, "seq_len": 64}), every_byte=True),
    "lora": lambda o, tmp: decoder(o, "lora", *train(o, tmp, "lora", {"model": str(o.models / "SmolLM2-135M-Instruct.Q4_1.gguf"), "objective": "sft", "lora": {"rank": 4, "roles": ["q", "k", "v", "o", "down"]},
                                                                      "data": str(chats(tmp)), "steps": 4, "batch_tokens": 256, "seq_len": 128, "lr": 1e-2}), every_byte=False,
                                   base=o.models / "SmolLM2-135M-Instruct.Q4_1.gguf"),
    "contrastive": lambda o, tmp: vectors(o, "contrastive", *train(o, tmp, "contrastive", {"model": str(o.models / "all-MiniLM-L6-v2"), "objective": {"type": "contrastive", "batch": 8},
                                                                                           "data": str(pairs(tmp)), "steps": 5, "batch_tokens": 512, "seq_len": 64, "lr": 1e-4})),
    "mlm": lambda o, tmp: vectors(o, "mlm", *train(o, tmp, "mlm", {"model": {"architecture": "bert", "d_model": 64, "n_layers": 2, "n_heads": 4, "vocab": 300, "context": 128, "tokenizer": "wordpiece"}, "objective": "mlm",
                                                                   "data": str(TEXT), "steps": 60, "batch_tokens": 512, "seq_len": 64}), pooling_type=llama_cpp.LLAMA_POOLING_TYPE_MEAN),
    "embedder": lambda o, tmp: vectors(o, "embedder", *train(o, tmp, "embedder", {"model": {"architecture": "bert", "d_model": 64, "n_layers": 2, "n_heads": 4, "vocab": 300, "context": 128, "tokenizer": "wordpiece"},
                                                                                  "objective": "contrastive", "data": str(pairs(tmp)), "steps": 60, "batch_tokens": 512, "seq_len": 64})),
}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("hotpath")
    a.add_argument("models", type=pathlib.Path)
    a.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        held = [CASES[name](o, pathlib.Path(tmp)) for name in o.only]
    sys.exit(0 if all(held) else 1)


main()
