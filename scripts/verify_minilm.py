"""verify_minilm.py HOTPATH MODELS [REFERENCE.json] [--precision f32|bf16|auto]

The real all-MiniLM-L6-v2 against sentence-transformers: token ids have to be the same, vectors
have to agree. REFERENCE is what goldens_real.py wrote: the committed 40 texts by default, or
minilm_1000.json with minilm_1000.npy beside it. Exit status 1 on any failure.
"""
import argparse, array, ast, json, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def read_npy(path):
    """Rows of a two-dimensional little-endian f32 .npy file."""
    with open(path, "rb") as f:
        if f.read(8) != b"\x93NUMPY\x01\x00":
            sys.exit(f"{path}: not a version 1 .npy file")
        header = ast.literal_eval(f.read(int.from_bytes(f.read(2), "little")).decode())
        if header["descr"] != "<f4" or header["fortran_order"]:
            sys.exit(f"{path}: expected rows of <f4, found {header}")
        values = array.array("f")
        values.frombytes(f.read())
    rows, width = header["shape"]
    return [values[i * width:(i + 1) * width] for i in range(rows)]


def cosine(a, b):
    if len(a) != len(b):
        return 0.0
    norm = (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
    return sum(x * y for x, y in zip(a, b)) / norm if norm else 0.0


def call(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"FAIL {args[1]}: exit {p.returncode}: {p.stderr.strip()[:300]}")
    return [json.loads(line) for line in p.stdout.splitlines()]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("bin")
    a.add_argument("models")
    a.add_argument("reference", nargs="?", default=os.path.join(HERE, "..", "internal", "testmodels", "testdata", "real", "minilm.json"))
    a.add_argument("--precision", default="f32", choices=["f32", "bf16", "auto"])
    a = a.parse_args()
    with open(a.reference, encoding="utf-8") as f:
        ref = json.load(f)
    cases, limit = ref["cases"], ref["max_tokens"]
    want = [c["embedding"] for c in cases] if "embedding" in cases[0] else read_npy(a.reference[:-len(".json")] + ".npy")
    model = os.path.join(a.models, ref["model"])
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        for c in cases:
            f.write(json.dumps({"text": c["text"]}) + "\n")
        f.flush()
        tokens = call(a.bin, "tokenize", "-m", model, "-f", f.name, "--format", "jsonl")
        rows = call(a.bin, "embed", "-m", model, "--precision", a.precision, "-f", f.name, "--format", "jsonl")
    if len(tokens) != len(cases) or len(rows) != len(cases):
        sys.exit(f"FAIL {len(tokens)} and {len(rows)} answers for {len(cases)} texts")

    wrong = 0
    for c, t in zip(cases, tokens):
        full = c["ids"]
        cut = full if len(full) <= limit else full[:limit - 1] + full[-1:]  # the closing token stays
        if t["ids"] not in (full, cut):
            wrong += 1
            if wrong <= 5:
                print(f"     ids of {c['text'][:40]!r}: {t['ids'][:12]}, expected {full[:12]}")
    cosines = [cosine(r["embedding"], w) for r, w in zip(rows, want)]
    worst = min(range(len(cases)), key=lambda i: cosines[i])
    mean = sum(cosines) / len(cosines)
    need_mean, need_worst = (0.9999, 0.9999) if a.precision == "f32" else (0.9995, 0.999)
    bad_vectors = not (mean >= need_mean and cosines[worst] >= need_worst)
    print(f"{'FAIL' if wrong else 'ok  '} ids: {len(cases) - wrong} of {len(cases)} texts the same")
    print(f"{'FAIL' if bad_vectors else 'ok  '} vectors ({a.precision}): cosine mean {mean:.7f}, at least {need_mean} wanted; worst {cosines[worst]:.7f}, at least {need_worst} wanted ({cases[worst]['text'][:40]!r})")
    sys.exit(bool(wrong or bad_vectors))


if __name__ == "__main__":
    main()
