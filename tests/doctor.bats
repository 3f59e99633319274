#!/usr/bin/env bats
# doctor: a line per check, and what cannot run has not passed.
load helper

tiny=$BATS_TEST_DIRNAME/golden/models/qwen3-bf16

setup_file() {
    export PORT_FILE=$BATS_FILE_TMPDIR/port
    { printf '%s\n' {A..Z} Yes No {1..9}; } | jq -R -c '{text: .}' | tokenize --model "$tiny" | jq -s 'map({(.text): .ids[0]}) | add' >"$BATS_FILE_TMPDIR/ids"
    python3 "$BATS_TEST_DIRNAME/fault_server.py" "$PORT_FILE" 0 "$BATS_FILE_TMPDIR/ids" 3>&- &
    echo $! >"$BATS_FILE_TMPDIR/pid"
    for _ in $(seq 100); do [ -e "$PORT_FILE" ] && return; sleep 0.1; done
    return 1
}
teardown_file() { kill "$(cat "$BATS_FILE_TMPDIR/pid")"; }
url() { echo "http://127.0.0.1:$(cat "$PORT_FILE")/$1+doctor$BATS_TEST_NUMBER"; }
gateway() { run --separate-stderr doctor --backend gateway --url "$(url "$1")" "${@:2}"; }

@test "the small model passes, in seconds, from the front command too" {
    need_model
    start=$(date +%s)
    run --separate-stderr "$ROOT/bin/anyjev-pipe" doctor --backend local --model "$MODEL" --bundles "$TMP/none"
    [ "$BIN" = "$ROOT/bin" ] || run --separate-stderr doctor --backend local --model "$MODEL" --bundles "$TMP/none"
    assert_success
    [ $(($(date +%s) - start)) -le 30 ]
    [ -z "$stderr" ]
    for c in instrument questions processor arithmetic cuda model memory labels template finite "label mass" "known answer" "early exit" bundle; do
        assert_line --regexp "^ok    $c "
    done
    assert_line --regexp '^passed: 14 ok, 0 to look at, 0 failed$'
}

@test "--json writes a record per check and one for the whole" {
    need_model
    run --separate-stderr doctor --model "$MODEL" --bundles "$TMP/none" --json
    assert_success
    echo "$output" | jq -e -s '(.[:-1] | all(.type == "check" and .result == "ok" and .ran)) and (.[-1] | .type == "doctor" and .passed and .ok == 14 and .backend == "local")' >/dev/null
}

@test "no model, no such model, half a model, a model that knows nothing: FAIL (4), and what depends on it did not run" {
    run --separate-stderr doctor
    assert_failure 4
    assert_line --regexp '^FAIL  model +no --model was given'
    assert_line --regexp '^FAIL  known answer +not run: there is no model'
    run --separate-stderr doctor --model "$TMP/none" --json
    assert_failure 4
    echo "$output" | jq -e -s '.[-1] | .passed == false and .not_run == 7' >/dev/null
    cp -r "$tiny" "$TMP/m"
    chmod -R u+w "$TMP/m"
    shard=$(find "$TMP/m" -name '*.safetensors' | sort | tail -n 1)
    head -c 1000 "$shard" >"$TMP/cut"
    mv "$TMP/cut" "$shard"
    run --separate-stderr doctor --model "$TMP/m"
    assert_failure 4
    assert_line --regexp '^FAIL  model .*safetensors'
    rm -rf "$TMP/m"
    cp -r "$tiny" "$TMP/m"
    chmod -R u+w "$TMP/m"
    shard=$(find "$TMP/m" -name '*.safetensors' | sort | tail -n 1)
    printf '\xff\xff\xff\xff' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 4)) conv=notrunc status=none
    run --separate-stderr doctor --model "$TMP/m" --template chatml
    assert_failure 4
    assert_line --regexp '^FAIL  finite .*NaN'
}

@test "a good server: all checks ran; the direction is judged" {
    gateway ok
    assert_line --regexp '^ok    reachable '
    assert_line --regexp '^ok    model listed .*"root":"org/tiny"'
    assert_line --regexp '^ok    answers +/v1/chat/completions gives'
    assert_line --regexp '^ok    top 20 +20 tokens'
    assert_line --regexp '^ok    labels '
    assert_line --regexp '^ok    thinking '
    assert_line --regexp '^ok    repeatable '
    assert_line --regexp '^ok    latency +5 calls'
    # The fault server's numbers know nothing of yes and no; a server that answers by the state passes.
    gateway knows
    assert_success
    assert_line --regexp '^ok    known answer '
    gateway knows+lies
    assert_failure 4
    assert_line --regexp '^FAIL  known answer '
    gateway knows --api systemone
    assert_success
}

@test "what is wrong with a server is named (4)" {
    while IFS='|' read -r fault line; do
        gateway "$fault" --timeout 1
        assert_failure 4
        echo "$output" | grep -qE "^$line" || fail "$fault: $output"
    done <<'END'
401|FAIL  model listed .*answered 401.*give the right key
key|FAIL  model listed .*answered 401
no-models|FAIL  model listed .*answered 404
two-models|FAIL  model listed .*lists 2 models
html|FAIL  answers .*no JSON
no-logprobs|FAIL  answers .*gave no log-probabilities
nan|FAIL  answers .*no JSON
slow|FAIL  answers .*(timed out|time)
think|FAIL  thinking +the first token opens a chain
few|FAIL  labels +Yes or No is not among
no-list|FAIL  latency +not run: there are no answers
END
    gateway knows+cap5
    assert_line --regexp "^warn  top 20 +5 tokens are given, the server's own cap"
    run --separate-stderr doctor --backend gateway --url http://127.0.0.1:1
    assert_failure 4
    assert_line --regexp '^FAIL  reachable .*start the server'
    assert_line --regexp '^FAIL  known answer +not run'
    run --separate-stderr doctor --backend gateway --url http://example.org
    assert_failure 4
    assert_line --regexp '^FAIL  url .*not https'
    run --separate-stderr doctor --backend gateway
    assert_failure 4
    assert_line --regexp '^FAIL  url +no --url'
    printf k >"$TMP/key"
    chmod 644 "$TMP/key"
    gateway ok --key-file "$TMP/key"
    assert_failure 4
    assert_line --regexp '^FAIL  key .*others can read'
    ANYJEV_API_KEY=sk-secret-0123456789 gateway 401
    [[ "$output" != *sk-secret* ]]
}

@test "composite compares the ids of the labels, by name" {
    run --separate-stderr doctor --backend composite --model "$tiny" --template chatml --url "$(url knows+true-ids+tokenize)"
    assert_line --regexp '^ok    label ids '
    run --separate-stderr doctor --backend composite --model "$tiny" --template chatml --url "$(url knows+true-ids+tokenize+wrong-c)"
    assert_failure 4
    assert_line --regexp '^FAIL  label ids .*for the labels C;'
    run --separate-stderr doctor --backend composite --model "$tiny" --template chatml --url "$(url knows)"
    assert_failure 4
    assert_line --regexp '^FAIL  label ids +not run: the server does not tell'
    gateway cut+knows --model "$tiny" --template chatml
    assert_failure 4
    assert_line --regexp '^FAIL  (answers|prompt whole) .*(fewer|cut)'
}

@test "fake needs nothing; a drifted registry is seen; operands are a usage error; a full disk is an error (6)" {
    run --separate-stderr doctor --backend fake
    assert_success
    assert_equal "${lines[2]}" "passed: 2 ok, 0 to look at, 0 failed"
    mkdir "$TMP/share"
    cp "$ROOT"/pipelines/*.json "$TMP/share/"
    sed -i 's/ontology/Ontology/' "$TMP/share/questions.json"
    ANYJEV_SHARE=$TMP/share run --separate-stderr doctor --backend fake
    assert_failure 4
    assert_line --regexp '^FAIL  questions '
    run --separate-stderr doctor --backend fake x
    assert_failure 2
    run bash -c "doctor --backend fake >/dev/full"
    assert_failure 6
}

@test "bundles in service: fitted on this model, of another one, of other questions, broken" {
    for i in $(seq 24); do
        printf '{"type":"item","id":"i%d","question":{"kind":"choice","text":"Which?","options":["ab","cd"]},"state":"n %d","label":"%s"}\n' "$i" "$i" "$([ $((i % 2)) = 0 ] && echo ab || echo cd)"
    done | prompt-build --template chatml | prefill-local --model "$tiny" --template chatml >"$TMP/f"
    head-fit --level L1 --artifact "$TMP/a" "$TMP/f" >"$TMP/h"
    bundle-pack create --home "$TMP/bundles" -o "$TMP/name" "$TMP/a"
    bundle-pack promote --unmeasured --home "$TMP/bundles" --model "$tiny" >"$TMP/log"
    look() { run --separate-stderr doctor --model "$1" --template chatml --bundles "$TMP/bundles"; }
    look "$tiny"
    assert_line --regexp '^ok    bundle +.*/v1.jsonl.zst: fitted on this model, 1 artifact$'
    look "$GOLDEN/models/llama-bf16"
    assert_line --regexp '^ok    bundle +.*: of another model$'
    mkdir "$TMP/share"
    cp "$ROOT"/pipelines/*.json "$TMP/share/"
    sed -i 's/ontology/Ontology/' "$TMP/share/questions.json"
    ANYJEV_SHARE=$TMP/share look "$tiny"
    assert_line --regexp '^warn  bundle +.*under other questions'
    chmod u+w "$(cat "$TMP/name")"
    printf x >>"$(cat "$TMP/name")"
    look "$tiny"
    assert_failure 4
    assert_line --regexp '^FAIL  bundle .*rollback'
}
