"""Writes internal/sample/testdata/penalties.json: what llama.cpp's penalties
make of logits.

    python scripts/goldens_sample.py
"""

import json
import pathlib
import random

import llama_cpp as ll

OUT = pathlib.Path(__file__).parent.parent / "internal/sample/testdata/penalties.json"
VOCAB = 40


def penalized(case):
    """The logits after the tokens of the text were accepted."""
    sampler = ll.llama_sampler_init_penalties(
        VOCAB, len(case["text"]) if case["last_n"] < 0 else case["last_n"],
        case["repeat"], case["frequency"], case["presence"])
    for token in case["text"]:
        ll.llama_sampler_accept(sampler, token)
    data = (ll.llama_token_data * VOCAB)()
    for i, v in enumerate(case["logits"]):
        data[i].id, data[i].logit, data[i].p = i, v, 0.0
    array = ll.llama_token_data_array(data, VOCAB, -1, False)
    ll.llama_sampler_apply(sampler, array)
    ll.llama_sampler_free(sampler)
    out = [0.0] * VOCAB
    for i in range(VOCAB):
        out[array.data[i].id] = round(array.data[i].logit, 6)
    return out


def main():
    rng = random.Random(3)
    cases = []
    for repeat, presence, frequency, last_n, length in [
        (1.1, 0, 0, 64, 30), (1.5, 0, 0, 8, 100), (1, 0.7, 0, 64, 100), (1, 0, 0.3, -1, 200),
        (1.2, 0.5, 0.25, 16, 60), (0.8, -0.5, -0.1, -1, 50), (1.3, 0.1, 0.1, 64, 1), (1.3, 0.1, 0.1, 64, 0),
    ]:
        case = {
            "repeat": repeat, "presence": presence, "frequency": frequency, "last_n": last_n,
            "text": [rng.randrange(VOCAB // 2) for _ in range(length)],
            "logits": [round(rng.gauss(0, 3), 4) for _ in range(VOCAB)],
        }
        case["want"] = penalized(case)
        cases.append(case)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
