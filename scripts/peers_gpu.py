"""Measures hotpath beside PyTorch on one card, alternately, with random weights in
the models' shapes, and prints a table: make gpu-peers.

    python3 scripts/peers_gpu.py GPUBENCH [--compile] [--only NAME]

GPUBENCH is internal/gpubench, built. PyTorch runs eagerly and, with --compile,
compiled with CUDA graphs; the faster of the two counts. Needs torch,
transformers and safetensors, and a card.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

import torch
from safetensors.torch import save_file

SHAPES = {
    "minilm": dict(kind="bert", dim=384, ffn=1536, layers=6, heads=12, vocab=30522),
    "smollm2": dict(kind="llama", dim=576, ffn=1536, layers=30, heads=9, kv=3, vocab=49152),
    "llama1b": dict(kind="llama", dim=2048, ffn=8192, layers=16, heads=32, kv=8, vocab=128256),
}
WORKS = {
    "minilm": ["embed 1x16", "embed 32x128", "embed 1024x128"],
    "smollm2": ["decode 1"],
    "llama1b": ["decode 1", "decode 8", "decode 64", "prefill 4096"],
}


def config(shape):
    from transformers import BertConfig, LlamaConfig

    if shape["kind"] == "bert":
        return BertConfig(hidden_size=shape["dim"], intermediate_size=shape["ffn"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], vocab_size=shape["vocab"])
    return LlamaConfig(
        hidden_size=shape["dim"], intermediate_size=shape["ffn"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], num_key_value_heads=shape["kv"],
        vocab_size=shape["vocab"], max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=500000.0)


def build(shape, path):
    """The model on the card in bf16, and its directory for hotpath."""
    from transformers import BertModel, LlamaForCausalLM

    torch.manual_seed(1)
    make = BertModel if shape["kind"] == "bert" else LlamaForCausalLM
    with torch.device("cuda"):
        model = make(config(shape)).to(torch.bfloat16).eval()
    os.makedirs(path, exist_ok=True)
    tensors = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items() if "position_ids" not in k and k != "lm_head.weight"}
    save_file(tensors, f"{path}/model.safetensors", {"format": "pt"})
    model.config.architectures = [make.__name__]
    with open(f"{path}/config.json", "w") as f:
        f.write(model.config.to_json_string(use_diff=False))
    return model


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


@torch.inference_mode()
def torch_speed(model, shape, work, compiled):
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
    cache = StaticCache(config=model.config, max_batch_size=seqs, max_cache_len=1024, device="cuda", dtype=torch.bfloat16)
    ids = torch.randint(1000, vocab - 1000, (seqs, 1), device="cuda")
    at = torch.tensor([200], device="cuda")
    call = torch.compile(model, mode="reduce-overhead")
    return seqs / timed(lambda: call(input_ids=ids, past_key_values=cache, cache_position=at, use_cache=True).logits.argmax(-1), rounds=50)


def hotpath_speed(bench, path, work):
    out = subprocess.run([bench, "-m", path, "-work", work], capture_output=True, text=True)
    if out.returncode:
        return None
    return json.loads(out.stdout.strip().splitlines()[-1])["tok_s"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench")
    p.add_argument("--compile", action="store_true", help="PyTorch compiled with CUDA graphs too")
    p.add_argument("--only", help="one model")
    a = p.parse_args()
    print("| work | hotpath, tok/s | PyTorch, tok/s | times |\n|---|---|---|---|")
    for name, shape in SHAPES.items():
        if a.only and a.only != name:
            continue
        with tempfile.TemporaryDirectory() as path:
            model = build(shape, path)
            for work in WORKS[name]:
                ours = [hotpath_speed(a.bench, path, work)]
                peers = [torch_speed(model, shape, work, c) for c in ((False, True) if a.compile else (False,))]
                ours.append(hotpath_speed(a.bench, path, work))
                peer, mine = max((x for x in peers if x), default=None), min((x for x in ours if x), default=None)
                cells = [f"{x:,.0f}" if x else "-" for x in (mine, peer)]
                print(f"| {name} {work} | {cells[0]} | {cells[1]} | {mine / peer:.2f} |" if mine and peer else f"| {name} {work} | {cells[0]} | {cells[1]} | |", flush=True)


if __name__ == "__main__":
    main()
