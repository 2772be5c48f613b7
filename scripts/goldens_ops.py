#!/usr/bin/env python3
"""Writes internal/graph/testdata/ops.json and tiny.json: what torch and
transformers say about each op and its gradients, and about three AdamW steps
of a tiny transformer. Needs torch and transformers; run from the repository
root after changing a case, and commit the result.

The numbers of a case are drawn from a seed of its name, so that a new case
changes no other."""

import json
import math
import pathlib
import zlib

import torch
import torch.nn.functional as F
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

OUT = pathlib.Path("internal/graph/testdata")
cases = []


def compact(x):
    return json.dumps(x, separators=(",", ":"))


def listed(begin, items, end):
    return begin + "\n" + ",\n".join(items) + "\n" + end + "\n"


def fields(name, value):
    """A field of tensors has one of them per line."""
    if not isinstance(value, dict):
        return compact(name) + ":" + compact(value)
    return compact(name) + ":" + listed("{", [compact(k) + ":" + compact(v) for k, v in value.items()], "}").rstrip("\n")


def seed(name):
    torch.manual_seed(zlib.crc32(name.encode()))


def flat(t):
    if t.dtype in (torch.int32, torch.int64):
        return [int(v) for v in t.reshape(-1)]
    return [float(f"{v:.8g}") for v in t.detach().reshape(-1).tolist()]


def pack(t):
    kind = "i32" if t.dtype in (torch.int32, torch.int64) else "f32"
    return {"shape": list(t.shape), kind: flat(t)}


def case(name, op, attr, inputs, f):
    """inputs() -> tensors or None; f(*inputs) -> outputs. Float inputs get gradients
    for a random gradient of output 0."""
    assert all(c["name"] != name for c in cases), name
    seed(name)
    inputs = inputs()
    xs = [x.clone().requires_grad_() if x is not None and x.is_floating_point() else x for x in inputs]
    outs = f(*xs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    dout = torch.randn_like(outs[0])
    outs[0].backward(dout)
    cases.append({
        "name": name, "op": op, "attr": attr,
        "inputs": [None if x is None else pack(x) for x in inputs],
        "outputs": [None if o is None else pack(o) for o in outs],
        "dout": pack(dout),
        "grads": [pack(x.grad) if x is not None and x.is_floating_point() and x.grad is not None else None for x in xs],
    })


def ints(*v):
    return torch.tensor(v, dtype=torch.int32)


def rms(x, w, eps, offset=0.0):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (w + offset)


def rotary(x, pos, head, rot, base, factors=None, scale=1.0, interleaved=False):
    t, h = x.shape[0], x.shape[1] // head
    inv = 1.0 / (base ** (torch.arange(0, rot, 2).float() / rot)) / scale
    if factors is not None:
        inv = inv / factors
    ang = pos.float()[:, None] * inv[None]
    cos, sin = torch.cat([ang, ang], -1).cos()[None], torch.cat([ang, ang], -1).sin()[None]
    heads = x.view(t, h, head).transpose(0, 1)[None]
    r, rest = heads[..., :rot], heads[..., rot:]
    if interleaved:
        perm = torch.cat([torch.arange(0, rot, 2), torch.arange(1, rot, 2)])
        y, _ = apply_rotary_pos_emb(r[..., perm], r[..., perm], cos, sin)
        y = y[..., torch.argsort(perm)]
    else:
        y, _ = apply_rotary_pos_emb(r, r, cos, sin)
    return torch.cat([y, rest], -1)[0].transpose(0, 1).reshape(t, h * head)


def attention(q, k, v, starts, heads, kv, d, causal, window, cap, scale, factor=None):
    """Sequence by sequence with an explicit mask; returns out and lse. factor(rows) multiplies the weights of heads and rows."""
    outs, lses = [], []
    for s in range(len(starts) - 1):
        a, b = int(starts[s]), int(starts[s + 1])
        n = b - a
        qs = q[a:b].view(n, heads, d).transpose(0, 1)
        ks = k[a:b].view(n, kv, d).transpose(0, 1).repeat_interleave(heads // kv, 0)
        vs = v[a:b].view(n, kv, d).transpose(0, 1).repeat_interleave(heads // kv, 0)
        i, j = torch.arange(n)[:, None], torch.arange(n)[None]
        mask = torch.ones(n, n, dtype=torch.bool)
        if causal:
            mask &= j <= i
        if window:
            mask &= (i - j).abs() < window
        scores = qs @ ks.transpose(1, 2) * scale
        if cap:
            scores = cap * torch.tanh(scores / cap)
        scores = scores.masked_fill(~mask, -math.inf)
        lses.append(scores.logsumexp(-1).T)
        if factor:
            o = (scores.softmax(-1) * factor(range(a, b))) @ vs
        elif cap:
            o = scores.softmax(-1) @ vs
        else:
            o = F.scaled_dot_product_attention(qs, ks, vs, attn_mask=mask, scale=scale)
        outs.append(o.transpose(0, 1).reshape(n, heads * d))
    return torch.cat(outs), torch.cat(lses)


R = torch.randn
case("linear", "linear", {}, lambda: [R(3, 5), R(4, 5), R(4)], F.linear)
case("embed", "embed", {"Scale": 2.0}, lambda: [R(6, 4), ints(5, 0, 5, 2)], lambda w, i: F.embedding(i.long(), w) * 2)
case("mul", "mul", {}, lambda: [R(3, 4), R(3, 4)], lambda x, y: x * y)
case("layer_norm", "norm", {"Kind": 0, "Eps": 1e-5}, lambda: [R(4, 12) * 3 + 1, R(12), R(12)],
     lambda x, w, b: F.layer_norm(x, (12,), w, b, 1e-5))
case("layer_norm without bias", "norm", {"Kind": 0, "Eps": 1e-12}, lambda: [R(3, 6), R(6), None],
     lambda x, w, b: F.layer_norm(x, (6,), w, None, 1e-12))
case("rms_norm", "norm", {"Kind": 1, "Eps": 1e-6}, lambda: [R(4, 12), R(12), None], lambda x, w, b: F.rms_norm(x, (12,), w, 1e-6))
case("rms_norm of heads, offset 1", "norm", {"Kind": 1, "Eps": 1e-6, "Offset": 1}, lambda: [R(3, 12), R(4), None],
     lambda x, w, b: rms(x.view(3, 3, 4), w, 1e-6, 1.0).reshape(3, 12))

pos = ints(0, 1, 7, 31)
case("rope half", "rope", {"HeadDim": 8, "RotDim": 8, "Base": 10000.0, "Scale": 1, "Magnitude": 1}, lambda: [R(4, 16), pos, None, None],
     lambda x, p, f, lengths: rotary(x, p, 8, 8, 10000.0))
case("rope partial, scaled", "rope", {"HeadDim": 8, "RotDim": 4, "Base": 500000.0, "Scale": 4, "Magnitude": 1}, lambda: [R(4, 16), pos, None, None],
     lambda x, p, f, lengths: rotary(x, p, 8, 4, 500000.0, None, 4.0))
case("rope interleaved", "rope", {"HeadDim": 8, "RotDim": 8, "Base": 10000.0, "Scale": 1, "Magnitude": 1, "Interleaved": True},
     lambda: [R(4, 8), pos, None, None], lambda x, p, f, lengths: rotary(x, p, 8, 8, 10000.0, interleaved=True))
factors = torch.tensor([1.0, 1.5, 4.0, 8.0])
case("rope factors", "rope", {"HeadDim": 8, "RotDim": 8, "Base": 10000.0, "Scale": 1, "Magnitude": 1}, lambda: [R(4, 8), pos, factors, None],
     lambda x, p, f, lengths: rotary(x, p, 8, 8, 10000.0, factors))

starts = ints(0, 5, 6, 13)
for name, causal, window, cap in [("causal", True, 0, 0), ("bidirectional", False, 0, 0), ("causal window", True, 3, 0),
                                  ("bidirectional window", False, 2, 0), ("soft cap", True, 0, 2.0)]:
    a = {"Heads": 4, "KVHeads": 2, "HeadDim": 4, "Scale": 0.4, "Causal": causal, "Window": window, "SoftCap": cap}
    case("attention " + name, "attention", a, lambda: [R(13, 16), R(13, 8), R(13, 8), starts, None],
         lambda q, k, v, s, key: attention(q, k, v, s, 4, 2, 4, causal, window, cap, 0.4))

acts = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "silu": F.silu, "relu": F.relu, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid}
for name, f in acts.items():
    case(name, "act", {"Kind": name}, lambda: [R(3, 7) * 3], f)
    case(name + " glu", "glu", {"Kind": name}, lambda: [R(2, 5) * 2, R(2, 5)], lambda g, u: f(g) * u)

case("gather", "gather", {}, lambda: [R(5, 3), ints(4, 1, 1)], lambda x, r: x[r.long()])
seqs = ints(0, 3, 4, 9)
spans = [(0, 3), (3, 4), (4, 9)]
case("pool mean", "pool", {"Kind": 0}, lambda: [R(9, 4), seqs], lambda x, s: torch.stack([x[a:b].mean(0) for a, b in spans]))
case("pool cls", "pool", {"Kind": 1}, lambda: [R(9, 4), seqs], lambda x, s: torch.stack([x[a] for a, b in spans]))
case("pool last", "pool", {"Kind": 2}, lambda: [R(9, 4), seqs], lambda x, s: torch.stack([x[b - 1] for a, b in spans]))
# Row 0 is below eps, divided by a constant; row 2 is zero.
case("l2norm", "l2norm", {}, lambda: [R(4, 5) * torch.tensor([[1e-14], [1], [0], [1]])], lambda x: F.normalize(x, dim=-1))
targets = ints(3, -100, 0, 8)
case("cross_entropy", "cross_entropy", {}, lambda: [R(4, 9) * 3, targets, None],
     lambda x, t, s: (F.cross_entropy(x, t.long(), reduction="none"), x.logsumexp(-1)))
bits = lambda v: int(torch.tensor(v, dtype=torch.float32).view(torch.int32))
case("cross_entropy smoothed", "cross_entropy", {}, lambda: [R(4, 9) * 3, targets, ints(bits(0.15))],
     lambda x, t, s: (F.cross_entropy(x, t.long(), reduction="none", label_smoothing=0.15), x.logsumexp(-1)))


def mix64(z):
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
    return z ^ z >> 31


def dropout(x, key, salt, places=None):
    """torch's dropout with the mask that key and salt choose: SplitMix64 by the element's place, 32 bits each."""
    seed, p = (int(key[0]) % 2**32) | (int(key[1]) % 2**32) << 32, float(key[2:3].view(torch.float32))
    golden = 0x9e3779b97f4a7c15
    base = mix64((seed + salt * golden) % 2**64)
    words = [mix64((base + (k >> 1) * golden) % 2**64) >> 32 * (k & 1) & 0xffffffff for k in (range(x.numel()) if places is None else places)]
    mask = torch.tensor([w >= int(p * 2**32) for w in words]).reshape(x.shape)
    return x * mask / (1 - p)


def weight_factors(key, salt, heads):
    """What dropout multiplies attention's weights by: an element's place has the query's row and head above 28 bits, the key's position below."""
    def factor(rows):
        places = [(t * heads + h << 28) + j for h in range(heads) for t in rows for j in range(len(rows))]
        return dropout(torch.ones(heads, len(rows), len(rows)), key, salt, places)
    return factor


case("dropout", "dropout", {"Salt": 7}, lambda: [R(5, 9), ints(123456789, -5, bits(0.25))], lambda x, key: dropout(x, key, 7))
drop_key = ints(123456789, -5, bits(0.25))
for name, causal, window, cap in [("causal", True, 0, 0), ("bidirectional window", False, 2, 0), ("soft cap", True, 0, 2.0)]:
    a = {"Heads": 4, "KVHeads": 2, "HeadDim": 4, "Scale": 0.4, "Causal": causal, "Window": window, "SoftCap": cap, "Salt": 3}
    case("attention with dropout, " + name, "attention", a, lambda: [R(13, 16), R(13, 8), R(13, 8), starts, drop_key],
         lambda q, k, v, s, key: attention(q, k, v, s, 4, 2, 4, causal, window, cap, 0.4, weight_factors(key, 3, 4)))
case("mean of counted", "mean", {}, lambda: [R(4), targets], lambda x, t: x[t >= 0].mean()[None])
case("mean", "mean", {}, lambda: [R(4), None], lambda x, t: x.mean()[None])

# A tiny transformer: tied embedding, grouped heads, rope, gated feed-forward,
# two ragged sequences, one ignored target; three clipped AdamW steps.
seed("tiny")
V, D, H, KV, FF, T = 23, 16, 4, 2, 24, 9
HD = D // H
shapes = {"embed": (V, D), "norm1": (D,), "q": (D, D), "k": (KV * HD, D), "v": (KV * HD, D), "o": (D, D), "o.bias": (D,),
          "norm2": (D,), "gate": (FF, D), "up": (FF, D), "down": (D, FF), "norm3": (D,), "norm3.bias": (D,)}
params = {n: (torch.nn.Parameter(R(*s) * 0.3 + (1 if n in ("norm1", "norm2", "norm3") else 0))) for n, s in shapes.items()}
initial = {n: pack(p) for n, p in params.items()}
ids = torch.randint(0, V, (T,))
labels = torch.randint(0, V, (T,))
labels[4] = -100
tpos, tstarts = ints(0, 1, 2, 3, 4, 0, 1, 2, 3), ints(0, 5, 9)


def loss_of(p):
    x = F.embedding(ids, p["embed"]) * 1.5
    h = rms(x, p["norm1"], 1e-5)
    q, k, v = h @ p["q"].T, h @ p["k"].T, h @ p["v"].T
    q, k = rotary(q, tpos, HD, HD, 10000.0), rotary(k, tpos, HD, HD, 10000.0)
    a, _ = attention(q, k, v, tstarts, H, KV, HD, True, 0, 0, HD ** -0.5)
    x = x + F.linear(a, p["o"], p["o.bias"])
    h = rms(x, p["norm2"], 1e-5)
    x = x + (F.silu(h @ p["gate"].T) * (h @ p["up"].T)) @ p["down"].T
    h = F.layer_norm(x, (D,), p["norm3"], p["norm3.bias"], 1e-5)
    return F.cross_entropy(h @ p["embed"].T, labels)


LR, BETAS, EPS, DECAY, CLIP = 0.01, (0.9, 0.95), 1e-8, 0.1, 0.5
opt = torch.optim.AdamW([
    {"params": [p for p in params.values() if p.dim() > 1], "weight_decay": DECAY},
    {"params": [p for p in params.values() if p.dim() == 1], "weight_decay": 0.0}], lr=LR, betas=BETAS, eps=EPS)
losses, norms, grads = [], [], None
for step in range(3):
    opt.zero_grad()
    loss = loss_of(params)
    loss.backward()
    grads = grads or {n: pack(p.grad) for n, p in params.items()}
    norms.append(float(torch.nn.utils.clip_grad_norm_(params.values(), CLIP)))
    losses.append(loss.item())
    opt.step()

OUT.mkdir(parents=True, exist_ok=True)
# A case, a field or a tensor per line, so that a change shows what it changes.
(OUT / "ops.json").write_text(listed("[", [compact(c) for c in cases], "]"))
tiny = {"ids": flat(ids), "labels": flat(labels), "pos": flat(tpos), "starts": flat(tstarts),
        "lr": LR, "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS, "decay": DECAY, "clip": CLIP,
        "params": initial, "grads": grads, "final": {n: pack(p) for n, p in params.items()},
        "losses": losses, "norms": norms}
(OUT / "tiny.json").write_text(listed("{", [fields(k, v) for k, v in tiny.items()], "}"))
