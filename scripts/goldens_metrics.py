#!/usr/bin/env python3
"""Writes internal/train/testdata/metrics.json and evaluation.json: what scipy and
scikit-learn say about correlations and rankings, and what the evaluators of
sentence-transformers say about the vectors of the fixture bert. Needs all three;
run from the repository root."""

import json
import pathlib

import numpy as np
from scipy import stats
from sentence_transformers import SentenceTransformer, evaluation
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

OUT = pathlib.Path("internal/train/testdata")


def metrics():
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
    return {"pairs": pairs, "queries": queries, "one": one}


def fixture():
    """Pairs of texts with scores, and anchors with positives and negatives, of words that the fixture knows."""
    rng = np.random.default_rng(11)
    words = pathlib.Path("internal/testmodels/testdata/shakespeare.txt").read_text().split()

    def text():
        n = int(rng.integers(2, 9))
        at = int(rng.integers(0, len(words) - n))
        return " ".join(words[at:at + n])

    sts = [{"sentence1": text(), "sentence2": text(), "score": round(float(rng.random()), 3)} for _ in range(40)]
    retrieval = []
    for i in range(30):
        anchor = text() if i % 5 else (retrieval[-1]["anchor"] if retrieval else text())  # some anchors have two positives
        retrieval.append({"anchor": anchor, "positive": text(), "negative": text()})

    model = SentenceTransformer("internal/testmodels/testdata/bert", device="cpu").double()
    similar = evaluation.EmbeddingSimilarityEvaluator(
        [p["sentence1"] for p in sts], [p["sentence2"] for p in sts], [p["score"] for p in sts], main_similarity="cosine", write_csv=False)(model)
    anchors = sorted({p["anchor"] for p in retrieval})
    documents = sorted({p[k] for p in retrieval for k in ("positive", "negative")})
    found = evaluation.InformationRetrievalEvaluator(
        {str(i): a for i, a in enumerate(anchors)}, {str(i): d for i, d in enumerate(documents)},
        {str(i): {str(documents.index(p["positive"])) for p in retrieval if p["anchor"] == a} for i, a in enumerate(anchors)},
        mrr_at_k=[len(documents)], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1], map_at_k=[10],
        write_csv=False)(model)

    def one(values, end):
        return next(float(v) for k, v in values.items() if k.endswith(end))

    return {"sts": sts, "retrieval": retrieval,
            "pearson": one(similar, "pearson_cosine"), "spearman": one(similar, "spearman_cosine"),
            "mrr": one(found, f"mrr@{len(documents)}"), "ndcg10": one(found, "ndcg@10")}


for name, values in {"metrics": metrics(), "evaluation": fixture()}.items():
    (OUT / f"{name}.json").write_text(json.dumps(values) + "\n")
