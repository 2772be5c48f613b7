"""Tests scripts/peers_gpu.py without a card and without PyTorch: gpubench and
PyTorch are stand-ins. internal/gpubench runs it.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers_gpu
import peers_gpu_report as report
from peers_gpu_signals import Signals, TimeUp

PAGE = f"before\n{report.BEGIN}old\n{report.END}\nafter\n"
# Answers as gpubench does; two works fail.
GPUBENCH = """#!{python}
import json, os, sys
value = dict(zip(sys.argv[1::1], sys.argv[2::1]))
if "-convert" in value:
    open(value["-convert"], "w").close()
    sys.exit()
work, model = value["-work"], os.path.basename(value.get("-m", ""))
open(os.path.join({folder!r}, "pids"), "a").write(str(os.getpid()) + "\\n")
if work == "embed 32x128":
    sys.exit("gpubench: no memory for it")
print(json.dumps(dict(tflops=1)), flush=True)  # a line that nobody asked for
print(json.dumps(dict(ready=work, hotpath="abc1234")), flush=True)
for turn, _ in enumerate(sys.stdin):
    if work == "embed 1024x128" and turn == 2:
        sys.exit("gpubench: the card is lost")
    if work == {silent!r}:
        sys.stdin.read()
    open(os.path.join({folder!r}, "turns"), "a").write("hotpath " + model + work + "\\n")
    print(json.dumps(dict(work=work, tok_s=400.0 + turn)), flush=True)
"""


class Torch:
    """In place of peers_gpu_torch."""

    def __init__(self, folder, pause, late):
        self.folder, self.pause, self.late = folder, pause, late

    def build(self, shape, path, device):
        if shape["kind"] == "gpt2":
            raise RuntimeError("no room")
        os.makedirs(path, exist_ok=True)
        return shape["kind"]

    def turns_of(self, model, shape, work, compiled, device):
        if compiled and work == "decode 8":
            raise ValueError("it does | not\ncompile")

        turns = iter(range(100))

        def turn():
            time.sleep(self.pause)
            if work == self.late and next(turns) == 2:
                raise peers_gpu.TimeUp
            with open(os.path.join(self.folder, "turns"), "a") as f:
                f.write(f"{'compiled' if compiled else 'eager'} {work}\n")
            return 200.0 if compiled else 100.0

        return turn

    def forget(self, device):
        pass

    def skipped_graphs(self, device):
        return False

    def card(self):
        return "NVIDIA H200"

    def versions(self, compiled):
        return ["PyTorch 9.9"]


class Measuring(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.bench = self.file("gpubench", "")
        self.answer_all_but("")
        self.page = self.file("page.md", PAGE)

    def answer_all_but(self, silent):
        self.file("gpubench", GPUBENCH.format(python=sys.executable, folder=self.folder, silent=silent))
        os.chmod(self.bench, stat.S_IRWXU)

    def alive(self):
        """The processes of gpubench that were left."""
        return [pid for pid in self.read("pids").split() if os.path.exists(f"/proc/{pid}")]

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as f:
            return f.read()

    def measure(self, pause=0, late="", **flags):
        a = argparse.Namespace(**{**dict(bench=self.bench, compile=True, docs=self.page, json=os.path.join(self.folder, "rows.jsonl"), partial=None, limit=None, rounds=5, only=None, dry=False), **flags})
        run = peers_gpu.Run(a, Torch(self.folder, pause, late), self.folder)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = peers_gpu.measure(run, time.monotonic())
        return status, {row.work: row for row in run.rows()}, said.getvalue()

    def test_all_rows(self):
        status, rows, said = self.measure()
        self.assertEqual(status, 1)  # rows of hotpath failed
        page = self.read("page.md")
        self.assertTrue(page.startswith("before\n" + report.BEGIN) and page.endswith(report.END + "\nafter\n"), page)
        self.assertNotIn("old", page)
        for line in (
            "| MiniLM, 1 x 16 | 39.8 ms | 39.7 to 39.9 | 80 ms, compiled | 80 to 80 | 2.01x (2.00 to 2.02) |",
            "| MiniLM, 32 x 128 | not measured: gpubench: no memory for it |  |  |  |  |",
            "| MiniLM, 1024 x 128 | not measured: gpubench: the card is lost |  | 200 tok/s, compiled | 200 to 200 |  |",
            "| Llama 1B, decode, one sequence | 402 tok/s | 401 to 403 | 200 tok/s, compiled | 200 to 200 | 2.01x (2.00 to 2.02) |",
            "| Llama 1B, decode, one sequence, Q8_0 (PyTorch: bf16) | 402 tok/s | 401 to 403 | 200 tok/s, compiled | 200 to 200 | 2.01x (2.00 to 2.02) |",
            "| Llama 1B, decode, 8 sequences | 402 tok/s | 401 to 403 | 100 tok/s, eager; compiled: not measured | 100 to 100 | 4.02x (4.00 to 4.04) |",
            "| Llama 1B, prefill of 4,096 tokens | 402 tok/s | 401 to 403 | 200 tok/s, compiled | 200 to 200 | 2.01x (2.00 to 2.02) |",
            "| SmolLM2's shape, decode, one sequence, Q4_1 (PyTorch: bf16) | 402 tok/s | 401 to 403 | 200 tok/s, compiled | 200 to 200 | 2.01x (2.00 to 2.02) |",
            "| GPT-2 124M, training, 32 x 1024 | not measured: no model: no room |  |  |  |  |",
            "| 512 x 2048 x 2048 | 402 TFLOP/s | 401 to 403 | 100 TFLOP/s | 100 to 100 | 4.02x (4.00 to 4.04) |",
            "Geometric mean 4.02x, worst 4.02x (32768 x 1536 x 384).",
        ):
            self.assertIn(line + "\n", page)
        self.assertRegex(page, r"\n\d{4}-\d\d-\d\d: NVIDIA H200, driver \S+, rounds: 5; hotpath \w+, PyTorch 9.9\.\n" + report.END)
        self.assertIn("Llama 1B, decode, 8 sequences: PyTorch, compiled: ValueError: it does | not", said)
        lines = [json.loads(line) for line in self.read("rows.jsonl").splitlines()]
        self.assertEqual([line["work"] for line in lines], list(rows))
        self.assertEqual(lines[0]["samples"], {"hotpath": [400, 401, 402, 403, 404], "eager": [100] * 5, "compiled": [200] * 5})

    def test_turns_alternate(self):
        self.measure(only="smollm2", docs=None, rounds=2)
        names = ["hotpath smollm2decode 1", "hotpath smollm2-Q4_1.ggufdecode 1", "eager decode 1", "compiled decode 1"]
        self.assertEqual(self.read("turns").splitlines(), names + names[::-1])

    def test_every_row_of_the_plan(self):
        _, rows, _ = self.measure(docs=None, compile=False, rounds=1)
        self.assertEqual(len(rows), 22)
        for work in ("EmbeddingGemma, 1 x 16", "EmbeddingGemma, 32 x 20", "EmbeddingGemma, 256 x 128", "Llama 1B, decode, 64 sequences", "Llama 1B, decode, one sequence, Q4_0 (PyTorch: bf16)"):
            self.assertEqual(rows[work].ours, [400.0])
            self.assertEqual(rows[work].cells()[-1], "4.00x")  # one round has no interval

    def test_time_runs_out_within_a_row(self):
        status, rows, said = self.measure(late="decode 64", compile=False)
        self.assertIn("no time is left; 7 rows are not measured", said)
        page = self.read("page.md")
        self.assertIn("| GPT-2 124M, training, 32 x 1024 | not measured: no time was left |  |  |  |  |", page)
        self.assertIn("| Llama 1B, decode, 8 sequences | 402 tok/s | 401 to 403 | 100 tok/s, eager | 100 to 100 | 4.02x (4.00 to 4.04) |", page)
        self.assertIn("| Llama 1B, decode, 64 sequences | 400 tok/s | 400 to 401 | 100 tok/s, eager | 100 to 100 | 4.00x (rounds: 2) |", page)
        self.assertIn('"work": "Llama 1B, decode, 64 sequences"', self.read("rows.jsonl").splitlines()[-1])

    def test_limit(self):
        status, rows, said = self.measure(pause=0.2, limit=peers_gpu.RESERVE + 0.1)
        self.assertIn("no time is left", said)
        self.assertEqual((status, self.read("page.md")), (0, PAGE))

    def test_sigterm(self):
        self.answer_all_but("decode 8")  # after the first rows: there is no end to wait for
        threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        status, rows, said = self.measure(compile=False, docs=None, rounds=1)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertRegex(said, r"ended by SIGTERM; \d+ rows are not measured")
        self.assertEqual(self.alive(), [])

    def test_no_answer(self):
        self.answer_all_but("decode 64")
        before, peers_gpu.ANSWER = peers_gpu.ANSWER, 1
        self.addCleanup(setattr, peers_gpu, "ANSWER", before)
        _, rows, _ = self.measure(compile=False, docs=None, only="llama1b", rounds=1)
        self.assertEqual(rows["Llama 1B, decode, 64 sequences"].problem, "gpubench gave no answer within 1 s")

    def test_signals_wait_for_the_end_of_a_group(self):
        # SIGTERM comes while the processes are being closed; all of them are.
        close, closed = peers_gpu.Hotpath.close, []

        def interrupted(h):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)  # the handler is called
            close(h)
            closed.append(h)

        peers_gpu.Hotpath.close = interrupted
        self.addCleanup(setattr, peers_gpu.Hotpath, "close", close)
        status, rows, _ = self.measure(compile=False, only="llama1b", docs=None, rounds=1)
        self.assertEqual((status, len(closed), self.alive()), (143, 3, []))
        self.assertEqual(sum(bool(row.ours) for row in rows.values()), 3)  # of the first group
        self.assertEqual(len(self.read("rows.jsonl").splitlines()), 3)

    def test_partial(self):
        partial = os.path.join(self.folder, "partial.md")
        _, _, said = self.measure(only="gemm", partial=partial, rounds=1)
        self.assertEqual(self.read("page.md"), PAGE)
        self.assertIn("| 512 x 2048 x 2048 | 400 TFLOP/s |", self.read("partial.md"))
        self.assertIn(f"7 rows are complete; they are in {partial}", said)
        plan, peers_gpu.PLAN = peers_gpu.PLAN, [row for row in peers_gpu.PLAN if row[0] == "gemm"]
        self.addCleanup(setattr, peers_gpu, "PLAN", plan)
        status, _, said = self.measure(partial=partial, rounds=1)
        self.assertEqual(status, 0)
        self.assertNotIn("complete", said)
        self.assertIn("| 512 x 2048 x 2048 | 400 TFLOP/s |", self.read("page.md"))
        before = self.read("page.md")
        self.measure(partial=partial, rounds=3, late="gemm 4096x2048x2048")
        self.measure(partial=partial, rounds=1, dry=True)
        self.assertEqual(self.read("page.md"), before)

    def test_nothing_measured_keeps_the_page(self):
        self.measure(only="gpt2")
        self.assertEqual(self.read("page.md"), PAGE)


class Holding(unittest.TestCase):
    def setUp(self):
        self.signals = Signals()
        before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
        self.addCleanup(lambda: [signal.signal(n, handler) for n, handler in before.items()])
        self.addCleanup(self.signals.end)
        self.signals.start()

    def test_held(self):
        done = []
        with self.assertRaises(TimeUp) as raised:
            with self.signals.held():
                signal.raise_signal(signal.SIGTERM)
                with self.signals.held():
                    signal.raise_signal(signal.SIGINT)
                done.append("all")
        self.assertEqual((done, raised.exception.number), (["all"], signal.SIGINT))

    def test_released(self):
        with self.signals.held():
            with self.assertRaises(TimeUp):
                with self.signals.released():
                    signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            with self.assertRaises(TimeUp):
                with self.signals.released():
                    self.fail("a signal that waited is forgotten")

    def test_a_signal_of_another_thread(self):
        with self.assertRaises(TimeUp):
            with self.signals.held():
                thread = threading.Thread(target=signal.raise_signal, args=(signal.SIGTERM,))
                thread.start()
                thread.join()
                done = True
        self.assertTrue(done)

    def test_nothing_is_raised_at_the_end(self):
        self.signals.end()
        signal.raise_signal(signal.SIGTERM)


class Reporting(unittest.TestCase):
    def test_docs_errors(self):
        self.assertIn("No such file", report.check_docs("/no/such/page.md"))
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(report.END + report.BEGIN)
            f.flush()
            self.assertIn("has no <!-- peers:gpu --> before <!-- /peers:gpu -->", report.check_docs(f.name))

    def test_an_interrupted_write_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w") as f:
                f.write(PAGE)
            replace = os.replace
            self.addCleanup(setattr, os, "replace", replace)

            def interrupted(*_):
                raise TimeUp

            os.replace = interrupted
            with self.assertRaises(TimeUp):
                report.write_docs(page, "new\n")
            os.replace = replace
            self.assertEqual(os.listdir(folder), ["page.md"])
            report.write_docs(page, "new\n")
            self.assertEqual(os.listdir(folder), ["page.md"])
            with open(page) as f:
                self.assertEqual(f.read(), PAGE.replace("old", "new"))

    def test_page_of_the_documentation(self):
        self.assertEqual(report.check_docs(os.path.join(HERE, "..", "docs", "performance.md")), "")

    def test_without_graphs(self):
        row = report.Row("w", ours=[10.0], peers={"compiled": [5.0]}, no_graphs=True)
        self.assertEqual(row.cells(), ["w", "10 tok/s", "10 to 10", "5 tok/s, compiled without CUDA graphs", "5 to 5", "2.00x"])

    def test_some_products(self):
        rows = [report.Row("a", product=True, ours=[1.0], peers={"eager": [2.0]}), report.Row("b", product=True, ours=[4.0], peers={"eager": [2.0]}), report.Row("c", product=True)]
        self.assertEqual(report.summary(rows), "Geometric mean of 2 of 3 products 1.00x, worst 0.50x (a).")
        self.assertEqual(report.summary(rows[2:]), "")


class Command(unittest.TestCase):
    def fails(self, *args):
        out = subprocess.run([sys.executable, os.path.join(HERE, "peers_gpu.py"), *args], capture_output=True, text=True)
        self.assertNotEqual(out.returncode, 0, out.stdout)
        self.assertNotIn("Traceback", out.stderr)
        return out.stderr

    def test_errors_before_anything_is_measured(self):
        program = sys.executable
        self.assertIn("expected the program of internal/gpubench", self.fails())
        self.assertIn("--docs /no/page.md: No such file", self.fails(program, "--docs", "/no/page.md"))
        self.assertIn("has no <!-- peers:gpu -->", self.fails(program, "--docs", __file__.replace("_test", "_torch")))
        self.assertIn("--limit 5, expected more than", self.fails(program, "--limit", "5"))
        self.assertIn("--docs with --only", self.fails(program, "--docs", "x", "--only", "gemm"))

    def test_no_card(self):
        try:
            import torch

            if torch.cuda.is_available():
                self.skipTest("there is a card")
        except ImportError:
            pass
        self.assertRegex(self.fails(sys.executable), r"^peers_gpu: (No module named .*: pip install torch|PyTorch finds no card)")


if __name__ == "__main__":
    unittest.main()
