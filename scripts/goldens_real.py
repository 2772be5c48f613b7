"""goldens_real.py smollm2|minilm|minilm1000|sts MODELS [OUT] [--shared DIR]

What other implementations answer on the real models that fetch_models.sh put in MODELS.
OUT is internal/testmodels/testdata/real by default.

  smollm2  smollm2_greedy.json: 20 prompts, 50 greedy tokens each, by llama.cpp on the file and by
           transformers in f32 on the same weights unpacked (the ideal answer); after every token the five
           best (id, logit), so that a comparison can tell a near tie from an error.
           Needs llama-cpp-python (peers_llamacpp.sh), torch, transformers, gguf, accelerate.
  minilm   minilm.json: 40 texts with their ids and sentence-transformers' f32 vectors.

Too large for the repository, or made from texts that must stay out of it; give them an OUT elsewhere:
  minilm1000  minilm_1000.json (text and ids) and minilm_1000.npy (f32 vectors): the 40 texts, lines of
              the corpora and sentences of STS-B under --shared (default ../shared), and awkward ones
  sts         sts.json: Spearman's correlation of sentence-transformers on the STS-B dev split
"""
import argparse, json, os

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, TOP = 50, 5

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "Water boils at a temperature of",
    "Dear Sir or Madam,\n\nI am writing to",
    "The three primary colours are",
    "1, 1, 2, 3, 5, 8,",
    "Q: What is photosynthesis?\nA:",
    "To make a good cup of tea, first",
    "SELECT name, age FROM users WHERE",
    "In 1969, astronauts",
    "La vie est belle parce que",
    "# Shopping list\n\n- milk\n- bread\n-",
    "The quick brown fox",
    "If all cats are animals and Tom is a cat, then",
    "import numpy as np\n\nx = np.",
    "She opened the letter, read it twice, and",
    "The opposite of hot is",
    "    indented text with  double  spaces\n",
    "Temperatures tomorrow: 12°C in London, 18°C in Rome, and 25°C in",
]

TEXTS = [
    "", " ", "a", "Hello, world!", "hello world", "HELLO WORLD",
    "The cat sat on the mat.", "A feline rested upon the rug.", "The stock market fell sharply today.",
    "How do I reset my password?", "I forgot my login credentials, what now?",
    "Ein Hund läuft durch den Park.", "Un chien court dans le parc.", "犬が公園を走っている。", "Собака бежит по парку.", "الكلب يركض في الحديقة", "개가 공원을 달린다",
    "naïve café résumé Ångström", "nai\u0308ve cafe\u0301 (combining accents)", "ＦＵＬＬＷＩＤＴＨ　ｔｅｘｔ", "½ × 10⁻⁹ ≈ 5e-10 µm²",
    "🙂", "👩‍👩‍👧‍👦 family, 🇫🇷 flag, 👍🏽 thumb", "tabs\tand\nnewlines\r\nand\u00a0no-break\u2003spaces", "null\x00byte, bell\x07, escape\x1b[0m, soft\u00adhyphen, zero\u200bwidth",
    "https://example.org/path?query=1&other=%20#fragment", "user.name+tag@example.com", "C:\\Users\\name\\file.txt",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }", "SELECT * FROM t WHERE x = 'it''s';",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "x" * 99, "x" * 101, "1234567890 3.14159 1,000,000 -42 1e10",
    "don't can't won't it's they're I'd", "...!!!???---***", "[CLS] and [SEP] and [MASK] as words", "( nested [ brackets { here } ] )",
    "The committee met on the first Tuesday of the month to discuss the budget. " * 12,
    "Rivers carry the mountains to the sea, one grain at a time; wind, frost and patience do the rest. " * 40,
]


def rounded(values, digits=7):
    return [float(f"{v:.{digits}g}") for v in values]


def llamacpp_greedy(path):
    """AMX and repacked weights are switched off: in the version built here AMX answers wrongly on rows of 32 values."""
    import numpy as np, llama_cpp
    defaults = llama_cpp.llama_model_default_params
    def plain():
        p = defaults()
        p.use_extra_bufts = False
        return p
    llama_cpp.llama_cpp.llama_model_default_params = plain
    llm = llama_cpp.Llama(path, n_ctx=512, n_batch=512, n_threads=2, logits_all=False, verbose=False)
    n_vocab = llm.n_vocab()
    for prompt in PROMPTS:
        ids = llm.tokenize(prompt.encode(), add_bos=False, special=False)
        llm.reset()
        feed, out, tops = ids, [], []
        for _ in range(STEPS):
            llm.eval(feed)
            z = np.array(np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llm.ctx, -1), shape=(n_vocab,)), dtype=np.float64)
            best = np.argsort(-z)[:TOP]
            out.append(int(best[0]))
            tops.append([[int(i), rounded([z[i]])[0]] for i in best])
            feed = [out[-1]]
        yield prompt, [int(i) for i in ids], dict(ids=out, top=tops)


def transformers_greedy(path, prompts_ids):
    """All prompts in one batch, padded on the left: masked positions have weight zero, so the answers are those of single runs."""
    import torch, transformers
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32, attn_implementation="eager").eval()
    width = max(map(len, prompts_ids))
    feed = torch.tensor([[0] * (width - len(ids)) + ids for ids in prompts_ids])
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts_ids])
    out = [dict(ids=[], top=[]) for _ in prompts_ids]
    cache = None
    with torch.no_grad():
        for _ in range(STEPS):
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -feed.shape[1]:]
            o = model(feed, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
            cache = o.past_key_values
            best = o.logits[:, -1].topk(TOP)
            for row, indices, values in zip(out, best.indices.tolist(), best.values.tolist()):
                row["ids"].append(indices[0])
                row["top"].append([[i, z] for i, z in zip(indices, rounded(values))])
            feed = best.indices[:, :1]
            mask = torch.cat([mask, torch.ones_like(feed)], 1)
    return out


def smollm2(models, out, shared):
    path = os.path.join(models, "SmolLM2-135M-Instruct.Q4_1.gguf")
    rows = list(llamacpp_greedy(path))
    cases = []
    same = 0
    for (prompt, ids, peer), ideal in zip(rows, transformers_greedy(path, [r[1] for r in rows])):
        at = next((i for i, (a, b) in enumerate(zip(peer["ids"], ideal["ids"])) if a != b), None)
        same += at is None
        if at is not None:
            top = ideal["top"][at]
            print(f"{prompt[:30]!r}: llama.cpp leaves the f32 answer at token {at}, where it leads by {top[0][1] - top[1][1]:.3g}")
        cases.append(dict(prompt=prompt, ids=ids, llamacpp=peer, f32=ideal))
    write(os.path.join(out, "smollm2_greedy.json"), dict(model=os.path.basename(path), steps=STEPS, cases=cases))
    print(f"{same} of {len(cases)} continuations are the same in llama.cpp and in f32")


def encoder(models):
    import sentence_transformers
    m = sentence_transformers.SentenceTransformer(os.path.join(models, "all-MiniLM-L6-v2"), device="cpu")
    full = m.tokenizer.backend_tokenizer
    def ids(text):  # every id, special ones included, whatever the model's limit
        saved = full.truncation, full.padding
        full.no_truncation(), full.no_padding()
        got = full.encode(text).ids
        if saved[0]: full.enable_truncation(**saved[0])
        if saved[1]: full.enable_padding(**saved[1])
        return got
    return m, ids


def minilm(models, out, shared):
    m, ids = encoder(models)
    vectors = m.encode(TEXTS, batch_size=1, convert_to_numpy=True)
    cases = [dict(text=t, ids=ids(t), embedding=rounded(v.tolist())) for t, v in zip(TEXTS, vectors)]
    write(os.path.join(out, "minilm.json"), dict(model="all-MiniLM-L6-v2", max_tokens=m.max_seq_length, cases=cases))
    print(f"{len(cases)} texts, max_seq_length {m.max_seq_length}, {[len(c['ids']) for c in cases]} tokens")


def awkward():
    """Texts that tokenizers disagree on: single characters of many planes, repeats, lengths around the limits."""
    for first, last in ((0x00, 0x20), (0x7f, 0xc0), (0x300, 0x310), (0x2000, 0x2010), (0x2028, 0x2030), (0x4e00, 0x4e08), (0xac00, 0xac06), (0xfe00, 0xfe04), (0xff01, 0xff08), (0x1f600, 0x1f606), (0x20000, 0x20004), (0xe0020, 0xe0024)):
        for c in range(first, last):
            yield f"a{chr(c)}b {chr(c)} c"
    for n in (2, 250, 253, 254, 255, 256, 257, 300, 509, 510, 511, 512, 600, 2000):
        yield "word " * n
        yield "un" * n
    for n in (99, 100, 101, 200):
        yield "a" * n
    for text in ("İstanbul ǅ ß ſ ﬁ Ω", "e\u0301\u0301\u0301", "\ufeffbom", "a\u200db", "\ufffd", "١٢٣ ४५६", "한글 텍스트", "ไทย ภาษา", "हिन्दी", "עברית", "##ing ##", "[UNK] [PAD]", "[ CLS ]", "[cls]", "don’t “quote” — dash…", "$1,234.56 + £99 = ¥¥¥", "a.b.c.d", "_under_score_", "~`|^<>=+", "C++ C# .NET"):
        yield text


def minilm1000(models, out, shared):
    import csv, random
    import numpy as np
    texts = TEXTS + list(awkward())
    pool = []
    for name in ("tinyshakespeare.txt", "wikitext2-valid.txt", "wikitext2-test.txt"):
        with open(os.path.join(shared, "corpus", name), encoding="utf-8") as f:
            pool += [line.rstrip("\n") for line in f if line.strip()]
    with open(os.path.join(shared, "sts", "stsb-en-dev.csv"), encoding="utf-8", newline="") as f:
        pairs = [row[:2] for row in csv.reader(f)]
    draw = random.Random(1)
    texts += draw.sample(pool, 500)
    texts += [s for pair in draw.sample(pairs, 500) for s in pair][:1000 - len(texts)]
    assert len(texts) == 1000, len(texts)
    m, ids = encoder(models)
    np.save(os.path.join(out, "minilm_1000.npy"), m.encode(texts, batch_size=16, convert_to_numpy=True).astype(np.float32))
    write(os.path.join(out, "minilm_1000.json"), dict(model="all-MiniLM-L6-v2", max_tokens=m.max_seq_length, cases=[dict(text=t, ids=ids(t)) for t in texts]))
    print(f"{len(texts)} texts, max_seq_length {m.max_seq_length}")


def sts(models, out, shared):
    import csv, numpy as np, scipy.stats
    with open(os.path.join(shared, "sts", "stsb-en-dev.csv"), encoding="utf-8", newline="") as f:
        rows = [(a, b, float(score)) for a, b, score in csv.reader(f)]
    m, _ = encoder(models)
    a, b = (m.encode([r[i] for r in rows], batch_size=32, convert_to_numpy=True) for i in (0, 1))
    rho = scipy.stats.spearmanr((a * b).sum(1), [r[2] for r in rows]).statistic
    write(os.path.join(out, "sts.json"), dict(model="all-MiniLM-L6-v2", split="stsb-en-dev", pairs=len(rows), spearman=float(rho)))
    print(f"STS-B dev, {len(rows)} pairs: Spearman {rho:.6f}")


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {f.__name__: f for f in (smollm2, minilm, minilm1000, sts)}
    a.add_argument("what", choices=what)
    a.add_argument("models")
    a.add_argument("out", nargs="?", default=os.path.join(HERE, "..", "internal", "testmodels", "testdata", "real"))
    a.add_argument("--shared", default=os.path.join(HERE, "..", "..", "shared"))
    a = a.parse_args()
    os.makedirs(a.out, exist_ok=True)
    what[a.what](a.models, a.out, a.shared)


if __name__ == "__main__":
    main()
