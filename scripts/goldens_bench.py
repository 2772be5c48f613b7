"""Writes internal/bench/testdata/mannwhitney.json: two-sided Mann-Whitney U
tests of small samples by scipy, and where samples tie by
its permutation of all of them.

    python scripts/goldens_bench.py
"""

import json
import math
import pathlib
import random

from scipy import stats

OUT = pathlib.Path(__file__).parent.parent / "internal/bench/testdata/mannwhitney.json"


def exact(x, y):
    """The probability by trying every way to divide the samples: right for
    ties too, which the exact method of scipy takes no account of."""
    every = math.comb(len(x) + len(y), len(x))
    return stats.mannwhitneyu(x, y, method=stats.PermutationMethod(n_resamples=every)).pvalue


def main():
    rng = random.Random(5)
    tests = []
    for n, m, shift, ties in [
        (4, 4, 0, False), (5, 5, 2, False), (5, 5, 9, False), (6, 8, 1, False),
        (5, 5, 1, True), (6, 6, 2, True), (7, 5, 0, True), (8, 8, 3, True),
        (10, 10, 1, False), (20, 20, 1, False),
    ]:
        x = [rng.gauss(10, 1) for _ in range(n)]
        y = [rng.gauss(10 + shift, 1) for _ in range(m)]
        if ties:
            x, y = [float(round(v)) for v in x], [float(round(v)) for v in y]
        p = exact(x, y) if ties else stats.mannwhitneyu(x, y, method="exact").pvalue
        tests.append({"x": x, "y": y, "p": float(p), "ties": ties})
    for n, shift in [(60, 0.3), (80, 0.6)]:  # beyond what is counted
        x = [rng.gauss(10, 1) for _ in range(n)]
        y = [rng.gauss(10 + shift, 1) for _ in range(n)]
        p = stats.mannwhitneyu(x, y, method="asymptotic").pvalue
        tests.append({"x": x, "y": y, "p": float(p), "ties": False})
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(tests) + "\n")


if __name__ == "__main__":
    main()
