"""verify_gemma.py HOTPATH DIR [--precision f32|bf16|auto] [--vocab N] [--dense] [--remake]

EmbeddingGemma-300M in its real shape against transformers. Real weights cannot be had freely, so
they are random, drawn wide, and saved with the reference in DIR (about 0.5 GB at the default
vocabulary of 32768) as a Hugging Face directory whose config.json reads like the published one.
Texts of about 10, 600 and 2000 tokens: the 512-wide window matters for the last two.
--dense adds the two Dense modules that the published model has behind its pooling.
Exit status 1 when a cosine is under the bound. Making the model needs torch and transformers.
"""
import argparse, json, os, shutil, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = "the sum of every step is the whole, and what is not measured is only believed; so count the bytes, "
SIZES = (10, 600, 2000)

CONFIG = {  # as published, but for the vocabulary
    "_sliding_window_pattern": 6, "architectures": ["Gemma3TextModel"], "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None,
    "bos_token_id": 0, "dtype": "float32", "eos_token_id": 1, "final_logit_softcapping": None, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 1152,
    "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(24)],
    "max_position_embeddings": 2048, "model_type": "gemma3_text", "num_attention_heads": 3, "num_hidden_layers": 24, "num_key_value_heads": 1, "pad_token_id": 2,
    "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0, "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": 512,
    "use_bidirectional_attention": True, "use_cache": True,
}


def dump(value, *path):
    with open(os.path.join(*path), "w", encoding="utf-8") as f:
        json.dump(value, f)


def tokenizer():
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([WORDS], trainers.BpeTrainer(vocab_size=400, special_tokens=["<bos>", "<eos>", "<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=[("<bos>", 0), ("<eos>", 1)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", model_max_length=2048)


def make(d, vocab, dense):
    import torch, transformers
    from safetensors.torch import save_file
    work = d.rstrip("/") + ".part"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(os.path.join(work, "1_Pooling"))
    g = torch.Generator().manual_seed(5)
    model = transformers.Gemma3TextModel._from_config(transformers.Gemma3TextConfig(**{**CONFIG, "vocab_size": vocab}), attn_implementation="eager")
    for name, p in model.named_parameters():
        std = 0.1 if p.dim() == 1 else 0.12 if "embed" in name else 1.2 / p.shape[-1] ** 0.5
        p.data = std * torch.randn(p.shape, generator=g)
    model = model.float().eval()
    tok = tokenizer()
    model.save_pretrained(work)
    tok.save_pretrained(work)
    dump({**CONFIG, "vocab_size": vocab}, work, "config.json")
    again = transformers.AutoConfig.from_pretrained(work)
    assert again.rope_parameters == model.config.rope_parameters and again.sliding_window == model.config.sliding_window and again.layer_types == model.config.layer_types

    kind = "sentence_transformers.models."
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    layers = []
    if dense:
        for path, n_in, n_out in (("2_Dense", 768, 3072), ("3_Dense", 3072, 768)):
            os.makedirs(os.path.join(work, path))
            w = torch.randn(n_out, n_in, generator=g) / n_in ** 0.5
            save_file({"linear.weight": w}, os.path.join(work, path, "model.safetensors"))
            dump({"in_features": n_in, "out_features": n_out, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"}, work, path, "config.json")
            modules.append((path, "Dense"))
            layers.append(w)
    modules.append((f"{len(modules)}_Normalize", "Normalize"))
    dump([{"idx": i, "name": str(i), "path": p, "type": kind + t} for i, (p, t) in enumerate(modules)], work, "modules.json")
    dump({"max_seq_length": 2048, "do_lower_case": False}, work, "sentence_bert_config.json")
    dump({"word_embedding_dimension": 768, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}, work, "1_Pooling", "config.json")

    cases = []
    for size in SIZES:
        text = WORDS
        while len(tok(text)["input_ids"]) < size:
            text += WORDS
        while len(tok(text)["input_ids"]) > size:
            text = text[:-1]
        ids = tok(text)["input_ids"]
        with torch.no_grad():
            v = model(torch.tensor([ids]), use_cache=False).last_hidden_state[0].mean(0)
            for w in layers:
                v = w @ v
        cases.append(dict(text=text, ids=ids, embedding=(v / v.norm()).tolist()))
        print(f"reference for {len(ids)} tokens", flush=True)
    dump(dict(kind="embed", pooling="mean", cases=cases), work, "reference.json")
    shutil.rmtree(d, ignore_errors=True)
    os.rename(work, d)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("bin")
    a.add_argument("dir")
    a.add_argument("--precision", default="f32", choices=["f32", "bf16", "auto"])
    a.add_argument("--vocab", type=int, default=32768)
    a.add_argument("--dense", action="store_true")
    a.add_argument("--remake", action="store_true", help="make the model again although it is there")
    a = a.parse_args()
    if a.remake or not os.path.exists(os.path.join(a.dir, "reference.json")):
        make(a.dir, a.vocab, a.dense)
    with open(os.path.join(a.dir, "reference.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    texts = "".join(json.dumps({"text": c["text"]}) + "\n" for c in cases)
    path = os.path.join(a.dir, "texts.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(texts)
    p = subprocess.run([a.bin, "embed", "-m", a.dir, "--precision", a.precision, "-f", path, "--format", "jsonl"], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"FAIL embed: exit {p.returncode}: {p.stderr.strip()[:300]}")
    rows = [json.loads(line) for line in p.stdout.splitlines()]
    if len(rows) != len(cases):
        sys.exit(f"FAIL {len(rows)} answers for {len(cases)} texts")
    bound = 0.9999 if a.precision == "f32" else 0.9995
    failed = False
    for c, r in zip(cases, rows):
        e = r["embedding"]
        cos = sum(x * y for x, y in zip(e, c["embedding"])) / (sum(x * x for x in e) ** 0.5 or 1) if len(e) == len(c["embedding"]) else 0.0
        bad = not cos >= bound or r["tokens"] != len(c["ids"])
        failed |= bad
        print(f"{'FAIL' if bad else 'ok  '} {len(c['ids'])} tokens (hotpath {r['tokens']}): cosine {cos:.7f}, at least {bound} wanted")
    sys.exit(failed)


if __name__ == "__main__":
    main()
