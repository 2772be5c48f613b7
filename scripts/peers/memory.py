#!/usr/bin/env python3
"""memory.py HOTPATH CACHE   resident memory of hotpath and of llama.cpp that embed with the same file, as docs/performance.md has it.

HOTPATH is the command; CACHE is the folder of setup.sh, whose CACHE/venv/bin/python must run this. Every
figure is that of a process of its own, at the moment when it holds most: what it read of the file through its
map, and what it allocated itself. hotpath is the whole command, Go's runtime and tokenizer
included; of llama.cpp the interpreter that calls it is taken off.
"""
import os, subprocess, sys, time

CALLER = """
import sys, llama_cpp as ll
path, work, context = sys.argv[1], sys.argv[2], int(sys.argv[3])
if work == "nothing":
    import time; time.sleep(0.2); sys.exit()
ll.llama_backend_init()
model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
p = ll.llama_context_default_params()
p.n_ctx = p.n_batch = context
p.n_ubatch = context
p.n_threads = p.n_threads_batch = 2
p.embeddings, p.pooling_type = True, 1
c = ll.llama_init_from_model(model, p)
b = ll.llama_batch_init(context, 0, 1)
def run(first, n):
    b.n_tokens = n
    for i in range(n):
        b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = (i * 37 + first) % 20000 + 5, first + i, 1, 0, True
    ll.llama_encode(c, b)
    ll.llama_synchronize(c)
run(0, context)
"""


def most(command):
    """(own, file) MiB of a process when it held most."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    best = (0, 0)
    while child.poll() is None:
        try:
            status = dict(line.split(":", 1) for line in open(f"/proc/{child.pid}/status"))
            now = tuple(int(status[k].split()[0]) / 1024 for k in ("RssAnon", "RssFile"))
            best = max(best, now, key=sum)
        except (OSError, KeyError):
            pass  # it has just ended
        time.sleep(0.001)
    if child.returncode:
        sys.exit(f"memory.py: {command[0]} failed; run it by hand: {' '.join(command[:3])}")
    return best


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n")[0])
    hotpath, cache = sys.argv[1:]
    text = lambda n: " ".join(["the"] * n)
    works = [
        ("all-MiniLM-L6-v2 Q8_0, one text of 256 tokens", f"{cache}/models/minilm-q8_0.gguf", "embed", 256,
         ["embed", "--truncate", "--format", "jsonl", text(254)]),
        ("EmbeddingGemma-300M Q8_0, one text of 256 tokens", f"{cache}/models/embeddinggemma-q8_0.gguf", "embed", 256,
         ["embed", "--truncate", "--format", "jsonl", text(254)]),
    ]
    print("| work | engine | of the file | its own | together |\n|---|---|---|---|---|")
    for name, path, work, context, args in works:
        ours = most([hotpath, args[0], "-m", path, "--threads", "2", *args[1:]])
        call = lambda w: most([sys.executable, "-c", CALLER, path, w, str(context)])
        theirs, python = call(work), call("nothing")
        theirs = tuple(a - b for a, b in zip(theirs, python))
        for engine, (own, file) in (("hotpath", ours), ("llama.cpp", theirs)):
            print(f"| {name} | {engine} | {file:.0f} | {own:.0f} | {own + file:.0f} |")
            name = ""


main()
