"""similarity.py HOTPATH FILE [MODEL...]   Spearman's correlation, times 100, of cosines with the scores of
pairs: FILE is STS-B's csv, SICK.txt, or a .jsonl file with a, b and score. Without MODEL it is that
of the embedder inside HOTPATH.
"""
import csv, json, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from verify_sts import spearman


def rows(path):
    with open(path, encoding="utf-8", newline="") as f:
        if path.endswith(".jsonl"):
            return [(r["a"], r["b"], r["score"]) for r in map(json.loads, f)]
        if path.endswith(".txt"):
            return [(r["sentence_A"], r["sentence_B"], float(r["relatedness_score"])) for r in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)]
        return [(s, t, float(score)) for s, t, score in csv.reader(f)]


def cosines(hotpath, model, pairs):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        for r in pairs:
            for text in r[:2]:
                f.write(json.dumps({"text": text}) + "\n")
        f.flush()
        command = [hotpath, "embed", "-f", f.name, "--format", "csv"] + (["-m", model] if model else [])
        p = subprocess.run(command, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"embed: exit {p.returncode}: {p.stderr.strip()[:300]}")
    vectors = [[float(x) for x in line.split(",")] for line in p.stdout.splitlines()]
    return [sum(x * y for x, y in zip(u, v)) for u, v in zip(vectors[::2], vectors[1::2])]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    pairs = rows(sys.argv[2])
    for model in sys.argv[3:] or [None]:
        rho = spearman(cosines(sys.argv[1], model, pairs), [r[2] for r in pairs])
        print(f"{100 * rho:.2f}  {os.path.basename(sys.argv[2])}, {len(pairs)} pairs, {model or 'the model inside'}")
