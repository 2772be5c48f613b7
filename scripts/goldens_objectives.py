"""goldens_objectives.py   writes internal/train/testdata/objectives.json

Losses and gradients of every training objective by PyTorch in double precision, on small
models that the tests have: by transformers, by the losses of sentence-transformers where it
has them, and by their definitions (DPO, distillation). Needs torch, transformers,
sentence-transformers.

[{"name", "model", "config": the field objective, "kind": of the examples,
  "examples": [{"Seqs": [{"IDs", "Segments", "Learn"}], "Label", "Score"}],
  "masked": [[[ids as the model sees them], [target or -1]]] (mlm only),
  "lora": the field lora, "loss", "grads": {NAME: digest}}]

Digests are those of goldens_grads.py. Weights that no file has ("mlm...") are given: element i
of the matrix is 0.1 times sign 3 of i, norms are 1, biases 0; gradients go by "fresh KEY". So
do those of LoRA's matrices, which are 0.1 times sign 1 and sign 2.
"""
import json, os

import numpy as np, torch, transformers as T
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses

import goldens_grads as G

F = torch.nn.functional
RNG = np.random.default_rng(5)


def ids(vocab, n):
    return [int(i) for i in RNG.integers(6, vocab, n)]


def seq(vocab, n, **more):
    return dict(IDs=ids(vocab, n), **more)


def load(kind, path):
    return kind.from_pretrained(os.path.join(G.ROOT, path), dtype=torch.float32, attn_implementation="eager").double().eval()


def sentence(path):
    return SentenceTransformer(os.path.join(G.ROOT, path), device="cpu", model_kwargs=dict(attn_implementation="eager")).double().eval()


def features(seqs):
    n = max(len(s["IDs"]) for s in seqs)
    pad = [s["IDs"] + [0] * (n - len(s["IDs"])) for s in seqs]
    mask = [[1] * len(s["IDs"]) + [0] * (n - len(s["IDs"])) for s in seqs]
    return dict(input_ids=torch.tensor(pad), attention_mask=torch.tensor(mask))


def columns(examples):
    """All anchors, all positives, all negatives, as sentence-transformers wants them."""
    return [features([e["Seqs"][i] for e in examples]) for i in range(len(examples[0]["Seqs"]))]


def case(name, model, config, kind, examples, loss, trained, fresh={}, **more):
    loss.backward()
    grads = {f"fresh {k}": G.digest(p.grad) for k, p in fresh.items()}
    grads.update(G.saved(trained, os.path.join(G.ROOT, model)))
    print(f"{name}: loss {loss.item():.6f}, {len(grads)} gradients")
    return dict(name=name, model=model, config=config, kind=kind, examples=examples, loss=loss.item(), grads=grads, **more)


def nlls(model, s):
    x = torch.tensor([s["IDs"]])
    learn = torch.tensor(s.get("Learn", [True] * len(s["IDs"])))[1:]
    return F.cross_entropy(model(x).logits[0, :-1], x[0, 1:], reduction="none")[learn]


def main():
    torch.set_num_threads(1)
    out = []
    llama, bert = "testmodels/testdata/llama", "testmodels/testdata/bert"
    small, other = "model/testdata/qwen3", "model/testdata/llama3"
    rerank = "model/testdata/encoders/"

    def marked(vocab, n, answer):
        return seq(vocab, n, Learn=[i >= n - answer for i in range(n)])

    ex = [dict(Seqs=[marked(300, n, a)]) for n, a in [(9, 4), (14, 1), (5, 5)]]
    m = load(T.AutoModelForCausalLM, llama)
    out.append(case("sft", llama, dict(type="sft"), "answer", ex, torch.cat([nlls(m, e["Seqs"][0]) for e in ex]).mean(), m))

    m = load(T.AutoModel, bert)
    dim, vocab = m.config.hidden_size, m.config.vocab_size
    dense = torch.tensor(0.1 * G.signs(dim * dim, 3).reshape(dim, dim), requires_grad=True)
    fresh = {"mlm.weight": dense, "mlm.bias": torch.zeros(dim).double(), "mlm_norm.weight": torch.ones(dim).double(), "mlm_norm.bias": torch.zeros(dim).double(), "mlm_output.bias": torch.zeros(vocab).double()}
    for p in fresh.values():
        p.requires_grad_(True)
    masked, parts = [], []
    for n in (11, 6):
        x, want = ids(vocab, n), [-1] * n
        for at in (2, 4):
            want[at], x[at] = x[at], 4
        masked.append([x, want])
        h = m(torch.tensor([x])).last_hidden_state[0]
        rows = [i for i, w in enumerate(want) if w >= 0]
        y = F.layer_norm(F.gelu(h[rows] @ dense.T + fresh["mlm.bias"]), (dim,), fresh["mlm_norm.weight"], fresh["mlm_norm.bias"], m.config.layer_norm_eps)
        logits = y @ m.embeddings.word_embeddings.weight.T + fresh["mlm_output.bias"]
        parts.append(F.cross_entropy(logits, torch.tensor([want[i] for i in rows]), reduction="none"))
    out.append(case("mlm", bert, dict(type="mlm"), "text", [], torch.cat(parts).mean(), m, fresh, masked=masked))

    pairs = [dict(Seqs=[seq(360, a), seq(360, b), seq(360, c)]) for a, b, c in [(5, 9, 7), (8, 3, 4), (6, 6, 12), (3, 11, 5)]]
    two = [dict(Seqs=e["Seqs"][:2]) for e in pairs]
    for name, config, examples, make in [
        ("contrastive", {}, two, lambda m: losses.MultipleNegativesRankingLoss(m)),
        ("contrastive with hard negatives", dict(scale=5.0), pairs, lambda m: losses.MultipleNegativesRankingLoss(m, scale=5.0)),
        ("contrastive, symmetric", dict(symmetric=True), two, lambda m: losses.MultipleNegativesSymmetricRankingLoss(m)),
        ("contrastive, matryoshka", dict(dims=[32, 16, 5], dim_weights=[1.0, 0.5, 2.0]), pairs,
         lambda m: losses.MatryoshkaLoss(m, losses.MultipleNegativesRankingLoss(m), [32, 16, 5], [1.0, 0.5, 2.0])),
    ]:
        m = sentence(bert)
        out.append(case(name, bert, dict(type="contrastive", **config), "pairs", examples, make(m)(columns(examples), None), m[0].auto_model))

    scored = [dict(Seqs=e["Seqs"][:2], Score=s) for e, s in zip(pairs, [0.9, 0.1, 0.5, -0.2])]
    m = sentence(bert)
    out.append(case("regress of pairs", bert, dict(type="regress"), "scored", scored, losses.CosineSimilarityLoss(m)(columns(scored), torch.tensor([e["Score"] for e in scored]).double()), m[0].auto_model))

    for name, path, config, kind in [("regress", "rerank-bert", dict(type="regress"), "scored"), ("classify", "rerank-bert-labels", dict(type="classify"), "labelled")]:
        m = load(T.AutoModelForSequenceClassification, rerank + path)
        examples, parts = [], []
        for k, n in enumerate((9, 4, 12)):
            s = seq(360, n, Segments=[int(i > n // 2) for i in range(n)])
            examples.append(dict(Seqs=[s], **(dict(Label=k % 3) if kind == "labelled" else dict(Score=0.3 * k - 0.2))))
            logits = m(torch.tensor([s["IDs"]]), token_type_ids=torch.tensor([s["Segments"]])).logits[0]
            parts.append(F.cross_entropy(logits, torch.tensor(k % 3)) if kind == "labelled" else (logits[0] - examples[-1]["Score"]) ** 2)
        out.append(case(name, rerank + path, config, kind, examples, torch.stack(parts).mean(), m))

    m, ref = load(T.AutoModelForCausalLM, small), load(T.AutoModelForCausalLM, other)
    prefer = [dict(Seqs=[marked(50, n, a), marked(50, k, b)]) for n, a, k, b in [(9, 4, 7, 2), (6, 3, 12, 9)]]
    parts = []
    for e in prefer:
        with torch.no_grad():
            r = [nlls(ref, s).sum() for s in e["Seqs"]]
        p = [nlls(m, s).sum() for s in e["Seqs"]]
        parts.append(-F.logsigmoid(0.3 * ((r[0] - p[0]) - (r[1] - p[1]))))
    out.append(case("dpo", small, dict(type="dpo", beta=0.3, reference=other), "preference", prefer, torch.stack(parts).mean(), m))

    for name, hard in [("distill", 0.0), ("distill with hard targets", 0.3)]:
        m = load(T.AutoModelForCausalLM, small)
        texts = [dict(Seqs=[seq(50, n)]) for n in (9, 4, 13)]
        soft, own = [], []
        for e in texts:
            x = torch.tensor([e["Seqs"][0]["IDs"]])
            logits = m(x).logits[0, :-1]
            with torch.no_grad():
                teacher = ref(x).logits[0, :-1]
            soft.append(F.kl_div(F.log_softmax(logits / 2.5, -1), F.log_softmax(teacher / 2.5, -1), reduction="none", log_target=True).sum(-1) * 2.5**2)
            own.append(nlls(m, e["Seqs"][0]))
        config = dict(type="distill", teacher=other, temperature=2.5, **(dict(hard=hard) if hard else {}))
        out.append(case(name, small, config, "text", texts, (1 - hard) * torch.cat(soft).mean() + hard * torch.cat(own).mean(), m))

    lora = dict(rank=2, alpha=6.0, roles=["q", "down"])
    m = load(T.AutoModelForCausalLM, small)
    texts, fresh, weights = [dict(Seqs=[seq(50, n)]) for n in (9, 4, 13)], {}, {}
    for i in range(m.config.num_hidden_layers):
        for key, name in [("attn_q", "self_attn.q_proj"), ("ffn_down", "mlp.down_proj")]:
            key, name = f"blk.{i}.{key}.weight", f"model.layers.{i}.{name}.weight"
            w = m.get_parameter(name).detach()
            a = torch.tensor(0.1 * G.signs(2 * w.shape[1], 1).reshape(2, -1), requires_grad=True)
            b = torch.tensor(0.1 * G.signs(2 * w.shape[0], 2).reshape(-1, 2), requires_grad=True)
            fresh[key + ".lora_a"], fresh[key + ".lora_b"], weights[name] = a, b, w + 3.0 * b @ a
    merged = lambda x: torch.func.functional_call(m, weights, (x,))
    loss = torch.cat([nlls(merged, e["Seqs"][0]) for e in texts]).mean()
    m.requires_grad_(False)
    out.append(case("lora", small, dict(type="lm"), "text", texts, loss, m, fresh, lora=lora))

    teacher = "testmodels/testdata/mpnet"
    for name, cosine in [("distill vectors", False), ("distill directions", True)]:
        m, t = sentence(bert), sentence(teacher)
        texts = [dict(Seqs=[seq(360, n)]) for n in (9, 4, 13)]
        parts = []
        for e in texts:
            f = features(e["Seqs"])
            y = m(dict(f))["sentence_embedding"][0]
            with torch.no_grad():
                g = t(dict(f))["sentence_embedding"][0]
            parts.append(1 - F.cosine_similarity(y, g, dim=0) if cosine else ((y - g) ** 2).mean())
        config = dict(type="distill_embedding", teacher=teacher, **(dict(cosine=True) if cosine else {}))
        out.append(case(name, bert, config, "text", texts, torch.stack(parts).mean(), m[0].auto_model))

    with open(os.path.join(G.ROOT, "train", "testdata", "objectives.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
