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
    printf '%s\n' '{"type":"decision","question":"column.annotate","answer":"Yes","meta":{"card":"LK.0007.stream_chemistry","column":"nitrate"}}' \
        '{"type":"decision","question":"column.annotate","answer":"No","meta":{"card":"LK.0007.stream_chemistry","column":"qcFlag"}}' >"$TMP/d"
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
    # the state is the same whatever the order of its keys; the item that comes again gets a number, so that both are decided
    assert_equal "$(echo "$output" | jq -r .state_sha256 | sort -u | wc -l)" 1
    id=$(echo "$output" | head -n 1 | jq -r .item)
    assert_equal "$(echo "$output" | jq -r .item | uniq | tr '\n' ' ')" "$id $id-2 "
    assert_equal "$(echo "$output" | prefill-fake | head-apply | wc -l)" 2
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

requests() {
    cat <<'END'
{"id":"r1","state":"My parcel has not come.","questions":{"urgent":{"type":"noul","instructions":"Is this urgent?","criteria":{"true":"The customer lost money.","false":"It can wait."}},"route":{"type":"choice","instructions":"Where to?","criteria":{"shipping":"Parcels","billing":"Money","other":null}},"anger":{"type":"score","instructions":"How angry?","criteria":["calm","annoyed","furious"]}},"labels":{"urgent":false,"route":"shipping","anger":1},"group":"g"}
{"state":null,"questions":{"q":{"type":"score","instructions":"How long?","criteria":{"scale":[0,10],"bins":4}},"p":{"type":"score","instructions":"How sure?"}}}
END
}

@test "System One requests: every question becomes an item of its request, known answers become labels" {
    run prompt-build --template none <(requests)
    assert_success
    assert_equal "$(echo "$output" | jq -c 'select(.shift == 0) | [.item, .request, .kind, .options, .label, .group, .centers]')" \
'["r1/urgent","r1","noul",["Yes","No"],"No","g",null]
["r1/route","r1","choice",["shipping","billing","other"],"shipping","g",null]
["r1/anger","r1","score",["calm","annoyed","furious"],"annoyed","g",[0,1,2]]
["request-2/q","request-2","score",["0 to 2.5","2.5 to 5","5 to 7.5","7.5 to 10"],null,null,[1.25,3.75,6.25,8.75]]
["request-2/p","request-2","score",["0 to 0.2","0.2 to 0.4","0.4 to 0.6","0.6 to 0.8","0.8 to 1"],null,null,[0.1,0.3,0.5,0.7,0.9]]'
    # what the criteria say of an answer is part of the wording
    echo "$output" | jq -r 'select(.item == "r1/urgent") | .user' | grep -qx -- '- No: It can wait.'
    # without criteria the key is that of the plain question
    assert_equal "$(echo "$output" | jq -r 'select(.question == "q") | .key')" \
        "$(printf '%s' '{"centers": null, "kind": "score", "options": ["0 to 2.5", "2.5 to 5", "5 to 7.5", "7.5 to 10"], "scale": [0, 10], "text": "How long?"}' | sha256sum | cut -c1-16)"
}

@test "System One answers come back by request, probes or not" {
    requests | prompt-build --template none --probes | prefill-fake >"$TMP/f"
    run head-apply --format systemone "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.id, (.answers | keys_unsorted), .answers.urgent.type, .answers.route.choice]')" \
'["r1",["urgent","route","anger"],"noul","shipping"]
["request-2",["q","p"],null,null]'
}

@test "bad requests are refused, naming the question" {
    check() { # MESSAGE QUESTION [MORE]
        printf '{"state":1,"questions":{"q":%s}%s}\n' "$2" "${3:-}" >"$TMP/i"
        run --separate-stderr prompt-build --template none "$TMP/i"
        assert_failure 3
        assert_output ""
        [[ "$stderr" == *"$1"* ]] || fail "$stderr"
    }
    check "field 'type': expected noul, choice or score" '{"type":"maybe","instructions":"x"}'
    check "question \"q\": field 'instructions'" '{"type":"noul"}'
    check "a choice question has 2 to 26 options" '{"type":"choice","instructions":"x","criteria":["one"]}'
    check "an array of their names" '{"type":"choice","instructions":"x"}'
    check "'true' and 'false'" '{"type":"noul","instructions":"x","criteria":{"yes":"y"}}'
    check "there is no level 7" '{"type":"score","instructions":"x","criteria":["a","b"]}' ',"labels":{"q":7}'
    check "is none of the options" '{"type":"choice","instructions":"x","criteria":["a","b"]}' ',"labels":{"q":"c"}'
    check "its end must lie above its start" '{"type":"score","instructions":"x","criteria":{"scale":[1,1]}}'
    check "expected 2 to 10, found 11" '{"type":"score","instructions":"x","criteria":{"bins":11}}'
    echo '{"state":1,"questions":{}}' >"$TMP/i"
    run prompt-build --template none "$TMP/i"
    assert_failure 3
    echo '{"questions":{"q":{"type":"noul","instructions":"x"}}}' >"$TMP/i"
    run prompt-build --template none "$TMP/i"
    assert_failure 3
}

@test "the orders: canonical does not depend on the listing, reverse turns it, random is drawn by item and seed" {
    item() { printf '{"type":"item","id":"%s","question":{"id":"q","kind":"choice","text":"Which?","options":%s},"state":1}\n' "$1" "$2"; }
    item a '["pear","apple","fig"]' >"$TMP/a"
    item a '["fig","pear","apple"]' >"$TMP/b"
    for o in a b; do prompt-build --template none --canonical-order "$TMP/$o" | jq -r .prompt_sha256 >"$TMP/$o.sha"; done
    diff "$TMP/a.sha" "$TMP/b.sha"
    run prompt-build --template none --reverse-order "$TMP/a"
    assert_equal "$(echo "$output" | jq -c '[.perm, .shift]')" '[[2,1,0],0]
[[1,0,2],1]
[[0,2,1],2]'
    for i in $(seq 40); do item "i$i" '["pear","apple","fig"]'; done >"$TMP/many"
    prompt-build --template none --level raw --random-order "$TMP/many" | jq -c .perm | sort | uniq -c >"$TMP/orders"
    assert_equal "$(wc -l <"$TMP/orders")" 6
    tac "$TMP/many" | prompt-build --template none --level raw --random-order | tac | diff - <(prompt-build --template none --level raw --random-order "$TMP/many")
    refute diff -q <(prompt-build --template none --level raw --random-order --seed 1 "$TMP/many") <(prompt-build --template none --level raw --random-order "$TMP/many")
    run prompt-build --template none --random-order --reverse-order "$TMP/a"
    assert_failure 2
}

@test "probes: every question once about nothing, before its first item" {
    for i in 1 2; do printf '{"type":"item","id":"%s","question":"column.annotate","state":%s}\n' $i $i; done >"$TMP/i"
    run prompt-build --template none --probes "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.probe, .shift]' | tr '\n' ' ')" '[1,0] [1,1] [2,0] [2,1] [3,0] [3,1] [null,0] [null,1] [null,0] [null,1] '
    assert_equal "$(echo "$output" | jq -r 'select(.probe == 2 and .shift == 0) | .user' | head -c 9)" "Question:"
}

@test "twins: a wide choice is asked as yes/no, once per option, of ontologies once per one that serves the aspect" {
    card=$(card-parse "$ROOT/pipelines/examples/stream_chemistry.md")
    printf '{"type":"case","id":"c","question":"column.ontology","card":%s,"column":"waterTemp","aspect":"unit","label":"UO"}\n' "$card" >"$TMP/c"
    run prompt-build --template none --level raw --twins "$TMP/c"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.item, .question, .label, .meta]')" '["c/UO","column.ontology_fits","Yes",{"card":"LK.0007.stream_chemistry","column":"waterTemp","option":"UO"}]'
    sed -i 's/"aspect":"unit"/"aspect":"environment"/' "$TMP/c"
    assert_equal "$(prompt-build --template none --level raw --twins "$TMP/c" | jq -c '[.item, .label]' | tr '\n' ' ')" '["c/ENVO","No"] ["c/PCO","No"] '
    echo '{"type":"item","question":"column.ontology","state":{"x":1},"mask":["ENVO"]}' >"$TMP/i"
    run prompt-build --template none --level raw --twins "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | wc -l)" 11
    echo "$output" | head -n 1 | jq -r .user | grep -q '"option": "NCBITaxon"'
    sed -i 's/"aspect":"environment"/"aspect":"weather"/' "$TMP/c"
    run --separate-stderr prompt-build --template none --twins "$TMP/c"
    assert_failure 3
    [[ "$stderr" == *"no ontology of the registry serves the aspect 'weather'"* ]]
}

@test "a mask names options out of play: not all, none unknown, not the label" {
    check() { # MESSAGE MASK LABEL
        printf '{"type":"item","question":"column.aspect","state":1,"mask":%s,"label":%s}\n' "$2" "$3" >"$TMP/i"
        run --separate-stderr prompt-build --template none "$TMP/i"
        assert_failure 3
        [[ "$stderr" == *"$1"* ]] || fail "$stderr"
    }
    check "'soup' is none of the options" '["soup"]' null
    check "the label 'taxon' is out of play" '["taxon"]' '"taxon"'
    check "expected an array" '"taxon"' null
    check "every option is out of play" '["taxon","environment","method","measurement","unit","data_type","location","other"]' null
}

@test "a case keeps its numeric id" {
    card=$(card-parse "$ROOT/pipelines/examples/stream_chemistry.md")
    printf '{"type":"case","id":17,"question":"column.aspect","card":%s,"column":"waterTemp"}\n' "$card" >"$TMP/c"
    assert_equal "$(prompt-build --template none --level raw "$TMP/c" | jq -r .item)" 17
}

@test "--where takes the Yes of column.annotate, and of no other question" {
    card-parse "$ROOT/pipelines/examples/stream_chemistry.md" >"$TMP/c"
    d() { printf '{"type":"decision","question":"%s","answer":"%s","meta":{"card":"LK.0007.stream_chemistry","column":"%s"}}\n' "$1" "$2" "$3"; }
    { d column.annotate Yes waterTemp; d column.annotate No nitrate; d column.ontology_fits Yes qcFlag; } >"$TMP/d"
    run prompt-build --template none --level raw -q column.aspect --where "$TMP/d" "$TMP/c"
    assert_success
    assert_equal "$(echo "$output" | jq -r .meta.column)" waterTemp
}
