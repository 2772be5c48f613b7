#!/usr/bin/env python3
"""Trains nanoGPT's character-level Shakespeare for CPUs in PyTorch and with hotpath, and
compares the validation losses.

    python scripts/verify_char.py bin/hotpath TEXT [--seeds 1337 1 2] [--iters 2000] [--threads N] [--order random|shuffled]

TEXT is tinyshakespeare (1,115,394 characters); its last tenth is held out. The model in
PyTorch is nanoGPT's: 4 layers of 128, 4 heads, no biases, no dropout, tied head; AdamW with
betas 0.9 and 0.99, weight decay 0.1 on matrices, rate 1e-3 after 100 steps of warm-up, cosine
to 1e-4, gradients clipped to 1; 12 random pieces of 64 characters per step. hotpath runs the
ready-made configuration shakespeare-char, which takes every piece once per epoch; --order
shuffled does so in PyTorch too. PyTorch's token table has a row for each character of TEXT, as
nanoGPT's; hotpath's has one more, for the end of a text. Both learn from the same characters,
and both losses are the mean over the same held-out ones in the same pieces of 64, in f32. It
fails where the means over the seeds differ by more than 0.02. --jsonl FILE adds one line per run.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, BLOCK, BATCH = 4, 4, 128, 64, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.mlp_proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (h.view(b, t, HEADS, -1).transpose(1, 2) for h in self.c_attn(self.ln_1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, WIDTH)
        x = x + self.c_proj(y)
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * LAYERS) if name.endswith("proj.weight") else 0.02)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def rate(step, iters):
    warmup, high, low = 100, 1e-3, 1e-4
    if step < warmup:
        return high * (step + 1) / (warmup + 1)
    return low + 0.5 * (1 + math.cos(math.pi * (step - warmup) / (iters - warmup))) * (high - low)


def places(order, train):
    """Where the pieces of each step begin."""
    pieces = []
    while True:
        if order == "random":
            yield torch.randint(len(train) - BLOCK, (BATCH,)).tolist()
            continue
        while len(pieces) < BATCH:
            pieces += (torch.randperm((len(train) - 1) // BLOCK) * BLOCK).tolist()
        yield pieces[:BATCH]
        pieces = pieces[BATCH:]


def in_pytorch(text, seed, iters, order):
    torch.manual_seed(seed)
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([index[c] for c in text])
    pieces = -(-(len(ids) - 1) // BLOCK)  # the last one may be shorter
    held = (pieces - round(0.1 * pieces)) * BLOCK  # as hotpath's validation.share does
    train, valid = ids[:held + 1], ids[held:]
    model = GPT(len(index))
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.99))
    for step, at in zip(range(iters), places(order, train)):
        for group in opt.param_groups:
            group["lr"] = rate(step, iters)
        x = torch.stack([train[i:i + BLOCK] for i in at])
        y = torch.stack([train[i + 1:i + 1 + BLOCK] for i in at])
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 100 == 99:
            print(f"\rPyTorch step {step + 1} loss {loss.item():.4f}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    whole = (len(valid) - 1) // BLOCK * BLOCK
    x, y = valid[:whole].view(-1, BLOCK), valid[1:whole + 1].view(-1, BLOCK)
    batches = list(zip(x.split(128), y.split(128)))
    if whole + 1 < len(valid):
        batches.append((valid[None, whole:-1], valid[None, whole + 1:]))
    with torch.no_grad():
        sums = [F.cross_entropy(model(a).flatten(0, 1), b.flatten(), reduction="sum").item() for a, b in batches]
    return sum(sums) / (len(valid) - 1)


def in_hotpath(hotpath, text, seed, iters, threads, folder):
    out = pathlib.Path(folder) / str(seed)
    sets = {"data": text, "seed": seed, "steps": iters, "checkpoint_every": 0}
    args = [hotpath, "train", "shakespeare-char", "-o", out, "--precision", "f32", "--threads", threads]
    for name, value in sets.items():
        args += ["--set", f"{name}={value}"]
    subprocess.run([str(a) for a in args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return lines[-1]["val_loss"]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("hotpath")
    a.add_argument("text", type=pathlib.Path)
    a.add_argument("--seeds", type=int, nargs="+", default=[1337, 1, 2])
    a.add_argument("--iters", type=int, default=2000)
    a.add_argument("--threads", type=int, default=0, help="of both; 0: all")
    a.add_argument("--order", choices=["random", "shuffled"], default="random", help="of data in PyTorch: nanoGPT's, or every piece once per epoch")
    a.add_argument("--jsonl", type=pathlib.Path)
    o = a.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    text = o.text.read_text()
    means = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        for seed in o.seeds:
            for which, (name, run) in enumerate([("PyTorch", lambda: in_pytorch(text, seed, o.iters, o.order)),
                                                 ("hotpath", lambda: in_hotpath(o.hotpath, o.text, seed, o.iters, o.threads, folder))]):
                start = time.time()
                loss = run()
                means[which].append(loss)
                print(f"seed {seed:5} {name} validation loss {loss:.4f} in {time.time() - start:.0f} s", flush=True)
                if o.jsonl:
                    with o.jsonl.open("a") as f:
                        f.write(json.dumps({"seed": seed, "who": name, "loss": loss, "iters": o.iters}) + "\n")
    theirs, ours = (sum(m) / len(m) for m in means)
    for name, m in zip(("PyTorch", "hotpath"), means):
        print(f"{name}: {min(m):.4f} to {max(m):.4f}")
    good = abs(ours - theirs) <= 0.02
    print(f"means of {len(o.seeds)} seeds: PyTorch {theirs:.4f}, hotpath {ours:.4f}, difference {ours - theirs:+.4f} {'' if good else 'FAILED, expected at most 0.02'}")
    sys.exit(0 if good else 1)


main()
