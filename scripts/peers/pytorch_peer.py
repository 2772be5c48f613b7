"""pytorch_peer.py MODEL THREADS f32|bf16   a worker (see serve.py) on PyTorch and transformers.

MODEL is a Hugging Face directory of an encoder, or a GGUF file (EmbeddingGemma's shape as make_models.py
writes it, or a Llama). In f32 it is also the reference that all answers are held against: weights of a
GGUF file are unpacked and nothing is rounded afterwards.

"leads" judges greedy text: for every token, by how much f32 prefers its own choice at that place, given
the same tokens before it. 0 where f32 would have taken the same one.
"""
import os, sys

from serve import serve, timed, tokens_of, unit

import torch, transformers

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def encoder_of(path):
    if not path.endswith(".gguf"):
        return transformers.AutoModel.from_pretrained(path)
    from make_models import gemma
    sys.path.insert(0, os.path.dirname(HERE))
    import goldens_gguf
    return goldens_gguf.read_back(path, "embeddinggemma", gemma())


def embedding(model):
    def states(batch):
        return model(torch.tensor(batch)).last_hidden_state

    def embed(batches):
        def job(batch):
            ids = torch.tensor(batch)
            def run():
                model(ids)
            return run, tokens_of(batch)
        return timed(batches, job)

    def vectors(batches):
        batch = batches[0]
        if len({len(ids) for ids in batch}) == 1:
            return {"vectors": unit(states(batch).float().mean(1).numpy())}
        return {"vectors": unit([states([ids])[0].float().mean(0).numpy() for ids in batch])}

    return {"embed": embed, "vectors": vectors}


def judging(model):
    def leads(batches, ids):
        out = []
        for prompt, text in zip(batches[0], ids):
            z = model(torch.tensor([prompt + text])).logits[0, len(prompt) - 1:-1].float()
            chosen = z.gather(1, torch.tensor(text)[:, None])[:, 0]
            out.append((z.max(1).values - chosen).tolist())
        return {"leads": out}

    return {"leads": leads}


def main():
    path, threads, precision = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    generator = path.endswith(".gguf") and any(name in os.path.basename(path).lower() for name in ("smollm2", "llama"))
    if generator:
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32)
    else:
        model = encoder_of(path)
    model = model.to(TYPES[precision]).eval()
    with torch.inference_mode():
        serve("PyTorch", torch.__version__, f"{precision}, {threads} threads", judging(model) if generator else embedding(model))


main()
