"""goldens_models.py [OUT]   (default internal/testmodels/testdata)

Makes the small models that the tests run on, and what they answer according to
transformers (f32, eager attention). Needs torch, transformers, tokenizers, gguf.

Each OUT/<name>/ is an ordinary Hugging Face directory plus reference.json:

  lm       cases of text, ids, nll (nll[i] = -log p(ids[i+1] | ids[..i])), greedy, margins
           (logit of the chosen id minus the runner-up, so that a near tie can be told)
  encoder  cases of text, ids (what the model saw), full_ids where the text was cut,
           embedding (the model's own pooling, unit length), pooled.{mean,cls,last} (unit
           length) and norms of the same before they were made unit length
  both     hidden: for one case the last token's vector after the embedding and after
           every block; the last entry has the final norm applied where there is one

OUT/gguf/ has the same weights as GGUF files (goldens_gguf.py) with <file>.json beside
each, computed on the weights that the file really holds after rounding.

Weights are drawn wide: at the customary 0.02 every model answers almost uniformly and
hides errors. Sizes are odd where an engine might assume round ones, and epsilons,
thetas and scales are unusual, so that a constant in place of the configuration shows.
"""
import collections, itertools, json, os, shutil, sys

import torch, transformers as T
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import goldens_gguf

HERE = os.path.dirname(os.path.abspath(__file__))
TESTDATA = os.path.join(HERE, "..", "internal", "testmodels", "testdata")

TEXTS = [
    "Love is not love which alters when it alteration finds.",
    "The kettle sang, the cat slept, and nobody in the small kitchen spoke until the rain had stopped.",
    "if x[i] != y[j] {\n\treturn -1 // no match\n}\n",
    "Ünïcödé façade: 東京, Ελλάδα, здравствуй, 👩‍🚀🙂, ½ × 10⁻⁹",
    "z",
    "  two  spaces,   three;\ttab\r\nand CRLF don't vanish  ",
    "Counting slowly: one, two, three, four, five, six, seven, eight, nine, ten, and then all over again. " * 4,
]
HIDDEN_CASE = 0
MAX_POSITIONS = 96  # the last text is longer than this for the encoders
GREEDY = 12


def corpus(out):
    with open(os.path.join(out, "shakespeare.txt"), encoding="utf-8") as f:
        return f.read().splitlines() + TEXTS


def byte_bpe(lines, size=330):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<|endoftext|>", eos_token="<|endoftext|>", pad_token="<|im_end|>", model_max_length=MAX_POSITIONS)


def wordpiece(lines, size=360):
    """The commonest words and word ends over all single characters; the library's trainer gives another vocabulary at each run."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    count = collections.Counter()
    for line in lines:
        for word, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(line)):
            count[word] += 3
            for n in (2, 3):
                if len(word) > n + 1:
                    count["##" + word[-n:]] += 1
                    count[word[:n]] += 1
    letters = sorted({c for piece in count for c in piece.removeprefix("##")} - {"京"})  # one character without a token
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters]
    common = (p for p, _ in sorted(count.items(), key=lambda pc: (-pc[1], pc[0])) if p not in set(pieces) and "京" not in p)
    pieces += itertools.islice(common, size - len(pieces))
    t.model = models.WordPiece(vocab={p: i for i, p in enumerate(pieces)}, unk_token="[UNK]")
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return T.BertTokenizerFast(tokenizer_object=t, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", model_max_length=MAX_POSITIONS)


def sentencepiece_bpe(lines, size=430):
    """Gemma's kind: BPE over text whose spaces are ▁, bytes for what has no token, <bos> and <eos> around."""
    seed = Tokenizer(models.BPE())
    seed.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=True)
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
    ascii_only = [c for c in map(chr, range(33, 127))] + ["▁"]
    plain = ["".join(c for c in line if c < "\x7f") for line in lines]
    seed.train_from_iterator(plain, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=ascii_only, limit_alphabet=len(ascii_only), show_progress=False))
    learned = json.loads(seed.to_str())["model"]
    t = Tokenizer(models.BPE(vocab=learned["vocab"], merges=[tuple(m) for m in learned["merges"]], byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special[:4]])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", pair="<bos> $A <eos> <bos> $B:1 <eos>:1", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>", model_max_length=MAX_POSITIONS)


def llama(vocab, **kw):
    return T.LlamaConfig(vocab_size=vocab, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=0, pad_token_id=2, **kw)


# Rows of 32, 64 and 96: every block format of 32 values fits. head_dim is not hidden/heads.
# llama-odd: nothing is a multiple of 32, and the head is the embedding.
DECODERS = {
    "llama": (lambda v: llama(v, hidden_size=32, head_dim=16, intermediate_size=96, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False), 11),
    "llama-odd": (lambda v: llama(v, hidden_size=48, head_dim=24, intermediate_size=88, rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 700.0}, tie_word_embeddings=True), 12),
    "gpt2": (lambda v: T.GPT2Config(vocab_size=v, n_embd=40, n_layer=2, n_head=5, n_positions=240, n_ctx=240, layer_norm_epsilon=1e-4, bos_token_id=0, eos_token_id=0), 13),
}
ENCODERS = {
    "bert": (lambda v: T.BertConfig(vocab_size=v, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=96, max_position_embeddings=MAX_POSITIONS, layer_norm_eps=1e-12), T.BertModel, wordpiece, "mean", 21),
    "bert-odd": (lambda v: T.BertConfig(vocab_size=v, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=88, max_position_embeddings=MAX_POSITIONS, layer_norm_eps=1e-3), T.BertModel, wordpiece, "cls", 22),
    # Window 8 against texts of 3 to 96 tokens, six local layers and one global.
    "embeddinggemma": (lambda v: T.Gemma3TextConfig(vocab_size=v, hidden_size=32, num_hidden_layers=7, num_attention_heads=2, num_key_value_heads=1, head_dim=24, intermediate_size=56, rms_norm_eps=1e-4, sliding_window=8, query_pre_attn_scalar=20, max_position_embeddings=MAX_POSITIONS, use_bidirectional_attention=True, rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 100000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}, bos_token_id=2, eos_token_id=1, pad_token_id=0), T.Gemma3TextModel, sentencepiece_bpe, "mean", 23),
}


def widen(model, seed):
    g = torch.Generator().manual_seed(seed)
    for n, p in sorted(model.named_parameters(), key=lambda np: np[0]):
        if p.dim() == 1:
            # Norm weights stay near what their initialiser says (1, or 0 for Gemma), biases near 0.
            p.data = p.data.float().mean().round() + 0.15 * torch.randn(p.shape, generator=g)
        else:
            table = any(s in n for s in ("embed", "wte", "wpe"))
            fan_in = p.shape[0] if "c_" in n.split(".")[-2] else p.shape[-1]  # GPT-2 keeps its matrices transposed
            p.data = (0.3 if table else 1.2 / fan_in ** 0.5) * torch.randn(p.shape, generator=g)
    return model.float().eval()


def floats(t):
    return [float(f"{x:.7g}") for x in t.flatten().tolist()]


@torch.no_grad()
def lm_reference(model, tok, texts=TEXTS):
    cases, states = [], None
    for i, text in enumerate(texts):
        ids = tok(text, add_special_tokens=False)["input_ids"]
        o = model(torch.tensor([ids]), output_hidden_states=True)
        if i == HIDDEN_CASE:
            states = [floats(h[0, -1]) for h in o.hidden_states]
        lp = o.logits[0].float().log_softmax(-1)
        nll = floats(-lp[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]) if len(ids) > 1 else []
        cur, margins = list(ids), []
        for _ in range(GREEDY):
            z = model(torch.tensor([cur])).logits[0, -1].float()
            top = z.topk(2).values
            margins.append(float(f"{(top[0] - top[1]).item():.4g}"))
            cur.append(int(z.argmax()))
        cases.append(dict(text=text, ids=ids, nll=nll, greedy=cur[len(ids):], margins=margins))
    return dict(kind="lm", cases=cases, hidden=dict(case=HIDDEN_CASE, last_token=states))


@torch.no_grad()
def encoder_reference(model, tok, pooling, texts=TEXTS):
    cases, states = [], None
    for i, text in enumerate(texts):
        full = tok(text, truncation=False, verbose=False)["input_ids"]
        ids = tok(text, truncation=True, max_length=MAX_POSITIONS)["input_ids"]
        o = model(torch.tensor([ids]), output_hidden_states=True)
        if i == HIDDEN_CASE:
            states = [floats(h[0, -1]) for h in o.hidden_states]
        h = o.last_hidden_state[0].float()
        pooled = dict(mean=h.mean(0), cls=h[0], last=h[-1])
        c = dict(text=text, ids=ids, embedding=floats(pooled[pooling] / pooled[pooling].norm()),
                 pooled={k: floats(v / v.norm()) for k, v in pooled.items()},
                 norms={k: float(f"{v.norm().item():.7g}") for k, v in pooled.items()})
        if full != ids:
            c["full_ids"] = full
        cases.append(c)
    return dict(kind="embed", pooling=pooling, max_tokens=MAX_POSITIONS, cases=cases, hidden=dict(case=HIDDEN_CASE, last_token=states))


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def save(model, tok, d):
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    model.save_pretrained(d)
    tok.save_pretrained(d)
    os.chmod(os.path.join(d, "model.safetensors"), 0o644)
    if os.path.exists(extra := os.path.join(d, "generation_config.json")):
        os.remove(extra)


def as_on_the_hub(d):
    """Rewrites config.json the way files from before transformers 5 have it."""
    path = os.path.join(d, "config.json")
    with open(path, encoding="utf-8") as f:
        c = json.load(f)
    rope = c.pop("rope_parameters")
    c.update(rope_theta=rope["rope_theta"], rope_scaling=None, torch_dtype=c.pop("dtype"))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")
    again = T.AutoConfig.from_pretrained(d)
    assert again.rope_parameters["rope_theta"] == rope["rope_theta"]


def save_pooling(d, width, pooling):
    kind = "sentence_transformers.models."
    write_json(os.path.join(d, "modules.json"), [
        {"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": kind + "Normalize"}])
    write_json(os.path.join(d, "sentence_bert_config.json"), {"max_seq_length": MAX_POSITIONS, "do_lower_case": False})
    os.makedirs(os.path.join(d, "1_Pooling"))
    write_json(os.path.join(d, "1_Pooling", "config.json"), {
        "word_embedding_dimension": width, "pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False, "pooling_mode_lasttoken": pooling == "last"})


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else TESTDATA
    torch.set_num_threads(1)
    lines = corpus(out)
    bpe = byte_bpe(lines)
    loaded = {}
    for name, (config, seed) in DECODERS.items():
        d = os.path.join(out, name)
        model = widen(T.AutoModelForCausalLM.from_config(config(len(bpe)), attn_implementation="eager"), seed)
        save(model, bpe, d)
        if name == "llama-odd":
            as_on_the_hub(d)
        ref = lm_reference(model, bpe)
        write_json(os.path.join(d, "reference.json"), ref)
        loaded[name] = (model, bpe, None)
        n = [x for c in ref["cases"] for x in c["nll"]]
        print(f"{name}: mean nll {sum(n) / len(n):.3f}, least greedy margin {min(m for c in ref['cases'] for m in c['margins']):.3g}")
    for name, (config, cls, tokenizer, pooling, seed) in ENCODERS.items():
        d = os.path.join(out, name)
        tok = tokenizer(lines)
        model = widen(cls._from_config(config(len(tok)), attn_implementation="eager"), seed)
        save(model, tok, d)
        save_pooling(d, model.config.hidden_size, pooling)
        ref = encoder_reference(model, tok, pooling)
        write_json(os.path.join(d, "reference.json"), ref)
        loaded[name] = (model, tok, pooling)
        print(f"{name}: {[len(c['ids']) for c in ref['cases']]} tokens")
    goldens_gguf.write_all(out, loaded, TEXTS[:-1], lm_reference, encoder_reference, write_json)


if __name__ == "__main__":
    main()
