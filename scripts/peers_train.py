"""peers_train.py HOTPATH [--only gpt2|llama|minilm] [--rounds N] [--threads N] [--no-compile] [--json FILE]

Measures training with hotpath beside PyTorch, in turn: tokens per second of optimizer steps (median and range),
tokens per second of CPU time and peak memory. Both train with AdamW and clipping by the global norm, without
dropout; PyTorch with its fused AdamW, eager and compiled, in f32 and in bf16 autocast.

gpt2 and llama have random weights. minilm fine-tunes .cache/models/all-MiniLM-L6-v2 (`make models`) on 64 pairs of
texts of 32 tokens, with the model and MultipleNegativesRankingLoss of sentence-transformers in a plain loop. Texts
are tokenized before the first step on both sides.

Needs torch, transformers, tokenizers, sentence-transformers, and a C++ compiler for compiled models.
"""
import argparse, json, os, random, re, resource, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
MINILM = os.path.join(HERE, "..", ".cache", "models", "all-MiniLM-L6-v2")
SHAPES = {
    "gpt2": dict(title="GPT-2 124M, 4x64", peer="PyTorch", batch=4, length=64, vocab=50257, steps=6),
    "llama": dict(title="Llama 288 x 6 layers, vocab 4096, 16x256", peer="PyTorch", batch=16, length=256, vocab=4096, steps=6),
    "minilm": dict(title="all-MiniLM-L6-v2, contrastive, 64 pairs of 32 tokens", peer="sentence-transformers", batch=128, length=32, steps=6),
}


def model_of(shape):
    import transformers
    if shape == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6, vocab_size=4096,
        max_position_embeddings=1024, tie_word_embeddings=True))


def pairs(count, seed):
    """Pairs of texts of 30 words that are one token each; with the special tokens they have 32."""
    with open(os.path.join(MINILM, "vocab.txt"), encoding="utf-8") as f:
        words = [w for w in f.read().split("\n") if re.fullmatch("[a-z]{3,}", w)]
    rng = random.Random(seed)
    text = lambda: " ".join(rng.choice(words) for _ in range(SHAPES["minilm"]["length"] - 2))
    return [(text(), text()) for _ in range(count)]


def write_pairs(folder):
    with open(os.path.join(folder, "data.jsonl"), "w", encoding="utf-8") as f:
        for anchor, positive in pairs(64 * 20, 1):
            print(json.dumps({"anchor": anchor, "positive": positive}), file=f)


def write_model(shape, folder):
    """The model and a tokenizer of single bytes; texts of random words give the tokens."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers
    model_of(shape).save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.save(os.path.join(folder, "tokenizer.json"))
    rng = random.Random(1)
    with open(os.path.join(folder, "data.txt"), "w", encoding="utf-8") as f:
        for _ in range(20000):
            f.write("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9))) + " ")


def next_tokens(shape, compiled):
    """A decoder and the loss of a batch of random tokens."""
    import torch
    s, model = SHAPES[shape], model_of(shape).train()
    run = torch.compile(model) if compiled else model
    ids = torch.randint(s["vocab"], (s["batch"], s["length"] + 1))
    return model, lambda: torch.nn.functional.cross_entropy(run(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())


def ranking(compiled):
    """MiniLM and the loss of a batch of pairs."""
    import sentence_transformers, torch
    from sentence_transformers import losses
    s = SHAPES["minilm"]
    model = sentence_transformers.SentenceTransformer(MINILM, device="cpu").train()
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
        if hasattr(m, "dropout_prob"):  # of attention, which is a function
            m.dropout_prob = 0.0
    loss = losses.MultipleNegativesRankingLoss(model)
    features = [dict(model.tokenize(list(texts))) for texts in zip(*pairs(s["batch"] // 2, 2))]
    for f in features:
        assert f["input_ids"].shape == (s["batch"] // 2, s["length"]), f["input_ids"].shape
    if compiled:
        model[0].auto_model.forward = torch.compile(model[0].auto_model.forward)
    return model, lambda: loss([dict(f) for f in features], None)


def worker(shape, precision, compiled, threads):
    """Says when it is compiled and warm, then reads a number of steps per line and answers with their seconds."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model, loss_of = ranking(compiled) if shape == "minilm" else next_tokens(shape, compiled)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    step()
    step()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, cpu = [], time.process_time()
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "cpu": time.process_time() - cpu,
                          "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


class PyTorch:
    def __init__(self, shape, precision, compiled, threads):
        self.shape = SHAPES[shape]
        self.name = f"{self.shape['peer']} {precision}, {'compiled' if compiled else 'eager'}"
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", shape, precision, str(int(compiled)), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":  # compiled, and no longer in the way of the others
            sys.exit(f"{self.name}: did not begin")

    def measure(self):
        print(self.shape["steps"], file=self.process.stdin, flush=True)
        r = json.loads(self.process.stdout.readline())
        tokens = self.shape["batch"] * self.shape["length"]
        return [tokens / t for t in r["seconds"]], tokens * len(r["seconds"]) / r["cpu"], r["peak"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Hotpath:
    def __init__(self, binary, shape, precision, threads, folder):
        self.shape, self.name, self.before = SHAPES[shape], f"hotpath {precision}", None
        self.command = [binary, "train", os.path.join(folder, "train.json"), "--precision", precision, "--threads", str(threads)]
        config = {"model": folder, "data": os.path.join(folder, "data.txt"), "out": os.path.join(folder, "out"), "lr": 3e-4,
                  "batch_tokens": self.shape["batch"] * self.shape["length"], "seq_len": self.shape["length"]}
        if shape == "minilm":
            config.update(model=MINILM, data=os.path.join(folder, "data.jsonl"), objective={"type": "contrastive"})
        with open(os.path.join(folder, "train.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)

    def run(self, steps, out):
        p = subprocess.Popen(self.command + ["-o", out, "--set", f"steps={steps}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text = p.stdout.read()
        _, status, usage = os.wait4(p.pid, 0)
        if status != 0:
            sys.exit(f"{' '.join(self.command)}:\n{text}")
        return [float(x) for x in re.findall(r"^step .* ([\d.]+) tok/s", text, re.M)], usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024

    def measure(self):
        """The first steps touch memory. CPU time of start and checkpoint is that of a run of those alone, once."""
        few, tokens = 2, self.shape["batch"] * self.shape["length"] * self.shape["steps"]
        with tempfile.TemporaryDirectory() as out:
            if self.before is None:
                self.before = self.run(few, os.path.join(out, "few"))[1]
            rates, cpu, peak = self.run(few + self.shape["steps"], os.path.join(out, "many"))
        return rates[few:], tokens / max(1e-9, cpu - self.before), peak

    def close(self):
        pass


def measure(binary, shape, rounds, threads, compiled):
    with tempfile.TemporaryDirectory() as folder:
        # Not in this process: the peak memory of a child begins with that of its parent.
        subprocess.run([sys.executable, os.path.abspath(__file__), "--write", shape, folder], check=True)
        ways = []
        for precision in ("f32", "bf16"):
            ways.append(Hotpath(binary, shape, precision, threads, folder))
            ways += [PyTorch(shape, precision, c, threads) for c in ([False, True] if compiled else [False])]
        seen = {w.name: ([], [], []) for w in ways}
        for _ in range(rounds):
            for w in ways:
                rates, per_cpu, peak = w.measure()
                seen[w.name][0].extend(rates)
                seen[w.name][1].append(per_cpu)
                seen[w.name][2].append(peak)
        for w in ways:
            w.close()
    print(f"\n{SHAPES[shape]['title']}, {threads} threads\n")
    print("| | tok/s, median | lowest to highest | tok per CPU second | peak memory, MiB |\n|---|---|---|---|---|")
    out = {}
    for name, (rates, per_cpu, peak) in seen.items():
        out[name] = dict(median=statistics.median(rates), low=min(rates), high=max(rates), per_cpu=statistics.median(per_cpu), peak=max(peak))
        print(f"| {name} | {out[name]['median']:,.0f} | {out[name]['low']:,.0f} to {out[name]['high']:,.0f} | {out[name]['per_cpu']:,.0f} | {out[name]['peak'] / 2**20:,.0f} |")
    peer = SHAPES[shape]["peer"]
    for precision in ("f32", "bf16", ""):
        ours = max(v["median"] for k, v in out.items() if k.startswith(f"hotpath {precision}"))
        best = max(v["median"] for k, v in out.items() if k.startswith(f"{peer} {precision}"))
        print(f"\nhotpath {precision or 'at its best'} is {ours / best:.2f} times {peer}'s best{' in ' * bool(precision)}{precision}.")
    return out


def main():
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3], sys.argv[4] == "1", int(sys.argv[5]))
        return
    if sys.argv[1:2] == ["--write"]:
        if sys.argv[2] == "minilm":
            write_pairs(sys.argv[3])
        else:
            write_model(sys.argv[2], sys.argv[3])
        return
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("hotpath")
    p.add_argument("--only", choices=SHAPES)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--json")
    a = p.parse_args()
    results = {s: measure(a.hotpath, s, a.rounds, a.threads, not a.no_compile) for s in ([a.only] if a.only else SHAPES)}
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


main()
