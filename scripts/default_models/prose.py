"""prose.py HOTPATH MODEL HELD [TRAINED]   bits per byte of the texts in the folder HELD: by MODEL ("" for the
generator inside HOTPATH), by gzip and xz, and by a 5-gram of the model's own tokens (absolute
discounting, interpolated) that was trained on the folder TRAINED. Needs numpy for the 5-gram.
"""
import glob, gzip, json, lzma, math, os, subprocess, sys

CTX, DISCOUNT = 256, 0.8


def call(*command):
    p = subprocess.run(command, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"{command[1]}: exit {p.returncode}: {p.stderr.strip()[:300]}")
    return p.stdout


def tokens(hotpath, model, paths):
    """All ids of the lines of files, each line ended by -1."""
    import numpy as np

    out = []
    for path in paths:
        for line in call(hotpath, "tokenize", "-f", path, "--special=false", *model).splitlines():
            out += [int(x) for x in line.split("\t")[0].split()] + [-1]
    return np.array(out, dtype=np.int64) + 1


def five(train, held, size):
    """Bits of held by a 5-gram of train."""
    import numpy as np

    p = np.full(len(held) - 4, 1 / size)
    for n in range(1, 6):
        def keys(ids, n):
            k = np.zeros(len(ids) - 4, dtype=np.uint64)
            for i in range(5 - n, 5):
                k = k * np.uint64(size) + ids[i:len(ids) - 4 + i].astype(np.uint64)
            return k
        whole, counts = np.unique(keys(train, n), return_counts=True)
        before, first, kinds = np.unique(whole // np.uint64(size), return_index=True, return_counts=True)
        sums = np.add.reduceat(counts, first)
        k = keys(held, n)
        at = np.minimum(np.searchsorted(whole, k), len(whole) - 1)
        c = np.where(whole[at] == k, counts[at], 0)
        h = np.minimum(np.searchsorted(before, k // np.uint64(size)), len(before) - 1)
        seen = before[h] == k // np.uint64(size)
        p = np.where(seen, (np.maximum(c - DISCOUNT, 0) + DISCOUNT * kinds[h] * p) / sums[h], p)
    return float(-np.log2(p).sum())


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    hotpath, model, held = sys.argv[1], ["-m", sys.argv[2]] if sys.argv[2] else [], sys.argv[3]
    paths = sorted(glob.glob(os.path.join(held, "*.txt")))
    data = b"".join(open(p, "rb").read() for p in paths)
    bits = 0
    for path in paths:  # the tokens in windows are all but the last few of a text
        r = json.loads(call(hotpath, "perplexity", *model, "-f", path, "--ctx", str(CTX), "--format", "json"))
        bits += r["tokens"] * math.log2(r["ppl"])
    print(f"{bits / len(data):.3f}  {sys.argv[2] or 'the model inside'}, the second half of windows of {CTX} tokens", flush=True)
    print(f"{8 * len(gzip.compress(data, 9)) / len(data):.3f}  gzip -9")
    print(f"{8 * len(lzma.compress(data, preset=9)) / len(data):.3f}  xz -9", flush=True)
    if len(sys.argv) > 4:
        train = tokens(hotpath, model, sorted(glob.glob(os.path.join(sys.argv[4], "*.txt"))))
        test = tokens(hotpath, model, paths)
        print(f"{five(train, test, int(max(train.max(), test.max())) + 1) / len(data):.3f}  5-gram of {len(train)} tokens")
