"""How much faster is hotpath's tokenizer than Hugging Face's, on one thread?

bench_tokenizers.py [--shared FOLDER] [--rounds N] [--only NAME] [--size BYTES]

Both read the same tokenizer.json and take turns at the same text, WikiText-2's test split: line by line (the
library's encode_batch, told to use one thread, so that Python costs it nothing), and as one document. Prints
megabytes a second of each (medians), and the median of the ratios of neighbouring runs with the range of the
middle half of them. "threads" is hotpath alone, the lines on all threads, beside itself on one.
"""
import os
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import argparse, json, statistics, subprocess, sys, tempfile, time
from tokenizers import Tokenizer
import goldens_tokenizer as G
import goldens_tokenizer_sets as S


def tokenizers(shared):
    """(name, how it is made), each with its family's real vocabulary where ../shared has one."""
    real = lambda name: next(S.real(shared, [name]))[2]

    def byte_level(change):
        t = json.loads(real("gpt-2").to_str())
        t.update({k: v for k, v in change.items() if k not in ("model", "post_processor")})
        t["model"].update(change.get("model", {}))
        return Tokenizer.from_str(json.dumps(t))

    def metaspace():
        t = json.loads(real("llama-spm").to_str())
        t.update(normalizer=None, pre_tokenizer=dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=False))
        return Tokenizer.from_str(json.dumps(t))

    def unigram(change):
        m = S.sentence_pieces(os.path.join(shared, "corpus", "wikitext2-valid.txt"), "unigram", vocab_size=8000, normalization_rule_name="nmt_nfkc")
        charsmap = S.base64.b64encode(m.normalizer_spec.precompiled_charsmap).decode()
        base = Tokenizer(S.models.Unigram([(p.piece, p.score) for p in m.pieces], 0, False))
        change = {k: v for k, v in change.items() if k != "post_processor"}
        return Tokenizer.from_str(json.dumps(S.assemble(base.to_str(), change, charsmap)))

    changes = {name: change for name, _, _, change in S.families()}
    for name in ("gpt-2", "llama-3", "qwen2", "starcoder", "deepseek-v3", "falcon", "gpt-4o", "tekken", "bloom"):
        yield name, lambda: byte_level(changes[name])
    for name in ("gpt-neox", "deepseek-llm", "llama-spm", "bert-bge"):
        yield name, lambda: real(name)
    yield "llama-2 metaspace", metaspace
    for name in ("t5", "xlm-r", "albert"):
        yield name, lambda: unigram(changes[name])


def spread(values):
    q = statistics.quantiles(values, n=4)
    return "%5.1fx (%.1f-%.1f)" % (statistics.median(values), q[0], q[2])


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("--shared", default=os.path.join(G.HERE, "..", "..", "..", "shared"))
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--only", default="")
    a.add_argument("--size", type=int, default=1 << 30, help="take so many bytes of the text")
    a = a.parse_args()
    path = os.path.join(a.shared, "corpus", "wikitext2-test.txt")
    text = open(path, "rb").read()[:a.size].decode("utf-8", "ignore")
    lines, size = text.split("\n"), len(text.encode()) / 1e6
    root = os.path.join(G.HERE, "..", "..")
    with tempfile.TemporaryDirectory() as d:
        exe = os.path.join(d, "tokbench")
        subprocess.check_call(["go", "build", "-o", exe, "./internal/tokenizer/tokbench"], cwd=root)
        print("%-18s %-9s %10s %10s   %s" % ("", "", "theirs MB/s", "ours MB/s", "ours against theirs"))
        path = os.path.join(d, "text")
        open(path, "w", encoding="utf-8").write(text)
        for name, make in tokenizers(a.shared):
            if a.only not in name:
                continue
            t = make()
            file = os.path.join(d, "tokenizer.json")
            t.save(file)
            p = subprocess.Popen([exe, file, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

            def ours(work):
                p.stdin.write(work + "\n")
                p.stdin.flush()
                took, count = p.stdout.readline().split()
                return float(took), int(count)

            for work, texts in (("lines", lines), ("document", [text])):
                ours(work)
                mine, theirs, ratios = [], [], []
                for _ in range(a.rounds):
                    start = time.perf_counter()
                    got = t.encode_batch(texts)
                    theirs.append(time.perf_counter() - start)
                    took, count = ours(work)
                    mine.append(took)
                    ratios.append(theirs[-1] / took)
                    if count != sum(len(e.ids) for e in got):
                        sys.exit("%s %s: %d tokens, the library has %d" % (name, work, count, sum(len(e.ids) for e in got)))
                print("%-18s %-9s %10.2f %10.2f   %s" % (name, work, size / statistics.median(theirs), size / statistics.median(mine), spread(ratios)), flush=True)
            ratios = [ours("lines")[0] / ours("batch")[0] for _ in range(a.rounds)]
            print("%-18s %-9s %21s   %s" % (name, "threads", "", spread(ratios)), flush=True)
            p.stdin.close()
            p.wait()
