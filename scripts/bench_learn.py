"""How much faster does hotpath train tokenizers than Hugging Face's trainers?

bench_learn.py HOTPATH [--shared FOLDER] [--rounds N] [--threads N]

Both learn from WikiText-2's files in the shared corpus, in turns, each run a process of its own: the library's process measures
Tokenizer.train alone, without Python's start; hotpath's is measured whole, from start to the written file. Prints CPU seconds
(user and system) and wall seconds of each, least and median, and the ratios of the medians. What hotpath wrote is then opened by
the library, and both must give the same ids for lines that neither learnt from.
"""
import argparse, json, os, resource, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))


def library(kind, size, files):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers as P, trainers
    if kind == "bpe":
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False, special_tokens=["<|endoftext|>"], initial_alphabet=P.ByteLevel.alphabet())
    else:
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), P.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=size, min_frequency=2, show_progress=False, limit_alphabet=1000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    cpu, wall = time.process_time(), time.perf_counter()
    t.train(files, trainer)
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]))


def ours(hotpath, kind, size, files, threads, out):
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([hotpath, "tokenizer", "train", *files, "-o", out, "--type", kind, "--vocab-size", str(size), "--threads", str(threads)], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall]


def check(hotpath, folder, file):
    from tokenizers import Tokenizer
    lines = [line for line in open(file, encoding="utf-8").read().split("\n") if line.strip()]
    texts = "".join(json.dumps(dict(text=line)) + "\n" for line in lines)
    r = subprocess.run([hotpath, "tokenize", "-m", folder, "-f", "-", "--input", "jsonl", "--format", "jsonl"], input=texts, check=True, capture_output=True, text=True)
    t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    wrong = sum(t.encode(line).ids != json.loads(answer)["ids"] for line, answer in zip(lines, r.stdout.splitlines(), strict=True))
    print("%-10s %d held-out lines, %d with other ids in the library" % ("", len(lines), wrong))
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "--library":
        library(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
        sys.exit()
    a = argparse.ArgumentParser()
    a.add_argument("hotpath")
    a.add_argument("--shared", default=os.path.join(HERE, "..", "..", "shared"))
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    args = a.parse_args()
    files = [os.path.join(args.shared, "corpus", "wikitext2-%s.txt" % part) for part in ("valid", "test")]
    for kind, size in (("bpe", 16000), ("wordpiece", 16000)):
        for threads in args.threads:
            env = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
            theirs, mine = [], []
            with tempfile.TemporaryDirectory() as out:
                for _ in range(args.rounds):
                    r = subprocess.run([sys.executable, __file__, "--library", kind, str(size), *files], check=True, capture_output=True, text=True, env=env)
                    theirs.append(json.loads(r.stdout))
                    mine.append(ours(args.hotpath, kind, size, files, threads, out))
                if check(args.hotpath, out, os.path.join(args.shared, "corpus", "tinyshakespeare.txt")):
                    sys.exit("ids differ")
            line = "%-10s %d threads" % (kind, threads)
            for i, name in enumerate(("cpu", "wall")):
                t, m = [x[i] for x in theirs], [x[i] for x in mine]
                line += "   %s: library %.3f (least %.3f) s, hotpath %.3f (least %.3f) s, %.1fx" % (name, statistics.median(t), min(t), statistics.median(m), min(m), statistics.median(t) / statistics.median(m))
            print(line)
