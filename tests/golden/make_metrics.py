"""Golden values of lib/metrics: the figures of small generated sets of decisions, by NumPy and scikit-learn.

    python tests/golden/make_metrics.py > tests/golden/metrics.jsonl      (versions: requirements-metrics.txt)

One line per set: {"name", "k", "decisions": [[probs..., label, group]...], "figures": {...}, "intervals": {...}}.
The generator of the resamples (SplitMix64) is written again here, in Python integers.
"""
import json
import sys

import numpy as np
from sklearn.metrics import brier_score_loss, f1_score, log_loss, roc_auc_score

M64 = (1 << 64) - 1


def splitmix(state):
    state = (state + 0x9E3779B97F4A7C15) & M64
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
    return state, z ^ (z >> 31)


def coverage_at(conf, right, risk):
    best, n = 0.0, len(conf)
    for threshold in sorted(set(conf)):
        kept = conf >= threshold
        if (~right[kept]).mean() <= risk:
            best = max(best, kept.sum() / n)
    return best


def aurc(conf, right):
    points = [((conf >= t).mean(), (~right[conf >= t]).mean()) for t in sorted(set(conf), reverse=True)]
    c = np.array([0.0] + [p[0] for p in points])
    r = np.array([points[0][1]] + [p[1] for p in points])
    return float(np.trapezoid(r, c))


def ece(conf, right):
    total = 0.0
    for b in np.array_split(np.argsort(conf, kind="stable"), 15):
        if len(b):
            total += len(b) / len(conf) * abs(right[b].mean() - conf[b].mean())
    return total


def figures(p, y):
    k = p.shape[1]
    answer, conf = p.argmax(1), p.max(1)
    right = answer == y
    clipped = np.clip(p[np.arange(len(y)), y], 1e-12, None)
    out = {
        "accuracy": right.mean(),
        "macro_f1": f1_score(y, answer, average="macro", zero_division=0),
        "brier": ((p - np.eye(k)[y]) ** 2).sum(1).mean(),
        "nll": -np.log(clipped).mean(),
        "ece": ece(conf, right),
        "coverage_at_5": coverage_at(conf, right, 0.05),
        "coverage_at_10": coverage_at(conf, right, 0.10),
        "aurc": aurc(conf, right),
        "auroc": roc_auc_score(y == 0, p[:, 0]) if k == 2 and 0 < (y == 0).sum() < len(y) else None,
    }
    if k == 2:  # a second opinion
        assert abs(out["brier"] - 2 * brier_score_loss(y == 0, p[:, 0])) < 1e-12
    if (p > 1e-9).all() and len(set(y)) > 1:
        assert abs(out["nll"] - log_loss(y, p, labels=list(range(k)))) < 1e-9
    return {n: None if v is None else float(v) for n, v in out.items()}


def intervals(p, y, g, seed, reps):
    """Percentiles over resamples of the groups; a group drawn twice puts its decisions in twice, beside each other."""
    live = sorted(set(g))
    rows = []
    for rep in range(reps):
        state, first = splitmix(seed)
        state = first ^ ((rep * 0x9FB21C651E98DF25) & M64)
        times = dict.fromkeys(live, 0)
        for _ in live:
            state, x = splitmix(state)
            times[live[(x * len(live)) >> 64]] += 1
        at = np.array([i for i in range(len(y)) for _ in range(times[g[i]])], dtype=int)
        rows.append(figures(p[at], y[at]))
    out = {}
    for name in rows[0]:
        v = [r[name] for r in rows if r[name] is not None]
        out[name] = [float(x) for x in np.percentile(v, [2.5, 97.5])] if 2 * len(v) > reps else None
    return out


def case(name, p, y, g):
    p = np.asarray(p, float)
    y, g = np.asarray(y), [int(x) for x in g]
    reps = 50
    line = {"name": name, "k": p.shape[1], "replicates": reps, "seed": 7,
            "decisions": [[*map(float, p[i]), int(y[i]), g[i]] for i in range(len(y))],
            "figures": figures(p, y),
            "intervals": intervals(p, y, g, 7, reps) if len(set(g)) > 1 else None}
    json.dump(line, sys.stdout)
    print()


def main():
    rng = np.random.default_rng(20261201)

    def drawn(n, k, sharp, digits=None):
        p = rng.dirichlet(np.ones(k) / sharp, n)
        if digits:
            p = np.round(p[:, :-1], digits)
            p = np.column_stack([p, np.round(1 - p.sum(1), digits)]).clip(0, 1)
            p = p / p.sum(1, keepdims=True)
        y = np.array([rng.choice(k, p=0.6 * row / row.sum() + 0.4 / k) for row in p])
        return p, y, rng.integers(0, 6, n)

    case("two options", *drawn(97, 2, 2))
    case("ties, two options", *drawn(120, 2, 2, 1))
    case("ties, four options", *drawn(150, 4, 3, 1))
    case("eight options", *drawn(211, 8, 4))
    case("fewer than the bins", *drawn(9, 3, 2))
    case("one item", [[0.25, 0.75]], [1], [0])
    p, y, g = drawn(60, 2, 1)
    p[::3] = [1, 0]
    p[1::7] = [0, 1]
    case("confidence exactly 1", p, y, g)
    p, y, g = drawn(50, 3, 2)
    case("an absent class", p, np.where(y == 2, 0, y), g)
    p, y, g = drawn(40, 2, 2)
    case("one class among the labels", p, np.zeros(40, int), g)
    case("all equal", np.tile([0.5, 0.5], (30, 1)), rng.integers(0, 2, 30), rng.integers(0, 3, 30))


main()
