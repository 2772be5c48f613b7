"""llamacpp_peer.py MODEL.gguf THREADS [CONTEXT [plain]]   a worker (see serve.py) on llama.cpp's own C API.

CONTEXT is how many tokens a sequence may have; plain leaves out flash attention, which llama.cpp takes by itself. Timed steps take given tokens and leave out sampling, as llama-bench does.
"""
import os, sys, time

from serve import serve, timed, tokens_of, unit

import llama_cpp as ll, numpy as np

MEAN = 1  # LLAMA_POOLING_TYPE_MEAN


class Batch:
    """llama.cpp's batch of n tokens, filled in place."""

    def __init__(self, n):
        self.b = ll.llama_batch_init(n, 0, 1)

    def fill(self, rows):
        """rows: (token, position, sequence, wants output)"""
        b = self.b
        b.n_tokens = len(rows)
        for i, (token, pos, seq, output) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = token, pos, 1, seq, output
        return b

    def close(self):
        ll.llama_batch_free(self.b)


def prompt_rows(batch, every=False):
    return [(t, i, s, every or i == len(ids) - 1) for s, ids in enumerate(batch) for i, t in enumerate(ids)]


class Peer:
    def __init__(self, path, threads, tokens, plain):
        self.threads, self.tokens, self.plain = threads, tokens, plain
        ll.llama_backend_init()
        self.model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llamacpp_peer: {path} was not loaded")
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))
        self.dim = ll.llama_model_n_embd(self.model)
        self.contexts = {}
        self.batch = Batch(16 * tokens)

    def context(self, seqs, embed):
        """One for each number of sequences: the cache is divided among them."""
        if (seqs, embed) not in self.contexts:
            p = ll.llama_context_default_params()
            p.n_ctx, p.n_batch, p.n_seq_max = seqs * self.tokens, max(2048, self.tokens), seqs
            p.n_ubatch = self.tokens if embed else 512
            p.n_threads = p.n_threads_batch = self.threads
            if self.plain:
                p.flash_attn_type = 0  # LLAMA_FLASH_ATTN_TYPE_DISABLED
            p.embeddings, p.pooling_type = embed, MEAN if embed else 0
            c = ll.llama_init_from_model(self.model, p)
            if not c:
                raise RuntimeError(f"no context for {seqs} sequences")
            self.contexts[seqs, embed] = c
        c = self.contexts[seqs, embed]
        memory = ll.llama_get_memory(c)
        if memory:
            ll.llama_memory_clear(memory, False)
        return c

    def decode(self, c, rows):
        got = ll.llama_decode(c, self.batch.fill(rows))
        if got:
            raise RuntimeError(f"llama_decode returned {got}")

    def embed(self, batches):
        def job(batch):
            c = self.context(len(batch), True)
            b = self.batch.fill(prompt_rows(batch, True))
            def run():
                ll.llama_encode(c, b)
                ll.llama_synchronize(c)
            return run, tokens_of(batch)
        return timed(batches, job)

    def vectors(self, batches):
        batch = batches[0]
        c = self.context(len(batch), True)
        got = ll.llama_encode(c, self.batch.fill(prompt_rows(batch, True)))
        if got:
            raise RuntimeError(f"llama_encode returned {got}")
        return {"vectors": unit([np.ctypeslib.as_array(ll.llama_get_embeddings_seq(c, s), shape=(self.dim,)) for s in range(len(batch))])}

    def prefill(self, batches):
        def job(batch):
            c = self.context(len(batch), False)
            b = self.batch.fill(prompt_rows(batch))
            def run():
                ll.llama_decode(c, b)
                ll.llama_synchronize(c)
            return run, tokens_of(batch)
        return timed(batches, job)

    def steps(self, batches, steps):
        def job(batch):
            c = self.context(len(batch), False)
            self.decode(c, prompt_rows(batch))
            ll.llama_synchronize(c)
            def run():
                start = time.perf_counter()
                for k in range(steps):
                    self.decode(c, [(ids[k % len(ids)], len(ids) + k, s, True) for s, ids in enumerate(batch)])
                    ll.llama_synchronize(c)
                return time.perf_counter() - start
            return run, steps * len(batch)
        return timed(batches, job)

    def greedy(self, batches, steps):
        batch = batches[0]
        c = self.context(len(batch), False)
        rows = prompt_rows(batch)
        at = [i for i, r in enumerate(rows) if r[3]]
        out = [[] for _ in batch]
        for k in range(steps):
            self.decode(c, rows)
            for s, i in enumerate(at):
                out[s].append(int(np.ctypeslib.as_array(ll.llama_get_logits_ith(c, i), shape=(self.vocab,)).argmax()))
            rows = [(out[s][-1], len(ids) + k, s, True) for s, ids in enumerate(batch)]
            at = range(len(batch))
        return {"ids": out}


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    quiet = ll.llama_log_callback(lambda level, text, data: None)
    ll.llama_log_set(quiet, None)
    p = Peer(path, threads, int(sys.argv[3]) if len(sys.argv) > 3 else 1024, sys.argv[4:] == ["plain"])
    info = ll.llama_print_system_info().decode()
    has = [name for name in ("AMX_INT8", "AVX512", "AVX2") if f"{name} = 1" in info]
    serve("llama.cpp", f"in llama-cpp-python {ll.__version__}", f"{has[0] if has else 'no vector extensions'}, {threads} threads",
          {"embed": p.embed, "vectors": p.vectors, "prefill": p.prefill, "decode": p.steps, "greedy": p.greedy})


main()
