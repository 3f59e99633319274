#!/usr/bin/env bash
# environment.sh BIN OUT QUESTIONS BACKEND LEVELS SEED LABELS...: what a bench ran on, with and for, as a JSON object
set -euo pipefail
bin=$1 out=$2 questions=$3 backend=$4 levels=$5 seed=$6
shift 6

# Text as a JSON string: backslashes, quotes and control bytes escaped.
quote() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr -d '\000-\037')"; }
# The sum of a number field over records.
sum() { { grep -oE "\"$1\":[0-9]+" "${@:2}" -h || true; } | awk -F: '{ s += $2 } END { print s + 0 }'; }
# The first record's field that is an object without objects in it.
model() { { head -n 1 "$1" | grep -oE '"model":\{[^{}]*\}' || echo '"model":null'; } | sed 's/^"model"://'; }

version=$("$bin/score" --version)
compiler=$("$bin/score" --version | sed -nE 's/.*, built with (.*)/\1/p')
cpu=$(sed -nE 's/^(model name|Model)[^:]*: *(.*)/\2/p' /proc/cpuinfo 2>/dev/null | head -n 1)
lock=$(sed -nE 's/.*"lock_sha": *"([0-9a-f]+)".*/\1/p' "${questions%.json}.lock.json" 2>/dev/null | head -n 1 || true)
filled=("$out"/as-listed.filled.jsonl "$out"/reversed.filled.jsonl)
[ ! -e "$out"/L2.filled.jsonl ] || [[ $levels != *L2* ]] || filled+=("$out"/L2.filled.jsonl)
computed=$(($(sum n_tokens "${filled[@]}") - $(sum n_reused "${filled[@]}")))

# What was left out of the held-out evaluation, a line each.
skipped=
for l in L1 L2; do
    if [ -e "$out/$l.skipped" ] && [[ ,$levels, == *,$l,* ]]; then
        while read -r line; do skipped+="${skipped:+,}$(quote "$l: ${line#head-fit: }")"; done <"$out/$l.skipped"
    fi
done

printf '{"program":%s,"compiler":%s,"cpu":%s,"machine":%s,"cores":%s,' "$(quote "$version")" "$(quote "$compiler")" "$(quote "${cpu:-unknown}")" "$(quote "$(uname -m)")" "$(nproc)"
printf '"backend":%s,"model":%s,"levels":%s,"seed":%s,"lock_sha":%s,' "$(quote "$backend")" "$(model "${filled[0]}")" "$(quote "$levels")" "$seed" "$(quote "${lock:-none}")"
printf '"inputs":{'
first=1
for f in "$@" "$questions"; do
    [ $first = 1 ] || printf ','
    first=0
    printf '%s:"%s"' "$(quote "$(basename "$f")")" "$(sha256sum <"$f" | cut -d' ' -f1)"
done
printf '},"prompts":%s,"tokens_computed":%s,"tokens_reused":%s,"prefill_ms":%s,"skipped":[%s]}\n' "$(cat "${filled[@]}" | wc -l)" "$computed" "$(sum n_reused "${filled[@]}")" \
    "$(cat "${filled[@]/%.filled.jsonl/.ms}" | awk '{ s += $1 } END { print s + 0 }')" "$skipped"
