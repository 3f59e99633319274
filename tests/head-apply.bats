#!/usr/bin/env bats
# head-apply: filled prompts to decisions.
load helper

filled() { # ID SHIFT LOGPROBS [MORE]: a filled prompt of three options
    local perm='[0,1,2]'
    [ "$2" = 1 ] && perm='[1,2,0]'
    [ "$2" = 2 ] && perm='[2,0,1]'
    printf '{"type":"prompt","id":"%s#%s","item":"%s","question":"q","key":"k1","kind":"choice","options":["red","green","blue"],"perm":%s,"labels":["A","B","C"],"logprobs":%s,"answer_mass":0.5,"missing":[],"model":{"name":"m","fingerprint":"f"}%s}\n' \
        "$1" "$2" "$1" "$perm" "$3" "${4:-}"
}

# p = exp(logprobs) normalised by shift; mean of logs by option; softmax; computed with Python's math:
# a shift's option o stands at position (o - s) mod 3.
@test "L0 without a prior: the mean of logs over the shifts, by option" {
    { filled a 0 '[-1,-2,-3]'; filled a 2 '[-1.5,-1,-2]'; filled a 1 '[-3,-1,-0.5]'; } >"$TMP/f"
    run --separate-stderr head-apply --prior none "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.answer, .answer_index, .level, .options]')" '["red",0,"L0",["red","green","blue"]]'
    # by option, mean of logps: red (-1 -0.5 -1)/3, green (-2 -3 -2)/3, blue (-3 -1 -1.5)/3, softmaxed (the shifts' constants cancel)
    echo "$output" | jq -e '(.probs[0] - 0.628532) * 1e6 | fabs < 1' >/dev/null || fail "$(echo "$output" | jq -c .probs)"
    echo "$output" | jq -e '(.probs | add) - 1 | fabs < 1e-15' >/dev/null
    echo "$output" | jq -e '.confidence == .probs[0] and ((.margin - (.probs[0] - .probs[2])) | fabs) < 1e-15 and .diagnostics.permutations == 3 and .diagnostics.answer_mass == 0.5' >/dev/null
}

@test "raw: the prompt as listed; the permutations are not needed" {
    filled a 0 '[-1,-2,-3]' >"$TMP/f"
    run head-apply --level raw "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.level, .calibration, (.probs | map(. * 1e6 | round))]')" '["raw",null,[665241,244728,90031]]'
}

@test "score: the expected centre; noul: p_true" {
    printf '%s\n' '{"type":"prompt","id":"s#0","item":"s","question":"q","key":"k","kind":"score","options":["low","high"],"centers":[0,10],"perm":[0,1],"labels":["1","2"],"logprobs":[-1,-1],"model":{}}' \
        '{"type":"prompt","id":"n#0","item":"n","question":"q","key":"j","kind":"noul","options":["Yes","No"],"perm":[0,1],"labels":["Yes","No"],"logprobs":[-1,-1],"model":{}}' \
        '{"type":"prompt","id":"n#1","item":"n","question":"q","key":"j","kind":"noul","options":["Yes","No"],"perm":[1,0],"labels":["No","Yes"],"logprobs":[-1,-1],"model":{}}' >"$TMP/f"
    run head-apply "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.value, .p_true]')" '[5,null]
[null,0.5]'
}

@test "the batch prior counts from 8 items on, and the decision says on how many it rests" {
    for i in $(seq 7); do for s in 0 1 2; do filled "i$i" "$s" '[-0.5,-2,-3]'; done; done >"$TMP/f"
    run head-apply "$TMP/f"
    assert_equal "$(echo "$output" | jq -c '.calibration' | sort -u)" '{"prior":"none","prior_strength":0,"prior_items":0}'
    for s in 0 1 2; do filled i8 "$s" '[-0.5,-2,-3]'; done >>"$TMP/f"
    run head-apply "$TMP/f"
    assert_equal "$(echo "$output" | jq -c '.calibration' | sort -u)" '{"prior":"batch","prior_strength":0.75,"prior_items":8}'
}

@test "with planted biases the raw answers follow the position; L0 finds the planted answers and no order flips" {
    for i in $(seq 40); do
        set -- red green blue grey
        shift $((i % 4))
        printf '{"type":"item","id":"%s","question":{"kind":"choice","text":"Which?","options":["red","green","blue","grey"]},"state":%s,"label":"%s"}\n' "$i" "$i" "$1"
    done | prompt-build --template none >"$TMP/p"
    prefill-fake --position-bias 4 --label-bias 1 --signal 2 "$TMP/p" >"$TMP/f"
    assert_equal "$(head-apply -l raw "$TMP/f" | jq -r 'select(.answer != .label) | .id' | wc -l)" 30
    run head-apply --prior-strength 1 "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -r 'select(.answer != .label) | .id')" ""
    assert_equal "$(echo "$output" | jq -c '[.diagnostics.flips_raw > 0, .diagnostics.flips]' | sort -u)" '[true,0]'
}

@test "items come in order of first appearance, whatever the order of their prompts; the answer does not depend on it" {
    for i in 3 1 2; do for s in 0 1 2; do filled "i$i" "$s" "[-$i,-1,-2]"; done; done >"$TMP/f"
    head-apply "$TMP/f" >"$TMP/a"
    assert_equal "$(jq -r .id "$TMP/a" | tr '\n' ' ')" "i3 i1 i2 "
    sort "$TMP/f" | head-apply | sort | diff - <(sort "$TMP/a")
}

@test "label, group, meta and unknown fields pass through; prompt fields do not" {
    filled a 0 '[-1,-2,-3]' ',"label":"red","weight":0.50,"group":"g","meta":{"card":"c","column":"x"},"mine":1.0' >"$TMP/f"
    run head-apply -l raw "$TMP/f"
    assert_output --partial '"label":"red","weight":0.50,"group":"g","meta":{"card":"c","column":"x"},"mine":1.0,"run":{"version":"'
    refute_output --partial '"perm"'
}

@test "the table is aligned by display width and cuts what is long" {
    filled a 0 '[-1,-2,-3]' ',"meta":{"card":"卡片","column":"温度"}' >"$TMP/f"
    filled "$(head -c 200 /dev/zero | tr '\0' x)" 0 '[-1,-2,-3]' >>"$TMP/f"
    run head-apply -l raw -f table "$TMP/f"
    assert_success
    assert_equal "${#lines[@]}" 3
    [[ "${lines[0]}" =~ ^ITEM\ +QUESTION\ +ANSWER\ +P\ +LEVEL\ +NOTE$ ]]
    [[ "${lines[1]}" == "卡片 温度"*"q         red     0.665  raw" ]] || fail "${lines[1]}"
    [[ "${lines[2]}" == *"x…  q         red     0.665  raw" ]] || fail "${lines[2]}"
}

@test "System One answers" {
    filled a 0 '[-1,-2,-3]' >"$TMP/f"
    run head-apply -l raw -f systemone "$TMP/f"
    assert_equal "$(echo "$output" | jq -c '[.id, .model, .answers.q.type, .answers.q.choice, (.answers.q.probabilities | keys_unsorted)]')" '["a","m","choice","red",["red","green","blue"]]'
}

bad() { # STATUS MESSAGE-PART, the record on stdin
    cat >"$TMP/bad"
    run --separate-stderr head-apply "$TMP/bad"
    assert_failure "$1"
    assert_output ""
    [[ "$stderr" == *"$2"* ]] || fail "wanted '$2', got: $stderr"
}

@test "what cannot be decided on is refused with its place" {
    filled a 0 '[-1,-2,-3]' | bad 3 "$TMP/bad:1: item 'a' has 1 of the 3 permutations"
    filled a 0 '[-1,-2]' | bad 3 "2 numbers for 3 options"
    filled a 0 '[-1,-2,0.5]' | bad 3 "0.5 is positive"
    filled a 0 '[-1,-2,NaN]' | bad 3 "not JSON"
    filled a 0 '[-1,-2,null]' | bad 3 "expected a number"
    { filled a 0 '[-1,-2,-3]'; filled a 0 '[-1,-2,-3]'; } | bad 3 "$TMP/bad:2: prompt \"a#0\": this permutation of the item comes twice"
    filled a 0 '[-1,-2,-3]' | sed 's/\[0,1,2\]/[0,2,1]/' | bad 3 "expected a cyclic shift"
    { filled a 0 '[-1,-2,-3]'; filled a 1 '[-1,-2,-3]' | sed 's/"f"}/"g"}/'; } | bad 4 "another model"
    prompt-build --template none <<<'{"type":"item","id":"1","question":"column.annotate","state":1}' | bad 3 "was not filled"
}

@test "--require refuses a level below (4); --keep-going sets incomplete items aside; a full disk is an error (6)" {
    filled a 0 '[-1,-2,-3]' >"$TMP/f"
    for s in 0 1 2; do filled b "$s" '[-1,-2,-3]'; done >>"$TMP/f"
    run --separate-stderr head-apply --require L1 "$TMP/f"
    assert_failure 4
    run --separate-stderr head-apply -l raw --require L0 "$TMP/f"
    assert_failure 4
    run --separate-stderr head-apply -k "$TMP/f"
    assert_failure 1
    assert_equal "$(echo "$output" | jq -r .id)" b
    run bash -c "head-apply -k '$TMP/f' >/dev/full"
    assert_failure 6
    run --separate-stderr head-apply -k -o "$TMP/nowhere/out" "$TMP/f"
    assert_failure 6
}

@test "a prompt's own fields never stand in for what a decision says" {
    filled a 0 '[-1,-2,-3]' ',"probs":[0,0,1],"answer":"blue","level":"L2","run":{"x":1},"bundle":"b"' >"$TMP/f"
    run head-apply -l raw "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.answer, .level, .bundle, (.run | has("version"))]')" '["red","raw",null,true]'
    refute_output --partial '"blue","level"'
}

@test "prompts that ask something else under one item or one key are refused" {
    { filled a 0 '[-1,-2,-3]'; filled a 1 '[-1,-2,-3]' | sed 's/"red","green","blue"/"blue","green","red"/'; } | bad 3 "$TMP/bad:2: prompt \"a#1\": field 'options': not those of the item's other prompts"
    { filled a 0 '[-1,-2,-3]'; filled b 0 '[-1,-2,-3]' | sed 's/"blue"/"grey"/'; } | bad 3 "not those of the prompts before with the key 'k1'"
    filled a 0 '[-1,-2,-3]' | sed 's/"choice"/"noul"/' | bad 3 "a noul question has two options"
    filled a 0 '[-1,-2]' | sed 's/"choice"/"noul"/; s/"red","green","blue"/"No","Yes"/; s/\[0,1,2\]/[0,1]/' | bad 3 "first the one answered Yes"
}

@test "content_free divides by the mean answer to the probes; without probes it is an error" {
    for i in $(seq 3); do echo "{\"type\":\"item\",\"id\":\"$i\",\"question\":\"column.aspect\",\"state\":$i,\"label\":\"unit\"}"; done >"$TMP/i"
    prompt-build --template none --probes "$TMP/i" | prefill-fake --position-bias 3 --label-bias 1 >"$TMP/f"
    run head-apply --prior content_free "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | wc -l)" 3
    assert_equal "$(echo "$output" | jq -c '[.answer, .calibration, .diagnostics.flips]' | sort -u)" '["unit",{"prior":"content_free","prior_strength":1,"prior_items":3},0]'
    run --separate-stderr head-apply --prior content_free <(jq -c 'select(.probe | not)' "$TMP/f")
    assert_failure 3
    [[ "$stderr" == *"question 'column.aspect' has no probes"* ]]
    # probes are no items of the batch prior, and no decisions
    diff <(head-apply "$TMP/f") <(jq -c 'select(.probe | not)' "$TMP/f" | head-apply)
}

@test "--combine mean averages probabilities" {
    { filled a 0 '[-1,-2,-3]'; filled a 2 '[-1.5,-1,-2]'; filled a 1 '[-3,-1,-0.5]'; } >"$TMP/f"
    run head-apply --prior none --combine mean "$TMP/f"
    # softmaxes by option, averaged (Python's math): red
    want=$(awk 'BEGIN { a=exp(-1)/(exp(-1)+exp(-2)+exp(-3)); b=exp(-1)/(exp(-1.5)+exp(-1)+exp(-2)); c=exp(-0.5)/(exp(-3)+exp(-1)+exp(-0.5)); printf "%.9f", (a+b+c)/3 }')
    assert_equal "$(echo "$output" | jq '.probs[0] * 1e9 | round')" "$(awk -v w="$want" 'BEGIN { printf "%.0f", w * 1e9 }')"
}

@test "masked options get nothing, the rest is renormalised, the mass taken away is said" {
    filled a 0 '[-1,-2,-3]' ',"mask":["red"]' >"$TMP/f"
    run head-apply -l raw "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.answer, .probs[0], (.probs | add * 1e12 | round), (.diagnostics.masked_mass * 1e6 | round), .mask]')" '["green",0,1000000000000,665241,["red"]]'
    filled a 0 '[-1,-2,-3]' ',"mask":["soup"]' >"$TMP/f"
    run head-apply -l raw "$TMP/f"
    assert_failure 3
    filled a 0 '[0,-9999,-9999]' ',"mask":["red"]' >"$TMP/f"
    run --separate-stderr head-apply -l raw "$TMP/f"
    assert_failure 3
    [[ "$stderr" == *"out of play"* ]]
}

@test "a listing turned otherwise: reversed prompts are decided, raw takes the listing, mixed listings are refused" {
    for i in 1 2; do echo "{\"type\":\"item\",\"id\":\"$i\",\"question\":\"column.aspect\",\"state\":$i,\"label\":\"unit\"}"; done >"$TMP/i"
    prompt-build --template none --reverse-order "$TMP/i" | prefill-fake --position-bias 6 >"$TMP/f"
    assert_equal "$(head-apply -l raw "$TMP/f" | jq -r .answer | sort -u)" other
    assert_equal "$(head-apply --prior none "$TMP/f" | jq -r .answer | sort -u)" unit
    { head -n 8 "$TMP/f"; prompt-build --template none "$TMP/i" | prefill-fake --position-bias 6 | tail -n 8; } >"$TMP/mixed"
    run --separate-stderr head-apply "$TMP/mixed"
    assert_failure 3
    [[ "$stderr" == *"lists its options in another order"* ]]
    # a permutation that is no turn of the item's others
    { filled a 0 '[-1,-2,-3]'; filled a 0 '[-1,-2,-3]' ',"shift":1' | sed 's/\[0,1,2\]/[2,1,0]/'; } >"$TMP/f"
    run --separate-stderr head-apply "$TMP/f"
    assert_failure 3
    [[ "$stderr" == *"not a turn of the item's other prompts"* ]]
}

@test "prompts of an item that carry different labels are refused" {
    { filled a 0 '[-1,-2,-3]' ',"label":"red"'; filled a 1 '[-1,-2,-3]' ',"label":"blue"'; } >"$TMP/f"
    run --separate-stderr head-apply "$TMP/f"
    assert_failure 3
    [[ "$stderr" == *":2: "*"field 'label': not that of the item's other prompts"* ]]
}

@test "an item with a prompt set aside is told once" {
    { filled a 0 '[-1,-2,-3]'; filled a 1 '[-1,-2]'; filled a 2 '[-1,-2,-3]'; for s in 0 1 2; do filled b "$s" '[-1,-2,-3]'; done; } >"$TMP/f"
    run --separate-stderr head-apply -k --errors "$TMP/e" "$TMP/f"
    assert_failure 1
    assert_equal "$(echo "$output" | jq -r .id)" b
    assert_equal "$(jq -r .line "$TMP/e")" 2
}
