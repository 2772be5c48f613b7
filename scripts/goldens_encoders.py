"""goldens_encoders.py [--llamacpp=DIR] [NAME...]   (default: all)

Encoders beyond BERT, sentence-transformers' directories, rerankers and static tables,
each small, with random weights drawn wide, and what the reference implementations
answer on them. Needs torch, transformers, tokenizers, sentence-transformers, gguf.

internal/testmodels/testdata/NAME/ has one model an architecture in the form of
goldens_models.py, so that every test of the house runs on it.

internal/model/testdata/encoders/NAME/ (or NAME.gguf and NAME.json) has the less common
options, for the model's own tests; reference.json is one of

  kind embed   cases of text, ids (what the model saw) and embedding, as it left the last
               stage, of any length
  kind rerank  cases of query, doc, ids, segments and scores (activation applied)

The .gguf files are made by convert_hf_to_gguf.py of the checkout DIR of llama.cpp, in f16
of weights that were rounded before the references answered, and without a vocabulary.
"""
import json, os, shutil, sys

LLAMACPP = [a.removeprefix("--llamacpp=") for a in sys.argv[1:] if a.startswith("--llamacpp=")]
for path in LLAMACPP:  # its own gguf, before anybody takes the released one
    sys.path[:0] = [path, os.path.join(path, "gguf-py")]

import numpy as np, torch, transformers as T
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm, Normalize, Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import goldens_decoders
import goldens_models as G

VARIANTS = os.path.join(G.HERE, "..", "internal", "model", "testdata", "encoders")
LONG = G.MAX_POSITIONS
PAIRS = [
    ("which kettle sang", "The kettle sang, the cat slept, and nobody in the small kitchen spoke until the rain had stopped."),
    ("z", "z"),
    ("Love is not love", "if x[i] != y[j] {\n\treturn -1 // no match\n}\n"),
    ("one, two, three", "Counting slowly: one, two, three, four, five, six, seven, eight, nine, ten, and then all over again. " * 4),
    ("one, two, three, four, five, six, seven, eight, nine, ten, and then all over again. " * 3, "Counting slowly: one, two, three. " * 8),
    ("", "an empty question"),
]


def roberta_bpe(lines, size=330):
    """RoBERTa's kind: byte-level BPE, <s> and </s> around a text and two </s> between two."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", model_max_length=LONG)


def modern_bpe(lines, size=330):
    """ModernBERT's kind: byte-level BPE between [CLS] and [SEP], all of one segment."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return T.PreTrainedTokenizerFast(tokenizer_object=t, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", model_max_length=LONG)


def bert(v, **kw):
    return T.BertConfig(**{**dict(vocab_size=v, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, max_position_embeddings=LONG, layer_norm_eps=1e-5), **kw})


def roberta(v, cls=T.RobertaConfig, **kw):
    return cls(**{**dict(vocab_size=v, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=72, max_position_embeddings=LONG + 2, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2), **kw})


def distilbert(v, **kw):
    return T.DistilBertConfig(**{**dict(vocab_size=v, dim=32, n_layers=3, n_heads=2, hidden_dim=72, max_position_embeddings=LONG), **kw})


def mpnet(v, **kw):
    return T.MPNetConfig(**{**dict(vocab_size=v, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=72, max_position_embeddings=LONG + 2, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2), **kw})


def nomic(v, **kw):
    return T.NomicBertConfig(**{**dict(vocab_size=v, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=72, max_position_embeddings=LONG, layer_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1000.0}), **kw})


def modernbert(v, **kw):
    """Seven layers, of which 0, 3 and 6 see everything and the others four tokens on each side."""
    return T.ModernBertConfig(**{**dict(vocab_size=v, hidden_size=32, num_hidden_layers=7, num_attention_heads=2, intermediate_size=40, max_position_embeddings=LONG, norm_eps=1e-4, local_attention=8, global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 5000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}), **kw})


# name: (configuration, class, tokenizer, pooling, seed)
HOUSE = {
    "roberta": (roberta, T.RobertaModel, roberta_bpe, "mean", 31),
    "distilbert": (distilbert, T.DistilBertModel, G.wordpiece, "cls", 32),
    "mpnet": (mpnet, T.MPNetModel, G.wordpiece, "mean", 33),
    "nomic-bert": (nomic, T.NomicBertModel, G.wordpiece, "mean", 34),
    "modernbert": (modernbert, T.ModernBertModel, modern_bpe, "cls", 35),
}


ROUND = False  # to f16, for files in it


def widened(model, seed):
    model = G.widen(model, seed)
    for p in model.parameters() if ROUND else ():  # and no buffers: a rope's frequencies stay
        p.data = p.data.half().float()
    for name, p in model.named_parameters():
        if "relative_attention_bias" in name:
            p.data *= 4  # or it drowns beside the scores
    return model


def house(name):
    config, cls, tokenizer, pooling, seed = HOUSE[name]
    d = os.path.join(G.TESTDATA, name)
    tok = tokenizer(G.corpus(G.TESTDATA))
    model = widened(cls._from_config(config(len(tok)), attn_implementation="eager"), seed)
    G.save(model, tok, d)
    width = getattr(model.config, "hidden_size", None) or model.config.dim
    G.save_pooling(d, width, pooling)
    ref = G.encoder_reference(model, tok, pooling)
    G.write_json(os.path.join(d, "reference.json"), ref)


def saved(d):
    """Removes what no reader needs and makes files readable."""
    for root, _, files in os.walk(d):
        for f in files:
            path = os.path.join(root, f)
            if f in ("README.md", "generation_config.json"):
                os.remove(path)
            else:
                os.chmod(path, 0o644)


def fresh(name):
    d = os.path.join(VARIANTS, name)
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    return d


@torch.no_grad()
def sentence_reference(d, **kw):
    """What sentence-transformers answers on a directory that was just written."""
    st = SentenceTransformer(d, device="cpu", **kw)
    cases = []
    for text in G.TEXTS:
        e = st.encode([text], prompt="", convert_to_numpy=True)[0]
        features = st[0].preprocess([text]) if hasattr(st[0], "preprocess") else st.tokenize([text])
        cases.append(dict(text=text, ids=features["input_ids"].flatten().tolist(), embedding=G.floats(torch.from_numpy(np.asarray(e, dtype=np.float32)))))
    G.write_json(os.path.join(d, "reference.json"), dict(kind="embed", cases=cases))


def sentence(name, model, tok, *stages, max_seq=None, prompts=None, default=None):
    """A directory of a transformer and the stages after it."""
    d, tmp = fresh(name), os.path.join(VARIANTS, name + ".tmp")
    G.save(model, tok, tmp)
    first = Transformer(tmp, max_seq_length=max_seq or LONG)
    st = SentenceTransformer(modules=[first, *stages], prompts=prompts, default_prompt_name=default, device="cpu")
    g = torch.Generator().manual_seed(len(name))
    for stage in stages:
        for p in stage.parameters():
            p.data = torch.randn(p.shape, generator=g) * (0.3 if p.dim() == 1 else 1.5 / p.shape[-1] ** 0.5)
            if ROUND:
                p.data = p.data.half().float()
    st.save(d)
    shutil.rmtree(tmp)
    saved(d)
    sentence_reference(d)


def encoder(name, config, cls, tokenizer, seed, pooling="mean"):
    """A variant of an architecture."""
    tok = tokenizer(G.corpus(G.TESTDATA))
    model = widened(cls._from_config(config(len(tok)), attn_implementation="eager"), seed)
    width = getattr(model.config, "hidden_size", None) or model.config.dim
    sentence(name, model, tok, Pooling(width, pooling))


@torch.no_grad()
def reranker(name, config, cls, tokenizer, seed, **kw):
    """A cross-encoder, answered by sentence-transformers."""
    d = fresh(name)
    tok = tokenizer(G.corpus(G.TESTDATA))
    model = widened(cls._from_config(config(len(tok)), attn_implementation="eager"), seed)
    G.save(model, tok, d)
    for key, value in kw.items():
        path = os.path.join(d, "config.json")
        with open(path, encoding="utf-8") as f:
            c = json.load(f)
        c[key] = value
        G.write_json(path, c)
    saved(d)
    ce = CrossEncoder(d, device="cpu")
    cases = []
    for query, doc in PAIRS:
        features = ce.tokenizer([[query, doc]], truncation=True, max_length=tok.model_max_length, return_tensors="pt", return_token_type_ids=True)
        scores = ce.predict([(query, doc)], convert_to_numpy=True)[0]
        cases.append(dict(query=query, doc=doc, ids=features["input_ids"][0].tolist(), segments=features["token_type_ids"][0].tolist(), scores=np.atleast_1d(scores).astype(float).round(7).tolist()))
    G.write_json(os.path.join(d, "reference.json"), dict(kind="rerank", cases=cases))


def qwen_bpe(lines, size=340):
    """Qwen's kind: byte-level BPE, the end of text behind every text."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    t.train_from_iterator(lines + ["yes", "no"] * 3000, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>", pair="$A $B:1 <|endoftext|>:1", special_tokens=[("<|endoftext|>", 0)])
    return T.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=640)


def qwen3(v, **kw):
    return T.Qwen3Config(**{**dict(vocab_size=v, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=10, intermediate_size=40, max_position_embeddings=640, rms_norm_eps=1e-4, rope_parameters={"rope_type": "default", "rope_theta": 5000.0}, bos_token_id=0, eos_token_id=2, pad_token_id=0), **kw})


def qwen3_embedding(name="qwen3-embedding"):
    tok = qwen_bpe(G.corpus(G.TESTDATA))
    model = widened(T.Qwen3Model._from_config(qwen3(len(tok), tie_word_embeddings=True), attn_implementation="eager"), 45)
    sentence(name, model, tok, Pooling(24, "lasttoken"), Normalize(), max_seq=600, prompts={"query": "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"})


@torch.no_grad()
def qwen3_reranker(name, tied):
    """As the model's card has it: the chance of yes against no behind the card's words."""
    d = fresh(name)
    tok = qwen_bpe(G.corpus(G.TESTDATA))
    model = widened(T.Qwen3ForCausalLM._from_config(qwen3(len(tok), tie_word_embeddings=tied), attn_implementation="eager"), 46)
    G.save(model, tok, d)
    saved(d)
    ids = lambda text: tok(text, add_special_tokens=False)["input_ids"]
    before = ids('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
    after = ids("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
    yes, no = tok.convert_tokens_to_ids("yes"), tok.convert_tokens_to_ids("no")
    assert yes is not None and no is not None
    cases = []
    for query, doc in PAIRS:
        pair = ids(f"<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {doc}")
        all = before + pair[:640 - len(before) - len(after)] + after
        z = model(torch.tensor([all])).logits[0, -1]
        score = torch.stack([z[no], z[yes]]).softmax(0)[1]
        cases.append(dict(query=query, doc=doc, ids=all, segments=[0] * len(all), scores=[round(float(score), 7)]))
    G.write_json(os.path.join(d, "reference.json"), dict(kind="rerank", cases=cases))


def small_bert(seed, **kw):
    tok = G.wordpiece(G.corpus(G.TESTDATA))
    return widened(T.BertModel._from_config(bert(len(tok), **kw), attn_implementation="eager"), seed), tok


def all_poolings():
    model, tok = small_bert(41)
    sentence("sentence-poolings", model, tok, Pooling(24, ("weightedmean", "cls", "mean_sqrt_len_tokens", "max", "lasttoken", "mean")))


def dense_head():
    model, tok = small_bert(42, hidden_act="relu", type_vocab_size=1)
    sentence("sentence-dense", model, tok, Pooling(24, ("cls", "mean")), Dense(48, 20), LayerNorm(20), Normalize(), Dense(20, 30, bias=False, activation_function=torch.nn.Identity()), max_seq=40,
             prompts={"query": "query: ", "passage": "passage: "}, default="passage")


def lower_case():
    """A tokenizer that knows capitals, told to ignore them."""
    tok = roberta_bpe(G.corpus(G.TESTDATA))
    model = widened(T.RobertaModel._from_config(roberta(len(tok), num_hidden_layers=1, hidden_size=16), attn_implementation="eager"), 44)
    sentence("sentence-lower", model, tok, Pooling(16, "lasttoken"))
    d = os.path.join(VARIANTS, "sentence-lower")
    G.write_json(os.path.join(d, "sentence_bert_config.json"), {"max_seq_length": 50, "do_lower_case": True})
    sentence_reference(d)


def residual_head():
    model, tok = small_bert(43, hidden_act="gelu_new")
    sentence("sentence-residual", model, tok, Pooling(24, "max"), Dense(24, 24, use_residual=True, activation_function=torch.nn.GELU()), Dense(24, 18, use_residual=True, activation_function=torch.nn.Sigmoid()), Normalize())


def rewritten(name, change):
    """config.json of a variant with other fields, None removing one."""
    path = os.path.join(VARIANTS, name, "config.json")
    with open(path, encoding="utf-8") as f:
        c = json.load(f)
    for key, value in change(c).items():
        c.pop(key, None)
        if value is not None:
            c[key] = value
    G.write_json(path, c)


def nomic_own_code():
    """The fields of the hub's files, of which one has the model's own code."""
    name = "nomic-own-code"
    encoder(name, lambda v: nomic(v, hidden_size=24, num_attention_heads=2, num_hidden_layers=2, intermediate_size=30, hidden_act="gelu", type_vocab_size=1, rope_parameters={"rope_type": "default", "rope_theta": 77.0}), T.NomicBertModel, G.wordpiece, 53)
    gone = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "hidden_act", "max_position_embeddings", "layer_norm_eps", "rope_parameters", "head_dim")
    rewritten(name, lambda c: {**{k: None for k in gone}, "n_embd": 24, "n_head": 2, "n_layer": 2, "n_inner": 30, "n_positions": LONG, "layer_norm_epsilon": 1e-5, "activation_function": "geglu",
                               "rotary_emb_base": 77, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False, "causal": False})


def modern_biased():
    """Every bias, another activation, and config.json as it was before layer_types."""
    name = "modernbert-biased"
    encoder(name, lambda v: modernbert(v, hidden_size=30, num_attention_heads=3, num_hidden_layers=3, norm_bias=True, attention_bias=True, mlp_bias=True, hidden_activation="silu", global_attn_every_n_layers=2, local_attention=11), T.ModernBertModel, modern_bpe, 54)
    rewritten(name, lambda c: {"layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 2, "global_rope_theta": 5000.0, "local_rope_theta": 100.0})


def static(name, *stages, model2vec=None):
    """A table alone: as sentence-transformers writes it, or as model2vec does."""
    d = fresh(name)
    tok = Tokenizer.from_str(G.wordpiece(G.corpus(G.TESTDATA)).backend_tokenizer.to_str())
    g = torch.Generator().manual_seed(7)
    table = torch.randn((tok.get_vocab_size(), 20), generator=g)
    if model2vec is None:
        SentenceTransformer(modules=[StaticEmbedding(tok, embedding_weights=table), *stages], device="cpu").save(d)
    else:
        from safetensors.torch import save_file
        tensors = {"embeddings": table.half()}
        if model2vec.pop("weighted", False):
            tensors["weights"] = torch.rand((tok.get_vocab_size(),), generator=g) + 0.1
        save_file(tensors, os.path.join(d, "model.safetensors"))
        tok.save(os.path.join(d, "tokenizer.json"))
        G.write_json(os.path.join(d, "config.json"), {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": 20, "seq_length": 1000000, **model2vec})
        kind = "sentence_transformers.models."
        G.write_json(os.path.join(d, "modules.json"), [{"idx": 0, "name": "0", "path": ".", "type": kind + "StaticEmbedding"}, {"idx": 1, "name": "1", "path": "1_Normalize", "type": kind + "Normalize"}])
    saved(d)
    sentence_reference(d)


VARIANT = {
    "sentence-lower": lower_case,
    "qwen3-embedding": qwen3_embedding,
    "qwen3-reranker": lambda: qwen3_reranker("qwen3-reranker", True),
    "qwen3-reranker-untied": lambda: qwen3_reranker("qwen3-reranker-untied", False),
    "rerank-qwen3-score": lambda: reranker("rerank-qwen3-score", lambda v: qwen3(v, num_labels=1), T.Qwen3ForSequenceClassification, qwen_bpe, 67),
    "static": lambda: static("static"),
    "static-dense": lambda: static("static-dense", Dense(20, 12)),
    "static-model2vec": lambda: static("static-model2vec", model2vec={"normalize": True, "weighted": True}),
    "nomic-own-code": nomic_own_code,
    "gte": lambda: encoder("gte", lambda v: T.GteConfig(vocab_size=v, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=30, max_position_embeddings=LONG, layer_norm_eps=1e-5, pad_token_id=0, rope_parameters={"rope_type": "default", "rope_theta": 700.0}), T.GteModel, G.wordpiece, 55, "cls"),
    "modernbert-biased": modern_biased,
    "rerank-modernbert": lambda: reranker("rerank-modernbert", lambda v: modernbert(v, num_hidden_layers=3, num_labels=1, classifier_pooling="mean", classifier_bias=True, classifier_activation="silu"), T.ModernBertForSequenceClassification, modern_bpe, 65),
    "rerank-mpnet": lambda: reranker("rerank-mpnet", lambda v: mpnet(v, num_hidden_layers=2, num_labels=1), T.MPNetForSequenceClassification, G.wordpiece, 66),
    "sentence-poolings": all_poolings,
    "sentence-dense": dense_head,
    "sentence-residual": residual_head,
    "xlm-roberta": lambda: encoder("xlm-roberta", lambda v: roberta(v, T.XLMRobertaConfig, hidden_size=27, num_attention_heads=3, intermediate_size=31, num_hidden_layers=2, pad_token_id=5, max_position_embeddings=LONG + 6, type_vocab_size=2), T.XLMRobertaModel, roberta_bpe, 51),
    "distilbert-relu": lambda: encoder("distilbert-relu", lambda v: distilbert(v, dim=27, n_heads=3, hidden_dim=31, n_layers=2, activation="relu", sinusoidal_pos_embds=True), T.DistilBertModel, G.wordpiece, 52),
    "rerank-bert": lambda: reranker("rerank-bert", lambda v: bert(v, num_labels=1), T.BertForSequenceClassification, G.wordpiece, 61),
    "rerank-bert-labels": lambda: reranker("rerank-bert-labels", lambda v: bert(v, num_labels=3), T.BertForSequenceClassification, G.wordpiece, 62),
    "rerank-roberta": lambda: reranker("rerank-roberta", lambda v: roberta(v, T.XLMRobertaConfig, num_labels=1), T.XLMRobertaForSequenceClassification, roberta_bpe, 63, sbert_ce_default_activation_function="torch.nn.modules.linear.Identity"),
    "rerank-distilbert": lambda: reranker("rerank-distilbert", lambda v: distilbert(v, num_labels=1, n_layers=2), T.DistilBertForSequenceClassification, G.wordpiece, 64, sentence_transformers={"activation_fn": "torch.nn.modules.activation.Tanh", "version": "4.0.0"}),
}


def nomic_positions(name):
    """The lengths by which llama.cpp's converter knows the model."""
    rewritten(name, lambda c: {"n_embd": 32, "n_head": 2, "n_layer": 2, "n_inner": 40, "n_positions": 8192, "max_trained_positions": 2048, "layer_norm_epsilon": 1e-5, "activation_function": "swiglu",
                               "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False, "causal": False})
    path = os.path.join(VARIANTS, name, "config.json")
    with open(path, encoding="utf-8") as f:
        c = json.load(f)
    G.write_json(path, {**c, "rotary_emb_scale_base": None})


def gemma_dense(name):
    tok = G.sentencepiece_bpe(G.corpus(G.TESTDATA))
    config = T.Gemma3TextConfig(vocab_size=len(tok), hidden_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=40, sliding_window=8, query_pre_attn_scalar=16, max_position_embeddings=LONG, use_bidirectional_attention=True, rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 100000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}, bos_token_id=2, eos_token_id=1, pad_token_id=0)
    model = widened(T.Gemma3TextModel._from_config(config, attn_implementation="eager"), 71)
    plain = torch.nn.Identity()
    sentence(name, model, tok, Pooling(32, "mean"), Dense(32, 48, bias=False, activation_function=plain), Dense(48, 32, bias=False, activation_function=plain), Normalize())


FILES = {  # name: (makes its directory, converter's options)
    "file-roberta": (lambda n: encoder(n, lambda v: roberta(v, num_hidden_layers=2), T.RobertaModel, roberta_bpe, 72), {}),
    "file-distilbert": (lambda n: encoder(n, lambda v: distilbert(v, n_layers=2), T.DistilBertModel, G.wordpiece, 73, "cls"), {}),
    "file-nomic-bert": (lambda n: (encoder(n, lambda v: nomic(v, num_hidden_layers=2, intermediate_size=40), T.NomicBertModel, G.wordpiece, 74), nomic_positions(n)), {}),
    "file-modern-bert": (lambda n: encoder(n, lambda v: modernbert(v, num_hidden_layers=4), T.ModernBertModel, modern_bpe, 75), {}),
    "file-gemma-embedding": (gemma_dense, {"sentence_transformers_dense_modules": True}),
    "file-qwen3-embedding": (qwen3_embedding, {}),
    "file-qwen3-reranker": (lambda n: qwen3_reranker(n, True), {}),
    "file-rerank-roberta": (lambda n: reranker(n, lambda v: roberta(v, T.XLMRobertaConfig, num_hidden_layers=2, num_labels=1), T.XLMRobertaForSequenceClassification, roberta_bpe, 76), {}),
    "file-rerank-modern-bert": (lambda n: reranker(n, lambda v: modernbert(v, num_hidden_layers=2, num_labels=1), T.ModernBertForSequenceClassification, modern_bpe, 77), {}),
}


def file(name, llamacpp):
    global ROUND
    make, options = FILES[name]
    d = os.path.join(VARIANTS, name)
    ROUND = True
    make(name)
    ROUND = False
    goldens_decoders.convert(llamacpp, d, d + ".gguf", **options)
    os.replace(os.path.join(d, "reference.json"), d + ".json")
    shutil.rmtree(d)


def main():
    torch.set_num_threads(1)
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or [*HOUSE, *VARIANT, *(FILES if LLAMACPP else ())]
    for name in names:
        if name in FILES:
            file(name, LLAMACPP[0])
        elif name in HOUSE:
            house(name)
        else:
            VARIANT[name]()
        print(name)


if __name__ == "__main__":
    main()
