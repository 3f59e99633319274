#!/usr/bin/env bats
# head-fit: labelled, filled prompts to held-out decisions and artifacts. The arithmetic is checked in tests/unit/fit.c.
load helper

# items N GROUPS [QUESTION]: labelled items, about half Yes
items() {
    for i in $(seq "$1"); do
        l=Yes
        [ $(((i * 7 / 3) % 2)) = 0 ] && l=No
        printf '{"type":"item","id":"%s","question":"%s","state":%s,"label":"%s","group":"g%s","meta":{"target":"t%s"}}\n' "$i" "${3:-column.annotate}" "$i" "$l" $((i % $2)) $((i % 11))
    done
}
filled() { prompt-build --template none --level L2 --hidden 1,2,3,4 --random-order "$1" | prefill-fake --hidden-dim 48 --code-block 3 --signal 4; }

@test "L2 finds the planted block, its held-out decisions beat L0, and score reads them" {
    items 200 5 >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    run --separate-stderr head-fit --leave-one-out card --artifact "$TMP/a" "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | wc -l)" 200
    assert_equal "$(echo "$output" | head -n 1 | jq -c '[.level, .held_out, .certified, .bundle]')" '["L2",true,null,null]'
    echo "$output" | score 2>/dev/null >"$TMP/r"
    assert_equal "$(jq -c '.cells[0] | [.cell, .evaluation, .n, .metrics.accuracy.value > 0.95]' "$TMP/r")" '["column.annotate/L2","leave-one-out",200,true]'
    assert_equal "$(head -n 1 "$TMP/a" | jq -c '[.type, .level, .block, .n, (.folds | length), (.inputs | keys)]')" '["fit","L2",3,200,5,["f"]]'
    assert_equal "$(sed -n 2p "$TMP/a" | jq -c '[.type, .layer_abs, .params.listing, .W.shape, .identity.name]')" '["artifact",3,"random",[48,2],"fake"]'
    assert_equal "$(grep -c '"type":"observation"' "$TMP/a")" 200
    # without labels the same model is at chance here: its planted answer is another one
    prompt-build --template none "$TMP/i" | prefill-fake --signal 0 --noise 1 | head-apply | score 2>/dev/null >"$TMP/r0"
    jq -e '.cells[0].metrics.accuracy.value < 0.7' "$TMP/r0" >/dev/null
}

@test "the same bytes with any number of threads; the figures of fit and of score are the same" {
    items 120 4 >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    head-fit -t 1 --leave-one-out card -a "$TMP/a1" "$TMP/f" >"$TMP/d1" 2>/dev/null
    head-fit -t 5 --leave-one-out card -a "$TMP/a5" "$TMP/f" >"$TMP/d5" 2>/dev/null
    cmp "$TMP/a1" "$TMP/a5"
    cmp "$TMP/d1" "$TMP/d5"
    # folds' accuracies, pooled by their sizes
    want=$(head -n 1 "$TMP/a1" | jq '[.folds[] | .accuracy * .n] | add / 120 * 1e9 | round')
    assert_equal "$(score "$TMP/d1" 2>/dev/null | jq '.cells[0].metrics.accuracy.value * 1e9 | round')" "$want"
}

@test "L1: a temperature over L0 with the labelled set's prior, frozen" {
    items 120 4 >"$TMP/i"
    prompt-build --template none --level L1 "$TMP/i" | prefill-fake --signal 6 --noise 2 --position-bias 1 >"$TMP/f"
    run --separate-stderr head-fit --level L1 --leave-one-out card -a "$TMP/a" "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.level, .calibration.prior]' | sort -u)" '["L1","batch"]'
    assert_equal "$(sed -n 2p "$TMP/a" | jq -c '[.method, .prior_method, .prior_strength, (.prior | length), .temperature > 0.1]')" '["temperature","batch",0.75,2,true]'
    score <(echo "$output") 2>/dev/null | jq -e '.cells[0] | .evaluation == "leave-one-out" and .metrics.nll.value < 0.6' >/dev/null
}

@test "folds with too few labels are skipped and listed, not failed" {
    items 70 2 >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    run --separate-stderr head-fit --leave-one-out card -a "$TMP/a" "$TMP/f"
    assert_success
    assert_output ""
    [[ "$stderr" == *"fold 'g1' skipped: "*" labels '"*"' to train on, 30 needed"* ]] || fail "$stderr"
    assert_equal "$(head -n 1 "$TMP/a" | jq '[.folds[] | select(.skipped)] | length')" 2
}

@test "what cannot be learnt from is refused" {
    items 6 2 >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    check() { # MESSAGE ARGUMENTS
        run --separate-stderr head-fit -a "$TMP/a" "${@:2}"
        assert_failure 3
        assert_output ""
        [ ! -e "$TMP/a" ] || fail "an artifact was left"
        [[ "$stderr" == *"$1"* ]] || fail "$stderr"
    }
    check "6 labels; 2 options need at least 8" "$TMP/f"
    items 40 2 | sed 's/"label":"No"/"label":"Yes"/' >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    check "one class among the labels" "$TMP/f"
    jq -c 'del(.label)' "$TMP/f" >"$TMP/g"
    check "no labelled item (40 without a label)" "$TMP/g"
    jq -c 'del(.group)' "$TMP/f" >"$TMP/g"
    check "has no group" --leave-one-out card "$TMP/g"
    items 40 2 >"$TMP/i"
    filled "$TMP/i" | jq -c 'if .item == "7" then del(.hidden["2"]) else . end' >"$TMP/g"
    check "does not have the hidden states of the others" "$TMP/g"
    prompt-build --template none --level L1 "$TMP/i" | prefill-fake | sed 5d >"$TMP/g"
    check "lacks permutations" --level L1 "$TMP/g"
    filled "$TMP/i" | jq -c 'if .item == "7" then .label = "Maybe" else . end' >"$TMP/g"
    check "is none of the options" "$TMP/g"
    run head-fit "$TMP/f"
    assert_failure 2
    run head-fit --risk 0.1 -a "$TMP/a" "$TMP/f"
    assert_failure 2
}

@test "a certificate, or how many negatives are missing" {
    items 300 5 >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    run --separate-stderr head-fit --leave-one-out card --risk 0.1 --delta 0.1 -a "$TMP/a" "$TMP/f"
    assert_success
    [[ "$stderr" == *"certified at confidence"* ]] || fail "$stderr"
    sed -n 2p "$TMP/a" | jq -e '.certificate | .bound <= 0.1 and .coverage > 0.5 and .threshold >= 0.5 and .missing_negatives == 0' >/dev/null
    items 80 2 >"$TMP/i"
    filled "$TMP/i" >"$TMP/f"
    run --separate-stderr head-fit --leave-one-out card --risk 0.1 -a "$TMP/b" "$TMP/f"
    assert_equal "$(sed -n 2p "$TMP/b" | jq -c '.certificate | [.threshold, .missing_negatives > 0]')" '[null,true]'
    [[ "$stderr" == *"more are needed"* ]] || fail "$stderr"
}

@test "--calibrate auto takes what wins out of fold" {
    items 200 4 >"$TMP/i"
    prompt-build --template none --level L1 "$TMP/i" | prefill-fake --signal 3 --noise 3 >"$TMP/f"
    run --separate-stderr head-fit --level L1 --calibrate auto -a "$TMP/a" "$TMP/f"
    assert_success
    head -n 1 "$TMP/a" | jq -e '.calibrator | IN("temperature", "isotonic", "histogram")' >/dev/null
}
