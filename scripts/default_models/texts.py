"""texts.py OUT [--eval CSV|SICK ...] [--variants N]

Makes the training texts of both default models of what fetch.sh put into OUT/raw:
  OUT/texts.jsonl       sentences for the embedder, shuffled: {"text": ...}
  OUT/pairs.jsonl       captions of one image, and whole and split sentences: two texts that belong together
  OUT/sts-train.jsonl, OUT/sts-held.jsonl   nine and one tenths of STS-B train: two texts and their score from 0 to 1
  OUT/novels/*.txt      prose for the generator; OUT/held/*.txt are novels that it never sees

Sentences that occur in a file of --eval (STS-B dev, SICK) are left out of all of it. --variants
adds N sentences of which a word was dropped, moved or replaced by a related one: the teacher says
what that does to the meaning.
"""
import argparse, csv, json, os, random, re, sys

import sources

HELD = ("Doyle_Lost_1912.txt", "Burnett_Garden_1911.txt", "Hardy_Madding_1874.txt")
RESTRICTED = ("Forster",)  # died in 1970
LAST_YEAR = 1930
MOST_CHARS, MOST_WORDS = 220, 38


def key(text):
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def forbidden(paths):
    """Keys of all sentences of the evaluation files: any column of a csv or tsv file."""
    out = set()
    for path in paths:
        with open(path, encoding="utf-8", newline="") as f:
            for row in csv.reader(f, delimiter="\t" if path.endswith(".txt") else ","):
                out.update(key(cell) for cell in row if " " in cell)
    return out


def usable(text):
    words = text.split()
    letters = sum(c.isalpha() and c.isascii() for c in text)
    return 0 < len(words) <= MOST_WORDS and len(text) <= MOST_CHARS and letters >= 0.6 * len(text)


def related(folder):
    """Words by word: members of the same or a neighbouring set of WordNet."""
    groups = {}
    for part in ("noun", "verb", "adj", "adv"):
        sets = {}
        for line in sources.read(folder, "wordnet", "data." + part).splitlines():
            if line.startswith("  "):
                continue
            f = line.split("|")[0].split()
            n = int(f[3], 16)
            words = [re.sub(r"\(.*", "", w).lower() for w in f[4:4 + 2 * n:2]]
            at = 4 + 2 * n
            links = [f[at + 1 + 4 * i + 1] for i in range(int(f[at])) if f[at + 1 + 4 * i + 2] == part[0] and f[at + 1 + 4 * i] in "@~!&+"]
            sets[f[0]] = ([w for w in words if w.isalpha()], links)
        for words, links in sets.values():
            near = list(words)
            for link in links[:8]:
                near += sets.get(link, ([], []))[0]
            for w in words:
                groups.setdefault(w, []).extend(v for v in near if v != w)
    return {w: sorted(set(v)) for w, v in groups.items() if v}


STOP = set("the a an of to in on is are was were be and or with for at by from his her their its he she it they i you we that this as not no has have had will".split())


def vary(rng, text, near):
    """One word dropped, replaced by a related one, negated, or two parts exchanged."""
    words = text.split()
    content = [i for i, w in enumerate(words) if key(w) and key(w) not in STOP]
    if not content or len(words) < 4:
        return None
    kind = rng.random()
    i = rng.choice(content)
    if kind < 0.6:
        for i in rng.sample(content, len(content)):
            w = key(words[i])
            for stem, end in ((w, ""), (w[:-1], "s"), (w[:-3], "ing"), (w[:-3] + "e", "ing"), (w[:-2], "ed"), (w[:-1], "d")):
                if stem in near and w.endswith(end):
                    other = rng.choice(near[stem])
                    if end == "ing" and other.endswith("e"):
                        other = other[:-1]
                    elif end == "ed" and other.endswith("e"):
                        end = "d"
                    words[i] = words[i].lower().replace(w, other + end)
                    return " ".join(words)
        return None
    if kind < 0.75:
        del words[i]
    elif kind < 0.85 and " is " in text or " are " in text:
        return re.sub(r" (is|are) ", r" \1 not ", text, count=1)
    else:
        cut = rng.randrange(1, len(words))
        words = words[cut:] + words[:cut]
    return " ".join(words)


def captions(rng, n):
    """Plain statements about who does what, where: a grammar of our own."""
    who = "man woman boy girl child person dog cat group people family player singer chef farmer doctor teacher soldier musician dancer worker baby horse monkey bird couple cyclist skier runner painter student crowd".split()
    look = ["young", "old", "small", "tall", "little", "smiling", "tired", "happy", "black", "white", "brown", "", "", "", "", ""]
    does = ["playing {i}", "riding {v}", "cutting {f}", "eating {f}", "cooking {f}", "walking {p}", "running {p}", "jumping {p}", "sitting {p}", "standing {p}", "sleeping {p}", "reading {o}", "holding {o}", "carrying {o}", "looking at {o}", "throwing {o}", "singing", "dancing", "laughing", "talking on {o}", "painting {o}", "washing {o}", "climbing {p}", "swimming {p}", "talking to {w}", "watching {w}", "chasing {w}", "helping {w}", "kissing {w}", "feeding {w}"]
    fill = {"i": "a guitar;a piano;the drums;a flute;football;tennis;chess;a video game;basketball;the violin".split(";"),
            "v": "a bike;a horse;a motorcycle;a bus;a skateboard;a train;an elephant;a scooter".split(";"),
            "f": "an onion;a potato;bread;a cake;rice;meat;vegetables;an apple;pasta;fish;soup;a pizza".split(";"),
            "p": "in the park;on the beach;in the snow;near a lake;on a bench;in the street;through the woods;on the grass;in a kitchen;over a fence;in the water;on a stage;by the window;down the stairs;in the rain;at a table".split(";"),
            "o": "a book;a phone;a ball;a bag;a camera;a picture;a car;a cup;a hat;a flower;a box;a newspaper;a stick;a map;a gun;a knife".split(";")}
    def thing(m):
        return "a " + rng.choice(who) if m.group(1) == "w" else rng.choice(fill[m.group(1)])
    for _ in range(n):
        w, l, d = rng.choice(who), rng.choice(look), re.sub(r"\{(\w)\}", thing, rng.choice(does))
        plural = w in ("people",)
        name = f"{l} {w}".strip()
        be = "are" if plural else "is"
        a = "" if plural else ("an " if name[0] in "aeiou" else "a ")
        form = rng.random()
        where = " " + rng.choice(fill["p"]) if rng.random() < 0.35 and "{p}" not in d else ""
        if form < 0.55:
            s = f"{a}{name} {be} {d}{where}"
        elif form < 0.65:
            s = f"the {name} {be} {d}{where}"
        elif form < 0.75:
            s = f"there is no {name} {d}{where}" if not plural else f"nobody is {d}{where}"
        elif form < 0.85:
            s = f"the {name} {be} not {d}{where}"
        else:
            s = f"{a}{name} and a {rng.choice(who)} are {d}{where}"
        yield s[0].upper() + s[1:] + rng.choice([".", ".", ""])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--eval", nargs="*", default=[])
    a.add_argument("--variants", type=int, default=900_000)
    a.add_argument("--texts", type=int, default=1_600_000, help="sentences in all")
    a.add_argument("--most", type=int, default=250_000, help="most sentences of one source")
    a = a.parse_args()
    raw, rng = os.path.join(a.out, "raw"), random.Random(20)
    never = forbidden(a.eval)
    seen, kept = set(), []

    def take(name, texts, most=None, spread=False):
        got = []
        for t in texts:
            k = key(t)
            if usable(t) and k not in seen and k not in never:
                seen.add(k)
                got.append(t)
        if len(got) > (most or a.most):
            got = rng.sample(got, most or a.most)
        kept.append((name, got))
        print(f"{len(got):8} {name}", file=sys.stderr)

    take("stsb", sources.stsb(raw))
    for name in ("coco", "audiocaps", "tatoeba", "common_voice", "wikisplit", "queries", "headlines", "wordnet", "packages"):
        take(name, getattr(sources, name)(raw))
    take("foldoc", sources.dictionary(raw, "foldoc"), 40_000)
    take("gcide", sources.dictionary(raw, "gcide"), 150_000)
    novels = [(n, p) for n, p in sources.novels(raw) if not n.startswith(RESTRICTED) and int(n[-8:-4]) <= LAST_YEAR]
    take("novels", (s for n, p in novels if n not in HELD for q in p for s in sources.sentences(q)), 220_000)
    take("captions", captions(rng, 150_000))
    near = related(raw)
    base = [t for name, ts in kept for t in ts if name in ("stsb", "coco", "audiocaps", "tatoeba", "common_voice", "headlines", "wikisplit", "captions") and len(t.split()) >= 4]
    weight = [t for name, ts in kept if name == "stsb" for t in ts]
    def variants():
        for n in range(3 * a.variants):
            v = vary(rng, rng.choice(weight if n % 5 == 0 else base), near)
            if v:
                yield v
    take("variants", variants(), a.variants)
    texts = [t for _, ts in kept for t in ts]
    rng.shuffle(texts)
    texts = texts[:a.texts]
    with open(os.path.join(a.out, "texts.jsonl"), "w", encoding="utf-8") as f:
        for t in texts:
            f.write(json.dumps({"text": t}, ensure_ascii=False) + "\n")
    print(f"{len(texts):8} texts, {sum(map(len, texts)) / 1e6:.0f} MB", file=sys.stderr)

    with open(os.path.join(raw, "stsb-en-train.csv"), encoding="utf-8", newline="") as f:
        rows = [(s, t, float(score) / 5) for s, t, score in csv.reader(f)]
    rows = [r for r in rows if key(r[0]) not in never and key(r[1]) not in never]
    rng.shuffle(rows)
    cut = len(rows) * 9 // 10
    for name, part in (("sts-train", rows[:cut]), ("sts-held", rows[cut:])):
        with open(os.path.join(a.out, name + ".jsonl"), "w", encoding="utf-8") as f:
            for s, t, score in part:
                f.write(json.dumps({"a": s, "b": t, "score": round(score, 4)}, ensure_ascii=False) + "\n")

    pairs = []
    images = {}
    for c in json.loads(sources.read(raw, "coco.json"))["annotations"]:
        images.setdefault(c["image_id"], []).append(sources.clean(c["caption"]))
    for own in images.values():
        pairs += list(zip(own[::2], own[1::2]))
    pairs = [p for p in pairs if all(usable(t) and key(t) not in never for t in p)]
    rng.shuffle(pairs)
    with open(os.path.join(a.out, "pairs.jsonl"), "w", encoding="utf-8") as f:
        for s, t in pairs:
            f.write(json.dumps({"anchor": s, "positive": t}, ensure_ascii=False) + "\n")

    for name in ("novels", "held"):
        os.makedirs(os.path.join(a.out, name), exist_ok=True)
    for n, paragraphs in novels:
        with open(os.path.join(a.out, "held" if n in HELD else "novels", n), "w", encoding="utf-8") as f:
            f.write("\n".join(paragraphs[2:]) + "\n")


if __name__ == "__main__":
    main()
