"""The tables of scripts/peers_gpu.py: statistics of rows, Markdown, and the section
of docs/performance.md. It needs nothing but Python.
"""

import dataclasses
import functools
import json
import math
import os
import random
import shutil
import tempfile

BEGIN, END = "<!-- peers:gpu -->\n", "<!-- /peers:gpu -->"
FEWEST = 5  # rounds that say how sure a ratio is, as in internal/peerbench
DRAWS = 10000
TITLE = "Random weights in the models' shapes, beside PyTorch on the same card"
NOTE = (
    "Texts x tokens of one call; weights are bf16 unless a type is named. Decode begins behind prompts of 16 tokens: hotpath's ends at 144, PyTorch's attention reads 256 slots of its static cache at every step. "
    "PyTorch is the faster of eager and compiled with CUDA graphs (training: compiled without them), and each figure says which. "
    "It has no Q8_0, Q4_0 or Q4_1: in these rows its weights are bf16. Tokenizing is not measured.")
PRODUCTS = "Products in bf16, rows x results x k, in chains of 32 where each reads what the one before it wrote; PyTorch's are those of cublasLt:"


@dataclasses.dataclass
class Row:
    """One work. Samples are rates, tokens or TFLOP per second, one per round."""

    work: str
    unit: str = "tok/s"  # ms: a call's time is shown instead
    call: int = 0  # tokens of one call
    product: bool = False
    ours: list = dataclasses.field(default_factory=list)
    peers: dict = dataclasses.field(default_factory=dict)  # samples by mode: eager, compiled
    problem: str = ""  # why hotpath is not measured
    peer_problems: dict = dataclasses.field(default_factory=dict)  # by mode
    no_graphs: bool = False  # PyTorch's compiler took no CUDA graphs, although it was asked to
    rounds: int = 0  # where time ran out: those that were measured; 0: all
    seconds: float = 0  # that the row took, with those that share PyTorch's turns

    def mode(self):
        """The faster mode of PyTorch, None where there is none."""
        return max((m for m in self.peers if self.peers[m]), key=lambda m: median(self.peers[m]), default=None)

    def ratio(self):
        """hotpath's median over PyTorch's and its 95 % interval, None without both."""
        mode = self.mode()
        return interval(tuple(self.ours), tuple(self.peers[mode])) if self.ours and mode else None

    def measured(self):
        """Whether both have a figure of all rounds."""
        return bool(self.ours and self.mode() and not self.problem and not self.rounds)

    def shown(self, rate):
        return rate_text(1000 * self.call / rate if self.unit == "ms" else rate)

    def figures(self, samples):
        """The median with its unit, and the range of the middle half."""
        ends = sorted((quantile(samples, 0.25), quantile(samples, 0.75)), reverse=self.unit == "ms")
        return f"{self.shown(median(samples))} {self.unit}", " to ".join(map(self.shown, ends))

    def cells(self):
        if not self.ours:
            ours = (f"not measured: {self.problem or 'no time was left'}", "")
        else:
            ours = self.figures(self.ours)
        mode, peer = self.mode(), ("", "")
        if mode is not None:
            text, half = self.figures(self.peers[mode])
            failed = [f"; {m}: not measured" for m in self.peer_problems]
            label = "" if self.product else f", {mode}" + " without CUDA graphs" * (self.no_graphs and mode == "compiled")
            peer = (text + label + "".join(failed), half)
        elif self.peer_problems:
            peer = (f"not measured: {'; '.join(f'{m}: {p}' for m, p in self.peer_problems.items())}", "")
        ratio, is_times = self.ratio(), ""
        if ratio:
            is_times = f"{ratio[0]:.2f}x" + (f" ({ratio[1]:.2f} to {ratio[2]:.2f})" if ratio[1] is not None else "") + f" (rounds: {self.rounds})" * bool(self.rounds)
        return [c.replace("|", "/").replace("\n", " ") for c in (self.work, *ours, *peer, is_times)]

    def json(self):
        mode, ratio = self.mode(), self.ratio()
        return json.dumps({
            "work": self.work, "unit": "TFLOP/s" if self.product else "tok/s", "hotpath": median(self.ours) if self.ours else None,
            "pytorch": median(self.peers[mode]) if mode else None, "mode": mode, "ratio": ratio and ratio[0], "low": ratio and ratio[1], "high": ratio and ratio[2],
            "samples": {"hotpath": self.ours, **self.peers}, "problem": self.problem, "peer_problems": self.peer_problems,
            "no_graphs": self.no_graphs, "seconds": round(self.seconds, 1)})


@functools.lru_cache(maxsize=None)  # the page is written after every row
def interval(ours, peer):
    """The ratio of medians, and its interval if there were rounds enough."""
    rng, n = random.Random(3), min(len(ours), len(peer))
    drawn = []
    for _ in range(DRAWS if n >= FEWEST else 0):  # whole rounds, with replacement
        rounds = [rng.randrange(n) for _ in range(n)]
        drawn.append(median([ours[r] for r in rounds]) / median([peer[r] for r in rounds]))
    return median(ours) / median(peer), quantile(drawn, 0.025), quantile(drawn, 0.975)


def quantile(values, q):
    """As stats.Quantile: interpolated between values; None of none."""
    if not values:
        return None
    values = sorted(values)
    at = q * (len(values) - 1)
    i = int(at)
    return values[-1] if i + 1 >= len(values) else values[i] + (at - i) * (values[i + 1] - values[i])


def median(values):
    return quantile(values, 0.5)


def rate_text(v):
    """Three digits or whole numbers, as in the other tables."""
    return f"{v:.0f}" if v >= 100 else f"{v:.3g}"


def line(cells):
    return "| " + " | ".join(cells) + " |\n"


def table(head, rows):
    return line(head) + "|" + "---|" * len(head) + "\n" + "".join(line(r.cells()) for r in rows)


def summary(products):
    """The geometric mean and the worst of the products that have a ratio."""
    ratios = [(r.ratio()[0], r.work) for r in products if r.ratio()]
    if not ratios:
        return ""
    worst, work = min(ratios)
    mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    some = "" if len(ratios) == len(products) else f" of {len(ratios)} of {len(products)} products"
    return f"Geometric mean{some} {mean:.2f}x, worst {worst:.2f}x ({work})."


def markdown(rows, machine):
    products, works = [r for r in rows if r.product], [r for r in rows if not r.product]
    out = [f"### {TITLE}\n", NOTE + "\n"]
    if works:
        out.append(table(["work", "hotpath, median", "middle half", "PyTorch, median", "middle half", "hotpath is"], works))
    if products:
        out += [PRODUCTS + "\n", table(["product", "hotpath, median", "middle half", "cublasLt, median", "middle half", "hotpath is"], products)]
        if summary(products):
            out.append(summary(products) + "\n")
    return "\n".join([*out, machine + "\n"])


def machine_line(date, card, driver, rounds, commit, versions):
    hotpath = f"hotpath {commit}".strip()
    return f"{date}: {card}, driver {driver or 'unknown'}, rounds: {rounds}; {', '.join([hotpath, *versions])}."


def between(text, body):
    """text with body between the markers; ValueError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN.strip()} before {END}")
    return before + BEGIN + body + END + after


def check_docs(path):
    """Why the page cannot be filled in, "" if it can."""
    try:
        with open(path, encoding="utf-8") as f:
            between(f.read(), "")
    except (OSError, UnicodeError, ValueError) as e:
        return f"--docs {path}: {e.strerror if isinstance(e, OSError) else e}"
    return "" if os.access(path, os.W_OK) else f"--docs {path}: not writable"


def write_docs(path, body, to=None):
    """Fills the page's section in, atomically: in its place, or in a copy."""
    with open(path, encoding="utf-8") as f:
        text = between(f.read(), body)
    to = os.path.realpath(to or path)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(to), delete=False) as f:
        try:
            f.write(text)
            f.flush()
            shutil.copymode(path, f.name)
            os.replace(f.name, to)
        except BaseException:
            os.unlink(f.name)
            raise
