"""baselines.py TEXTS.jsonl FILE...   what the embedder is held against: Spearman's correlation, times 100, of
TF-IDF and of a table of word vectors (256 numbers for each of 10,240 words, as GloVe finds them:
a factorisation of co-occurrences within five words, here of their positive pointwise mutual
information), both made of TEXTS. FILE is as similarity.py takes it. Needs numpy.
"""
import collections, json, math, os, re, sys

import numpy as np

from similarity import rows, spearman

WORD = re.compile(r"[a-z]+|[0-9]+")
VOCABULARY, WIDTH, WINDOW, MOST = 10_240, 256, 5, 600_000


def words(text):
    return WORD.findall(text.lower())


def main(path, files):
    texts = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            texts.append(words(json.loads(line)["text"]))
            if len(texts) == MOST:
                break
    documents = collections.Counter(w for t in texts for w in set(t))
    idf = {w: math.log(len(texts) / n) for w, n in documents.items()}
    rare = math.log(len(texts))
    index = {w: i for i, (w, _) in enumerate(collections.Counter(w for t in texts for w in t).most_common(VOCABULARY))}
    pairs = []
    for d in range(1, WINDOW + 1):
        a, b = [], []
        for t in texts:
            ids = [index.get(w, -1) for w in t]
            a += ids[:-d]
            b += ids[d:]
        a, b = np.array(a), np.array(b)
        keep = (a >= 0) & (b >= 0)
        pairs.append((a[keep] * VOCABULARY + b[keep], 1 / d))
    m = np.zeros(VOCABULARY * VOCABULARY, np.float32)
    for keys, weight in pairs:
        m += weight * np.bincount(keys, minlength=len(m)).astype(np.float32)
    m = m.reshape(VOCABULARY, VOCABULARY)
    m += m.T
    total = m.sum(dtype=np.float64)
    side = m.sum(1)
    smooth = side ** 0.75 / (side ** 0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        m = np.log(m / side[:, None] / smooth[None, :])
    m[~np.isfinite(m)] = 0
    np.maximum(m, 0, out=m)
    rng = np.random.default_rng(1)
    q = rng.standard_normal((VOCABULARY, WIDTH + 20)).astype(np.float32)
    for _ in range(4):
        q, _ = np.linalg.qr(m @ (m.T @ q))
    u, s, _ = np.linalg.svd(q.T @ m, full_matrices=False)
    table = (q @ u)[:, :WIDTH] * np.sqrt(s[:WIDTH])
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)

    def sparse(text):
        v = collections.Counter(words(text))
        v = {w: n * idf.get(w, rare) for w, n in v.items()}
        n = math.sqrt(sum(x * x for x in v.values())) or 1
        return {w: x / n for w, x in v.items()}

    def dense(text):
        v = sum((table[index[w]] * idf.get(w, rare) for w in words(text) if w in index), np.zeros(WIDTH))
        return v / (np.linalg.norm(v) or 1)

    for file in files:
        pairs = rows(file)
        want = [r[2] for r in pairs]
        got = [sum(x * b.get(w, 0) for w, x in a.items()) for a, b in ((sparse(r[0]), sparse(r[1])) for r in pairs)]
        print(f"{100 * spearman(got, want):.2f}  {os.path.basename(file)}, TF-IDF", flush=True)
        got = [float(dense(r[0]) @ dense(r[1])) for r in pairs]
        print(f"{100 * spearman(got, want):.2f}  {os.path.basename(file)}, word vectors of {WIDTH} x {VOCABULARY}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
