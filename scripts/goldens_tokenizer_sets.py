"""Hold internal/tokenizer to the Hugging Face tokenizers library on 10,000 awkward texts a family.

goldens_tokenizer_sets.py [--shared FOLDER] [--seed N] [--count N] [--out FOLDER]

Families are small tokenizers with the pipelines of well-known models, trained here, and the vocabularies in
../shared as the library would read them. Writes, under internal/tokenizer/testdata/sets or FOLDER:
  texts.gz           the texts, each after its length in four bytes
  spm.json, unigram.json   SentencePiece models as tokenizer.json; the others change the tokenizers that
                     goldens_tokenizer.py has trained
  charsmap.txt       SentencePiece's table of normalizations, which files name "@charsmap"
  families.json      what is changed, a family each
  NAME.crc           16 bits a text: of its ids with special tokens, its ids without, and what they decode to
Another seed gives other texts, for `make tokenizers`, which looks at more than is committed.
"""
import argparse, base64, binascii, gzip, io, json, os, random, struct, tempfile
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, processors
from transformers.convert_slow_tokenizer import generate_merges
import goldens_tokenizer as G

HERE = G.HERE
iso = lambda pattern: G.split(Regex(pattern), "isolated")
byte = G.part(P.ByteLevel(add_prefix_space=False, use_regex=False))
gpt2 = G.part(P.ByteLevel(add_prefix_space=False))
digits = G.part(P.Digits(individual_digits=True))
seq = lambda *ps: dict(type="Sequence", pretokenizers=list(ps))
norm = lambda *ns: dict(type="Sequence", normalizers=list(ns))
deco = lambda *ds: dict(type="Sequence", decoders=list(ds))
nfc = G.part(N.NFC())

CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT4O = CASED % (SHORT + "?", SHORT + "?", r"\p{N}{1,3}")
TEKKEN = CASED % ("", "", r"\p{N}")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
KANA = "[一-龥\u3040-ゟ゠-ヿ]+"
HAN = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+"
ALPHABET = r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
MARKS = SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SEED = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
EXAONE = SHORT + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
MINICPM = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPACES = G.added(*[(" " * n, False, False, False, False, True) for n in range(2, 12)] + [("\n\n", False, False, False, False, False)])


def template(single, ids):
    part = lambda t: {"Sequence": {"id": "A", "type_id": 0}} if t == "$A" else {"SpecialToken": {"id": t, "type_id": 0}}
    parts = [part(t) for t in single.split()]
    return dict(type="TemplateProcessing", single=parts, pair=parts + [{"Sequence": {"id": "B", "type_id": 1}}],
                special_tokens={t: dict(id=t, ids=[i], tokens=[t]) for t, i in ids.items()})


def families():
    """(name, base, tokenizer.ggml.pre or "", changes)"""
    bpe = lambda name, pre, steps, **change: (name, "bpe", pre, dict(pre_tokenizer=seq(*steps), **change))
    bos = template("<|im_start|> $A", {"<|im_start|>": 1})
    yield bpe("gpt-2", "gpt-2", [gpt2])
    yield bpe("llama-3", "llama-bpe", [iso(G.LLAMA3), byte], model=dict(ignore_merges=True), post_processor=bos)
    yield bpe("qwen2", "qwen2", [iso(G.QWEN2), byte], normalizer=nfc)
    yield bpe("qwen35", "qwen35", [iso(MARKS), byte], normalizer=nfc)
    yield bpe("starcoder", "starcoder", [digits, gpt2])
    yield bpe("gpt-neox", "mpt", [gpt2], normalizer=nfc, added=SPACES)
    yield bpe("command-r", "command-r", [digits, gpt2], normalizer=nfc)
    yield bpe("falcon", "falcon", [G.part(P.Punctuation("contiguous")), gpt2, G.part(P.Digits()), iso("[0-9][0-9][0-9]")])
    yield bpe("deepseek-llm", "deepseek-llm", [iso(r"[\r\n]"), iso(ALPHABET), iso(r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+"), iso(r"\s+$"), iso(HAN), digits, byte])
    yield bpe("deepseek-coder", "deepseek-coder", [iso(r"[\r\n]"), iso(r"\s?\p{L}+"), iso(r"\s?\p{P}+"), iso(HAN), digits, byte])
    yield bpe("deepseek-v3", "deepseek-v3", [iso(r"\p{N}{1,3}"), iso(KANA), iso(G.DEEPSEEK), byte])
    yield bpe("gpt-4o", "gpt-4o", [iso(GPT4O), byte])
    yield bpe("tekken", "tekken", [iso(TEKKEN), byte], model=dict(ignore_merges=True), post_processor=bos)
    yield bpe("bloom", "bloom", [iso(BLOOM), byte])
    yield bpe("viking", "viking", [iso(BLOOM), digits, byte])
    yield bpe("superbpe", "superbpe", [iso(r"\p{N}+"), iso(r"(?=(\d{3})+(?!\d))"), byte])
    yield bpe("glm4", "glm4", [iso(G.LLAMA3), byte])
    yield bpe("gpt-4", "", [iso(CL100K % "{1,3}"), byte])
    yield bpe("bailingmoe", "bailingmoe", [iso(CL100K % ""), byte])
    yield bpe("seed-coder", "seed-coder", [iso(SEED), byte])
    yield bpe("exaone-moe", "exaone-moe", [iso(EXAONE), byte])
    yield bpe("minicpm5", "minicpm5", [iso(r"\p{N}{1,3}"), iso(MINICPM), byte], model=dict(ignore_merges=True))
    yield bpe("tiny_aya", "tiny_aya", [iso(r"\d{1,3}(?=(?:\d{3})*\b)"), iso(GPT4O), byte])
    yield bpe("chameleon", "chameleon", [iso(r"<sentinel:[0-9]+>"), iso(r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), iso(r"([\t\n]|    |  )"), digits, G.part(P.Punctuation("isolated")), gpt2], post_processor=bos)
    yield bpe("roberta", "", [G.part(P.ByteLevel(add_prefix_space=True))], added=G.MANY, post_processor=dict(type="RobertaProcessing", sep=["<|im_end|>", 2], cls=["<|im_start|>", 1], trim_offsets=True, add_prefix_space=True))
    yield "bert-uncased", "wordpiece", "", {}
    yield "bert-cased", "wordpiece", "", dict(normalizer=G.part(N.BertNormalizer(lowercase=False)), added=G.MANY)
    yield "bert-chinese", "wordpiece", "", dict(normalizer=G.part(N.BertNormalizer(strip_accents=False, lowercase=False)), model=dict(max_input_chars_per_word=20))
    yield "wordlevel", "wordpiece", "", dict(model=dict(type="WordLevel", unk_token="[UNK]"), pre_tokenizer=G.part(P.Whitespace()), normalizer=norm(G.part(N.NFKC()), G.part(N.Lowercase())))
    yield "openai-gpt", "chars", "", dict(normalizer=G.part(N.BertNormalizer(lowercase=True)), decoder=dict(type="BPEDecoder", suffix="</w>"), model=dict(fuse_unk=True))
    # SentencePiece-BPE
    under, prefix = dict(type="Replace", pattern={"String": " "}, content="▁"), dict(type="Prepend", prepend="▁")
    spaces, fallback, fuse, strip = dict(type="Replace", pattern={"String": "▁"}, content=" "), dict(type="ByteFallback"), dict(type="Fuse"), dict(type="Strip", content=" ", start=1, stop=0)
    llama = template("<s> $A", {"<s>": 1})
    yield "llama-2", "spm", "", dict(normalizer=norm(prefix, under), decoder=deco(spaces, fallback, fuse, strip), post_processor=llama)
    yield "llama-2 metaspace", "spm", "", dict(pre_tokenizer=dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=False), decoder=deco(spaces, fallback, fuse, strip), post_processor=llama)
    yield "gemma", "spm", "", dict(normalizer=under, pre_tokenizer=G.split(" ", "merged_with_previous"), decoder=deco(spaces, fallback, fuse), post_processor=llama, added=SPACES)
    yield "phi-3", "spm", "", dict(normalizer=norm(prefix, under), decoder=deco(spaces, fallback, fuse, strip), added=G.added(("<|im_end|>", True, False, False, True, False), ("<|im_start|>", True, False, False, True, False), ("word", False, False, True, True, True)))
    yield "llama-2 unknown", "spm", "", dict(normalizer=norm(prefix, under), model=dict(byte_fallback=False), decoder=dict(type="Metaspace", replacement="▁", prepend_scheme="always", split=True))
    # Unigram
    table, right, runs = dict(type="Precompiled", precompiled_charsmap="@charsmap"), dict(type="Strip", strip_left=False, strip_right=True), dict(type="Replace", pattern={"Regex": " {2,}"}, content="▁")
    meta = lambda scheme: dict(type="Metaspace", replacement="▁", prepend_scheme=scheme, split=True)
    yield "t5", "unigram", "", dict(normalizer=norm(table, right, runs), pre_tokenizer=meta("always"), decoder=meta("always"), post_processor=template("$A </s>", {"</s>": 2}))
    yield "xlm-r", "unigram", "", dict(normalizer=table, pre_tokenizer=seq(dict(type="WhitespaceSplit"), meta("always")), decoder=meta("always"), post_processor=template("<s> $A </s>", {"<s>": 1, "</s>": 2}), added=G.MANY)
    yield "albert", "unigram", "", dict(normalizer=norm(dict(type="Replace", pattern={"String": "``"}, content='"'), dict(type="Replace", pattern={"String": "''"}, content='"'), G.part(N.NFKD()), G.part(N.StripAccents()), G.part(N.Lowercase()), table, dict(type="Replace", pattern={"Regex": " {2,}"}, content=" ")), pre_tokenizer=meta("always"), decoder=meta("always"))
    yield "unigram bytes", "unigram", "", dict(normalizer=norm(dict(type="Nmt"), G.part(N.NFKC())), pre_tokenizer=seq(dict(type="UnicodeScripts"), meta("first")), model=dict(byte_fallback=True), decoder=deco(fallback, meta("first")))
    yield "unigram whole", "unigram", "", dict(pre_tokenizer=None, decoder=deco(spaces, fuse), normalizer=under)
    # Parts that are seldom seen
    yield "byte-level normalizer", "bpe", "", dict(normalizer=norm(dict(type="Strip", strip_left=True, strip_right=False), dict(type="ByteLevel")), pre_tokenizer=None)
    yield "delimiters", "chars", "", dict(pre_tokenizer=seq(dict(type="CharDelimiterSplit", delimiter="e"), dict(type="FixedLength", length=3)), decoder=dict(type="CTC", pad_token="o", word_delimiter_token="t", cleanup=True))
    yield "scripts", "chars", "", dict(normalizer=norm(G.part(N.NFKD()), G.part(N.BertNormalizer())), pre_tokenizer=dict(type="UnicodeScripts"), decoder=deco(dict(type="Strip", content="e", start=1, stop=0), dict(type="Replace", pattern={"Regex": "[aeiou]+"}, content="_"), fuse, dict(type="Strip", content="_", start=2, stop=0)))
    yield "replaced", "chars", "", dict(normalizer=norm(dict(type="Replace", pattern={"Regex": r"\d+|[^\w\s]"}, content="no"), prefix, G.part(N.BertNormalizer(lowercase=True))), decoder=deco(dict(type="BPEDecoder", suffix="</w>"), fuse, dict(type="Replace", pattern={"String": "e"}, content="E")), pre_tokenizer=G.part(P.Whitespace()))


def texts(seed, count):
    """Awkward texts as bytes: those of goldens_tokenizer.py and as many others as it takes."""
    out, n = G.texts(), seed
    r = random.Random(seed)
    everything = [c for c in G.POINTS if c < 0x32000 or 0xE0000 <= c < 0xE0200 or c >= 0x10FF00]
    emoji = "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 🇯🇵 ☺️ 🧑🏿‍🦰 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️‍🔥".split(" ")
    marks = "\u0300\u0301\u0308\u0323\u0327\u0338\u093c\u0e33\u3099\u200d\ufe0f\u20e3\u0600\u0605\u1112\u1161\u11ab"
    spaces = " \t\n\r\x0b\x0c\x85\u00a0\u1680\u2000\u200b\u2028\u202f\u205f\u3000\ufeff▁"
    special = G.SPECIAL + ["<s>", "</s>", "<unk>", "<0x0A>", "<0xFF>", "<0x+F>", "<extra_id_0>", "▁▁", "<|im_start|>user\n"]
    kinds = [
        lambda: chr(r.choice(everything)), lambda: r.choice(G.WORDS), lambda: r.choice(spaces) * r.choice([1, 1, 2, 3, 7]), lambda: r.choice(emoji), lambda: r.choice(marks),
        lambda: r.choice(special), lambda: str(r.randrange(10 ** r.randrange(1, 12))), lambda: r.choice("ﬁﬃ½㋿㍿ﷺ™©®①Ⅷ²ǅßẞİıſKÅ\u212b…‥“”‘’—﹏｡､ｱ가각힣ㄱ中文日本語かなカナ"), lambda: r.choice("'’.,;:!?()[]{}<>@#$%^&*-+=_/\\|~`\""),
        lambda: r.choice("aeiouAEIOUtTsS") * r.choice([1, 2, 3, 40]), lambda: r.choice(["\r\n", "\n\n", " \n ", "\t\t", "  ", "   "]), lambda: "".join(r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(r.randrange(1, 14))),
    ]
    while len(out) < count:
        mix = r.sample(kinds, r.randrange(1, 5))
        raw = "".join(r.choice(mix)() + r.choice(["", "", " ", " "]) for _ in range(r.randrange(1, 16))).encode()
        if r.random() < 0.12:
            raw = bytearray(raw)
            for _ in range(r.randrange(1, 4)):
                raw[r.randrange(len(raw))] = r.randrange(256)
            raw = bytes(raw)
        if r.random() < 0.004:
            raw = raw * 60
        out.append(raw)
    return out[:count]


def spelled_bytes(token):
    """The bytes that a byte-level token stands for, or the token where it is none."""
    keep = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    table = {chr(b): b for b in keep}
    table.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in keep)})
    return bytes(table[c] for c in token) if all(c in table for c in token) else token.encode()


def crc16(t, strings, raw=None):
    """One number a text of everything that the tokenizer says about it. raw are added tokens that GGUF files
    spell as they are, where the library takes them for bytes: they show as they are."""
    out = bytearray()
    raw = raw or {}
    special_ids = {i for i, a in t.get_added_tokens_decoder().items() if a.special}

    def decode(ids, skip):
        if not any(i in raw for i in ids):
            return t.decode(ids, skip_special_tokens=skip)
        data = b""
        for i in ids:
            data += raw[i].encode() if i in raw else b"" if skip and i in special_ids else spelled_bytes(t.id_to_token(i))
        return data.decode("utf-8", "replace")

    t.encode_special_tokens = False
    special = [t.encode(s).ids for s in strings]
    t.encode_special_tokens = True
    unparsed = [t.encode(s, add_special_tokens=False).ids for s in strings]
    t.encode_special_tokens = False
    for a, b in zip(special, unparsed):
        parts = [",".join(map(str, a)), ",".join(map(str, b)), decode(a, False), decode(b, True)] if a and b else [",".join(map(str, a)), ",".join(map(str, b))]
        c = binascii.crc32("\0".join(parts).encode())
        out += struct.pack("<H", (c ^ c >> 16) & 0xFFFF)
    return bytes(out)


def sentence_pieces(corpus, kind, vocab_size=1000, **kw):
    buf = io.BytesIO()
    lines = [x for x in open(corpus, encoding="utf-8").read().split("\n") if x.strip()][:20000]
    lines += ["Größe façade naïve Ångström été ñ 北京大学 東京 서울 привет мир हिन्दी ½ ² 10,000", "for i := range 10 {\tfmt.Println(i) }", "the  cat   sat    on     it"] * 20
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=buf, vocab_size=vocab_size, model_type=kind, character_coverage=0.9999, minloglevel=2, num_threads=1, **kw)
    m = pb.ModelProto()
    m.ParseFromString(buf.getvalue())
    return m


def bases(corpus):
    """Trained models as tokenizer.json, by name."""
    out = {k: open(os.path.join(HERE, "testdata", k + ".json"), encoding="utf-8").read() for k in ("bpe", "wordpiece", "chars")}
    m = sentence_pieces(corpus, "bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True)
    vocab = {p.piece: i for i, p in enumerate(m.pieces)}
    t = Tokenizer(models.BPE(vocab, generate_merges(vocab, {p.piece: p.score for p in m.pieces}), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    out["spm"] = t.to_str()
    m = sentence_pieces(corpus, "unigram", normalization_rule_name="nmt_nfkc")
    charsmap = m.normalizer_spec.precompiled_charsmap
    extra = [("<0x%02X>" % i, 0.0) for i in range(256)]
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in m.pieces] + extra, 0, False))
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    out["unigram"] = t.to_str()
    return out, base64.b64encode(charsmap).decode()


def assemble(base, change, charsmap):
    t = json.loads(base)
    change = json.loads(json.dumps(change).replace("@charsmap", charsmap))
    t["model"].update(change.pop("model", {}))
    if t["model"]["type"] == "WordLevel":
        t["model"] = {k: t["model"][k] for k in ("type", "vocab", "unk_token")}
    vocab = t["model"]["vocab"]
    top = len(vocab) if isinstance(vocab, list) else 1 + max(vocab.values())
    t["added_tokens"] += [dict(a, id=top + i) for i, a in enumerate(change.pop("added", []))]
    t.update(change)
    return t


REAL = ("gpt-2", "gpt-neox", "deepseek-llm", "llama-spm", "phi-3", "bert-bge")


def real(shared, names=REAL):
    """Vocabularies of full size: (name, file, tokenizer)"""
    from gguf import GGUFReader
    for name in names:
        f = "ggml-vocab-%s.gguf" % name
        fields = GGUFReader(os.path.join(shared, "vocab", f)).fields
        get = lambda k: fields["tokenizer.ggml." + k].contents()
        tokens, types = get("tokens"), get("token_type")
        if "merges" in [k.split(".")[-1] for k in fields]:
            merges = [tuple(m.split(" ")) for m in get("merges")]
            t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, merges))
            t.decoder = decoders.ByteLevel()
            if name == "deepseek-llm":
                steps = [P.Split(Regex(p), "isolated") for p in (r"[\r\n]", ALPHABET, r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+", r"\s+$", HAN)] + [P.Digits(True), P.ByteLevel(add_prefix_space=False, use_regex=False)]
                t.pre_tokenizer = P.Sequence(steps)
                t.post_processor = processors.TemplateProcessing(single=tokens[100000] + " $A", special_tokens=[(tokens[100000], 100000)])
            else:
                t.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
            if name == "gpt-neox":
                t.normalizer = N.NFC()
        elif name == "bert-bge":
            spell = lambda x: x[1:] if x[0] == "▁" else x if x[0] == "[" and x[-1] == "]" else "##" + x
            t = Tokenizer(models.WordPiece({spell(x): i for i, x in enumerate(tokens)}, unk_token="[UNK]"))
            t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), decoders.WordPiece()
            t.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
            tokens = [spell(x) for x in tokens]
        else:
            scores = get("scores")
            vocab = {x: i for i, x in enumerate(tokens)}
            t = Tokenizer(models.BPE(vocab, generate_merges(vocab, dict(zip(tokens, scores))), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
            t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
            t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
            t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        for i, (x, kind) in enumerate(zip(tokens, types)):
            if kind in (2, 3, 4):
                rstrip = name == "phi-3" and x not in ("<unk>", "<s>", "<|endoftext|>")
                a = G.AddedToken(x, normalized=False, special=kind != 4, rstrip=rstrip)
                (t.add_tokens if kind == 4 else t.add_special_tokens)([a])
        yield name, f, t


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("--shared", default=os.path.join(HERE, "..", "..", "..", "shared"))
    a.add_argument("--out", default=os.path.join(HERE, "testdata", "sets"))
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=10000)
    a.add_argument("--only", default="", help="families whose name has this")
    a = a.parse_args()
    os.makedirs(a.out, exist_ok=True)
    write = lambda name, data: open(os.path.join(a.out, name), "wb").write(data)
    raw = texts(a.seed, a.count)
    write("texts.gz", gzip.compress(b"".join(struct.pack("<I", len(b)) + b for b in raw), 9, mtime=0))
    strings = [b.decode("utf-8", "replace") for b in raw]
    base, charsmap = bases(os.path.join(a.shared, "corpus", "tinyshakespeare.txt"))
    for k in ("spm", "unigram"):
        write(k + ".json", base[k].encode())
    write("charsmap.txt", charsmap.encode())
    out = []
    for name, b, pre, change in families():
        if a.only in name:
            t = Tokenizer.from_str(json.dumps(assemble(base[b], change, charsmap)))
            write(name.replace(" ", "_") + ".crc", crc16(t, strings))
        out.append(dict(name=name, base=b, pre=pre, change=change))
    for name, f, t in real(a.shared):
        out.append(dict(name="real " + name, file=f))
        if a.only not in "real " + name:
            continue
        plain = {i: a.content for i, a in t.get_added_tokens_decoder().items()} if name in ("gpt-2", "gpt-neox", "deepseek-llm") else {}
        write("real_" + name + ".crc", crc16(t, strings, {i: x for i, x in plain.items() if not x.isascii() and not t.get_added_tokens_decoder()[i].special}))
    write("families.json", (json.dumps(out, separators=(",", ":")) + "\n").encode())
