#!/usr/bin/env bats
# fit, promote and annotate at level auto: from labels to a head in service.
load helper

recipe() { # NAME NAME=VALUE ...
    run --separate-stderr make -s --no-print-directory -C "$ROOT" -f "pipelines/$([ "$1" = promote ] && echo fit || echo "$1").mk" BIN="$BIN" BUNDLES="$TMP/bundles" "${@:2}" "$1"
}
fake=(BACKEND=fake FAKE='--signal 4 --code-block 2')

@test "with planted hidden states: fit, promote, and annotate answers that question at L2, the other at L0" {
    recipe fit QUESTION=column.annotate LABELS="$FIXTURES/labels.tsv" OUT="$TMP/f" "${fake[@]}" RISK=0.2
    assert_success
    assert_line --regexp '^\| L2 \| 103 \| (1\.000|0\.9)'
    [[ "$stderr" == *"v1.jsonl.zst; make promote puts it into service"* ]]
    assert_equal "$(head -n 1 "$TMP/f/head.jsonl" | jq .block)" 2
    # one path: the held-out accuracy of the bundle is that of the results
    assert_equal "$(bundle-pack inspect "$(cat "$TMP/f/bundle")" | jq -c '.questions["column.annotate/L2"].held_out | [.n, .accuracy]')" "$(jq -c '.cells[0] | [.n, .metrics.accuracy.value]' "$TMP/f/results.json")"
    recipe annotate CARDS="$ROOT/pipelines/examples/stream_chemistry.md" LEVEL=auto OUT="$TMP/a" "${fake[@]}"
    assert_failure 2
    [[ "$stderr" == *"no version is in service"* ]] || fail "$stderr"
    recipe promote "${fake[@]}"
    assert_success
    recipe annotate CARDS="$ROOT/pipelines/examples/stream_chemistry.md" LEVEL=auto OUT="$TMP/a" "${fake[@]}"
    assert_success
    assert_equal "$(jq -c '[.question, .level]' "$TMP/a/decisions.jsonl" | sort -u | tr '\n' ' ')" '["column.annotate","L2"] ["column.aspect","L0"] '
    # fitted again with the same labels: another version, as good, promoted; annotate starts anew with it
    recipe fit QUESTION=column.aspect LEVEL=L1 LABELS="$FIXTURES/labels.tsv" OUT="$TMP/g" "${fake[@]}"
    assert_success
    recipe promote "${fake[@]}"
    assert_success
    recipe annotate CARDS="$ROOT/pipelines/examples/stream_chemistry.md" LEVEL=auto OUT="$TMP/a" "${fake[@]}"
    assert_equal "$(jq -c '[.question, .level, .bundle.version]' "$TMP/a/decisions.jsonl" | sort -u | tr '\n' ' ')" '["column.annotate","L2",2] ["column.aspect","L1",2] '
    # another model: refused, with both named
    recipe annotate CARDS="$ROOT/pipelines/examples/stream_chemistry.md" LEVEL=auto OUT="$TMP/b" BACKEND=fake FAKE='--signal 5'
    assert_failure 2
    [[ "$stderr" == *"the bundle was fitted on"*"these prompts were filled by"* ]] || fail "$stderr"
}

@test "the small model: a head beats L0 and the baselines on cards that it has not seen" {
    need_model
    [ -z "${ANYJEV_SANITIZE:-}" ] || skip "too slow under the sanitizers"
    recipe fit QUESTION=column.annotate LABELS="$FIXTURES/labels.tsv" MODEL="$MODEL" OUT="$TMP/f"
    assert_success
    jq -e '.cells[0] | .evaluation == "leave-one-out" and .metrics.accuracy.value > 0.8 and .metrics.accuracy.value > .baselines.lookup.accuracy.value' "$TMP/f/results.json" >/dev/null
    block=$(jq -r 'select(.type == "fit") | .block' "$TMP/f/head.jsonl")
    recipe promote MODEL="$MODEL"
    assert_success
    recipe annotate CARDS="$ROOT/pipelines/examples/stream_chemistry.md" MODEL="$MODEL" LEVEL=auto OUT="$TMP/a"
    assert_success
    assert_line --regexp ' column.annotate +(Yes|No) .* L2'
    # the model stopped at the head's block
    assert_equal "$(jq -r .blocks "$TMP/a/annotate.filled.jsonl" | sort -u)" "$block"
}

@test "bench with L1 and L2: the same figures as fit's" {
    some=(LABELS="$FIXTURES/labels.tsv" "${fake[@]}")
    recipe fit QUESTION=column.annotate OUT="$TMP/f" "${some[@]}"
    recipe bench LEVELS=raw,L0,L1,L2 OUT="$TMP/b" "${some[@]}"
    assert_success
    assert_equal "$(jq -c '[.cells[] | select(.question == "column.annotate") | [.level, .evaluation]]' "$TMP/b/results.json")" '[["raw","no labels used"],["L0","no labels used"],["L1","leave-one-out"],["L2","leave-one-out"]]'
    assert_equal "$(jq -c '.cells[] | select(.cell == "column.annotate/L2") | .metrics.nll.value' "$TMP/b/results.json")" "$(jq -c '.cells[0].metrics.nll.value' "$TMP/f/results.json")"
}

@test "what is missing is said" {
    recipe fit LABELS="$FIXTURES/labels.tsv" "${fake[@]}" OUT="$TMP/f"
    assert_failure 2
    [[ "$stderr" == *"fit: name the question"* ]]
    recipe fit QUESTION=column.annotate LABELS="$FIXTURES/labels.tsv" LEVEL=L3 "${fake[@]}" OUT="$TMP/f"
    assert_failure 2
    recipe fit QUESTION=avu.keep LABELS="$FIXTURES/labels.tsv" "${fake[@]}" OUT="$TMP/f"
    assert_failure 2
    [[ "$stderr" == *"fit: no label of question avu.keep"* ]]
    recipe promote "${fake[@]}"
    assert_failure 2
}
