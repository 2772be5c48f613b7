#!/usr/bin/env python3
"""Writes internal/train/testdata/metrics.json: what scipy and scikit-learn say
about correlations and rankings. Needs both; run from the repository root."""

import json
import pathlib

import numpy as np
from scipy import stats
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

rng = np.random.default_rng(7)
pairs = []
for n, ties in [(2, False), (10, False), (50, True), (200, True)]:
    x, y = rng.normal(size=n), rng.normal(size=n)
    y += 0.7 * x
    if ties:
        y = np.round(y)
    pairs.append({"x": x.tolist(), "y": y.tolist(), "pearson": stats.pearsonr(x, y)[0], "spearman": stats.spearmanr(x, y)[0]})

queries, one = [], []
for docs in [3, 12, 40]:
    for _ in range(4):
        scores, gain = rng.normal(size=docs), rng.integers(0, 4, size=docs) * (rng.random(docs) < 0.3)
        if gain.sum() == 0:
            gain[0] = 1
        single = np.zeros(docs, dtype=int)
        single[rng.integers(docs)] = 1
        queries.append({"scores": scores.tolist(), "relevance": gain.tolist(), "ndcg10": ndcg_score([gain], [scores], k=10)})
        # With one relevant document the average precision is 1/rank.
        one.append({"scores": scores.tolist(), "relevance": single.tolist(),
                    "rr": label_ranking_average_precision_score([single], [scores])})
out = pathlib.Path("internal/train/testdata")
out.mkdir(exist_ok=True)
(out / "metrics.json").write_text(json.dumps({"pairs": pairs, "queries": queries, "one": one}) + "\n")
