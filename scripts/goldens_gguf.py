"""The fixtures of goldens_models.py as GGUF files, in the conventions of llama.cpp's converter.

write_all is called by goldens_models.py. A file's reference is computed on what was read
back from it (rounded or quantized weights), so an engine that unpacks exactly has to agree
with it as closely as with the f32 model.

Conventions that an engine has to know, all of them visible in these files:
  llama            rows of Q and K are reordered inside each head from halves (x0..x_{d/2-1}, y0..) to
                   pairs (x0, y0, x1, y1, ..), because llama.cpp rotates neighbours for this architecture
  gpt2             Conv1D weights are transposed to [out][in]; Q, K and V stay one attn_qkv; no output.weight
                   when the head is the embedding
  bert             token_types is a table; no pooler; vocabulary with ▁ before word starts and no ##
  gemma-embedding  norm weights have the +1 in them; Q and K are not reordered; sliding_window is the whole
                   width w and a token sees |i-j| <= w/2; the score scale is 1/sqrt(key_length)
"""
import copy, json, os

import gguf, numpy as np, torch
from gguf import GGMLQuantizationType as Q, TokenType

# file: (model, type of matrices)
FILES = {
    "llama-f32": ("llama", Q.F32), "llama-f16": ("llama", Q.F16), "llama-bf16": ("llama", Q.BF16),
    "llama-q8_0": ("llama", Q.Q8_0), "llama-q4_1": ("llama", Q.Q4_1), "llama-q4_0": ("llama", Q.Q4_0),
    "llama-q5_0": ("llama", Q.Q5_0), "llama-q5_1": ("llama", Q.Q5_1),
    "gpt2-f16": ("gpt2", Q.F16),
    "bert-f16": ("bert", Q.F16), "bert-q8_0": ("bert", Q.Q8_0), "bert-q4_1": ("bert", Q.Q4_1),
    "embeddinggemma-f16": ("embeddinggemma", Q.F16),
}
FILE_TYPE = {Q.F32: 0, Q.F16: 1, Q.Q4_0: 2, Q.Q4_1: 3, Q.Q8_0: 7, Q.Q5_0: 8, Q.Q5_1: 9, Q.BF16: 32}

same = (lambda w: w, lambda w: w)
transposed = (lambda w: w.T.copy(), lambda w: w.T.copy())
plus_one = (lambda w: w + np.float32(1), lambda w: w - np.float32(1))


def interleaved(heads):
    """Halves to pairs within each head, and back; first axis is heads*head_dim."""
    def pairs(w):
        return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape).copy()
    def halves(w):
        return w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape).copy()
    return pairs, halves


def llama_names(c):
    q, k = interleaved(c.num_attention_heads), interleaved(c.num_key_value_heads)
    names = {"model.embed_tokens.weight": ("token_embd.weight", same), "model.norm.weight": ("output_norm.weight", same)}
    if not c.tie_word_embeddings:
        names["lm_head.weight"] = ("output.weight", same)
    for i in range(c.num_hidden_layers):
        for hf, ours, how in (("self_attn.q_proj", "attn_q", q), ("self_attn.k_proj", "attn_k", k), ("self_attn.v_proj", "attn_v", same), ("self_attn.o_proj", "attn_output", same),
                              ("mlp.gate_proj", "ffn_gate", same), ("mlp.up_proj", "ffn_up", same), ("mlp.down_proj", "ffn_down", same),
                              ("input_layernorm", "attn_norm", same), ("post_attention_layernorm", "ffn_norm", same)):
            names[f"model.layers.{i}.{hf}.weight"] = (f"blk.{i}.{ours}.weight", how)
    return names


def gpt2_names(c):
    names = {"transformer.wte.weight": ("token_embd.weight", same), "transformer.wpe.weight": ("position_embd.weight", same)}
    parts = [("transformer.ln_f", "output_norm", same)]
    for i in range(c.n_layer):
        for hf, ours, how in (("ln_1", "attn_norm", same), ("attn.c_attn", "attn_qkv", transposed), ("attn.c_proj", "attn_output", transposed),
                              ("ln_2", "ffn_norm", same), ("mlp.c_fc", "ffn_up", transposed), ("mlp.c_proj", "ffn_down", transposed)):
            parts.append((f"transformer.h.{i}.{hf}", f"blk.{i}.{ours}", how))
    for hf, ours, how in parts:
        names[hf + ".weight"] = (ours + ".weight", how)
        names[hf + ".bias"] = (ours + ".bias", same)
    return names


def bert_names(c):
    names = {f"embeddings.{hf}.weight": (f"{ours}.weight", same) for hf, ours in (("word_embeddings", "token_embd"), ("position_embeddings", "position_embd"), ("token_type_embeddings", "token_types"))}
    parts = [("embeddings.LayerNorm", "token_embd_norm")]
    for i in range(c.num_hidden_layers):
        for hf, ours in (("attention.self.query", "attn_q"), ("attention.self.key", "attn_k"), ("attention.self.value", "attn_v"), ("attention.output.dense", "attn_output"),
                         ("attention.output.LayerNorm", "attn_output_norm"), ("intermediate.dense", "ffn_up"), ("output.dense", "ffn_down"), ("output.LayerNorm", "layer_output_norm")):
            parts.append((f"encoder.layer.{i}.{hf}", f"blk.{i}.{ours}"))
    for hf, ours in parts:
        names[hf + ".weight"] = (ours + ".weight", same)
        names[hf + ".bias"] = (ours + ".bias", same)
    return names


def gemma_names(c):
    names = {"embed_tokens.weight": ("token_embd.weight", same), "norm.weight": ("output_norm.weight", plus_one)}
    for i in range(c.num_hidden_layers):
        for hf, ours, how in (("self_attn.q_proj", "attn_q", same), ("self_attn.k_proj", "attn_k", same), ("self_attn.v_proj", "attn_v", same), ("self_attn.o_proj", "attn_output", same),
                              ("self_attn.q_norm", "attn_q_norm", plus_one), ("self_attn.k_norm", "attn_k_norm", plus_one),
                              ("mlp.gate_proj", "ffn_gate", same), ("mlp.up_proj", "ffn_up", same), ("mlp.down_proj", "ffn_down", same),
                              ("input_layernorm", "attn_norm", plus_one), ("post_attention_layernorm", "post_attention_norm", plus_one),
                              ("pre_feedforward_layernorm", "ffn_norm", plus_one), ("post_feedforward_layernorm", "post_ffw_norm", plus_one)):
            names[f"layers.{i}.{hf}.weight"] = (f"blk.{i}.{ours}.weight", how)
    return names


def llama_keys(w, c, pooling):
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_vocab_size(c.vocab_size)
    w.add_rope_dimension_count(c.head_dim)


def gpt2_keys(w, c, pooling):
    w.add_context_length(c.n_positions)
    w.add_embedding_length(c.n_embd)
    w.add_feed_forward_length(4 * c.n_embd)
    w.add_head_count(c.n_head)
    w.add_layer_norm_eps(c.layer_norm_epsilon)


def bert_keys(w, c, pooling):
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_layer_norm_eps(c.layer_norm_eps)
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType[pooling.upper()])
    w.add_token_type_count(c.type_vocab_size)


def gemma_keys(w, c, pooling):
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(c.rope_parameters["sliding_attention"]["rope_theta"])
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_sliding_window(c.to_dict()["sliding_window"])  # as in config.json; the object holds w/2+1
    w.add_pooling_type(gguf.PoolingType[pooling.upper()])


def tokens_of(tok):
    size = len(tok)
    pieces = tok.convert_ids_to_tokens(list(range(size)))
    control = set(tok.all_special_ids) | {i for i, t in tok.added_tokens_decoder.items() if t.special}
    return pieces, [TokenType.CONTROL if i in control else TokenType.NORMAL for i in range(size)]


def byte_bpe_vocab(w, tok):
    pieces, types = tokens_of(tok)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(pieces)
    w.add_token_types(types)
    w.add_token_merges([" ".join(m) for m in json.loads(tok.backend_tokenizer.to_str())["model"]["merges"]])
    w.add_bos_token_id(tok.bos_token_id)
    w.add_eos_token_id(tok.eos_token_id)
    w.add_pad_token_id(tok.pad_token_id)


def wordpiece_vocab(w, tok):
    pieces, types = tokens_of(tok)
    w.add_tokenizer_model("bert")
    w.add_tokenizer_pre("jina-v2-en")  # what the converter writes for every uncased BERT vocabulary
    w.add_token_list([p if t == TokenType.CONTROL else p[2:] if p.startswith("##") else "▁" + p for p, t in zip(pieces, types)])
    w.add_token_types(types)
    for name in ("unk", "sep", "pad", "mask"):
        getattr(w, f"add_{name}_token_id")(getattr(tok, f"{name}_token_id"))
    w.add_bos_token_id(tok.cls_token_id)
    w.add_eos_token_id(tok.sep_token_id)
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)
    w.add_bool("tokenizer.ggml.add_sep_token", False)
    w.add_bool("tokenizer.ggml.normalizer.lowercase", True)


def sentencepiece_vocab(w, tok):
    """Scores in merge order: joining the best-scored pair first is then the same as the merge list."""
    pieces, types = tokens_of(tok)
    types = [TokenType.BYTE if p.startswith("<0x") and len(p) == 6 else t for p, t in zip(pieces, types)]
    types[tok.unk_token_id] = TokenType.UNKNOWN
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(pieces)
    w.add_token_scores([float(-i) for i in range(len(pieces))])
    w.add_token_types(types)
    w.add_bos_token_id(tok.bos_token_id)
    w.add_eos_token_id(tok.eos_token_id)
    w.add_unk_token_id(tok.unk_token_id)
    w.add_pad_token_id(tok.pad_token_id)
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)
    w.add_add_space_prefix(False)


ARCH = {  # model: (architecture, tensor names, metadata, vocabulary)
    "llama": ("llama", llama_names, llama_keys, byte_bpe_vocab),
    "gpt2": ("gpt2", gpt2_names, gpt2_keys, byte_bpe_vocab),
    "bert": ("bert", bert_names, bert_keys, wordpiece_vocab),
    "embeddinggemma": ("gemma-embedding", gemma_names, gemma_keys, sentencepiece_vocab),
}


def storage(name, matrix_type, shape):
    """Norms, biases and position tables stay f32, as the converter has it; a 4- or 5-bit file keeps its head in 8 bits."""
    if len(shape) < 2 or name in ("position_embd.weight", "token_types.weight"):
        return Q.F32
    if name == "output.weight" and matrix_type in (Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1):
        return Q.Q8_0
    return matrix_type


def write(path, label, model, tok, pooling, matrix_type):
    arch, names, keys, vocab = ARCH[label]
    w = gguf.GGUFWriter(path, arch)
    w.add_name(f"{label} fixture")
    w.add_block_count(model.config.num_hidden_layers)
    keys(w, model.config, pooling)
    w.add_file_type(FILE_TYPE[matrix_type])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    vocab(w, tok)
    state = model.state_dict()
    for hf, (name, (forward, _)) in names(model.config).items():
        data = forward(state[hf].float().numpy())
        t = storage(name, matrix_type, data.shape)
        w.add_tensor(name, gguf.quantize(data, t), raw_dtype=t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_back(path, label, model):
    """The model with the weights that the file holds."""
    _, names, _, _ = ARCH[label]
    tensors = {t.name: gguf.dequantize(t.data, t.tensor_type).reshape(tuple(reversed(t.shape.tolist()))) for t in gguf.GGUFReader(path).tensors}
    got = copy.deepcopy(model)
    state = got.state_dict()
    for hf, (name, (_, backward)) in names(model.config).items():
        want = state[hf].shape
        data = backward(tensors[name].astype(np.float32))
        assert data.shape == tuple(want), (name, data.shape, want)
        state[hf].copy_(torch.from_numpy(np.ascontiguousarray(data)))
    if label == "embeddinggemma":
        for layer in got.layers:
            layer.self_attn.scaling = model.config.head_dim ** -0.5
    return got


def write_all(out, loaded, texts, lm_reference, encoder_reference, write_json):
    d = os.path.join(out, "gguf")
    os.makedirs(d, exist_ok=True)
    for file, (label, matrix_type) in FILES.items():
        model, tok, pooling = loaded[label]
        path = os.path.join(d, file + ".gguf")
        write(path, label, model, tok, pooling, matrix_type)
        got = read_back(path, label, model)
        ref = lm_reference(got, tok, texts) if pooling is None else encoder_reference(got, tok, pooling, texts)
        ref["hidden"]["last_token"] = ref["hidden"]["last_token"][-1:]  # the HF directory has them all
        write_json(os.path.join(d, file + ".json"), ref)
        print(f"gguf/{file}: {os.path.getsize(path)} bytes")
