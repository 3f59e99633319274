#!/usr/bin/env bats
# bench: a labelled set and a model to results.
load helper

bench() { # NAME=VALUE ...
    run --separate-stderr make -s --no-print-directory -C "$ROOT" -f pipelines/bench.mk BIN="$BIN" OUT="$TMP/b" "$@" bench
}
# Two cards of the example set.
some_labels() {
    mkdir -p "$TMP/set/cards"
    cp "$FIXTURES"/cards/HF.0101* "$FIXTURES"/cards/HF.0106* "$TMP/set/cards"
    { head -n 1 "$FIXTURES/labels.tsv"; grep -E '^HF[.]010[16]' "$FIXTURES/labels.tsv"; } >"$TMP/set/labels.tsv"
}

@test "with planted answers and biases: raw follows the position, L0 is right and no order flips it" {
    bench LABELS="$FIXTURES/labels.tsv" BACKEND=fake FAKE='--signal 4 --position-bias 4.5 --label-bias 1'
    assert_success
    assert_equal "$(jq -c '[.cells[] | select(.level == "L0") | [.question, .metrics.accuracy.value, .metrics.reversal_flip_rate.value]]' "$TMP/b/results.json")" \
        '[["column.annotate",1,0],["column.aspect",1,0]]'
    jq -e '.cells[] | select(.cell == "column.annotate/L0") | .metrics.flip_rate.value == 0' "$TMP/b/results.json" >/dev/null
    jq -e '[.cells[] | select(.level == "raw" and .metrics.accuracy.value < 1 and .metrics.reversal_flip_rate.value > 0.4)] | length == 2' "$TMP/b/results.json" >/dev/null
    for p in reliability risk-coverage; do for q in column.annotate column.aspect; do [ -s "$TMP/b/$p.$q.svg" ]; done; done
    assert_line --regexp '^\| \*lookup\* \| 103 \|'
    assert_equal "$(jq -c '.environment | [.backend, .levels, .prompts, (.inputs | keys)]' "$TMP/b/results.json")" '["fake","raw,L0",1164,["labels.tsv","questions.json"]]'
    assert_equal "$(jq -r .environment.lock_sha "$TMP/b/results.json")" "$(jq -r .lock_sha "$ROOT/pipelines/questions.lock.json")"
    # run again: nothing is done twice
    touch "$TMP/mark"
    bench LABELS="$FIXTURES/labels.tsv" BACKEND=fake FAKE='--signal 4 --position-bias 4.5 --label-bias 1'
    assert_success
    assert_equal "$(find "$TMP/b" -newer "$TMP/mark" -type f | wc -l)" 0
}

@test "the small model's figures on two cards of the example set, to the byte" {
    need_model
    [ -z "${ANYJEV_SANITIZE:-}" ] || skip "too slow under the sanitizers"
    some_labels
    bench LABELS="$TMP/set/labels.tsv" MODEL="$MODEL"
    assert_success
    jq -c '.cells[]' "$TMP/b/results.json" | diff - "$GOLDEN/bench_cells.jsonl"
}

@test "labels, model and levels that are missing or unknown are usage errors" {
    bench BACKEND=fake
    assert_failure 2
    [[ "$stderr" == *"bench: name the labels"* ]]
    bench LABELS="$FIXTURES/labels.tsv"
    assert_failure 2
    [[ "$stderr" == *"bench: name the model"* ]]
    bench LABELS="$FIXTURES/labels.tsv" BACKEND=fake LEVELS=raw,L7
    assert_failure 2
    [[ "$stderr" == *"unknown level 'L7'"* ]]
    bench LABELS="$FIXTURES/labels.tsv" BACKEND=cloud MODEL=x
    assert_failure 2
    [[ "$stderr" == *"unknown BACKEND 'cloud'"* ]]
    [ ! -e "$TMP/b/results.json" ]
}

@test "score --merge: runs side by side; results under another lock are refused" {
    some_labels
    for s in 1 3; do
        bench LABELS="$TMP/set/labels.tsv" BACKEND=fake FAKE="--signal $s --noise 1"
        assert_success
        mv "$TMP/b" "$TMP/b$s"
    done
    run --separate-stderr score --merge -f md "$TMP"/b?/results.json
    assert_success
    assert_equal "$(echo "$output" | grep -c '^| fake f64 ')" 8
    assert_equal "$(echo "$output" | grep -c '^## ')" 2
    run --separate-stderr score --merge -f tsv "$TMP"/b?/results.json
    assert_equal "$(echo "$output" | awk -F'\t' 'NF != 8' | wc -l)" 0
    assert_equal "$(score --merge "$TMP"/b?/results.json | jq '.cells | length')" 8
    sed 's/"lock_sha":"[0-9a-f]*"/"lock_sha":"0000"/' "$TMP/b3/results.json" >"$TMP/other"
    run --separate-stderr score --merge "$TMP/b1/results.json" "$TMP/other"
    assert_failure 4
    [[ "$stderr" == *"their questions differ"* ]]
    run score --merge "$TMP/set/labels.tsv"
    assert_failure 3
    run score --merge /dev/null
    assert_failure 3
}

@test "installed, bench and fit run from anywhere" {
    make -s -C "$ROOT" install CUDA=0 BIN="$BIN" BUILD="${BUILD:-build}" PREFIX="$TMP/prefix" >"$TMP/log" 2>&1 || fail "$(cat "$TMP/log")"
    cd "$TMP"
    run --separate-stderr "$TMP/prefix/bin/anyjev-pipe" bench LABELS="$FIXTURES/labels.tsv" BACKEND=fake OUT="$TMP/i"
    assert_success
    [ -s "$TMP/i/results.json" ]
    run --separate-stderr "$TMP/prefix/bin/anyjev-pipe" fit LABELS="$FIXTURES/labels.tsv" QUESTION=column.annotate BACKEND=fake OUT="$TMP/j" BUNDLES="$TMP/bundles"
    assert_success
    "$TMP/prefix/libexec/anyjev-pipe/bundle-pack" verify "$(cat "$TMP/j/bundle")"
}
