"""goldens_decoders.py [--only=NAME...] [OUT]   (default internal/model/testdata)

Makes a tiny language model of each family of decoders, with unusual options where
configurations differ, and what transformers (f32, eager attention) answers on it:
OUT/<name>/ is a Hugging Face directory without a tokenizer, plus reference.json in the
form of goldens_models.py. Texts are longer than windows and than the lengths that
stretched ropes were made for. Needs torch, transformers, safetensors.

    goldens_decoders.py --llamacpp=DIR [--only=NAME...] [OUT]

makes OUT/gguf/<name>.gguf and <name>.json instead: models whose options GGUF can say,
converted in f16 by convert_hf_to_gguf.py of the checkout DIR of llama.cpp, without a
vocabulary. Weights are rounded before transformers answers. Where llama_cpp can be
imported, its answers are printed beside those of transformers.
"""
import ctypes, json, os, shutil, sys, tempfile

import torch, transformers as T

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 50
BASE = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24, max_position_embeddings=256, bos_token_id=0, eos_token_id=0, pad_token_id=0)


def base(**kw):
    return {**BASE, **kw}


def without(*names, **kw):
    return {k: v for k, v in base(**kw).items() if k not in names}


LONG = dict(short_factor=[1.0, 1.3, 2.0, 3.5], long_factor=[1.5, 3.0, 6.0, 9.0])
MODELS = {
    "llama-yarn": lambda: T.LlamaConfig(**base(head_dim=12, num_key_value_heads=1), rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 1.5}),
    "llama-yarn-given": lambda: T.LlamaConfig(**base(head_dim=10), rope_parameters={"rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0, "original_max_position_embeddings": 20, "attention_factor": 0.7, "truncate": False}),
    "llama-dynamic": lambda: T.LlamaConfig(**base(head_dim=8, max_position_embeddings=40), rope_parameters={"rope_type": "dynamic", "rope_theta": 500.0, "factor": 3.0}),
    "llama-longrope": lambda: T.LlamaConfig(**base(head_dim=8), rope_parameters={"rope_type": "longrope", "rope_theta": 200.0, "original_max_position_embeddings": 32, **LONG}),
    "qwen2": lambda: T.Qwen2Config(**base(num_hidden_layers=3, use_sliding_window=True, sliding_window=7, max_window_layers=1, hidden_size=24, tie_word_embeddings=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "qwen3": lambda: T.Qwen3Config(**base(head_dim=10, num_key_value_heads=1, attention_bias=True, rms_norm_eps=1e-3), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "granite": lambda: T.GraniteConfig(**base(attention_bias=True, mlp_bias=True, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=1.7), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "smollm3": lambda: T.SmolLM3Config(**base(num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0], use_sliding_window=True, sliding_window=11, tie_word_embeddings=False), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "olmo2": lambda: T.Olmo2Config(**base(hidden_size=24, rms_norm_eps=1e-3), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "olmo3": lambda: T.Olmo3Config(**base(num_hidden_layers=4, hidden_size=24, sliding_window=8), rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
    "phi3": lambda: T.Phi3Config(**base(hidden_size=40, sliding_window=13, partial_rotary_factor=0.8, original_max_position_embeddings=32), rope_parameters={"rope_type": "longrope", "rope_theta": 200.0, "partial_rotary_factor": 0.8, **LONG}),
    "gpt-neox": lambda: T.GPTNeoXConfig(**without("num_key_value_heads", hidden_size=24, num_attention_heads=3, layer_norm_eps=1e-3), rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.5}),
    "gpt-neox-sequential": lambda: T.GPTNeoXConfig(**without("num_key_value_heads", hidden_size=24, hidden_act="relu", use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True), rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 900.0, "partial_rotary_factor": 0.4}),
    "starcoder2": lambda: T.Starcoder2Config(**base(hidden_size=24, norm_epsilon=1e-3, sliding_window=10), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "starcoder2-plain": lambda: T.Starcoder2Config(**base(use_bias=False, tie_word_embeddings=False, hidden_act="gelu"), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "falcon": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", layer_norm_epsilon=1e-3, multi_query=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "falcon-new": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", num_kv_heads=2, new_decoder_architecture=True, bias=True, tie_word_embeddings=False, ffn_hidden_size=40), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "falcon-sequential": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", multi_query=False, parallel_attn=False, bias=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "stablelm": lambda: T.StableLmConfig(**base(hidden_size=32, use_qkv_bias=True, layer_norm_eps=1e-3), rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.5}),
    "stablelm-parallel": lambda: T.StableLmConfig(**base(hidden_size=32, num_key_value_heads=1, use_parallel_residual=True, tie_word_embeddings=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.25}),
    "gemma": lambda: T.GemmaConfig(**base(head_dim=10, num_key_value_heads=1), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "gemma2": lambda: T.Gemma2Config(**base(head_dim=10, num_hidden_layers=3, sliding_window=9, query_pre_attn_scalar=20, attn_logit_softcapping=2.0, final_logit_softcapping=4.0), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "phi2": lambda: T.PhiConfig(**base(hidden_size=32), rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.5}),
    "cohere": lambda: T.CohereConfig(**base(logit_scale=0.6, layer_norm_eps=1e-3), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "mixtral": lambda: T.MixtralConfig(**base(num_local_experts=5, num_experts_per_tok=2, sliding_window=12), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "qwen3-moe": lambda: T.Qwen3MoeConfig(**base(num_hidden_layers=3, head_dim=12, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[1]), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "qwen2-moe": lambda: T.Qwen2MoeConfig(**base(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=20, use_sliding_window=True, sliding_window=9, max_window_layers=2), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "mistral": lambda: T.MistralConfig(**base(head_dim=12, sliding_window=9), rope_parameters={"rope_type": "default", "rope_theta": 700.0}),
    "stablelm-heads": lambda: T.StableLmConfig(**base(hidden_size=32, qk_layernorm=True, layer_norm_eps=1e-3), rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.5}),
    "phi2-heads": lambda: T.PhiConfig(**base(hidden_size=32, num_hidden_layers=1, qk_layernorm=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.5}),
    "cohere-heads": lambda: T.CohereConfig(**base(logit_scale=0.6, use_qk_norm=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "falcon-alibi": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", num_attention_heads=6, hidden_size=24, alibi=True, multi_query=False, parallel_attn=False, bias=True), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "falcon-alibi-new": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", num_kv_heads=2, new_decoder_architecture=True, alibi=True, num_ln_in_parallel_attn=1), rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "gemma3-capped": lambda: T.Gemma3TextConfig(**base(head_dim=10, num_hidden_layers=2, sliding_window=9, query_pre_attn_scalar=20, attn_logit_softcapping=2.0)),
}

PLAIN = dict(rope_parameters={"rope_type": "default", "rope_theta": 900.0})
FILES = {
    "llama3": lambda: T.LlamaConfig(**base(attention_bias=True, mlp_bias=True), rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
    "llama-linear": lambda: T.LlamaConfig(**base(tie_word_embeddings=True), rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 300.0}),
    "llama-yarn": lambda: T.LlamaConfig(**base(num_key_value_heads=1, hidden_size=24), rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0, "beta_slow": 1.5}),
    "mistral": lambda: T.MistralConfig(**base(head_dim=12, sliding_window=None), **PLAIN),
    "mixtral": lambda: T.MixtralConfig(**base(num_local_experts=5, num_experts_per_tok=2), **PLAIN),
    "qwen2": lambda: T.Qwen2Config(**base(tie_word_embeddings=True), **PLAIN),
    "qwen3": lambda: T.Qwen3Config(**base(head_dim=10, num_key_value_heads=1), **PLAIN),
    "qwen2moe": lambda: T.Qwen2MoeConfig(**base(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=20), **PLAIN),
    "qwen3moe": lambda: T.Qwen3MoeConfig(**base(head_dim=12, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True), **PLAIN),
    "gemma": lambda: T.GemmaConfig(**base(head_dim=10, num_key_value_heads=1), rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "gemma2": lambda: T.Gemma2Config(**base(head_dim=10, num_hidden_layers=3, sliding_window=9, query_pre_attn_scalar=10, attn_logit_softcapping=2.0, final_logit_softcapping=4.0), rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "gemma3": lambda: T.Gemma3TextConfig(**base(head_dim=10, num_hidden_layers=7, sliding_window=9, query_pre_attn_scalar=10), rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
    "phi3": lambda: T.Phi3Config(**base(hidden_size=40, original_max_position_embeddings=32), rope_parameters={"rope_type": "longrope", "rope_theta": 200.0, "partial_rotary_factor": 0.8, **LONG}),
    "gptneox": lambda: T.GPTNeoXConfig(**without("num_key_value_heads", hidden_size=24, num_attention_heads=3), rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
    "starcoder2": lambda: T.Starcoder2Config(**base(), **PLAIN),
    "olmo2": lambda: T.Olmo2Config(**base(), **PLAIN),
    "olmo3": lambda: T.Olmo3Config(**base(num_hidden_layers=4, sliding_window=8), rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
    "granite": lambda: T.GraniteConfig(**base(embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=1.7), **PLAIN),
    "smollm3": lambda: T.SmolLM3Config(**base(num_hidden_layers=4), **PLAIN),
    "falcon": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", num_kv_heads=1), rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "falcon-new": lambda: T.FalconConfig(**without("num_key_value_heads", "intermediate_size", num_kv_heads=2, new_decoder_architecture=True, tie_word_embeddings=False), rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "stablelm": lambda: T.StableLmConfig(**base(hidden_size=32, use_qkv_bias=True), rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
    "stablelm-parallel": lambda: T.StableLmConfig(**base(hidden_size=32, use_parallel_residual=True), rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}),
    "phi2": lambda: T.PhiConfig(**base(hidden_size=32, intermediate_size=128, num_key_value_heads=4), rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
    "command-r": lambda: T.CohereConfig(**base(logit_scale=0.6), **PLAIN),
}


def floats(t):
    return [float(f"{x:.7g}") for x in t.flatten().tolist()]


@torch.no_grad()
def widen(model, g):
    """Wide weights, so that errors show; norms and biases near what they begin as."""
    for n, p in sorted(model.named_parameters(), key=lambda np: np[0]):
        noise = torch.randn(p.shape, generator=g)
        if p.dim() == 1:
            p.data = p.data.float().mean().round() + 0.15 * noise
        else:
            table = any(s in n for s in ("embed", "wte", "wpe"))
            p.data = (0.3 if table else 1.2 / p.shape[-1] ** 0.5) * noise


@torch.no_grad()
def reference(model, g):
    cases = []
    for n in (3, 17, 70):
        ids = torch.randint(VOCAB, (n,), generator=g)
        lp = model(ids[None], use_cache=False).logits[0].float().log_softmax(-1)
        cases.append({"text": f"{n} tokens", "ids": ids.tolist(), "nll": floats(-lp[torch.arange(n - 1), ids[1:]])})
    return {"kind": "lm", "cases": cases}


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")


def make(out, name, seed):
    g = torch.Generator().manual_seed(seed)
    model = T.AutoModelForCausalLM.from_config(MODELS[name](), attn_implementation="eager")
    widen(model, g)
    d = os.path.join(out, name)
    shutil.rmtree(d, ignore_errors=True)
    model.float().save_pretrained(d)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(d, extra)):
            os.remove(os.path.join(d, extra))
    os.chmod(os.path.join(d, "model.safetensors"), 0o644)
    # Eager attention of transformers 5 adds ALiBi to the scores and to the mask as well.
    how = "sdpa" if model.config.to_dict().get("alibi") else "eager"
    model = T.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation=how).eval()
    ref = reference(model, g)
    write(os.path.join(d, "reference.json"), ref)
    n = [x for c in ref["cases"] for x in c["nll"]]
    print(f"{name}: mean nll {sum(n) / len(n):.3f}, {os.path.getsize(os.path.join(d, 'model.safetensors'))} bytes")


def convert(llamacpp, source, to, **kw):
    """What convert_hf_to_gguf.py does, without a vocabulary; kw are its options."""
    if llamacpp not in sys.path:
        sys.path[:0] = [llamacpp, os.path.join(llamacpp, "gguf-py")]
    import gguf, pathlib
    from conversion import ModelType, get_model_architecture, get_model_class
    from conversion.base import ModelBase
    hparams = ModelBase.load_hparams(pathlib.Path(source), False)
    cls = get_model_class(get_model_architecture(hparams, ModelType.TEXT))

    class Bare(cls):
        model_arch = cls.model_arch

        def set_vocab(self):
            self.gguf_writer.add_tokenizer_model("none")
            if not any("vocab_size" in k for k in self.gguf_writer.kv_data[0]):
                self.gguf_writer.add_vocab_size(VOCAB)

    if os.path.exists(to):
        os.remove(to)
    # GPT-NeoX's converter looks where this was before transformers 5.
    hparams.setdefault("rotary_pct", (hparams.get("rope_parameters") or {}).get("partial_rotary_factor"))
    model = Bare(pathlib.Path(source), gguf.LlamaFileType.MOSTLY_F16, pathlib.Path(to), hparams=hparams, **kw)
    write_vocab_size = model.gguf_writer.add_vocab_size
    model.gguf_writer.add_vocab_size = lambda n: None if any("vocab_size" in k for k in model.gguf_writer.kv_data[0]) else write_vocab_size(n)
    model.write()


QUIET = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, user: None)


def llamacpp_nll(path, ids, ctx):
    """-log p of each token after the first, by llama_cpp."""
    import llama_cpp as L
    import numpy as np
    L.llama_log_set(QUIET, None)
    m = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    p = L.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads = ctx, 256, 256, 1
    p.type_k = p.type_v = 0  # f32
    c = L.llama_init_from_model(m, p)
    b = L.llama_batch_init(len(ids), 0, 1)
    b.n_tokens = len(ids)
    for i, t in enumerate(ids):
        b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = t, i, 1, 0, 1
    assert L.llama_decode(c, b) == 0
    z = np.ctypeslib.as_array(L.llama_get_logits(c), shape=(len(ids), VOCAB)).astype(np.float64)
    L.llama_free(c), L.llama_model_free(m)
    z -= z.max(1, keepdims=True)
    z -= np.log(np.exp(z).sum(1, keepdims=True))
    return [-z[i, ids[i + 1]] for i in range(len(ids) - 1)]


def make_file(out, name, seed, llamacpp):
    g = torch.Generator().manual_seed(seed)
    model = T.AutoModelForCausalLM.from_config(FILES[name](), attn_implementation="eager")
    widen(model, g)
    with tempfile.TemporaryDirectory() as d:
        model.half().float().save_pretrained(d)  # rounded, but the converter computes in f32
        write(os.path.join(d, "tokenizer.json"), {"model": {"vocab": {str(i): i for i in range(VOCAB)}}, "added_tokens": []})
        os.makedirs(os.path.join(out, "gguf"), exist_ok=True)
        path = os.path.join(out, "gguf", name + ".gguf")
        convert(llamacpp, d, path)
        model = T.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation="eager").eval()
    ref = reference(model, g)
    write(path.removesuffix(".gguf") + ".json", ref)
    line = f"{name}: {os.path.getsize(path)} bytes"
    try:
        import llama_cpp  # noqa: F401
    except ImportError:
        print(line)
        return
    for c in ref["cases"]:
        # LongRoPE follows the context there, and the text here.
        theirs = llamacpp_nll(path, c["ids"], 32 if name == "phi3" and len(c["ids"]) <= 32 else 256)
        line += f", {c['text']}: llama.cpp differs by {max(abs(a - b) for a, b in zip(theirs, c['nll'])):.1e}"
    print(line)


if __name__ == "__main__":
    torch.set_num_threads(1)
    flag = lambda name: [a.removeprefix(name) for a in sys.argv[1:] if a.startswith(name)]
    only, llamacpp = flag("--only="), flag("--llamacpp=")
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    out = args[0] if args else os.path.join(HERE, "..", "internal", "model", "testdata")
    for seed, name in enumerate(FILES if llamacpp else MODELS):
        if only and name not in only:
            continue
        if llamacpp:
            make_file(out, name, 201 + seed, os.path.abspath(llamacpp[0]))
        else:
            make(out, name, 101 + seed)
