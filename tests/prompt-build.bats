#!/usr/bin/env bats
# prompt-build: items, cards and cases to prompts.
load helper

choice() { # ID OPTIONS STATE [MORE]
    printf '{"type":"item","id":"%s","question":{"kind":"choice","text":"Which colour is named?","options":%s},"state":%s%s}\n' "$1" "$2" "$3" "${4:-}"
}
tiny=$BATS_TEST_DIRNAME/fixtures/cards/tiny-crlf.md

@test "a choice of three makes three prompts; every option stands at every position once; the prefix is shared" {
    choice 7 '["red","green","blue"]' '"The sky is blue."' >"$TMP/i"
    run --separate-stderr prompt-build --template chatml "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.id, .perm, .labels]')" '["7#0",[0,1,2],["A","B","C"]]
["7#1",[1,2,0],["A","B","C"]]
["7#2",[2,0,1],["A","B","C"]]'
    assert_equal "$(echo "$output" | jq -r .prefix | sort -u | md5sum)" "$(echo "$output" | head -n 1 | jq -r .prefix | sort -u | md5sum)"
    assert_equal "$(echo "$output" | jq -s -r '.[1].suffix')" 'A. green
B. blue
C. red

Reply with the letter of the best answer.<|im_end|>
<|im_start|>assistant'
    # prefix and suffix together hold the user's text, and split cuts it where prefix ends
    echo "$output" | jq -e -s 'all(.[]; . as $p | (.prefix + .suffix | contains($p.user)) and (.prefix | endswith($p.user[:$p.split])))' >/dev/null
    assert_equal "$(echo "$output" | head -n 1 | jq -r '.prompt_sha256')" "$(echo "$output" | head -n 1 | jq -j '.prefix + .suffix' | sha256sum | cut -d' ' -f1)"
}

@test "yes and no come in both orders, labels with their options; a score has one; raw makes one" {
    printf '%s\n' '{"type":"item","id":"n","question":{"kind":"noul","text":"Is it blue?"},"state":null}' \
        '{"type":"item","id":"s","question":{"kind":"score","text":"How blue?","options":["a","b","c","d","e","f","g","h","i","j"]},"state":[{"role":"user","content":"hi"}]}' >"$TMP/i"
    run prompt-build --template none "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.perm, .labels]')" '[[0,1],["Yes","No"]]
[[1,0],["No","Yes"]]
[[0,1,2,3,4,5,6,7,8,9],["A","B","C","D","E","F","G","H","I","J"]]'
    run prompt-build --template none --level raw "$TMP/i"
    assert_equal "${#lines[@]}" 2
    assert_equal "$(echo "${lines[1]}" | jq -r '.user' | head -n 2)" 'What is known:
user: hi'
}

# key: json.dumps({centers, kind, options, scale, text}, sort_keys=True), its SHA-256, 16 digits; computed with Python 3.11:
# hashlib.sha256(json.dumps({"centers": None, "kind": "noul", "options": ["Yes", "No"], "scale": [0.0, 1.0], "text": T}, sort_keys=True).encode()).hexdigest()[:16]
@test "keys follow the formula, non-ASCII escaped" {
    printf '%s\n' '{"type":"item","id":"n","question":{"kind":"noul","text":"Is it blue?","options":["Yes","No"]},"state":1}' \
        '{"type":"item","id":"n","question":{"kind":"noul","text":"Ist es grün? 😀","options":["Yes","No"]},"state":1}' \
        '{"type":"item","id":"n","question":{"kind":"score","text":"How?","options":["a","b"],"centers":[0.50,1e16]},"state":1}' >"$TMP/i"
    run prompt-build --template none "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -r .key | uniq)" "f87b02f1690f3e1c
f1d22241e884a058
0e67a9f7893e4b6e"
}

@test "the registry equals its lock; an edited text is told with both keys" {
    run prompt-build --check-lock
    assert_success
    cp "$ROOT"/pipelines/questions.json "$ROOT"/pipelines/questions.lock.json "$TMP/"
    sed -i 's/Which aspect of the data/Which aspect of the table/' "$TMP/questions.json"
    run --separate-stderr prompt-build --check-lock --questions "$TMP/questions.json"
    assert_failure 4
    [[ "$stderr" =~ "'column.aspect': key "([0-9a-f]{16})" -> "([0-9a-f]{16})": labels and bundles of "([0-9a-f]{16})" no longer apply" ]]
    [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[3]}" ]
    run prompt-build --write-lock --questions "$TMP/questions.json"
    assert_success
    run prompt-build --check-lock --questions "$TMP/questions.json"
    assert_success
}

@test "cards are asked about every column that is no identifier; --where keeps those that were answered Yes" {
    card-parse "$ROOT/pipelines/examples/stream_chemistry.md" >"$TMP/c"
    prompt-build --template none -q column.annotate "$TMP/c" >"$TMP/p"
    assert_equal "$(jq -r .meta.column "$TMP/p" | uniq | tr '\n' ' ')" "waterTemp dissolvedOxygen nitrate sampleMedium samplingMethod fishSpecies filterPoreSize qcFlag "
    assert_equal "$(head -n 1 "$TMP/p" | jq -r '.id, .group')" "column.annotate:LK.0007.stream_chemistry:waterTemp#0
LK.0007.stream_chemistry"
    printf '%s\n' '{"type":"decision","answer":"Yes","meta":{"card":"LK.0007.stream_chemistry","column":"nitrate"}}' \
        '{"type":"decision","answer":"No","meta":{"card":"LK.0007.stream_chemistry","column":"qcFlag"}}' >"$TMP/d"
    run prompt-build --template none -q column.aspect --where "$TMP/d" "$TMP/c"
    assert_success
    assert_equal "$(echo "$output" | jq -r .meta.column | uniq)" nitrate
    assert_equal "${#lines[@]}" 8
}

@test "states have the hashes that another implementation gives them" {
    need_shared states.jsonl
    card-parse "$SHARED/data/cards/DP1.10003.001.brd_countdata.md" >"$TMP/c"
    sha=$(jq -r .sha256 "$TMP/c")
    jq -c --arg sha "$sha" '
        {type: "case", card: $sha, id: .state_sha256} + (
        if .builder == "column_state" then {question: "column.annotate", column: .args.col["$column"]}
        elif .builder == "candidate_state" then {question: "term.fits", scope: .args.scope, aspect: .args.aspect, candidate: .args.candidate,
            n_candidates: .state.n_candidates, column: .state.column.name}
        elif .builder == "ontology_state" then {question: "column.ontology_fits", column: .args.col["$column"], aspect: .args.aspect,
            ontology: {id: .args.ontology_id, description: .args.option_text, aspects: .args.aspects}}
        elif .builder == "value_kind_state" then {question: "avu.value_kind", column: .args.col["$column"], aspect: .args.aspect, term: .args.term}
        else {question: "avu.keep", avu: .args.avu, term: .args.term, scope: .args.scope, target: .args.target_name, siblings: .args.siblings} end)' \
        "$SHARED/data/states.jsonl" >"$TMP/cases"
    run prompt-build --template none --level raw --cards "$TMP/c" "$TMP/cases"
    assert_success
    assert_equal "${#lines[@]}" 5
    assert_equal "$(echo "$output" | jq -r .state_sha256)" "$(jq -r .state_sha256 "$SHARED/data/states.jsonl")"
}

@test "a noul question may word its two options; the decision is about the first" {
    printf '%s\n' '{"type":"item","id":"n","question":{"kind":"noul","text":"What is it?","options":["a bird","no bird"]},"state":1,"label":"a bird"}' >"$TMP/i"
    prompt-build --template none "$TMP/i" | prefill-fake --signal 3 >"$TMP/f"
    run head-apply "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.answer, .p_true > 0.9]')" '["a bird",true]'
}

@test "ids are stable: the same input gives the same bytes, without an id too" {
    printf '%s\n' '{"type":"item","question":"column.annotate","state":{"b":1,"a":[1.0,1e16,9007199254740993]}}' \
        '{"type":"item","question":"column.annotate","state":{"a":[1.0,1e16,9007199254740993],"b":1}}' >"$TMP/i"
    run prompt-build --template none "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -r .item | uniq | wc -l)" 1
    assert_equal "$(echo "$output" | head -n 1 | jq -r .state_sha256)" "$(printf '{"a":[1.0,1e+16,9007199254740993],"b":1}' | sha256sum | cut -d' ' -f1)"
    prompt-build --template none "$TMP/i" >"$TMP/again"
    diff "$TMP/again" <(echo "$output")
}

@test "label, weight, group, meta and unknown fields pass through as they were written" {
    choice 1 '["a","b"]' '{}' ',"label":"b","weight":0.50,"group":"g","meta":{"x":1.0},"m\u0069ne\"":12345678901234567890,"card":"x"' >"$TMP/i"
    run prompt-build --template none "$TMP/i"
    assert_success
    for l in "${lines[@]}"; do
        [[ "$l" == *'"label":"b","weight":0.50,"group":"g","meta":{"x":1.0},"m\u0069ne\"":12345678901234567890,"card":"x"}' ]] || fail "$l"
    done
}

bad() { # MESSAGE-PART LINE
    printf '%s\n' '' "$2" >"$TMP/bad"
    run --separate-stderr prompt-build --template none "$TMP/bad"
    assert_failure 3
    assert_output ""
    [[ "$stderr" == "prompt-build: $TMP/bad:2: "*"$1"* ]] || fail "wanted '$1', got: $stderr"
}

@test "bad records are refused with file, line, id and reason" {
    options=$(printf '"o%s",' $(seq 27)); options="[${options%,}]"
    bad "2 to 26 options, found 27" "$(choice 1 "$options" '1')"
    bad "2 to 26 options, found 1" "$(choice 1 '["a"]' '1')"
    bad "comes twice" "$(choice 1 '["a","a"]' '1')"
    bad "answered Yes" '{"type":"item","id":"1","question":{"kind":"noul","text":"Q","options":["No","Yes"]},"state":1}'
    bad "option is empty" "$(choice 1 '["a",""]' '1')"
    bad "1e400 is out of range" "$(choice 1 '["a","b"]' '[1e400]')"
    bad "has no question 'nothing'" '{"type":"item","id":"1","question":"nothing","state":1}'
    bad "'state' is missing" '{"type":"item","id":"1","question":"column.annotate"}'
    bad "none of the options" "$(choice 1 '["a","b"]' '1' ',"label":"c"')"
    bad "one value per line" '{"type":"item"} {"type":"item"}'
    bad "expected a record of type" '{"type":"decision"}'
    bad "expected an object" '[1]'
    bad "record \"x\"" '{"type":"item","id":"x","question":"nothing","state":1}'
    bad "invalid UTF-8" "$(printf '{"type":"item","id":"\xff"}')"
}

@test "a --model that is no model is refused (3), not taken for one without a template" {
    mkdir "$TMP/empty"
    for m in "$ROOT/README.md" "$TMP/empty" "$TMP/none"; do
        run --separate-stderr prompt-build --model "$m" /dev/null
        assert_failure 3
        [[ "$stderr" == "prompt-build: "*"$m"* ]] || fail "$stderr"
    done
}

@test "a line of 5 MB works; --keep-going sets bad records aside" {
    { printf '{"type":"item","id":"big","question":"column.annotate","state":"'; head -c 5000000 /dev/zero | tr '\0' x; printf '"}\n'; } >"$TMP/i"
    echo '{"type":"item","id":"no","question":"nothing","state":1}' >>"$TMP/i"
    run --separate-stderr bash -c "prompt-build --template none -k --errors '$TMP/e' '$TMP/i' | wc -l; exit \${PIPESTATUS[0]}"
    assert_failure 1
    assert_output 2
    assert_equal "$(jq -c '[.line, .status, .record.id]' "$TMP/e")" '[2,3,"no"]'
}

@test "text that looks like a control token is marked only when it may be one; usage errors" {
    choice 1 '["a","b"]' '"<|im_end|>"' >"$TMP/i"
    run prompt-build --template chatml --level raw "$TMP/i"
    refute_output --partial allow_control_tokens
    run prompt-build --template chatml --level raw --allow-control-tokens "$TMP/i"
    assert_output --partial '"allow_control_tokens":true'
    run prompt-build "$TMP/i"
    assert_failure 2
    run prompt-build --template none -q nothing "$TMP/i"
    assert_failure 2
    run bash -c "prompt-build --template none '$TMP/i' >/dev/full"
    assert_failure 6
}
