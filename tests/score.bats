#!/usr/bin/env bats
# score: labelled decisions to metrics. The figures themselves are checked in tests/unit/metrics.c.
load helper

decision() { # ID LABEL P(Yes) [MORE]: a decision of a yes/no question
    local a=Yes
    awk -v p="$3" 'BEGIN { exit !(p < 0.5) }' && a=No
    printf '{"type":"decision","id":"%s","question":"q","key":"k1","kind":"noul","options":["Yes","No"],"probs":[%s,%s],"answer":"%s","level":"L0","label":%s,"model":{"name":"m"}%s}\n' \
        "$1" "$3" "$(awk -v p="$3" 'BEGIN { print 1 - p }')" "$a" "$2" "${4:-}"
}

@test "figures, classes, and a baseline that copies labels from other groups" {
    { decision a '"Yes"' 0.9 ',"group":"g1","meta":{"target":"t"}'; decision b '"No"' 0.2 ',"group":"g2","meta":{"target":"u"}'
      decision c '"Yes"' 0.4 ',"group":"g3","meta":{"target":"t"}'; } >"$TMP/d"
    run --separate-stderr score "$TMP/d"
    assert_success
    assert_equal "$(echo "$output" | jq -c '.cells[0] | [.cell, .n, .groups, .classes, .negatives, .evaluation]')" '["q/L0",3,3,{"Yes":2,"No":1},1,"no labels used"]'
    # a: 0.1^2*2 = 0.02; b: 0.08; c: 0.72; mean 0.82/3
    assert_equal "$(echo "$output" | jq -c '.cells[0].metrics | [.accuracy.value, .brier.value] | map(. * 1e9 | round)')" '[666666667,273333333]'
    # a and c find each other's Yes; b's key is new: the others say Yes
    assert_equal "$(echo "$output" | jq -c '.cells[0] | [.lookup_found, .baselines.lookup.accuracy.value * 3, .baselines.majority.accuracy.value * 3, .novel.n]')" '[2,2,2,1]'
    [[ "$stderr" == *"rests on 1 negatives (fewer than 30)"* ]]
}

@test "a majority is that of the other groups" {
    { decision a '"Yes"' 0.9 ',"group":"g1"'; decision b '"Yes"' 0.9 ',"group":"g1"'; decision c '"Yes"' 0.9 ',"group":"g1"'; decision d '"No"' 0.2 ',"group":"g2"'; } >"$TMP/d"
    run --separate-stderr score "$TMP/d"
    assert_equal "$(echo "$output" | jq -c '.cells[0].baselines | [.majority.accuracy.value, .lookup]')" '[0,"does not apply: no decision has a target or an option in its meta"]'
}

@test "one group: no intervals, no baselines, and it is said" {
    { decision a '"Yes"' 0.9 ',"group":"g"'; decision b '"No"' 0.9 ',"group":"g"'; } >"$TMP/d"
    run --separate-stderr score "$TMP/d"
    assert_equal "$(echo "$output" | jq -c '.cells[0] | [.replicates, .metrics.accuracy, .baselines.majority]')" '[0,{"value":0.5},"does not apply: one group"]'
    assert_equal "$(echo "$output" | jq -r '.cells[0].warnings[1]')" "one group: no intervals and no baselines"
}

@test "--by-group: a group with one class has no AUROC; it does not end the run" {
    { decision a '"Yes"' 0.9 ',"group":"g1"'; decision b '"No"' 0.3 ',"group":"g1"'; decision c '"No"' 0.2 ',"group":"g2"'; } >"$TMP/d"
    run --separate-stderr score --by-group "$TMP/d"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.cells[0].by_group[] | [.group, .n, .metrics.auroc.value]]')" '[["g1",2,1],["g2",1,null]]'
}

@test "--reversed counts the answers that change with the listing" {
    { decision a '"Yes"' 0.9; decision b '"No"' 0.3; decision c '"No"' 0.2; } >"$TMP/d"
    { decision b '"No"' 0.7; decision a '"Yes"' 0.8; } >"$TMP/r"
    run --separate-stderr score --reversed "$TMP/r" "$TMP/d"
    assert_equal "$(echo "$output" | jq -c '[.unmatched, .cells[0].metrics.reversal_flip_rate.value]')" '[1,0.5]'
}

@test "decisions without a label are counted; with none that has one it is an error" {
    { decision a null 0.9; decision b '"No"' 0.3; } >"$TMP/d"
    run --separate-stderr score "$TMP/d"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.unlabelled, .cells[0].n]')" '[1,1]'
    [[ "$stderr" == *"1 decisions without a label were left out"* ]]
    run --separate-stderr score <(decision a null 0.9)
    assert_failure 3
    assert_output ""
    [[ "$stderr" == *"no labelled decision (1 without a label)"* ]]
    run --separate-stderr score /dev/null
    assert_failure 3
}

@test "bad decisions are refused with their line" {
    check() { # MESSAGE LINE
        { decision z '"Yes"' 0.5; echo "$2"; } >"$TMP/d"
        run --separate-stderr score "$TMP/d"
        assert_failure "${3:-3}"
        assert_output ""
        [[ "$stderr" == *"d:2: "*"$1"* ]] || fail "$stderr"
    }
    check "is none of the options" "$(decision a '"Maybe"' 0.5)"
    check "comes twice" "$(decision z '"Yes"' 0.5)"
    check "they sum to" "$(decision a '"Yes"' 0.5 | sed 's/0.5,0.5/0.5,0.6/')"
    check "is no probability" "$(decision a '"Yes"' 0.5 | sed 's/0.5,0.5/1.5,-0.5/')"
    check "found null, expected a number" "$(decision a '"Yes"' 0.5 | sed 's/0.5,0.5/null,0.5/')"
    check "expected a record of type 'decision'" '{"type":"prompt"}'
    check "not those of the decisions before" "$(decision a '"Yes"' 0.5 | sed 's/"Yes","No"/"Yes","Never"/')"
    check "another model" "$(decision a '"Yes"' 0.5 | sed 's/"name":"m"/"name":"n"/')" 4
    printf '{"type":"decision","probs":[NaN,0.5]}\n' >"$TMP/d"
    run score "$TMP/d"
    assert_failure 3
}

@test "--keep-going measures the others and ends in 1" {
    { decision a '"Maybe"' 0.5; decision b '"No"' 0.3; } >"$TMP/d"
    run --separate-stderr score -k --errors "$TMP/e" "$TMP/d"
    assert_failure 1
    assert_equal "$(echo "$output" | jq .cells[0].n)" 1
    assert_equal "$(jq -r .line "$TMP/e")" 1
}

@test "the same bytes with any number of threads; another seed, other intervals" {
    for i in $(seq 90); do decision "i$i" "$([ $((i % 3)) = 0 ] && echo '"No"' || echo '"Yes"')" "0.$((i % 9 + 1))" ",\"group\":\"g$((i % 8))\""; done >"$TMP/d"
    score -t 1 "$TMP/d" >"$TMP/a" 2>/dev/null
    score -t 5 "$TMP/d" 2>/dev/null | cmp - "$TMP/a"
    refute [ "$(score --seed 1 "$TMP/d" | jq -c .cells[0].metrics.nll.low)" = "$(jq -c .cells[0].metrics.nll.low "$TMP/a")" ]
}

@test "Markdown, rows and plots" {
    for i in $(seq 60); do decision "i$i" "$([ $((i % 3)) = 0 ] && echo '"No"' || echo '"Yes"')" "0.$((i % 9 + 1))" ",\"group\":\"g$((i % 5))\",\"meta\":{\"target\":\"t$((i % 7))\"}"; done >"$TMP/d"
    echo '{"model":"m","threads":2}' >"$TMP/env"
    run --separate-stderr score -f md --environment "$TMP/env" --plot "$TMP/plots" "$TMP/d"
    assert_success
    assert_line --regexp '^\| L0 \| 60 \| 0\.[0-9]{3} \[0\.[0-9]{3}, 0\.[0-9]{3}\] \|'
    assert_line --regexp '^\| \*lookup\* \| 60 \|'
    assert_line '- threads: 2'
    run --separate-stderr score -f tsv "$TMP/d"
    assert_line --index 0 $'question\tlevel\twhat\tgroup\tn\tmetric\tvalue\tlow\thigh'
    assert_equal "$(echo "$output" | awk -F'\t' 'NF != 9' | wc -l)" 0
    for p in reliability risk-coverage; do
        grep -q '^</svg>$' "$TMP/plots/$p.q.svg"
        refute grep -qE 'nan|inf' "$TMP/plots/$p.q.svg"
    done
    run score --environment /dev/null "$TMP/d"
    assert_failure 3
}
