"""Golden values of lib/decide at L0: anyjev's own functions on drawn log-probabilities, checked against plain NumPy.

    python tests/golden/make_decide.py > tests/golden/decide.jsonl      (versions: requirements-metrics.txt)

One line per run: {"k", "shifts", "prior", "combine", "strength", "logprobs": [item][shift][position], "probes": the same,
"probs": [item][option], "flips_raw", "flips"}.
"""
import json

import numpy as np
from anyjev.calibrate.contextual import apply_contextual, batch_prior, content_free_prior
from anyjev.calibrate.permute import cyclic_shifts, flip_rate_across_perms, marginalize


def softmax(z):
    z = np.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def plain(p, perms, prior, strength, combine):
    """The same, written from DESIGN 6."""
    rows = []
    for s, perm in enumerate(perms):
        q = p[s].copy()
        if prior is not None:
            q = q / prior[s] ** strength
            q = np.clip(q, 1e-8, None)
            q = q / q.sum()
        row = np.empty(len(q))
        row[perm] = q
        rows.append(row)
    out = softmax(np.log(np.clip(rows, 1e-12, None)).mean(0)) if combine == "logmean" else np.mean(rows, 0)
    return out / out.sum()


def run(rng, n, k, kind, prior_name, combine, strength):
    perms = [list(range(k))] if kind == "score" else cyclic_shifts(k)
    bias = rng.normal(0, 2, k)

    def draw(m, scale):
        truth = rng.normal(0, scale, (m, k))
        return np.stack([[truth[i][perm] + bias + rng.normal(0, 0.3, k) - 3 for perm in perms] for i in range(m)])

    lp, probes = np.minimum(draw(n, 2.0), 0), np.minimum(draw(3, 0.2), 0)
    p = softmax(lp)
    prior = None
    if prior_name == "batch" and n >= 8:
        prior = batch_prior(p)
    if prior_name == "content_free":
        prior = np.stack([content_free_prior(softmax(probes[:, s])) for s in range(len(perms))])
    out = {"k": k, "kind": kind, "prior": prior_name, "combine": combine, "strength": strength,
           "logprobs": lp.tolist(), "probes": probes.tolist(), "probs": [], "flips_raw": [], "flips": []}
    for i in range(n):
        q = apply_contextual(p[i], np.power(prior, strength)) if prior is not None else p[i]
        probs = marginalize(q, perms, combine)
        assert np.abs(probs - plain(p[i], perms, prior, strength, combine)).max() < 1e-9
        out["probs"].append(probs.tolist())
        out["flips_raw"].append(flip_rate_across_perms(p[i], perms))
        out["flips"].append(flip_rate_across_perms(q, perms))
    print(json.dumps(out))


def main():
    rng = np.random.default_rng(7)
    for kind, k in (("noul", 2), ("choice", 3), ("choice", 5), ("choice", 8), ("score", 4)):
        for prior, strength in (("batch", 0.75), ("batch", 1.0), ("content_free", 1.0), ("none", 0.0)):
            run(rng, 9, k, kind, prior, "logmean", strength)
        run(rng, 9, k, kind, "batch", "mean", 0.75)
        run(rng, 5, k, kind, "batch", "logmean", 0.75)  # too few for a prior
    run(rng, 8, 26, "choice", "batch", "logmean", 0.75)


main()
