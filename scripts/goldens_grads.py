"""goldens_grads.py   writes internal/train/testdata/grads.json

The gradient of one loss by every parameter of every small model that the tests have, by
PyTorch in double precision: decoders on next tokens, encoders on a cross-entropy over the
states of tokens. Needs torch, transformers.

{"models": {PATH: {"tokens": [[id]], "loss": x, "grads": {NAME: [norm, dot, ...]}}}}

PATH is relative to internal/. For a decoder every token but the first of a sequence is
predicted; for an encoder the target of a token is its id modulo the width, and logits are
its state. The loss is the mean over all targets. A gradient is given by its norm and its
products with DOTS vectors of signs, divided by nothing: sign k of element i is that of bit
31 of (i*0x9E3779B1 + k*0x85EBCA6B + 0xC2B2AE35) after x ^= x >> 15; x *= 0x2C1B3C6D;
x ^= x >> 12, all in 32 bits.
"""
import glob, json, os, tempfile

import numpy as np, torch, transformers as T
from safetensors import safe_open

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "internal")
DOTS = 8
LENGTHS = [7, 12, 3]
ENCODERS = ["bert", "bert-odd", "roberta", "distilbert", "mpnet", "nomic-bert", "modernbert", "embeddinggemma"]
VARIANTS = ["gte", "xlm-roberta", "distilbert-relu", "modernbert-biased"]
EXPERTS = ["mixtral", "qwen2-moe", "qwen3-moe"]


def signs(n, k):
    x = (np.arange(n, dtype=np.uint64) * 0x9E3779B1 + k * 0x85EBCA6B + 0xC2B2AE35) & 0xFFFFFFFF
    x ^= x >> 15
    x = (x * 0x2C1B3C6D) & 0xFFFFFFFF
    x ^= x >> 12
    return 1.0 - 2.0 * ((x >> 31) & 1).astype(np.float64)


def digest(g):
    g = g.detach().double().numpy().ravel()
    return [float("%.10g" % v) for v in [np.sqrt((g * g).sum()), *[(g * signs(g.size, k)).sum() for k in range(DOTS)]]]


def saved(model, d):
    """The gradients of a model by the names and in the layout of its files."""
    names = [n for f in glob.glob(os.path.join(d, "*.safetensors")) for n in safe_open(f, "np").keys()]
    with torch.no_grad(), tempfile.TemporaryDirectory() as temp:
        for p in model.parameters():  # as the files have them: saving undoes what loading renamed or split
            p.copy_(torch.full_like(p, float("nan")) if p.grad is None else p.grad)
        model.save_pretrained(temp)
        grads = {}
        for f in glob.glob(os.path.join(temp, "*.safetensors")):
            with safe_open(f, "pt") as saved:
                for n in saved.keys():
                    found = [n] if n in names else [m for m in names if n.endswith("." + m)]  # some files leave out the prefix
                    if found and not saved.get_tensor(n).isnan().any():
                        grads[found[0]] = digest(saved.get_tensor(n))
    return grads


def golden(path, causal):
    d = os.path.join(ROOT, path)
    kind = T.AutoModelForCausalLM if causal else T.AutoModel
    model = kind.from_pretrained(d, dtype=torch.float32, attn_implementation="sdpa" if "alibi" in path else "eager").double().eval()
    rng = np.random.default_rng(len(path))
    vocab = model.config.vocab_size
    pad = model.config.pad_token_id or 0  # whose row PyTorch does not train
    tokens = [[int(i) if i != pad else vocab - 1 for i in rng.integers(5, vocab, n)] for n in LENGTHS]
    total, count = 0.0, 0
    for ids in tokens:
        x = torch.tensor([ids])
        if causal:
            logits, want = model(x).logits[0, :-1], x[0, 1:]
        else:
            logits = model(x).last_hidden_state[0]
            want = x[0] % logits.shape[-1]
        total = total + torch.nn.functional.cross_entropy(logits.double(), want, reduction="sum")
        count += len(want)
    loss = total / count
    loss.backward()
    grads = saved(model, d)
    print(f"{path}: loss {loss.item():.5f}, {len(grads)} gradients")
    return dict(tokens=tokens, loss=loss.item(), grads=grads)


def main():
    torch.set_num_threads(1)
    models = {}
    for f in sorted(glob.glob(os.path.join(ROOT, "model", "testdata", "*", "reference.json"))):
        name = os.path.basename(os.path.dirname(f))
        if name not in EXPERTS:
            models[f"model/testdata/{name}"] = golden(f"model/testdata/{name}", True)
    for name in ["llama", "llama-odd", "gpt2"]:
        models[f"testmodels/testdata/{name}"] = golden(f"testmodels/testdata/{name}", True)
    for name in ENCODERS:
        models[f"testmodels/testdata/{name}"] = golden(f"testmodels/testdata/{name}", False)
    for name in VARIANTS:
        models[f"model/testdata/encoders/{name}"] = golden(f"model/testdata/encoders/{name}", False)
    out = os.path.join(ROOT, "train", "testdata", "grads.json")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w") as f:
        json.dump(dict(models=models), f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
