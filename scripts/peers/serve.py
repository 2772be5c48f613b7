"""What every peer's worker shares: one JSON object per line in, one out, until standard input ends.

The first line out tells who answers: {"peer": ..., "version": ..., "detail": ...}. Then, for each request,
an answer or {"error": ...}:

  {"op": "embed", "batches": [[[ids], ...], ...]}               {"amount": [tokens, ...], "seconds": [...]}
  {"op": "prefill", "batches": ...}                             the same; one prompt a batch
  {"op": "decode", "batches": ..., "steps": n}                  the same, of the steps after the prompts
  {"op": "vectors", "batches": [[[ids], ...]]}                  {"vectors": [[...], ...]}, unit length
  {"op": "greedy", "batches": [[[ids], ...]], "steps": n}       {"ids": [[...], ...]}
  {"op": "leads", "batches": [[[ids], ...]], "ids": [[...]]}    {"leads": [[...], ...]}, see pytorch_peer.py

Of a timed request the first batch is there to warm up: it is run but not timed. Tokenizing, making arrays
and pooling are outside the clock for the peers; hotpath's own worker is timed over the whole call.
"""
import json, os, sys, time

# Libraries print to standard output when they feel like it; answers have it for themselves.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def timed(batches, prepare):
    """prepare(batch) gives what is measured: a function that returns the seconds it took, or None to be timed as a whole."""
    amount, seconds = [], []
    for i, batch in enumerate(batches):
        run, tokens = prepare(batch)
        start = time.perf_counter()
        inner = run()
        took = time.perf_counter() - start if inner is None else inner
        if i > 0:
            amount.append(tokens)
            seconds.append(took)
    return {"amount": amount, "seconds": seconds}


def unit(vectors):
    import numpy as np
    v = np.asarray(vectors, dtype=np.float64)
    return (v / np.linalg.norm(v, axis=-1, keepdims=True)).tolist()


def tokens_of(batch):
    return sum(map(len, batch))


def serve(peer, version, detail, ops):
    """ops: operation -> function of the request's other fields."""
    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"peer": peer, "version": version, "detail": detail})
    for line in sys.stdin:
        request = json.loads(line)
        op = request.pop("op")
        try:
            if op not in ops:
                raise ValueError(f"{peer} does not know {op}")
            answer(ops[op](**request))
        except Exception as e:
            answer({"error": f"{op}: {type(e).__name__}: {e}"})


def encoder(hidden):
    """Operations of a peer whose model gives hidden states: hidden(ids[texts, tokens]) is a function that returns
    them as [texts, tokens, dim]. Texts of a batch have one length, so there is nothing to pad or mask."""
    import numpy as np

    def prepare(batch):
        return hidden(np.array(batch, dtype=np.int64))

    def embed(batches):
        def job(batch):
            run = prepare(batch)
            def measured():
                run()
            return measured, tokens_of(batch)
        return timed(batches, job)

    def vectors(batches):
        return {"vectors": unit(np.asarray(prepare(batches[0])(), dtype=np.float64).mean(1))}

    return {"embed": embed, "vectors": vectors}
