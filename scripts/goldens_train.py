"""goldens_train.py [TESTDATA]   (default internal/testmodels/testdata)

Trains the llama and gpt2 fixtures for 20 steps with PyTorch in f32, and records what
happened, for the training engine to repeat from the same committed weights. 80 more steps
follow, of which only tokens and losses are kept.

  train/<model>.json             the recipe, the token ids of every step, 20 losses, 20 gradient
                                 norms (before clipping), checks of parameters after step 20;
                                 tokens and losses of 80 steps more
  train/<model>-grads.safetensors  the gradient of every parameter at step 0, before clipping
  train/<model>-after.safetensors  a few parameters after the last step

The recipe, in full:
  batch    several sequences of different lengths, each on its own (no attention across, positions
           from 0); every token but the first of a sequence is predicted
  loss     cross-entropy, mean over all predicted tokens of the batch (not a mean of means)
  clip     gradients times min(1, 1/(norm+1e-6)), norm over all parameters together
  AdamW    lr 1e-3, constant; betas 0.9, 0.95; eps 1e-8; bias correction; decoupled weight decay
           0.1 on every parameter of two dimensions, embeddings and position tables included,
           none on norms and biases. Order of PyTorch: p *= 1 - lr*wd, then
           p -= lr * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
  dropout  none
llama has a head of its own; gpt2's head is its embedding, one parameter with one gradient.

gpt2's bias of K adds the same to every score of a row, so its true gradient is zero, and AdamW
makes full steps of the rounding noise that is left. It changes nothing else; attn.c_attn.bias
is therefore left out of what is checked after the last step.
"""
import json, os, sys

import torch, transformers as T
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, MORE, LR, BETAS, EPS, DECAY, CLIP = 20, 80, 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
LENGTHS = [17, 5, 33, 2, 24, 9, 40, 3]  # tokens of a sequence, taken in turn
SEQUENCES = 4  # in a batch
AFTER = {
    "llama": ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"],
    "gpt2": ["transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.bias", "transformer.h.1.mlp.c_proj.weight", "transformer.ln_f.weight"],
}


def batches(tok, text):
    """Consecutive pieces of the text, from the start again when it ends."""
    ids = tok(text, add_special_tokens=False, verbose=False)["input_ids"]
    at = k = 0
    for _ in range(STEPS + MORE):
        batch = []
        for _ in range(SEQUENCES):
            n = LENGTHS[k % len(LENGTHS)]
            k += 1
            if at + n > len(ids):
                at = 0
            batch.append(ids[at:at + n])
            at += n
        yield batch


def loss_of(model, batch):
    total, count = 0.0, 0
    for ids in batch:
        x = torch.tensor([ids])
        logits = model(x).logits[0, :-1]
        total = total + torch.nn.functional.cross_entropy(logits, x[0, 1:], reduction="sum")
        count += len(ids) - 1
    return total / count


def save(tensors, path):
    save_file(tensors, path)
    os.chmod(path, 0o644)


def train(testdata, name, text):
    d = os.path.join(testdata, name)
    tok = T.AutoTokenizer.from_pretrained(d)
    model = T.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation="eager")
    model.eval()  # no dropout; gradients flow all the same
    parameters = dict(model.named_parameters())
    decay = [p for p in parameters.values() if p.dim() == 2]
    plain = [p for p in parameters.values() if p.dim() != 2]
    optimizer = torch.optim.AdamW([dict(params=decay, weight_decay=DECAY), dict(params=plain, weight_decay=0.0)], lr=LR, betas=BETAS, eps=EPS, foreach=False)
    out = os.path.join(testdata, "train")
    os.makedirs(out, exist_ok=True)
    tokens, losses, norms = [], [], []
    for step, batch in enumerate(batches(tok, text)):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if step == 0:
            save({n: p.grad.clone() for n, p in parameters.items()}, os.path.join(out, f"{name}-grads.safetensors"))
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP)))
        losses.append(loss.item())
        tokens.append(batch)
        optimizer.step()
        if step == STEPS - 1:
            save({n: parameters[n].detach().clone() for n in AFTER[name]}, os.path.join(out, f"{name}-after.safetensors"))
            checks = {n: dict(sum=p.double().sum().item(), square_sum=p.double().square().sum().item()) for n, p in parameters.items() if not n.endswith("c_attn.bias")}
    with open(os.path.join(out, f"{name}.json"), "w") as f:
        json.dump(dict(model=name, steps=STEPS, lr=LR, beta1=BETAS[0], beta2=BETAS[1], eps=EPS, weight_decay=DECAY, decayed=sorted(n for n, p in parameters.items() if p.dim() == 2),
                       clip=CLIP, tokens=tokens[:STEPS], losses=losses[:STEPS], grad_norms=norms[:STEPS], after=checks,
                       more_tokens=tokens[STEPS:], more_losses=losses[STEPS:]), f, separators=(",", ":"))
        f.write("\n")
    print(f"{name}: loss {losses[0]:.4f} -> {losses[STEPS - 1]:.4f} -> {losses[-1]:.4f}, gradient norms {min(norms):.3f} to {max(norms):.3f}")


def main():
    testdata = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "internal", "testmodels", "testdata")
    torch.set_num_threads(1)
    with open(os.path.join(testdata, "shakespeare.txt"), encoding="utf-8") as f:
        text = f.read()
    for name in AFTER:
        train(testdata, name, text)


if __name__ == "__main__":
    main()
