"""Where the texts of the default models come from: one function per source, each a generator of
sentences (or of documents, for novels). They read what fetch.sh put into a folder.
docs/default-models.md names the licences."""
import csv, gzip, html, io, json, os, re, subprocess, zipfile

SPACES = re.compile(r"\s+")
SENTENCE = re.compile(r'(?<=[.!?])["\')]*\s+(?=["\'(]*[A-Z])')


def clean(text):
    return SPACES.sub(" ", html.unescape(text)).strip()


def sentences(text):
    for s in SENTENCE.split(clean(text)):
        yield s.strip()


def read(folder, *path, encoding="utf-8"):
    with open(os.path.join(folder, *path), encoding=encoding, errors="replace") as f:
        return f.read()


def wordnet(folder):
    """Glosses and examples: `definition; definition; "example"`."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in read(folder, "wordnet", "data." + part).splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            head, gloss = line.split("|", 1)
            word = head.split()[4].replace("_", " ")
            examples = re.findall(r'"([^"]+)"', gloss)
            meaning = clean(re.sub(r'"[^"]*"?', "", gloss)).strip("; ")
            yield re.sub(r"\([a-z]+\)$", "", word)
            for m in re.split(r";\s*", meaning):
                yield m
            yield f"{word}: {meaning}"
            for e in examples:
                yield clean(e)


def dictionary(folder, name):
    """Sentences of a file of dictd, without its markup."""
    with gzip.open(os.path.join(folder, name + ".dict.dz"), "rt", encoding="utf-8", errors="replace") as f:
        text = f.read()
    text = re.sub(r"\[[^\]]{0,60}\]|\{|\}|--[A-Z][\w. ]+", " ", text)
    text = re.sub(r"\\[^\\\n]{0,80}\\", " ", text)
    for paragraph in re.split(r"\n\s*\n", text):
        for part in re.split(r"\s\d+\.\s|\s\([a-z]\)\s|Syn:|Note:|;", paragraph):
            yield from sentences(part)


def tatoeba(folder):
    """The English side of bilingual sentence pairs."""
    for name in ("fra-eng.zip", "deu-eng.zip"):
        with zipfile.ZipFile(os.path.join(folder, name)) as z:
            inside = next(n for n in z.namelist() if n.endswith(".txt") and not n.startswith("_"))
            for line in io.TextIOWrapper(z.open(inside), "utf-8"):
                yield clean(line.split("\t")[0])


def common_voice(folder):
    for name in sorted(os.listdir(os.path.join(folder, "common-voice"))):
        for line in read(folder, "common-voice", name).splitlines():
            yield clean(line)


def audiocaps(folder):
    with open(os.path.join(folder, "audiocaps.csv"), encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            yield clean(row["caption"])


def coco(folder):
    for a in json.loads(read(folder, "coco.json"))["annotations"]:
        yield clean(a["caption"])


def wikisplit(folder):
    for name in ("tune.tsv", "validation.tsv", "test.tsv"):
        for line in read(folder, "wikisplit", name).splitlines():
            whole, _, parts = line.partition("\t")
            for text in [whole] + parts.split("<::::>"):
                text = text.replace("``", '"').replace("''", '"')
                yield clean(re.sub(r" ([,.;:!?)'])", r"\1", text).replace("( ", "("))


def queries(folder):
    for line in read(folder, "queries.tsv").splitlines():
        yield clean(line.split("\t")[0])


def headlines(folder):
    for line in read(folder, "headlines.jsonl").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the file is a piece of a larger one
        yield clean(row.get("headline", ""))
        yield from sentences(row.get("short_description", ""))


def packages(folder):
    """What Debian's packages are, in one line each."""
    for line in read(folder, "packages.txt").splitlines():
        yield clean(line)


def stsb(folder):
    """Sentences of the training split, without their scores."""
    with open(os.path.join(folder, "stsb-en-train.csv"), encoding="utf-8", newline="") as f:
        for a, b, _ in csv.reader(f):
            yield clean(a)
            yield clean(b)


def paragraphs(text):
    """Paragraphs are lines, or wrapped lines between blank ones, or, without blank lines, wrapped lines of
    which the last is short and ends a sentence or is a heading."""
    lines = [line.rstrip() for line in text.split("\n")]
    lengths = sorted(len(line) for line in lines if line)
    width = lengths[len(lengths) * 9 // 10]
    if width > 120:
        return lines
    blocks = re.split(r"\n\s*\n", "\n".join(lines))
    if len(blocks) > len(lengths) / 20:
        return blocks
    out, open_ = [], False
    for line in lines:
        if open_ and line:
            out[-1] += "\n" + line
        else:
            out.append(line)
        ended = line.endswith((".", "!", "?", ":", ";", "-", '"', "'")) or line.isupper()
        open_ = len(line) > 0.8 * width or not ended
    return out


def novels(folder):
    """Whole novels, paragraph by paragraph, lines joined."""
    for name in sorted(os.listdir(os.path.join(folder, "novels"))):
        text = read(folder, "novels", name).replace("\r", "")
        yield name, [p for p in map(clean, paragraphs(text)) if p]
