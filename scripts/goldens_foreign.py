"""goldens_foreign.py [TESTDATA]   (default internal/model/testdata)

Which fields of config.json mean nothing to a family: of each model of goldens_decoders.py
a copy with one field more, or with another value of it, goes through transformers (f32).
TESTDATA/foreign.json lists, by model, the fields and values that change no answer, so that
a reader that obeys one of them is found. Needs torch, transformers, safetensors.
"""
import json, os, shutil, sys, tempfile

import torch, transformers as T

HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = {
    "num_key_value_heads": 1, "num_kv_heads": 1, "n_head_kv": 1, "multi_query": False, "head_dim": 4, "rope_theta": 77.0, "rotary_emb_base": 77.0,
    "rotary_pct": 0.5, "partial_rotary_factor": 0.5, "sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0, "sliding_window_pattern": 2,
    "rms_norm_eps": 0.1, "layer_norm_eps": 0.1, "layer_norm_epsilon": 0.1, "norm_epsilon": 0.1, "norm_eps": 0.1,
    "hidden_act": "relu", "hidden_activation": "relu", "activation": "relu", "activation_function": "relu",
    "intermediate_size": 12, "ffn_hidden_size": 12, "n_inner": 12, "qk_layernorm": True, "use_qk_norm": True,
    "use_parallel_residual": False, "parallel_attn": False, "alibi": True, "new_decoder_architecture": True,
    "embedding_multiplier": 2.0, "residual_multiplier": 2.0, "attention_multiplier": 2.0, "logits_scaling": 2.0, "logit_scale": 2.0,
    "attn_logit_softcapping": 1.0, "final_logit_softcapping": 1.0, "query_pre_attn_scalar": 3.0, "no_rope_layer_interval": 2,
    "rope_local_base_freq": 77.0, "local_rope_theta": 77.0, "global_rope_theta": 77.0, "local_attention": 4, "original_max_position_embeddings": 16,
    "norm_topk_prob": False, "decoder_sparse_step": 2, "mlp_only_layers": [0], "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 6,
    "position_embedding_type": "relative_key", "is_decoder": True, "use_bidirectional_attention": True, "mlp_type": "gated", "norm_type": "rms_norm",
    "add_cross_attention": True, "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "num_ln_in_parallel_attn": 2,
}
# These replace what a rope of the default kind has.
ROPES = {"rope_parameters.partial_rotary_factor": 0.5, "rope_parameters.factor": 3.0}


@torch.no_grad()
def nll(d, ids, how):
    model = T.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation=how).eval()
    lp = model(ids[None], use_cache=False).logits[0].float().log_softmax(-1)
    return -lp[torch.arange(len(ids) - 1), ids[1:]]


def main(out):
    T.logging.set_verbosity_error()
    answer, rows = {}, 0
    for name in sorted(os.listdir(out)):
        d = os.path.join(out, name)
        if not os.path.exists(os.path.join(d, "reference.json")):
            continue
        with open(os.path.join(d, "config.json")) as f:
            config = json.load(f)
        how = "sdpa" if config.get("alibi") else "eager"
        with open(os.path.join(d, "reference.json")) as f:
            case = json.load(f)["cases"][1]
        ids, fields = torch.tensor(case["ids"]), {}
        with tempfile.TemporaryDirectory() as t:
            shutil.copy(os.path.join(d, "model.safetensors"), t)
            tries = dict(FIELDS)
            if (config.get("rope_parameters") or {}).get("rope_type") == "default":
                tries |= ROPES
            for field, value in tries.items():
                changed = dict(config)
                if "." in field:
                    at, key = field.split(".")
                    changed[at] = {**config[at], key: value}
                else:
                    changed[field] = value
                if changed == config:
                    continue
                with open(os.path.join(t, "config.json"), "w") as f:
                    json.dump(changed, f)
                try:
                    far = (nll(t, ids, how) - torch.tensor(case["nll"])).abs().max().item()
                except Exception as e:  # refused: then it may be refused here too
                    far = float("inf")
                if far < 1e-5:
                    fields[field] = value
        answer[name] = fields
        rows += len(fields)
    with open(os.path.join(out, "foreign.json"), "w") as f:
        f.write("{\n" + ",\n".join(f" {json.dumps(n)}: {json.dumps(v)}" for n, v in answer.items()) + "\n}\n")
    print(f"{len(answer)} models, {rows} fields")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "internal", "model", "testdata"))
