"""verify_smollm2.py HOTPATH MODELS [REFERENCE.json] [--precision f32|bf16|auto]

The real SmolLM2-135M-Instruct.Q4_1.gguf: 20 prompts, 50 greedy tokens each, against f32
transformers on the same weights (the ideal answer) and llama.cpp, from smollm2_greedy.json.

Greedy decoding forks for good where two logits nearly tie, so a difference is judged by what f32
says at the first token that differs: how much worse than its own choice it holds the other one.
Up to 0.01 logits passes in f32, up to 0.5 otherwise (llama.cpp itself leaves the f32 answer at
leads of up to 0.22). Exit status 1 on a larger one, or when a prompt's ids differ.
"""
import argparse, json, os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def call(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"FAIL {args[1]}: exit {p.returncode}: {p.stderr.strip()[:300]}")
    return p.stdout


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("bin")
    a.add_argument("models")
    a.add_argument("reference", nargs="?", default=os.path.join(HERE, "..", "internal", "testmodels", "testdata", "real", "smollm2_greedy.json"))
    a.add_argument("--precision", default="f32", choices=["f32", "bf16", "auto"])
    a = a.parse_args()
    with open(a.reference, encoding="utf-8") as f:
        ref = json.load(f)
    model, cases = os.path.join(a.models, ref["model"]), ref["cases"]
    allowed = 0.01 if a.precision == "f32" else 0.5
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        for c in cases:
            f.write(json.dumps({"text": c["prompt"]}) + "\n")
        f.flush()
        ids = [json.loads(line)["ids"] for line in call(a.bin, "tokenize", "-m", model, "-f", f.name, "--format", "jsonl").splitlines()]
    failed = len(ids) != len(cases)
    whole = peer = 0
    for c, got in zip(cases, ids):
        name = repr(c["prompt"][:30])
        if got != c["ids"]:
            failed = True
            print(f"FAIL {name}: ids {got}, expected {c['ids']}")
            continue
        out = json.loads(call(a.bin, "run", "-m", model, "--precision", a.precision, "-p", c["prompt"], "-n", str(ref["steps"]), "--temp", "0", "--raw", "--ignore-eos", "--format", "json"))["ids"]
        if len(out) != ref["steps"]:
            failed = True
            print(f"FAIL {name}: {len(out)} tokens, expected {ref['steps']}")
            continue
        peer += out == c["llamacpp"]["ids"]
        at = first_difference(out, c["f32"]["ids"])
        if at is None:
            whole += 1
            continue
        top = c["f32"]["top"][at]
        lead = next((top[0][1] - z for i, z in top if i == out[at]), None)  # None: not even among the five best
        bad = lead is None or lead > allowed
        failed |= bad
        print(f"{'FAIL' if bad else 'near'} {name}: token {at} is {out[at]}, f32 has {top[0][0]}", "and not this one among its five best" if lead is None else f"by {lead:.4f}")
    print(f"{'FAIL' if failed else 'ok  '} {whole} of {len(cases)} continuations as in f32, {peer} as in llama.cpp ({a.precision}, near ties up to {allowed} pass)")
    sys.exit(failed)


if __name__ == "__main__":
    main()
