"""verify_sts.py HOTPATH MODELS [--shared DIR] [--precision f32|bf16|auto]

Spearman's correlation of all-MiniLM-L6-v2 on the STS-B dev split under --shared (default
../shared), against what sentence-transformers gives (goldens_real.py sts). Exit status 1 when
hotpath is further from it than 0.0002 in f32, 0.002 otherwise.
"""
import argparse, csv, json, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SENTENCE_TRANSFORMERS = 0.867163  # f32, 1500 pairs


def ranks(values):
    """From 1, equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0.0] * len(values)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            out[order[k]] = (i + j) / 2 + 1
        i = j + 1
    return out


def spearman(x, y):
    a, b = ranks(x), ranks(y)
    n = len(a)
    ma, mb = sum(a) / n, sum(b) / n
    cov = sum((p - ma) * (q - mb) for p, q in zip(a, b))
    var = sum((p - ma) ** 2 for p in a) * sum((q - mb) ** 2 for q in b)
    return cov / var ** 0.5 if var else 0.0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("bin")
    a.add_argument("models")
    a.add_argument("--shared", default=os.path.join(HERE, "..", "..", "shared"))
    a.add_argument("--precision", default="f32", choices=["f32", "bf16", "auto"])
    a = a.parse_args()
    with open(os.path.join(a.shared, "sts", "stsb-en-dev.csv"), encoding="utf-8", newline="") as f:
        rows = [(s, t, float(score)) for s, t, score in csv.reader(f)]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        for r in rows:
            for text in r[:2]:
                f.write(json.dumps({"text": text}) + "\n")
        f.flush()
        p = subprocess.run([a.bin, "embed", "-m", os.path.join(a.models, "all-MiniLM-L6-v2"), "--precision", a.precision, "-f", f.name, "--format", "jsonl"], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"FAIL embed: exit {p.returncode}: {p.stderr.strip()[:300]}")
    vectors = [json.loads(line)["embedding"] for line in p.stdout.splitlines()]
    if len(vectors) != 2 * len(rows):
        sys.exit(f"FAIL {len(vectors)} answers for {2 * len(rows)} texts")
    scores = [sum(x * y for x, y in zip(u, v)) for u, v in zip(vectors[::2], vectors[1::2])]  # unit length
    rho = spearman(scores, [r[2] for r in rows])
    allowed = 0.0002 if a.precision == "f32" else 0.002
    bad = not abs(rho - SENTENCE_TRANSFORMERS) <= allowed
    print(f"{'FAIL' if bad else 'ok  '} STS-B dev, {len(rows)} pairs ({a.precision}): Spearman {rho:.6f}, sentence-transformers {SENTENCE_TRANSFORMERS}, {allowed} apart allowed")
    sys.exit(bad)


if __name__ == "__main__":
    main()
