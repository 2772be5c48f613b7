"""make_models.py MODELS OUT   writes the GGUF files that hotpath and llama.cpp are both measured on.

  minilm-q8_0.gguf, minilm-f16.gguf   all-MiniLM-L6-v2 from MODELS, the real weights
  embeddinggemma-q8_0.gguf            EmbeddingGemma-300M in its real shape, the whole embedding table of
                                      262144 x 768 included. The weights are random, as real ones cannot
                                      be had freely, and so is the vocabulary: it is measured with token ids
  llama-1b-bf16.gguf                  Llama 1B in the shape of Llama 3.2, with random weights and vocabulary

A file that is there is not made again. Needs gguf, torch and transformers.
"""
import os, sys

SCRIPTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, SCRIPTS)

import goldens_gguf, torch, transformers, verify_gemma
from gguf import GGMLQuantizationType as Q

GEMMA_VOCAB, LLAMA_VOCAB = 262144, 128256


class Vocabulary:
    """As much of a tokenizer as a GGUF file wants: special tokens, bytes, then words that mean nothing."""
    bos_token_id, eos_token_id, pad_token_id, unk_token_id = 0, 1, 2, 3
    all_special_ids, added_tokens_decoder = [0, 1, 2], {}

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def convert_ids_to_tokens(self, ids):
        first = ["<bos>", "<eos>", "<pad>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
        return [first[i] if i < len(first) else f"▁w{i}" for i in ids]


def gemma():
    """The model without weights worth anything yet."""
    config = transformers.Gemma3TextConfig(**{**verify_gemma.CONFIG, "vocab_size": GEMMA_VOCAB})
    return transformers.Gemma3TextModel._from_config(config, attn_implementation="eager").float().eval()


def random_gemma():
    model = gemma()
    g = torch.Generator().manual_seed(5)
    for name, p in model.named_parameters():
        std = 0.1 if p.dim() == 1 else 0.12 if "embed" in name else 1.2 / p.shape[-1] ** 0.5
        p.data = std * torch.randn(p.shape, generator=g)
    return model


def random_llama():
    config = transformers.LlamaConfig(vocab_size=LLAMA_VOCAB, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                                      num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=True)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    model = model.to(torch.bfloat16).to_empty(device="cpu").eval()
    g = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        if p.dim() == 1:
            p.data.fill_(1)
            continue
        std = 0.05 if "embed" in name else p.shape[-1] ** -0.5
        for row in p.data.split(4096):
            row.copy_(std * torch.randn(row.shape, generator=g))
    return model


def main():
    models, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)

    def make(name, label, matrix_type, load):
        path = os.path.join(out, name)
        if os.path.exists(path):
            return
        model, tok = load()
        goldens_gguf.write(path + ".part", label, model, tok, "mean", matrix_type)
        os.rename(path + ".part", path)
        print(f"make_models: {path}, {os.path.getsize(path) >> 20} MiB", flush=True)

    def minilm():
        d = os.path.join(models, "all-MiniLM-L6-v2")
        return transformers.AutoModel.from_pretrained(d), transformers.AutoTokenizer.from_pretrained(d)

    make("minilm-q8_0.gguf", "bert", Q.Q8_0, minilm)
    make("minilm-f16.gguf", "bert", Q.F16, minilm)
    make("embeddinggemma-q8_0.gguf", "embeddinggemma", Q.Q8_0, lambda: (random_gemma(), Vocabulary(GEMMA_VOCAB)))
    goldens_gguf.ARCH["llama-1b"] = (*goldens_gguf.ARCH["llama"][:3], goldens_gguf.sentencepiece_vocab)
    make("llama-1b-bf16.gguf", "llama-1b", Q.BF16, lambda: (random_llama(), Vocabulary(LLAMA_VOCAB)))


if __name__ == "__main__":
    main()
