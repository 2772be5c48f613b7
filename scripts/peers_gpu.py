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
import random
import subprocess
import tempfile
import time

import torch
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
    "gpt2": ["train 32x1024"],
}


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


def build(shape, path):
    """The model on the card in bf16, and its directory for hotpath."""
    from transformers import BertModel, Gemma3TextModel, GPT2LMHeadModel, LlamaForCausalLM

    torch.manual_seed(1)
    make = {"bert": BertModel, "gemma": Gemma3TextModel, "gpt2": GPT2LMHeadModel, "llama": LlamaForCausalLM}[shape["kind"]]
    os.makedirs(path, exist_ok=True)
    with torch.device("cuda"):
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
