"""goldens_variants.py [OUT]   (default internal/model/testdata)

Makes tiny language models that use the less common options of their configurations, and
what transformers (f32, eager attention) answers on them: OUT/<name>/ is a Hugging Face
directory without a tokenizer, plus reference.json in the form of goldens_models.py.

  gemma3        causal, several windows, linear rope on full layers, capped logits
  llama3        the rope of Llama 3.1, biases everywhere, stored in bf16
  llama-linear  linear rope in the old spelling, and no prefix before the names
  gpt2-scaled   scores scaled by layer, an inner width of its own, relu, stored in f16
"""
import json, os, sys

import torch, transformers as T
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 50
LLAMA = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=24, max_position_embeddings=256, bos_token_id=0, eos_token_id=0)
MODELS = {
    "gemma3": (lambda: T.Gemma3TextConfig(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=12, intermediate_size=20, query_pre_attn_scalar=10, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"], max_position_embeddings=256, final_logit_softcapping=5.0, rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}), torch.float32),
    "llama3": (lambda: T.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True, rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}), torch.bfloat16),
    "llama-linear": (lambda: T.LlamaConfig(**LLAMA, tie_word_embeddings=True, rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 300.0}), torch.float32),
    "gpt2-scaled": (lambda: T.GPT2Config(vocab_size=VOCAB, n_embd=16, n_layer=3, n_head=2, n_inner=40, n_positions=128, activation_function="relu", scale_attn_by_inverse_layer_idx=True, bos_token_id=0, eos_token_id=0), torch.float16),
}


def floats(t):
    return [float(f"{x:.7g}") for x in t.flatten().tolist()]


@torch.no_grad()
def make(out, name, config, dtype, seed):
    g = torch.Generator().manual_seed(seed)
    model = T.AutoModelForCausalLM.from_config(config(), attn_implementation="eager")
    for n, p in sorted(model.named_parameters(), key=lambda np: np[0]):
        noise = torch.randn(p.shape, generator=g)
        if p.dim() == 1:
            p.data = p.data.float().mean().round() + 0.15 * noise
        else:
            table = any(s in n for s in ("embed", "wte", "wpe"))
            fan_in = p.shape[0] if "c_" in n.split(".")[-2] else p.shape[-1]
            p.data = (0.3 if table else 1.2 / fan_in ** 0.5) * noise
    d = os.path.join(out, name)
    model.to(dtype).save_pretrained(d)
    # Not model.float(): the frequencies of the rope have been rounded with the weights.
    model = T.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation="eager").eval()
    cases = []
    for n in (3, 17, 70):
        ids = torch.randint(VOCAB, (n,), generator=g)
        lp = model(ids[None]).logits[0].log_softmax(-1)
        cases.append({"text": f"{n} tokens", "ids": ids.tolist(), "nll": floats(-lp[torch.arange(n - 1), ids[1:]])})
    with open(os.path.join(d, "reference.json"), "w") as f:
        json.dump({"kind": "lm", "cases": cases}, f, separators=(",", ":"))
    generation = os.path.join(d, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    if name == "llama-linear":
        rename(d)


def rename(d):
    """As older exporters wrote it: rope_theta beside rope_scaling, and bare names."""
    path = os.path.join(d, "config.json")
    with open(path) as f:
        config = json.load(f)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope["rope_theta"]
    config["rope_scaling"] = {"type": rope["rope_type"], "factor": rope["factor"]}
    with open(path, "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")
    path = os.path.join(d, "model.safetensors")
    save_file({k.removeprefix("model."): v for k, v in load_file(path).items()}, path, {"format": "pt"})
    os.chmod(path, 0o644)


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "internal", "model", "testdata")
    for seed, (name, (config, dtype)) in enumerate(MODELS.items()):
        make(out, name, config, dtype, 31 + seed)
        print(name)
