"""PyTorch's side of scripts/peers_gpu.py: models with random weights, written for
hotpath too, and turns of each kind of work.
"""

import copy
import gc
import json
import os
import random
import sys
import time

try:
    import safetensors  # noqa: F401
    import tokenizers
    import torch
    import torch._dynamo
    import transformers
except ImportError as missing:
    sys.exit(f"peers_gpu: {missing}: pip install torch transformers safetensors tokenizers")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import verify_gemma
from safetensors.torch import save_file

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
CHAIN = 16  # pairs of products in one run, as in gpubench
PROMPT, CONTEXT = 16, 256  # tokens before decode, as in gpubench, and those that the cache holds
BLOCK, BLOCKS = 16, 7  # decode steps that are timed together, and such blocks per turn
TURN = 0.25  # seconds of a turn's calls
STEPS = 4  # optimizer steps of a turn, as in gpubench


def config(shape):
    if shape["kind"] == "gemma":
        return transformers.Gemma3TextConfig(**gemma(shape))
    if shape["kind"] == "gpt2":
        return transformers.GPT2Config(n_embd=shape["dim"], n_layer=shape["layers"], n_head=shape["heads"], vocab_size=shape["vocab"], resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    sizes = dict(hidden_size=shape["dim"], intermediate_size=shape["ffn"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], vocab_size=shape["vocab"])
    if shape["kind"] == "bert":
        return transformers.BertConfig(**sizes)
    return transformers.LlamaConfig(**sizes, num_key_value_heads=shape["kv"], max_position_embeddings=8192, tie_word_embeddings=True, rope_theta=500000.0)


def gemma(shape):
    layers = shape["layers"]
    return {**verify_gemma.CONFIG, "vocab_size": shape["vocab"], "num_hidden_layers": layers, "layer_types": verify_gemma.CONFIG["layer_types"][:layers]}


def build(shape, path, device):
    """The model on the device, in bf16 unless it is trained, and its directory for hotpath."""
    torch.manual_seed(1)
    make = {"bert": transformers.BertModel, "gemma": transformers.Gemma3TextModel, "gpt2": transformers.GPT2LMHeadModel, "llama": transformers.LlamaForCausalLM}[shape["kind"]]
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
    with open(f"{path}/config.json", "w", encoding="utf-8") as f:
        f.write(json.dumps(gemma(shape)) if shape["kind"] == "gemma" else model.config.to_json_string(use_diff=False))
    if shape["kind"] == "llama":
        write_text(path)  # convert wants a tokenizer
    return model


def write_text(path):
    """A tokenizer of single bytes, and texts of random words."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    t = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(letters)}, []))
    t.pre_tokenizer, t.decoder = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    t.save(f"{path}/tokenizer.json")
    rng = random.Random(1)
    with open(f"{path}/data.txt", "w", encoding="utf-8") as f:
        for _ in range(60000):
            f.write("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9))) + " ")


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_seconds(run, device, budget=TURN, least=3, most=30):
    """Median seconds of calls that end on the device."""
    times, end = [], time.perf_counter() + budget
    while len(times) < most and (len(times) < least or time.perf_counter() < end):
        begin = time.perf_counter()
        run()
        finish(device)
        times.append(time.perf_counter() - begin)
    times.sort()
    return (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2


def turns_of(model, shape, work, compiled, device):
    """A function that measures one turn and returns its rate. It is warm when this
    returns: compiled code has been made, and CUDA graphs have been recorded."""
    what, size = work.split()
    torch.manual_seed(2)
    if what == "gemm":
        return product_turn(*map(int, size.split("x")), device)
    if what == "train":
        return train_turn(model, shape, *map(int, size.split("x")), compiled, device)
    if what == "decode":
        return decode_turn(model, shape, int(size), compiled, device)
    seqs, tokens = map(int, size.split("x")) if what == "embed" else (1, int(size))
    ids = torch.randint(1000, shape["vocab"] - 1000, (seqs, tokens), device=device)
    call = compile_for_inference(model) if compiled else model

    @torch.inference_mode()
    def run():
        if what == "embed":
            return call(input_ids=ids).last_hidden_state.mean(1)
        return call(input_ids=ids, use_cache=False, logits_to_keep=1).logits

    for _ in range(4):
        run()
    finish(device)
    return lambda: seqs * tokens / median_seconds(run, device)


def compile_for_inference(model):
    return torch.compile(model, mode="reduce-overhead", dynamic=False)


def decode_turn(model, shape, seqs, compiled, device):
    """Steps with a static cache; the token of a step is the next one's input, and
    blocks of steps are timed, so that the host may run ahead of the card."""
    try:
        cache = transformers.StaticCache(config=model.config, max_cache_len=CONTEXT)
    except TypeError:  # older versions do not take the rest from the first call
        cache = transformers.StaticCache(config=model.config, max_batch_size=seqs, max_cache_len=CONTEXT, device=device, dtype=torch.bfloat16)
    prompt = torch.randint(1000, shape["vocab"] - 1000, (seqs, PROMPT), device=device)
    at = torch.tensor([PROMPT], device=device)
    token = torch.zeros((seqs, 1), dtype=torch.long, device=device)
    counting = [layer for layer in getattr(cache, "layers", []) if hasattr(layer, "cumulative_length")]
    call = compile_for_inference(model) if compiled else model

    def place(positions):
        """Older versions are told where tokens go; newer ones count them in the cache."""
        return {} if counting else {"cache_position": positions}

    @torch.no_grad()
    def begin():
        for layer in counting:
            layer.cumulative_length.fill_(PROMPT)
        at.fill_(PROMPT)

    @torch.no_grad()
    def steps():
        for _ in range(BLOCK):
            logits = call(input_ids=token, past_key_values=cache, use_cache=True, **place(at)).logits
            token.copy_(logits[:, -1].argmax(-1, keepdim=True))
            at.add_(1)

    with torch.no_grad():
        # Not compiled: the cache's memory must be its own, not that of a CUDA graph.
        logits = model(input_ids=prompt, past_key_values=cache, use_cache=True, **place(torch.arange(PROMPT, device=device))).logits
        token.copy_(logits[:, -1].argmax(-1, keepdim=True))
    begin()
    steps()
    finish(device)

    def turn():
        begin()
        return BLOCK * seqs / median_seconds(steps, device, most=BLOCKS)

    return turn


def train_turn(model, shape, seqs, tokens, compiled, device):
    """Steps of AdamW in bf16 autocast with clipping."""
    model = copy.deepcopy(model)
    ids = torch.randint(shape["vocab"], (seqs, tokens + 1), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(ids):
        logits = model(ids[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    call = torch.compile(loss_of, dynamic=False) if compiled else loss_of

    def step():
        with torch.autocast(device, torch.bfloat16):
            loss = call(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    finish(device)
    return lambda: seqs * tokens / median_seconds(step, device, least=STEPS, most=STEPS)


@torch.inference_mode()
def product_turn(m, n, k, device):
    """TFLOP/s of a chain of products in bf16, replayed as a CUDA graph."""
    x = torch.randn(m, k, device=device, dtype=torch.bfloat16)
    up, down = (torch.randn(s, device=device, dtype=torch.bfloat16) / s[1] for s in ((n, k), (k, n)))

    def run():
        y = x
        for _ in range(CHAIN):
            y = torch.nn.functional.linear(torch.nn.functional.linear(y, up), down)
        return y

    run()
    finish(device)
    replay = run
    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            graph_result = run()
        replay = lambda: (graph.replay(), graph_result)[1]  # keeps the graph's memory
        for _ in range(3):
            replay()
        finish(device)
    return lambda: 4 * CHAIN * m * n * k / 1e12 / median_seconds(torch.inference_mode()(replay), device)


def skipped_graphs(device):
    """Whether something compiled since forget runs without CUDA graphs."""
    return device == "cuda" and torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] > 0


def forget(device):
    """Gives compiled code and the card's memory back."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def has_card():
    return torch.cuda.is_available()


def card():
    return torch.cuda.get_device_name(0)


def versions(compiled):
    return [f"PyTorch {torch.__version__}" + ("" if compiled else " (eager alone)"), f"transformers {transformers.__version__}"]
