"""Make what internal/tokenizer/learn is held against, with the trainers of Hugging Face's tokenizers library.

goldens_learn.py

Writes, under internal/tokenizer/learn/testdata:
  corpus.txt     texts to learn from: a page of Shakespeare, made-up words, several scripts, awkward spaces
  cases.json     for each kind of tokenizer: the options, tokens by id, merges, and the ids of texts that are not in the corpus

The BPE trainer breaks ties by ids, so its merges are compared one by one. The WordPiece trainer numbers "##x" by the order of a
hash table that changes with each run: only the set of its tokens is compared, at a least frequency for which several runs agree.
Their library has no trainer of characters: char-bytes is the alphabet that the BPE trainer finds, and char has merges of the bytes
of each character besides.
"""
import collections, json, os, random, subprocess, sys
from tokenizers import Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "internal", "tokenizer", "learn", "testdata")
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HELD_OUT = ["Now is the winter of our discontent", "It's 2024, isn't it?  Yes:\n\n\tall 12345 of them.", "Żółć ÀÉÎ straße 北京市 🙂 é", "aaaaaaaa aaa ----- ...", "", " ", "unbelievably"]


def corpus():
    r = random.Random(5)
    text = open(os.path.join(HERE, "..", "internal", "testmodels", "testdata", "shakespeare.txt"), encoding="utf-8").read()
    parts = ["an", "be", "cor", "dis", "en", "fa", "go", "hu", "in", "ja", "ker", "li", "mo", "nu", "or", "po"]
    words = ["".join(r.choice(parts) for _ in range(r.randint(1, 4))) for _ in range(300)]
    for _ in range(120):
        text += " ".join(words[min(int(r.paretovariate(0.7)) - 1, 299)] for _ in range(r.randint(3, 12))) + r.choice([".", "!", ",", "..."]) + "\n"
    text += "Ärger über Öl, straße und Straße; naïve café façade.\n" * 3
    text += "北京 東京 北京市 東京都 京都\nПривет, мир! Мир миру.\n" * 4
    text += "  two  spaces   three\tand a tab\r\nwindows line\r\n\n\n" * 3
    text += "2019 2020 2021 12345 1,000.50 $3 50% a_b c++ x=y; 'tis don't we'll I'd\n" * 3
    text += "aaa aaaa aaaaa aaaaaaaa ---- ------- ababab abab ab\n" * 5
    text += "🙂🙃 🙂 🙂🙂🙂 e\u0301 \u00e9\n" * 3
    text += "longest" * 40 + "\n" + "no line end"
    return text


def train(name, file):
    cased = dict(min_frequency=2, show_progress=False)
    alphabet = P.ByteLevel.alphabet()
    if name.startswith("gpt2"):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer, t.decoder = P.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>", "<pad>"], initial_alphabet=alphabet, **cased)
    elif name.startswith("char"):
        t = Tokenizer(models.BPE())
        t.pre_tokenizer, t.decoder = P.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=1, special_tokens=["<|endoftext|>"], show_progress=False)  # the alphabet, and no merges
    elif name == "llama3":
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = P.Sequence([P.Split(_regex(LLAMA3), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, min_frequency=3, show_progress=False)
    elif name == "metaspace":
        t = Tokenizer(models.BPE(unk_token="<unk>"))
        t.pre_tokenizer, t.decoder = P.Metaspace(), decoders.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], **cased)
    elif name == "whitespace":
        t = Tokenizer(models.BPE(unk_token="[UNK]"))
        t.pre_tokenizer = P.Whitespace()
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["[UNK]"], limit_alphabet=LIMIT[0], **cased)
    elif name == "whitespace-split":
        t = Tokenizer(models.BPE(unk_token="[UNK]"))
        t.pre_tokenizer = P.WhitespaceSplit()
        trainer = trainers.BpeTrainer(vocab_size=10000, special_tokens=["[UNK]"], **cased)
    elif name.startswith("bert"):
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(lowercase=name == "bert"), P.BertPreTokenizer(), decoders.WordPiece()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        # The least frequency ends it, so that no tie decides what is in.
        trainer = trainers.WordPieceTrainer(vocab_size=10000, special_tokens=special, min_frequency=WORDPIECE[name], show_progress=False)
    t.train([file], trainer)
    if name == "char":
        t.model = characters(t, file)
    return t


def characters(t, file):
    """A model with a token for each character of the file: its bytes are merged from the left."""
    vocab, merges = t.get_vocab(), []
    spelt = [P.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(c)[0][0] for c in set(open(file, encoding="utf-8", newline="").read())]
    raw = {c: b for b, c in _bytes().items()}
    for start in sorted({s[:n] for s in spelt for n in range(2, len(s) + 1)}, key=lambda s: (len(s), [raw[c] for c in s])):
        vocab[start] = len(vocab)
        merges.append((start[:-1], start[-1]))
    return models.BPE(vocab=vocab, merges=merges)


def _bytes():
    """The character that spells each byte, by byte."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)}


WORDPIECE = {"bert": 2, "bert-cased": 2}


LIMIT = [0]


def _regex(s):
    from tokenizers import Regex
    return Regex(s)


# Options of ours that say the same.
OPTIONS = {
    "gpt2": dict(Kind="bpe", VocabSize=700, Special=["<|endoftext|>", "<pad>"]),
    "llama3": dict(Kind="bpe", PreTokenizer="llama3", VocabSize=600, MinFrequency=3, Special=["<|endoftext|>"]),
    "metaspace": dict(Kind="bpe", PreTokenizer="metaspace", VocabSize=500, Special=["<unk>", "<s>", "</s>"]),
    "whitespace": dict(Kind="bpe", PreTokenizer="whitespace", VocabSize=400, Special=["[UNK]"]),
    "whitespace-split": dict(Kind="bpe", PreTokenizer="whitespace-split", VocabSize=10000, Special=["[UNK]"]),
    "char": dict(Kind="char"), "char-bytes": dict(Kind="char"),
    "bert": dict(Kind="wordpiece", VocabSize=10000), "bert-cased": dict(Kind="wordpiece", VocabSize=10000, Cased=True),
}


def tokens(t):
    return [k for k, _ in sorted(t.get_vocab().items(), key=lambda kv: kv[1])]


def stable(name, file):
    """The smallest least frequency from 4 on for which ten processes agree on the set of tokens."""
    for least in range(4, 30):
        run = lambda: subprocess.run([sys.executable, __file__, "--set", name, str(least), file], capture_output=True, text=True, check=True).stdout
        if len({run() for _ in range(10)}) == 1:
            return least
    sys.exit("%s: no least frequency without a tie" % name)


def gap(file, most):
    """The largest limit of the alphabet, up to most, below which no character is as frequent as the last one kept."""
    counts = sorted(collections.Counter(c for line in open(file, encoding="utf-8", newline="") for w, _ in P.Whitespace().pre_tokenize_str(line) for c in w).values(), reverse=True)
    return max(n for n in range(1, most + 1) if counts[n - 1] > counts[n])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--set"]:
        _, _, name, least, file = sys.argv
        WORDPIECE[name] = int(least)
        print(sorted(tokens(train(name, file))))
        sys.exit()
    os.makedirs(OUT, exist_ok=True)
    file = os.path.join(OUT, "corpus.txt")
    with open(file, "w", encoding="utf-8", newline="") as f:
        f.write(corpus())
    cases = []
    for name, options in OPTIONS.items():
        if name.startswith("bert"):
            WORDPIECE[name] = options["MinFrequency"] = stable(name, file)
        if name == "whitespace":
            LIMIT[0] = options["LimitAlphabet"] = gap(file, 60)
        t = train(name, file)
        if name == "char-bytes":
            options["VocabSize"] = t.get_vocab_size()
        m = json.loads(t.to_str())["model"]
        case = dict(Name=name, Options=options, Tokens=tokens(t), Merges=m.get("merges"))
        if not name.startswith("bert"):
            case["IDs"] = [t.encode(s, add_special_tokens=False).ids for s in HELD_OUT]
        cases.append(case)
    with open(os.path.join(OUT, "cases.json"), "w", encoding="utf-8") as f:
        json.dump(dict(HeldOut=HELD_OUT, Cases=cases), f, ensure_ascii=False, separators=(",", ":"))
