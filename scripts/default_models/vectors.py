"""vectors.py project TEACHER.npy OUT.npy BASIS.npy [WIDTH]   the teacher's vectors turned to their
principal axes, the first WIDTH (256) of them, of unit length again. BASIS.npy gets mean and axes.
vectors.py start DIR WORDS.npy BASIS.npy            writes projected vectors of its tokens, WORDS.npy as the
teacher made them, into the token table of the checkpoint DIR: a better start than random numbers.
vectors.py head IN.npy OUT.npy N                    the first N rows.
vectors.py tokens DIR OUT.jsonl                     the tokens of DIR/tokenizer.json as texts, in the order of ids.
"""
import json, os, struct, sys

import numpy as np


def unit(v):
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9)


def project(source, target, basis, width=256):
    v = np.load(source, mmap_mode="r")
    part = np.asarray(v[:: max(1, len(v) // 200_000)], dtype=np.float64)
    # Axes of the second moment, not of the covariance: cosines are about the origin.
    _, axes = np.linalg.eigh(part.T @ part / len(part))
    axes = axes[:, ::-1][:, :width].astype(np.float32)
    np.save(basis, axes)
    out = np.lib.format.open_memmap(target, "w+", np.float32, (len(v), width), version=(1, 0))
    error = 0.0
    for i in range(0, len(v), 1 << 16):
        block = np.asarray(v[i:i + (1 << 16)]) @ axes
        error += float((1 - np.linalg.norm(block, axis=1)).sum())
        out[i:i + (1 << 16)] = unit(block)
    out.flush()
    print(f"{len(v)} vectors of {v.shape[1]} to {width}: mean length kept {1 - error / len(v):.4f}")


def start(folder, words, basis):
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        data = bytearray(f.read())
    name = next(k for k in head if k.endswith("word_embeddings.weight"))
    begin, end = head[name]["data_offsets"]
    table = np.frombuffer(data, np.float32, (end - begin) // 4, begin).reshape(head[name]["shape"])
    v = unit(np.load(words) @ np.load(basis))
    # Tokens of one letter and of punctuation say little by themselves: 0.04 is twice the deviation of random rows.
    table[: len(v)] = 0.04 * np.sqrt(v.shape[1]) * v
    with open(path, "wb") as f:
        text = json.dumps(head).encode()
        f.write(struct.pack("<Q", len(text)) + text + data)


def head(source, target, n):
    np.save(target, np.load(source, mmap_mode="r")[: int(n)])


def tokens(folder, out):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        vocab = json.load(f)["model"]["vocab"]
    with open(out, "w", encoding="utf-8") as f:
        for t in sorted(vocab, key=vocab.get):
            f.write(json.dumps({"text": t.removeprefix("##").strip("[]") or t}) + "\n")


if __name__ == "__main__":
    command, args = sys.argv[1], sys.argv[2:]
    if command == "project":
        project(*args[:3], *map(int, args[3:]))
    else:
        {"start": start, "tokens": tokens, "head": head}[command](*args)
