#!/usr/bin/env bash
# records.sh BIN: how fast records are decided and scored, beside jq reading the same file. Prints a table; nothing is asserted.
set -euo pipefail
bin=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# One million labelled decisions of 5,000 groups, about 300 MB.
awk 'BEGIN { srand(1); for (i = 0; i < 1000000; i++) { p = rand(); if (p > 0.999999) p = 0.999999;
    printf "{\"type\":\"decision\",\"id\":\"i%d\",\"question\":\"q\",\"key\":\"0123456789abcdef\",\"kind\":\"noul\",\"options\":[\"Yes\",\"No\"],\"probs\":[%.6f,%.6f],\"answer\":\"%s\",\"level\":\"L0\",\"diagnostics\":{\"flips\":0},\"model\":{\"name\":\"m\",\"fingerprint\":\"f\"},\"group\":\"c%d\",\"label\":\"%s\",\"meta\":{\"target\":\"t%d\"}}\n", i, p, 1 - p, (p >= 0.5 ? "Yes" : "No"), i % 5000, (rand() < p ? "Yes" : "No"), i % 200000 } }' >"$tmp/decisions"
# 200,000 filled prompts: 100,000 yes/no items in both orders.
awk 'BEGIN { srand(2); for (i = 0; i < 100000; i++) for (s = 0; s < 2; s++) { a = -rand() * 4; b = -rand() * 4;
    printf "{\"type\":\"prompt\",\"id\":\"i%d#%d\",\"item\":\"i%d\",\"question\":\"q\",\"key\":\"0123456789abcdef\",\"kind\":\"noul\",\"text\":\"Is it so?\",\"options\":[\"Yes\",\"No\"],\"perm\":[%d,%d],\"shift\":%d,\"labels\":[\"%s\",\"%s\"],\"logprobs\":[%.6f,%.6f],\"answer_mass\":0.9,\"missing\":[],\"model\":{\"name\":\"m\",\"fingerprint\":\"f\"},\"group\":\"c%d\"}\n", i, s, i, s, 1 - s, s, (s ? "No" : "Yes"), (s ? "Yes" : "No"), a, b, i % 500 } }' >"$tmp/prompts"

# measure NAME FILE COMMAND ...: the median of three runs, in seconds; peak memory in MiB.
measure() {
    local name=$1 file=$2
    shift 2
    for _ in 1 2 3; do
        /usr/bin/env python3 - "$@" <<'PY'
import os, resource, subprocess, sys, time
t = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
print(time.monotonic() - t, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
PY
    done | sort -n | sed -n 2p | awk -v n="$name" -v mb="$(($(stat -c %s "$file") / 1000000))" '{ printf "%-34s %7s MB %8.2f s %8.0f MB/s %8.0f MiB\n", n, mb, $1, mb / $1, $2 }'
}
measure "score, 1,000,000 decisions" "$tmp/decisions" "$bin/score" "$tmp/decisions"
measure "jq .label, the same file" "$tmp/decisions" jq -c .label "$tmp/decisions"
measure "head-apply L0, 200,000 prompts" "$tmp/prompts" "$bin/head-apply" "$tmp/prompts"
measure "jq .logprobs, the same file" "$tmp/prompts" jq -c .logprobs "$tmp/prompts"
