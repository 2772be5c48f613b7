"""Measures hotpath beside PyTorch on one card, with random weights in the models'
shapes, and fills in the page's tables: make gpu-peers.

    python3 scripts/peers_gpu.py GPUBENCH [--compile] [--docs FILE [--partial FILE]] [--json FILE] [--limit SECONDS] [--only NAME]
    python3 scripts/peers_gpu.py --write DIR [--only NAME]

GPUBENCH is internal/gpubench, built. In each row hotpath and PyTorch are open at once
and take turns: A B C, then C B A. PyTorch runs eagerly and, with --compile, compiled
with CUDA graphs too; the faster of the two counts. Products (gemm) are PyTorch's,
which calls cublasLt.

A row that fails says why, and the next one runs. The page and --json's file are
written after every row; --limit stops before so many seconds, and rows that were not
measured say so. With --partial the page is written only when every row is measured. --write makes the models' directories, for scripts/card.sh, and
measures nothing. --dry shows without a card that all of it works, on the CPU with
small shapes.

It needs a card (--write and --dry do not) and these packages, in any recent version:
pip install torch transformers safetensors tokenizers
"""

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers_gpu_report as report
from peers_gpu_signals import Signals, TimeUp

SHAPES = {
    "minilm": dict(name="MiniLM", kind="bert", dim=384, ffn=1536, layers=6, heads=12, vocab=30522),
    "smollm2": dict(name="SmolLM2's shape", kind="llama", dim=576, ffn=1536, layers=30, heads=9, kv=3, vocab=49152),
    "llama1b": dict(name="Llama 1B", kind="llama", dim=2048, ffn=8192, layers=16, heads=32, kv=8, vocab=128256),
    "embeddinggemma": dict(name="EmbeddingGemma", kind="gemma", layers=24, vocab=262144),
    "gpt2": dict(name="GPT-2 124M", kind="gpt2", dim=768, layers=12, heads=12, vocab=50257),
}
SMALL = dict(dim=256, ffn=512, layers=2, heads=4, kv=2, vocab=4096)  # of --dry
# Products of the models with 512 rows and more: rows, results and values of a row.
PRODUCTS = ["512x2048x2048", "512x8192x2048", "4096x2048x2048", "4096x8192x2048", "4096x1536x384", "32768x1536x384", "32768x3072x768"]
# Model, work, and the types in which hotpath reads the weights ("": those of the
# directory). Rows that take little time come first.
PLAN = [
    *(("minilm", f"embed {size}", [""]) for size in ("1x16", "32x128", "1024x128")),
    *(("gemm", f"gemm {size}", [""]) for size in PRODUCTS),
    ("llama1b", "decode 1", ["", "Q8_0", "Q4_0"]),
    *(("llama1b", work, [""]) for work in ("decode 8", "decode 64", "prefill 4096")),
    ("smollm2", "decode 1", ["", "Q4_1"]),
    *(("embeddinggemma", f"embed {size}", [""]) for size in ("1x16", "32x20", "256x128")),
    ("gpt2", "train 32x1024", [""]),
]
ANSWER = 120  # seconds within which gpubench must open a work or end a turn
RESERVE = 10  # seconds of --limit for the end


signals = Signals()


def title(model, work, kind):
    what, size = work.split()
    if model == "gemm":
        return " x ".join(size.split("x"))
    name = SHAPES[model]["name"]
    if what == "decode":
        count = "one sequence" if size == "1" else f"{size} sequences"
        return f"{name}, decode, {count}" + (f", {kind} (PyTorch: bf16)" if kind else "")
    if what == "prefill":
        return f"{name}, prefill of {int(size):,} tokens"
    return f"{name}, {'training, ' * (what == 'train')}{' x '.join(size.split('x'))}"


def new_row(model, work, kind):
    row = report.Row(title(model, work, kind), product=model == "gemm", unit="TFLOP/s" if model == "gemm" else "tok/s")
    if work.startswith("embed 1x"):  # a latency
        row.unit, row.call = "ms", int(work.split("x")[1])
    return row


def small(work):
    """The work in a size for the CPU."""
    what, size = work.split()
    most = {"embed": (4, 16), "train": (2, 32), "gemm": (64, 64, 64), "decode": (2,), "prefill": (64,)}[what]
    return f"{what} {'x'.join(str(min(int(s), m)) for s, m in zip(size.split('x'), most))}"


class Hotpath:
    """gpubench with a work. It is open and warm after ready()."""

    def __init__(self, bench, path, work, device, folder):
        self.errors = tempfile.TemporaryFile("w+", dir=folder)
        model = ["-m", path] if path else []
        self.process = subprocess.Popen(
            [bench, *model, "-device", device, "-turns", "-time", "250ms", "-work", work],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env={**os.environ, "TMPDIR": folder})

    def ready(self):
        """The commit that it was built from, "" if it does not know that."""
        return self.answer("ready")["hotpath"]

    def turn(self):
        try:
            print(file=self.process.stdin, flush=True)
        except OSError:  # it has ended: its last line says why
            pass
        return self.answer("tok_s")["tok_s"]

    def answer(self, key):
        """The next line with the key; gpubench writes others too."""
        late = threading.Event()

        def give_up():
            late.set()
            self.process.kill()

        timer = threading.Timer(ANSWER, give_up)
        timer.start()
        try:
            for line in self.process.stdout:
                fields = json.loads(line)
                if key in fields:
                    return fields
        finally:
            timer.cancel()
        if late.is_set():
            raise RuntimeError(f"gpubench gave no answer within {ANSWER:g} s")
        status = self.process.wait()
        self.errors.seek(0)
        raise RuntimeError(([f"gpubench ended with status {status}"] + self.errors.read().strip().splitlines())[-1])

    def close(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):  # a request that it did not read
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


class Run:
    def __init__(self, a, torch_side, folder):
        self.a, self.torch, self.folder = a, torch_side, folder
        self.device = "cpu" if a.dry else "cuda"
        self.bench = os.path.abspath(a.bench)
        self.model = self.model_name = None
        self.problem = ""  # why there is no model
        self.commit = revision()
        plan = [(m, small(w) if a.dry else w, kinds) for m, w, kinds in PLAN if a.only in (None, m)]
        self.groups = [(m, w, [(kind, new_row(m, w, kind)) for kind in kinds]) for m, w, kinds in plan]

    def rows(self):
        return [row for _, _, group in self.groups for _, row in group]

    def all(self):
        for model, work, rows in self.groups:
            self.take(model)
            try:
                self.group(model, work, rows)
            finally:  # a part of the rounds, if time ran out
                with signals.held():
                    for _, row in rows:
                        if row.ours or row.problem:
                            self.told(row)
            self.write()

    def take(self, name):
        """Makes the model that is needed now, in place of the last one."""
        if name == self.model_name:
            return
        self.model, self.model_name, self.problem = None, name, ""
        self.torch.forget(self.device)
        if name == "gemm":
            return
        try:
            self.model = self.torch.build(self.shape(name), self.path(name), self.device)
        except Exception as e:
            self.problem = f"no model: {one_line(e)}"

    def shape(self, name):
        shape = SHAPES[name]
        return {k: SMALL.get(k, v) for k, v in shape.items()} if self.a.dry else shape

    def path(self, name, kind=""):
        return os.path.join(self.folder, name + (f"-{kind}.gguf" if kind else ""))

    def file(self, name, kind):
        """The model in a type, which is made once; None for products."""
        path = None if name == "gemm" else self.path(name, kind)
        if kind and not os.path.exists(path):
            made = subprocess.run([self.bench, "-m", self.path(name), "-convert", path, "-type", kind], capture_output=True, text=True, timeout=ANSWER)
            if made.returncode:
                raise RuntimeError((made.stderr.strip() or "gpubench wrote no file").splitlines()[-1])
        return path

    def group(self, name, work, rows):
        """Measures rows that have their work and PyTorch's turns in common."""
        ours, arms, peers = [], [], {}
        done, begin, no_graphs = 0, time.monotonic(), False  # done: whole rounds
        with signals.held():
            try:
                with signals.released():
                    for kind, row in rows:
                        row.problem = self.problem
                        if self.problem:
                            continue
                        try:
                            path = self.file(name, kind)
                            with signals.held():
                                ours.append(Hotpath(self.bench, path, work, self.device, self.folder))
                            self.commit = ours[-1].ready() or self.commit
                            arms.append((row.ours, ours[-1].turn, row, ""))
                        except Exception as e:
                            row.problem = one_line(e)
                    modes = ["eager"] + ["compiled"] * (self.a.compile and name != "gemm")
                    for mode in modes if arms else []:
                        peers[mode] = []
                        try:
                            turn = self.torch.turns_of(self.model, None if name == "gemm" else self.shape(name), work, mode == "compiled", self.device)
                            arms.append((peers[mode], turn, None, mode))
                            no_graphs = not work.startswith("train") and self.torch.skipped_graphs(self.device)
                        except Exception as e:
                            self.peer_failed(rows, mode, e)
                    while done < self.a.rounds and any(row for _, _, row, _ in arms):
                        for arm in list(arms if done % 2 == 0 else reversed(arms)):
                            samples, turn, row, mode = arm
                            try:
                                samples.append(turn())
                            except Exception as e:
                                arms.remove(arm)
                                samples.clear()
                                if row:
                                    row.problem = one_line(e)
                                else:
                                    self.peer_failed(rows, mode, e)
                        done += 1
            finally:
                signals.hold()
                for samples in [*(row.ours for _, row in rows), *peers.values()]:
                    del samples[done:]
                for _, row in rows:
                    row.peers = {mode: samples for mode, samples in peers.items() if samples}
                    row.no_graphs, row.seconds, row.rounds = no_graphs, time.monotonic() - begin, done if done < self.a.rounds else 0
                for h in ours:
                    h.close()
                arms.clear()
                self.torch.forget(self.device)

    def peer_failed(self, rows, mode, error):
        print(f"{rows[0][1].work}: PyTorch, {mode}: {type(error).__name__}: {one_line(error)}", file=sys.stderr, flush=True)
        for _, row in rows:
            row.peer_problems[mode] = f"{type(error).__name__}: {one_line(error)}"

    def told(self, row):
        print(report.line(row.cells()), end="", flush=True)
        if self.a.json:
            with open(self.a.json, "a", encoding="utf-8") as f:
                f.write(row.json() + "\n")

    def machine(self):
        versions = self.torch.versions(self.a.compile)
        card = "DRY RUN on the CPU with small shapes, no figures" if self.a.dry else self.torch.card()
        return report.machine_line(datetime.date.today().isoformat(), card, driver(), self.a.rounds, self.commit, versions)

    def write(self):
        """Fills the page in, once there is a figure."""
        if self.a.docs and any(row.ours for row in self.rows()):
            text = report.markdown(self.rows(), self.machine())
            with signals.held():
                report.write_docs(self.a.docs, text, None if self.complete() else self.a.partial)

    def complete(self):
        """Whether the page has every row."""
        return not self.a.only and not self.a.dry and all(row.measured() for row in self.rows())


def one_line(error):
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def revision():
    """The commit of the checkout, with -dirty behind it if anything but the
    documentation was changed; "" where there is none."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def git(*args):
        return subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + "-dirty" * bool(git("status", "--porcelain", "--", ".", ":!docs"))
    except (OSError, subprocess.CalledProcessError):
        return ""


def driver():
    """The version of the card's driver, "" where nobody knows it."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=30)
        return out.stdout.split()[0] if out.returncode == 0 and out.stdout.strip() else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bench", nargs="?", metavar="GPUBENCH")
    p.add_argument("--compile", action="store_true", help="PyTorch compiled with CUDA graphs too")
    p.add_argument("--docs", metavar="FILE", help="put the tables between the markers of this Markdown file")
    p.add_argument("--partial", metavar="FILE", help="leave the file of --docs alone until every row is measured, and write to this one")
    p.add_argument("--json", metavar="FILE", help="append a line per row to this file")
    p.add_argument("--limit", type=float, metavar="SECONDS", help="stop before so many seconds")
    p.add_argument("--rounds", type=int, default=5, help="turns of hotpath and of PyTorch in each row (5)")
    p.add_argument("--only", choices=[*SHAPES, "gemm"], help="one model, or gemm")
    p.add_argument("--write", metavar="DIR", help="write the models' directories under this one and measure nothing")
    p.add_argument("--dry", action="store_true", help="small shapes on the CPU: shows that all of it works")
    a = p.parse_args()
    if a.write:
        return a
    if not a.bench or not os.access(a.bench, os.X_OK) or os.path.isdir(a.bench):
        p.error("GPUBENCH, expected the program of internal/gpubench")
    if a.rounds < 1:
        p.error(f"--rounds {a.rounds}, expected 1 or more")
    if a.limit is not None and a.limit <= RESERVE:
        p.error(f"--limit {a.limit:g}, expected more than {RESERVE}")
    if a.docs and a.only and not a.partial:
        p.error("--docs with --only, expected --partial too: a table of the documentation has all rows")
    problem = a.docs and report.check_docs(a.docs)
    if problem:
        sys.exit(f"peers_gpu: {problem}")
    return a


def main():
    begin = time.monotonic()
    a = parse()
    import peers_gpu_torch as torch_side

    if a.write:
        device = "cuda" if torch_side.has_card() else "cpu"
        for name in SHAPES:
            if a.only in (None, name):
                torch_side.build(SHAPES[name], os.path.join(a.write, name), device)
                torch_side.forget(device)
        return 0
    if not a.dry and not torch_side.has_card():
        sys.exit("peers_gpu: PyTorch finds no card, and this measures on one; --dry runs on the CPU, without figures")
    with tempfile.TemporaryDirectory(prefix="peers_gpu") as folder:
        run = Run(a, torch_side, folder)
        status = measure(run, begin)
    print(f"\n{report.summary([r for r in run.rows() if r.product])}\n{run.machine()}\npeers_gpu: {time.monotonic() - begin:.0f} s", flush=True)
    return status


def measure(run, begin):
    """All rows, or those for which there is time. 1 if a row of hotpath failed, 128 and
    the signal if one ended the run."""
    status = 0
    print(report.line(["work", "hotpath", "middle half", "PyTorch", "middle half", "hotpath is"]), end="", flush=True)
    try:
        signals.start(None if run.a.limit is None else max(0.1, run.a.limit - RESERVE - (time.monotonic() - begin)))
        run.all()
        signals.end()
    except TimeUp as e:
        signals.end()
        why = {signal.SIGALRM: "no time is left", signal.SIGTERM: "ended by SIGTERM", signal.SIGINT: "interrupted"}[e.number]
        left = sum(not row.ours and not row.problem for row in run.rows())
        print(f"peers_gpu: {why}; {left} rows are not measured", file=sys.stderr, flush=True)
        run.write()
        status = 0 if e.number == signal.SIGALRM else 128 + e.number
    if run.a.docs and run.a.partial and not run.complete() and any(row.ours for row in run.rows()):
        print(f"peers_gpu: {sum(row.measured() for row in run.rows())} rows are complete; they are in {run.a.partial}, and {run.a.docs} is as it was", file=sys.stderr, flush=True)
    for row in run.rows():
        if row.problem:
            print(f"peers_gpu: {row.work}: {row.problem}", file=sys.stderr, flush=True)
            status = status or 1
    return status


if __name__ == "__main__":
    sys.exit(main())
