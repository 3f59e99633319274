"""Golden values of lib/fit: anyjev 0.2.0 (the release with heads and temperatures) on drawn features and probabilities.

    python tests/golden/make_heads.py > tests/golden/heads.jsonl      (versions: requirements-heads.txt)

Lines by "what": permutation (NumPy's legacy generator), temperature, head. Features are base64 float32 [blocks][n][d].
"""
import base64
import json
import sys
import warnings

import numpy as np
from anyjev.calibrate.posthoc import TemperatureScaler, nll
from anyjev.heads import fit_head

warnings.simplefilter("ignore")


def put(**line):
    json.dump(line, sys.stdout)
    print()


def b64(a):
    return base64.b64encode(np.ascontiguousarray(a, dtype="<f4").tobytes()).decode()


def plain_ridge(X, y, K, lam):
    """A float64 reference in the primal, where anyjev solves the dual."""
    mean, scale = X.mean(0), X.std(0) + 1e-6
    Z = (X - mean) / scale
    Y = np.eye(K)[y]
    Zc = Z - Z.mean(0)
    W = np.linalg.solve(Zc.T @ Zc + lam * np.eye(Z.shape[1]), Zc.T @ (Y - Y.mean(0)))
    return Z @ W + Y.mean(0) - Z.mean(0) @ W


def head(name, F, y, K, seed=0):
    F = np.asarray(F, np.float32)
    y = np.asarray(y)
    feats = np.transpose(F, (1, 0, 2)).astype(np.float64)  # anyjev wants [N, L, d]
    best = None
    for kind in ("lda", "ridge"):
        try:
            h = fit_head(feats, y, K, kind=kind, n_folds=5, seed=seed)
        except (ValueError, np.linalg.LinAlgError):
            continue
        if not np.isfinite(h.cv["oof_nll"]):
            continue
        if best is None or h.cv["oof_nll"] < best.cv["oof_nll"]:
            best = h
    if best is None:
        put(what="head", name=name, k=K, n=len(y), d=F.shape[2], blocks=F.shape[0], labels=y.tolist(), features=b64(F), refused=True)
        return
    X = feats[:, best.layer]
    scores = best.scores(X)
    if best.kind == "ridge":
        assert np.abs(scores - plain_ridge(X, y, K, best.params["lam"])).max() < 1e-8
    put(what="head", name=name, k=K, n=len(y), d=F.shape[2], blocks=F.shape[0], labels=y.tolist(), features=b64(F), seed=seed, refused=False,
        solver=best.kind, param=best.params.get("shrinkage", best.params.get("lam")), layer=best.layer, temperature=best.temperature,
        oof_nll=best.cv["oof_nll"], oof_acc=best.cv["oof_acc"], probs=best.probs(X).tolist(), b=best.b.tolist(), W=best.W.tolist())


def main():
    for seed, n in ((0, 5), (0, 100), (7, 1000), (4294967295, 17), (1, 1), (3, 2)):
        put(what="permutation", seed=seed, n=n, perm=np.random.RandomState(seed).permutation(n).tolist())
    rng = np.random.default_rng(11)
    for k in (2, 3, 8):
        for sharp in (0.3, 1.0, 5.0):
            p = rng.dirichlet(np.ones(k), 60) ** sharp
            p /= p.sum(1, keepdims=True)
            y = np.array([rng.choice(k, p=0.7 * r + 0.3 / k) for r in p])
            t = TemperatureScaler.fit(p, y).temperature
            z = np.log(np.clip(p, 1e-12, None))
            fine = np.exp(np.linspace(np.log(t) - 0.01, np.log(t) + 0.01, 401))
            inside = abs(np.log(t)) < 2.99
            if inside:  # the minimum, by a finer search
                assert min(nll(z / f, y) for f in fine) > nll(z / t, y) - 1e-12
            put(what="temperature", k=k, probs=p.tolist(), labels=y.tolist(), temperature=t, nll=nll(z / t, y))

    def planted(n, d, K, blocks, signal_at, strength=1.5, balance=None):
        y = rng.choice(K, n, p=balance)
        codes = rng.normal(0, 1, (K, d))
        F = rng.normal(0, 1, (blocks, n, d))
        F[signal_at] += strength * codes[y] / np.sqrt(d) * 3
        return F + rng.normal(0, 1, (blocks, 1, d)), y

    head("two options, the second block tells", *planted(48, 24, 2, 3, 1), 2)
    head("four options, wide", *planted(60, 100, 4, 2, 0), 4)
    head("weak signal", *planted(70, 32, 2, 2, 1, 0.3), 2)
    head("unbalanced", *planted(60, 16, 3, 2, 1, 1.5, [0.8, 0.15, 0.05]), 3)
    F, y = planted(10, 12, 5, 1, 0)
    head("n = 2K exactly", F, np.repeat(np.arange(5), 2), 5)
    F, y = planted(30, 12, 2, 1, 0)
    head("duplicated items", np.concatenate([F, F], 1), np.concatenate([y, y]), 2)
    F, y = planted(40, 12, 2, 2, 1)
    F[:, :, 3:6] = 2.5
    head("some constant features", F, y, 2)
    head("a class that no label has", *planted(40, 12, 3, 1, 0, 1.5, [0.5, 0.5, 0.0]), 3)
    head("another seed", *planted(50, 20, 2, 2, 0), 2, seed=5)


main()
