"""How far two files of filled prompts are apart: label log-probabilities (largest and root-mean-square difference) and
hidden states (largest and mean norm of the difference over the norm).

    python3 compare_filled.py WANT GOT [WHAT=LIMIT ...]      WHAT: logprob logprob_rms hidden hidden_mean

Prints one line of JSON; exit 1 when a limit is passed or the files do not hold the same prompts."""
import base64
import json
import math
import struct
import sys


def load(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def floats(text):
    raw = base64.b64decode(text)
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def norm(v):
    return math.sqrt(sum(x * x for x in v))


def main(want_path, got_path, *limits):
    want, got = load(want_path), load(got_path)
    if [p["id"] for p in want] != [p["id"] for p in got] or not want:
        sys.exit(f"compare_filled: {got_path} does not hold the prompts of {want_path}")
    logprob, hidden = [], []
    for w, g in zip(want, got):
        if set(w.get("hidden", {})) != set(g.get("hidden", {})) or len(w.get("logprobs", [])) != len(g.get("logprobs", [])):
            sys.exit(f"compare_filled: prompt {w['id']} does not have the same numbers")
        logprob += [abs(a - b) for a, b in zip(w.get("logprobs", []), g.get("logprobs", []))]
        for block, text in w.get("hidden", {}).items():
            a, b = floats(text), floats(g["hidden"][block])
            hidden.append(norm([x - y for x, y in zip(a, b)]) / norm(a))
    out = {"prompts": len(want), "compute": got[0]["model"]["compute"]}
    if logprob:
        out.update(logprob=max(logprob), logprob_rms=norm(logprob) / math.sqrt(len(logprob)))
    if hidden:
        out.update(hidden=max(hidden), hidden_mean=sum(hidden) / len(hidden))
    out["passed"] = all(out[what] <= float(limit) for what, limit in (x.split("=") for x in limits))
    print(json.dumps(out))
    return 0 if out["passed"] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
