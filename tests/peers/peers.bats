#!/usr/bin/env bats
# The pipelines through a real llama.cpp server and a real LiteLLM proxy, compared with prefill-local. Run by make check-peers.
load ../helper
ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
BIN=${BIN:-$ROOT/bin}
PATH=$BIN:$PATH
MODEL=$ROOT/models/SmolLM2-135M-Instruct.Q4_1.gguf
PEERS=${PEERS:-$ROOT/.venv-peers}
PEERS_MODEL=${PEERS_MODEL:-$PEERS/SmolLM2-135M-Instruct.f16.gguf}
export ANYJEV_API_KEY=sk-peers-0123456789abcdef # of the proxy, on loopback, for the time of these tests

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
start() { # NAME PORT COMMAND ...: starts a server and waits for it
    local name=$1 port=$2
    shift 2
    "$@" >"$BATS_FILE_TMPDIR/$name.log" 2>&1 3>&- &
    echo $! >"$BATS_FILE_TMPDIR/$name.pid"
    for _ in $(seq 240); do
        curl -s -o /dev/null --max-time 2 "http://127.0.0.1:$port/v1/models" && return
        kill -0 "$(cat "$BATS_FILE_TMPDIR/$name.pid")" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 20 "$BATS_FILE_TMPDIR/$name.log" >&2
    return 1
}

setup_file() {
    local llama proxy
    llama=$(free_port)
    start llama "$llama" "$PEERS/bin/python" -m llama_cpp.server --model "$PEERS_MODEL" --model_alias smol --host 127.0.0.1 --port "$llama" \
        --n_ctx 8192 --logits_all true --verbose false --interrupt_requests false
    sed "s/PORT/$llama/" "$BATS_TEST_DIRNAME/litellm.yaml" >"$BATS_FILE_TMPDIR/litellm.yaml"
    proxy=$(free_port)
    start litellm "$proxy" env LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_MASTER_KEY=$ANYJEV_API_KEY "$PEERS/bin/litellm" --config "$BATS_FILE_TMPDIR/litellm.yaml" \
        --host 127.0.0.1 --port "$proxy" --telemetry False
    export LLAMA=http://127.0.0.1:$llama PROXY=http://127.0.0.1:$proxy
    # The demo's prompts: every column of the example card, both orders, and its aspects as listed.
    card-parse "$ROOT"/pipelines/examples/*.md >"$BATS_FILE_TMPDIR/cards"
    { prompt-build --model "$MODEL" --question column.annotate "$BATS_FILE_TMPDIR/cards"; prompt-build --model "$MODEL" --level raw --question column.aspect "$BATS_FILE_TMPDIR/cards"; } \
        >"$BATS_FILE_TMPDIR/prompts"
    prefill-local --model "$MODEL" "$BATS_FILE_TMPDIR/prompts" >"$BATS_FILE_TMPDIR/local"
    [ "$(wc -l <"$BATS_FILE_TMPDIR/local")" -ge 20 ]
}

teardown_file() {
    for p in "$BATS_FILE_TMPDIR"/*.pid; do kill "$(cat "$p")" 2>/dev/null || true; done
}

# compare FILE: label log-probabilities within 0.05 of prefill-local's, the same first label where it leads by over 0.2.
compare() {
    jq -n -e --slurpfile a "$1" --slurpfile b "$BATS_FILE_TMPDIR/local" '
        def first: . as $l | to_entries | max_by(.value).key;
        def margin: sort | .[-1] - .[-2];
        {n: ($a | length), same_ids: ([$a[].id] == [$b[].id]),
         worst: ([range($b | length) as $i | range($b[$i].logprobs | length) as $j | ($a[$i].logprobs[$j] - $b[$i].logprobs[$j]) | fabs] | max),
         clear: ([range($b | length) | select($b[.].logprobs | margin > 0.2)] | length),
         flips: ([range($b | length) | select($b[.].logprobs | margin > 0.2) | select(($a[.].logprobs | first) != ($b[.].logprobs | first))] | length),
         missing: ([$a[].missing[]] | length)}' >"$TMP/compared"
    echo "# $(jq -c . "$TMP/compared")" >&3
    jq -e '.same_ids and .missing == 0 and .n >= 20 and .clear > 0 and .flips == 0 and .worst <= 0.05' "$TMP/compared" >/dev/null
}

@test "llama.cpp, completions: within 0.05 of prefill-local, and the server counts the tokens that we count" {
    prefill-gateway --url "$LLAMA" --tokenizer "$MODEL" "$BATS_FILE_TMPDIR/prompts" >"$TMP/o"
    compare "$TMP/o"
    assert_equal "$(jq -c '[.n_tokens, .label_ids]' "$TMP/o")" "$(jq -c '[.n_tokens, .label_ids]' "$BATS_FILE_TMPDIR/local")"
}

@test "llama.cpp, chat: its own rendering of the template is ours" {
    prefill-gateway --url "$LLAMA" --api chat "$BATS_FILE_TMPDIR/prompts" >"$TMP/o"
    compare "$TMP/o"
    assert_equal "$(jq -c '.n_tokens' "$TMP/o")" "$(jq -c '.n_tokens' "$BATS_FILE_TMPDIR/local")"
}

@test "LiteLLM, completions and chat" {
    prefill-gateway --url "$PROXY" --served-model smol "$BATS_FILE_TMPDIR/prompts" >"$TMP/o"
    compare "$TMP/o"
    prefill-gateway --url "$PROXY/v1/" --served-model smol-chat --api chat "$BATS_FILE_TMPDIR/prompts" >"$TMP/o"
    compare "$TMP/o"
}

@test "LiteLLM refuses another key, and nothing of it is shown" {
    ANYJEV_API_KEY=sk-wrong-0123456789abcdef run --separate-stderr prefill-gateway --url "$PROXY" --served-model smol "$BATS_FILE_TMPDIR/prompts"
    [ "$status" -eq 4 ] || [ "$status" -eq 3 ]
    assert_output ""
    [[ "$stderr" == *"the server answered 4"* ]]
    [[ "$stderr" != *sk-wrong* ]]
}

@test "a prompt beyond the server's context is refused with the server's words; a name that is not served too" {
    text=$(printf 'word %.0s' $(seq 9000))
    printf '{"type":"item","id":"long","question":{"kind":"noul","text":"Is it?"},"state":"%s"}\n' "$text" | prompt-build --model "$MODEL" --level raw >"$TMP/p"
    run --separate-stderr prefill-gateway --url "$LLAMA" --retries 0 "$TMP/p"
    assert_failure
    assert_output ""
    [[ "$stderr" == *"the server answered "* ]] || fail "$stderr"
    run --separate-stderr prefill-gateway --url "$PROXY" --served-model none "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *'it has: "smol", "smol-chat"'* ]] || fail "$stderr"
}

@test "doctor passes on both, and on both together with the weights here" {
    run --separate-stderr doctor --backend gateway --url "$LLAMA" --model "$MODEL"
    echo "$output" | sed 's/^/# /' >&3
    assert_success
    run --separate-stderr doctor --backend gateway --url "$PROXY" --served-model smol-chat
    assert_success
    run --separate-stderr doctor --backend composite --url "$LLAMA" --model "$MODEL"
    assert_success
    assert_line --regexp '^ok    label ids '
}

@test "annotate on the server and on both: the answers of the local run, where it is sure; killed and run again it does not ask twice" {
    annotate() { "$ROOT/bin/anyjev-pipe" annotate BIN="$BIN" MODEL="$MODEL" LEVEL=raw "$@" "$(ls "$ROOT"/pipelines/examples/*.md)"; }
    run --separate-stderr annotate OUT="$TMP/l"
    assert_success
    setsid "$ROOT/bin/anyjev-pipe" annotate BIN="$BIN" MODEL="$MODEL" LEVEL=raw BACKEND=gateway URL="$LLAMA" SERVED=smol OUT="$TMP/g" \
        "$(ls "$ROOT"/pipelines/examples/*.md)" >"$TMP/log" 2>&1 3>&- &
    pid=$! # of the group too: make and all it started
    for _ in $(seq 200); do
        [ "$(cat "$TMP"/g/annotate.filled.jsonl.journal-* 2>/dev/null | wc -l)" -gt 3 ] && break
        sleep 0.1
    done
    kill -9 -- "-$pid"
    wait "$pid" || true
    journal=$(ls "$TMP"/g/annotate.filled.jsonl.journal-*)
    head -n -1 "$journal" | tail -n +2 >"$TMP/kept"
    [ -s "$TMP/kept" ]
    [ ! -e "$TMP/g/annotate.filled.jsonl" ]
    run --separate-stderr annotate BACKEND=gateway URL="$LLAMA" SERVED=smol OUT="$TMP/g"
    assert_success
    assert_equal "$(jq -r .id "$TMP/g/annotate.filled.jsonl" | sort | uniq -d)" ""
    tail -n +2 "$journal" | head -n "$(wc -l <"$TMP/kept")" | cmp - "$TMP/kept"
    assert_equal "$(tail -n +2 "$journal" | jq -r .key | sort | uniq -d)" ""
    run --separate-stderr annotate BACKEND=gateway URL="$LLAMA" SERVED=smol OUT="$TMP/h"
    assert_success
    cmp "$TMP/g/decisions.jsonl" "$TMP/h/decisions.jsonl"
    run --separate-stderr annotate BACKEND=composite URL="$LLAMA" SERVED=smol OUT="$TMP/c"
    assert_success
    assert_equal "$(jq -r .model.backend "$TMP/c/decisions.jsonl" | sort -u)" composite
    for d in g c; do
        jq -n -e --slurpfile a "$TMP/$d/decisions.jsonl" --slurpfile b "$TMP/l/decisions.jsonl" '
            ($b | map(select(.margin > 0.2))) as $sure | ($a | map({(.id): .answer}) | add) as $answers | ($sure | length) > 0 and ($sure | all($answers[.id] == .answer))' >/dev/null
    done
}
