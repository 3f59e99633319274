#!/usr/bin/env bash
# fit.sh BIN: what a head costs. Solving: 300 labels, hidden size 4096, five blocks, all solvers, 5 folds, beside anyjev's NumPy on the
# same features where python3 (or $PYTHON) has anyjev 0.2. Stopping early: the small model's time to a block at 60 % of its depth
# beside a full pass over the same prompts. Prints a table; nothing is asserted.
set -euo pipefail
bin=$1 model=${2:-}
python=${PYTHON:-python3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# seconds COMMAND ...: the median of three runs.
seconds() {
    for _ in 1 2 3; do
        local start
        start=$(date +%s%N)
        "$@" >/dev/null 2>&1
        echo $((($(date +%s%N) - start) / 1000000))
    done | sort -n | sed -n 2p | awk '{ printf "%.2f", $1 / 1000 }'
}

for i in $(seq 300); do
    printf '{"type":"item","id":"%s","question":"column.annotate","state":%s,"label":"%s","group":"g%s"}\n' "$i" "$i" "$([ $(((i * 7 / 3) % 2)) = 0 ] && echo No || echo Yes)" $((i % 6))
done >"$tmp/items"
"$bin/prompt-build" --template none --level L2 --hidden 1,2,3,4,5 --random-order "$tmp/items" | "$bin/prefill-fake" --hidden-dim 4096 --code-block 3 --signal 8 >"$tmp/filled"
printf '%-52s %s s\n' "head-fit, 300 x 4096 x 5 blocks, reading included" "$(seconds "$bin/head-fit" --artifact "$tmp/a" "$tmp/filled")"
cat >"$tmp/peer.py" <<'PY'
import base64, json, sys, time
import numpy as np
from anyjev.heads import fit_head
rows = [json.loads(l) for l in open(sys.argv[1])]
F = np.stack([[np.frombuffer(base64.b64decode(r["hidden"][str(b)]), "<f4") for b in range(1, 6)] for r in rows]).astype(np.float64)
y = np.array([r["options"].index(r["label"]) for r in rows])
t = time.monotonic()
heads = [fit_head(F, y, 2, kind=k) for k in ("lda", "ridge")]
best = min(heads, key=lambda h: h.cv["oof_nll"])
print(f"{time.monotonic() - t:.2f} {best.layer + 1}")
PY
if "$python" -c 'import anyjev.heads' 2>/dev/null; then
    read -r t block < <("$python" "$tmp/peer.py" "$tmp/filled")
    printf '%-52s %s s\n' "anyjev's NumPy on the same features, solving alone" "$t"
    [ "$block" = "$(head -n 1 "$tmp/a" | sed -E 's/.*"block":([0-9]+).*/\1/')" ] || { echo "fit.sh: the two chose different blocks" >&2; exit 3; }
else
    echo "anyjev 0.2 is not there (PYTHON=... names a python3 that has it): no comparison"
fi

if [ -n "$model" ] && [ -e "$model" ]; then
    "$bin/card-parse" pipelines/examples/*.md | "$bin/prompt-build" --model "$model" --level raw --question column.annotate >"$tmp/full"
    sed 's/"need":{"logprobs":true}/"need":{"hidden":[30]}/' "$tmp/full" >"$tmp/all"
    sed 's/"need":{"logprobs":true}/"need":{"hidden":[18]}/' "$tmp/full" >"$tmp/early"
    full=$(seconds "$bin/prefill-local" --model "$model" "$tmp/all") early=$(seconds "$bin/prefill-local" --model "$model" "$tmp/early") start=$(seconds "$bin/prefill-local" --model "$model" /dev/null)
    printf '%-52s %s s\n' "prefill-local, all 30 blocks" "$full" "prefill-local, to block 18 (60 %)" "$early" "prefill-local, starting alone" "$start"
    awk -v f="$full" -v e="$early" -v s="$start" 'BEGIN { printf "%-52s %.2f (without the start: %.2f)\n", "share", e / f, (e - s) / (f - s) }'
fi
