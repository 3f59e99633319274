#!/usr/bin/env bash
# gpu_check.sh [--emulation]: the CUDA backend on the GPU of this host: right numbers, the same bits in any company, clean
# under compute-sanitizer where that is, and its speed on random weights in the shape of Qwen3-8B. No network. A table on
# stdout, JSON in OUT (default out/gpu-check.json). Exit 0: all checks passed; 1: one did not; 4: no GPU or no nvcc.
# --emulation runs the same steps on the host's emulation and a small model, to test this script.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-out/gpu-check.json} BIN=${BIN:-bin} BUILD=${BUILD:-build} size=8b names='qwen3 qwen2 llama mistral'
export ANYJEV_CUDA_LIB=
if [ "${1:-}" = --emulation ]; then
    size=small names='qwen3 mistral'
    export ANYJEV_CUDA_LIB=$BUILD/libanyjev_cuda_emu.so
else
    nvidia-smi -L >/dev/null 2>&1 || { echo "gpu-check: no GPU on this host (nvidia-smi -L shows none)" >&2; exit 4; }
    command -v "${NVCC:-nvcc}" >/dev/null || { echo "gpu-check: no nvcc on this host; put the CUDA toolkit's bin in PATH" >&2; exit 4; }
    make -j"$(nproc)" CUDA=1 all >&2
fi
make -s "$BUILD/libanyjev_cuda_emu.so" "$BUILD/bench/gpu" "$BUILD/bench/gpu_model" >&2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp" "${big:-}"' EXIT
golden=tests/golden/models
bad=0
note() { # CHECK PASSED DETAIL-AS-JSON
    [ "$2" = true ] || bad=1
    jq -cn --arg check "$1" --argjson passed "$2" --argjson detail "$3" '$ARGS.named' >>"$tmp/checks"
    printf '%-44s %s  %s\n' "$1" "$([ "$2" = true ] && echo ok || echo FAILED)" "$3"
}
compare() { # CHECK WANT GOT LIMIT ...
    local out passed=true check=$1
    shift
    out=$(python3 tests/compare_filled.py "$@") || passed=false
    note "$check" "$passed" "$(jq -c 'del(.passed)' <<<"$out" 2>/dev/null || echo null)"
}
gpu() { "$BIN/prefill-local" --device cuda "$@"; }

# --- the tiny models. bf16: against the emulation, which rounds at the same places, so that what is left is the order of
# sums and the roundings that it turns; against the CPU's float32 it costs more, and is judged more widely. ---
for i in 1 2 3 4; do
    printf '{"type":"item","id":"i%d","question":{"kind":"choice","text":"Which?","options":["ab","cd","ef"]},"state":{"n":%d,"text":"the column of a dataset"}}\n' "$i" "$i"
done | "$BIN/prompt-build" --template chatml | sed 's/"need":{[^}]*}/"need":{"logprobs":true,"hidden":[0,1,2,3]}/' >"$tmp/p"
for name in $names; do
    m=$golden/$name-bf16
    "$BIN/prefill-local" -m "$m" "$tmp/p" >"$tmp/cpu"
    gpu -m "$m" --compute f32 "$tmp/p" >"$tmp/f32"
    gpu -m "$m" "$tmp/p" >"$tmp/bf16"
    ANYJEV_CUDA_LIB=$BUILD/libanyjev_cuda_emu.so gpu -m "$m" "$tmp/p" >"$tmp/emulated"
    compare "$name f32 against the CPU" "$tmp/cpu" "$tmp/f32" logprob=1e-4 hidden=1e-4
    compare "$name bf16 against the emulation" "$tmp/emulated" "$tmp/bf16" logprob_rms=2e-2 logprob=0.1 hidden=1e-2
    compare "$name bf16 against the CPU's f32" "$tmp/cpu" "$tmp/bf16" logprob_rms=0.08 hidden_mean=0.015
    for i in 1 8; do sed -n "${i}p" "$tmp/p" | gpu -m "$m"; done | jq -S -c 'del(.n_reused)' >"$tmp/alone"
    tac "$tmp/p" | gpu -m "$m" --batch-tokens 150 | jq -S -c 'del(.n_reused)' | sort >"$tmp/small"
    jq -S -c 'del(.n_reused)' "$tmp/bf16" | sort >"$tmp/company"
    passed=true
    cmp -s "$tmp/small" "$tmp/company" || passed=false
    [ "$(grep -cxFf "$tmp/alone" "$tmp/company")" = 2 ] || passed=false
    note "$name: same bits alone, in small batches" "$passed" '{}'
done
if [ "$size" = 8b ] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        for name in qwen3 mistral; do
            passed=true
            head -n 2 "$tmp/p" | compute-sanitizer --tool "$tool" --error-exitcode 99 "$BIN/prefill-local" --device cuda -m "$golden/$name-bf16" >"$tmp/san" 2>&1 || passed=false
            note "compute-sanitizer $tool, $name" "$passed" '{}'
        done
    done
fi

# --- speed: 16.4 GB of random weights, in memory if there is room ---
speed=null theirs=null
where=${TMPDIR:-/tmp}
room() { df --output=avail -B1000000000 "$1" 2>/dev/null | tail -n 1 | tr -d ' '; }
[ "$(room /dev/shm || echo 0)" -lt 40 ] || where=/dev/shm
if [ "$size" = 8b ] && [ "$(room "$where")" -lt 18 ]; then
    echo "gpu-check: no room for a model of 16.4 GB in $where (TMPDIR); speed is not measured" >&2
else
    big=$(mktemp -d "$where/anyjev-gpu.XXXXXX")
    "$BUILD/bench/gpu_model" "$big/m" "$size"
    # The bench looks for the object beside itself, so it is told.
    object=${ANYJEV_CUDA_LIB:-$BIN/libanyjev_cuda.so}
    if ANYJEV_CUDA_LIB=$object "$BUILD/bench/gpu" "$big/m" cuda ${size/8b/} >"$tmp/speed" 2>"$tmp/err"; then
        speed=$(cat "$tmp/speed")
        note "$size: same bits alone" "$(jq .same_bits_alone <<<"$speed")" '{}'
        jq -r '"\(.device), \(.runtime)\nmatmul rate   \(.matmul_tflops | floor) TFLOP/s\nmodel load    \(.load_gb_per_second * 10 | floor / 10) GB/s (page cache \(.page_cache_gb_per_second * 10 | floor / 10))",
            (.workloads[] | "\(.name): \(.tokens) tokens, \(.tokens_per_second | floor) tokens/s, \(.decisions_per_second * 10 | floor / 10) decisions/s"
            + (if .of_matmul_rate then ", \(.of_matmul_rate * 1000 | floor / 10) % of the matmul rate" else "" end))' <<<"$speed"
    else
        note "$size: speed" false "$(jq -Rsc . <"$tmp/err")"
    fi
    if [ "$size" = 8b ] && python3 -c 'import torch, transformers; assert torch.cuda.is_available()' 2>/dev/null; then
        theirs=$(python3 tests/gpu_transformers.py "$big/m") || theirs=null
        echo "transformers (SDPA) 24 x 60 on 800: $(jq -c .decisions_per_second <<<"$theirs") decisions/s"
    fi
fi
mkdir -p "$(dirname "$OUT")"
jq -s --argjson speed "$speed" --argjson transformers "$theirs" '{checks: ., speed: $speed, transformers: $transformers}' "$tmp/checks" >"$OUT"
echo "gpu-check: $([ $bad = 0 ] && echo "all checks passed" || echo "a check FAILED"); JSON in $OUT"
exit $bad
