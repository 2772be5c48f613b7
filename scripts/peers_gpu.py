"""Measures hotpath beside PyTorch on one card, alternately, with random weights in
the models' shapes, and prints a table: make gpu-peers.

    python3 scripts/peers_gpu.py GPUBENCH [--compile] [--only NAME] [--json FILE]
    python3 scripts/peers_gpu.py --write DIR [--only NAME]

GPUBENCH is internal/gpubench, built. PyTorch runs eagerly and, with --compile,
compiled with CUDA graphs; the faster of the two counts. Products (gemm) are
PyTorch's, which calls cublasLt. A row that fails says why, and the next one runs.
--write makes the models' directories, for scripts/card.sh, and measures nothing.

It needs a card (--write does not) and these packages, in any recent version:
pip install torch transformers safetensors tokenizers
"""

import argparse
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import time

try:
    import safetensors  # noqa: F401
    import tokenizers  # noqa: F401
    import torch
    import transformers  # noqa: F401
except ImportError as missing:
    sys.exit(f"peers_gpu: {missing}: pip install torch transformers safetensors tokenizers")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import verify_gemma
from safetensors.torch import save_file

SHAPES = {
    "minilm": dict(kind="bert", dim=384, ffn=1536, layers=6, heads=12, vocab=30522),
    "smollm2": dict(kind="llama", dim=576, ffn=1536, layers=30, heads=9, kv=3, vocab=49152),
    "llama1b": dict(kind="llama", dim=2048, ffn=8192, layers=16, heads=32, kv=8, vocab=128256),
    "embeddinggemma": dict(kind="gemma", vocab=262144),
    "gpt2": dict(kind="gpt2", vocab=50257),
}
WORKS = {
    "minilm": ["embed 1x16", "embed 32x128", "embed 1024x128"],
    "smollm2": ["decode 1"],
    "llama1b": ["decode 1", "decode 8", "decode 64", "prefill 4096"],
    "embeddinggemma": ["embed 1x16", "embed 32x20", "embed 256x128"],
    "gpt2": ["decode 1", "decode 8", "prefill 960", "train 32x1024"],
}
# Products of the models with 512 rows and more: rows, results and values of a row.
PRODUCTS = [(512, 2048, 2048), (512, 8192, 2048), (4096, 2048, 2048), (4096, 8192, 2048), (4096, 1536, 384), (32768, 1536, 384), (32768, 3072, 768)]
CHAIN = 16  # pairs of products in one run, as in gpubench


def config(shape):
    from transformers import BertConfig, Gemma3TextConfig, GPT2Config, LlamaConfig

    if shape["kind"] == "gemma":
        return Gemma3TextConfig(**{**verify_gemma.CONFIG, "vocab_size": shape["vocab"]})
    if shape["kind"] == "gpt2":
        return GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    if shape["kind"] == "bert":
        return BertConfig(hidden_size=shape["dim"], intermediate_size=shape["ffn"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], vocab_size=shape["vocab"])
    return LlamaConfig(
        hidden_size=shape["dim"], intermediate_size=shape["ffn"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], num_key_value_heads=shape["kv"],
        vocab_size=shape["vocab"], max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=500000.0)


def build(shape, path, device="cuda"):
    """The model on the device in bf16, and its directory for hotpath."""
    from transformers import BertModel, Gemma3TextModel, GPT2LMHeadModel, LlamaForCausalLM

    torch.manual_seed(1)
    make = {"bert": BertModel, "gemma": Gemma3TextModel, "gpt2": GPT2LMHeadModel, "llama": LlamaForCausalLM}[shape["kind"]]
    os.makedirs(path, exist_ok=True)
    with torch.device(device):
        model = make(config(shape))
    if shape["kind"] == "gpt2":  # f32 master weights
        model.save_pretrained(path)
        write_text(path)
        return model.train()
    model = model.to(torch.bfloat16).eval()
    tensors = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items() if "position_ids" not in k and k != "lm_head.weight"}
    save_file(tensors, f"{path}/model.safetensors", {"format": "pt"})
    model.config.architectures = [make.__name__]
    with open(f"{path}/config.json", "w") as f:
        f.write(json.dumps({**verify_gemma.CONFIG, "vocab_size": shape["vocab"]}) if shape["kind"] == "gemma" else model.config.to_json_string(use_diff=False))
    if shape["kind"] == "llama":
        write_text(path)  # convert wants a tokenizer
    return model


def write_text(path):
    """A tokenizer of single bytes, and texts of random words."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.save(f"{path}/tokenizer.json")
    rng = random.Random(1)
    with open(f"{path}/data.txt", "w", encoding="utf-8") as f:
        for _ in range(60000):
            f.write("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9))) + " ")


def timed(run, rounds=20, budget=2.0):
    """Median seconds of calls that end on the card."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times, end = [], time.time() + budget
    while len(times) < rounds and (len(times) < 3 or time.time() < end):
        begin = time.time()
        run()
        torch.cuda.synchronize()
        times.append(time.time() - begin)
    return sorted(times)[len(times) // 2]


def torch_train(model, shape, seqs, tokens, compiled):
    """Tokens per second of steps of AdamW in bf16 autocast with clipping."""
    ids = torch.randint(shape["vocab"], (seqs, tokens + 1), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    call = torch.compile(model) if compiled else model

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            logits = call(ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return seqs * tokens / timed(step, rounds=8, budget=4)


def torch_speed(model, shape, work, compiled):
    if work.startswith("train"):
        return torch_train(model, shape, *map(int, work.split()[1].split("x")), compiled)
    if shape["kind"] == "gpt2":  # the others are in bf16 already
        model = copy.deepcopy(model).to(torch.bfloat16).eval()
    return torch_inference(model, shape, work, compiled)


@torch.inference_mode()
def torch_inference(model, shape, work, compiled):
    """Tokens per second of one kind of work, None where it is not measured."""
    what, size = work.split()
    vocab = shape["vocab"]
    if what == "embed":
        seqs, tokens = map(int, size.split("x"))
        ids = torch.randint(1000, vocab - 1000, (seqs, tokens), device="cuda")
        call = torch.compile(model, mode="reduce-overhead") if compiled else model
        return seqs * tokens / timed(lambda: call(input_ids=ids).last_hidden_state.mean(1))
    if what == "prefill":
        if compiled:
            return None
        ids = torch.randint(1000, vocab - 1000, (1, int(size)), device="cuda")
        return int(size) / timed(lambda: model(input_ids=ids, logits_to_keep=1), rounds=6)
    if not compiled:
        return None
    from transformers import StaticCache

    seqs = int(size)
    try:
        cache = StaticCache(config=model.config, max_batch_size=seqs, max_cache_len=1024, device="cuda", dtype=torch.bfloat16)
    except TypeError:  # newer versions take the rest from the first call
        cache = StaticCache(config=model.config, max_cache_len=1024)
    ids = torch.randint(1000, vocab - 1000, (seqs, 1), device="cuda")
    at = torch.tensor([200], device="cuda")
    call = torch.compile(model, mode="reduce-overhead")
    return seqs / timed(lambda: call(input_ids=ids, past_key_values=cache, cache_position=at, use_cache=True).logits.argmax(-1), rounds=50)


def torch_product(m, n, k):
    """TFLOP/s of a chain of products in bf16, replayed as a CUDA graph."""
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    up, down = (torch.randn(s, device="cuda", dtype=torch.bfloat16) / s[1] for s in ((n, k), (k, n)))

    def run():
        y = x
        for _ in range(CHAIN):
            y = torch.nn.functional.linear(torch.nn.functional.linear(y, up), down)
        return y

    with torch.inference_mode():
        run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return 4 * CHAIN * m * n * k / 1e12 / timed(graph.replay)


def hotpath_speed(bench, path, work):
    """Tokens per second, or TFLOP/s of a product; None and a line where it fails."""
    out = subprocess.run([bench, *(["-m", path] if path else []), "-work", work], capture_output=True, text=True, timeout=300)
    if out.returncode:
        print(f"{work}: {(out.stderr.strip() or 'no message').splitlines()[-1]}", file=sys.stderr, flush=True)
        return None
    return json.loads(out.stdout.strip().splitlines()[-1])["tok_s"]


def attempt(what, run, *args):
    """What run returns, None and a line where it fails."""
    try:
        return run(*args)
    except Exception as e:  # a peer's fault is a row without it
        print(f"{what}: PyTorch: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", file=sys.stderr, flush=True)
        return None


def row(name, ours, peers, log):
    peer, mine = max((x for x in peers if x), default=None), min((x for x in ours if x), default=None)
    cells = [f"{x:,.0f}" if x else "-" for x in (mine, peer)]
    print(f"| {name} | {cells[0]} | {cells[1]} | {f'{mine / peer:.2f}' if mine and peer else ''} |", flush=True)
    if log:
        log.write(json.dumps({"work": name, "hotpath": mine, "pytorch": peer, "ratio": mine / peer if mine and peer else None}) + "\n")
        log.flush()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench", nargs="?")
    p.add_argument("--compile", action="store_true", help="PyTorch compiled with CUDA graphs too")
    p.add_argument("--only", help="one model, or gemm")
    p.add_argument("--json", help="write a line per row to this file")
    p.add_argument("--write", help="write the models' directories under this one and measure nothing")
    a = p.parse_args()
    if a.only and a.only not in [*SHAPES, "gemm"]:
        p.error(f"--only {a.only}, expected one of {', '.join(SHAPES)}, gemm")
    names = [n for n in SHAPES if a.only in (None, n)]
    if a.write:
        for name in names:
            build(SHAPES[name], os.path.join(a.write, name), "cuda" if torch.cuda.is_available() else "cpu")
            torch.cuda.empty_cache()
        return
    if not a.bench or not os.access(a.bench, os.X_OK):
        p.error("GPUBENCH, expected the program of internal/gpubench")
    if not torch.cuda.is_available():
        sys.exit("peers_gpu: PyTorch finds no card")
    log = open(a.json, "a") if a.json else None
    bench = os.path.abspath(a.bench)
    print("| work | hotpath, tok/s | PyTorch, tok/s | times |\n|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as path:
            model = attempt(name, build, SHAPES[name], path)
            if model is None:
                continue
            for work in WORKS[name]:
                ours = [hotpath_speed(bench, path, work)]
                peers = [attempt(f"{name} {work}", torch_speed, model, SHAPES[name], work, c) for c in ((False, True) if a.compile else (False,))]
                ours.append(hotpath_speed(bench, path, work))
                row(f"{name} {work}", ours, peers, log)
            del model
            torch.cuda.empty_cache()
    ratios = []
    for m, n, k in PRODUCTS if a.only in (None, "gemm") else []:
        work = f"gemm {m}x{n}x{k}"
        ours = [hotpath_speed(bench, None, work)]
        peers = [attempt(work, torch_product, m, n, k)]
        ours.append(hotpath_speed(bench, None, work))
        row(f"{work}, TFLOP/s", ours, peers, log)
        if ours[0] and ours[1] and peers[0]:
            ratios.append(min(ours) / peers[0])
    if ratios:
        mean = 1.0
        for r in ratios:
            mean *= r ** (1 / len(ratios))
        print(f"\nproducts: geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
