#!/usr/bin/env bats
# prefill-gateway: prompts through a server that fails in named ways.
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

# Names of faults are joined with the number of the test: what the server remembers belongs to one test.
url() { echo "http://127.0.0.1:$(cat "$PORT_FILE")/$1+test$BATS_TEST_NUMBER"; }
stats() { curl -s "$(url "$1")/stats"; }
gateway() { prefill-gateway --url "$(url "$1")" --min-mass 0 --retry-cap 0.05 "${@:2}"; }

items() {
    for i in $(seq "$1"); do
        printf '{"type":"item","id":"i%d","question":{"kind":"choice","text":"Which?","options":["red","green","blue"]},"state":"item %d is here","label":"red"}\n' "$i" "$i"
    done
}
prompts() { items "$1" | prompt-build --template chatml; }
fails() { # FAULT STATUS TEXT: the run ends so, with these words, and nothing on stdout
    run --separate-stderr gateway "$1" --retries 1 "$TMP/p"
    assert_failure "$2"
    assert_output ""
    [[ "$stderr" == *"$3"* ]] || fail "$1: $stderr"
}

@test "a record keeps its fields in place and gains the numbers, the probe and the identity; prefix and suffix go" {
    prompts 2 | sed 's/"need"/"mine":12345678901234567890.50,"need"/' >"$TMP/p"
    run --separate-stderr gateway ok "$TMP/p"
    assert_success
    [ -z "$stderr" ]
    [[ "$output" == *'"mine":12345678901234567890.50,"need"'* ]]
    assert_equal "$(echo "$output" | jq -r .id)" "$(jq -r .id "$TMP/p")"
    echo "$output" | jq -e -s 'all(.[]; (.logprobs | length == 3 and all(. < 0)) and .missing == [] and .n_tokens == 100000 and (.server_probe | length == 5)
        and .model.backend == "gateway" and .model.api == "completions" and .model.served_model == "tiny" and .model.root == "org/tiny" and (.model.fingerprint | length == 64)
        and (([.logprobs[] | exp] | add) - .answer_mass | fabs) < 1e-12 and (has("prefix") or has("suffix") or has("server_notes") | not))' >/dev/null
    run --separate-stderr gateway ok --keep-prompt "$TMP/p"
    echo "$output" | jq -e -s 'all(.[]; has("prefix") and has("suffix"))' >/dev/null
    run --separate-stderr bash -c "head-apply --level L0 <<<'$output'"
    assert_success
    assert_equal "${#lines[@]}" 2
}

@test "a request asks for one token at temperature 1 without truncation, 20 tokens whatever K is; chat turns thinking off" {
    prompts 1 | head -n 1 >"$TMP/p"
    gateway ok "$TMP/p" >"$TMP/o"
    stats ok | jq -e --slurpfile p "$TMP/p" '.last | .max_tokens == 1 and .temperature == 1 and .top_p == 1 and .top_k == 0 and .logprobs == 20 and .model == "tiny"
        and .prompt == $p[0].prefix + $p[0].suffix' >/dev/null
    gateway chat-ok --api chat "$TMP/p" >"$TMP/o"
    stats chat-ok | jq -e --slurpfile p "$TMP/p" '.last | .logprobs == true and .top_logprobs == 20 and .chat_template_kwargs.enable_thinking == false
        and .messages[0].content == $p[0].system and .messages[1] == {role: "user", content: $p[0].user}' >/dev/null
    jq -e '.model.api == "chat" and (.logprobs | length == 3)' "$TMP/o" >/dev/null
}

@test "all shapes of answers give the same numbers: map, list with ids, native, linear, token_id keys, borders inside characters" {
    prompts 4 >"$TMP/p"
    numbers() { jq -c '[.id, (.logprobs | map(. * 1e9 | round))]'; }
    gateway ok "$TMP/p" | numbers >"$TMP/want"
    for shape in ids native linear split tokenize+token-ids; do
        more=
        [ "$shape" != tokenize+token-ids ] || more="--only logprobs"
        # shellcheck disable=SC2086
        gateway "$shape" $more "$TMP/p" >"$TMP/o" || fail "$shape"
        numbers <"$TMP/o" | cmp - "$TMP/want" || fail "$shape differs"
    done
    jq -e '.label_ids == [100, 101, 102]' "$TMP/o" >/dev/null
    gateway ids "$TMP/p" | jq -e '.label_ids == [100, 101, 102]' >/dev/null
    fails token-ids 4 "by id alone"
}

@test "System One: noul, choice and score, by option whatever the order" {
    {
        items 2
        echo '{"type":"item","id":"n","question":{"kind":"noul","text":"Is it?"},"state":"x"}'
        echo '{"type":"item","id":"s","question":{"kind":"score","text":"How?","options":["low","mid","high"]},"state":"y"}'
    } | prompt-build --template none >"$TMP/p"
    run --separate-stderr gateway ok --workers 1 --api systemone "$TMP/p"
    assert_success
    echo "$output" | jq -e -s 'all(.[]; .answer_mass == 1 and (([.logprobs[] | exp] | add) - 1 | fabs) < 1e-9)' >/dev/null
    # The server draws by the state, which is the same for both orders of a noul: Yes keeps its number at either position.
    echo "$output" | jq -e -s '[.[] | select(.item == "n") | [.labels, .logprobs] | transpose | map({(.[0]): .[1]}) | add | .Yes] | .[0] == .[1]' >/dev/null
    stats ok | jq -e '.last.questions.decision == {type: "score", instructions: "Answer the question in the text.", criteria: ["low", "mid", "high"]}' >/dev/null
}

@test "429, 503, Retry-After as seconds and date, resets, half and torn answers: retried, and the result is the undisturbed one" {
    prompts 3 >"$TMP/p"
    gateway ok "$TMP/p" | jq -c 'del(.model, .server_probe)' >"$TMP/want"
    for fault in 429 503 reset half torn retry-long undrawn; do
        gateway "$fault" "$TMP/p" >"$TMP/o" || fail "$fault ended in $?"
        jq -c 'del(.model, .server_probe)' "$TMP/o" | cmp - "$TMP/want" || fail "$fault differs"
        stats "$fault" | jq -e '.prompts == 9 and .requests == 18' >/dev/null || fail "$fault: $(stats "$fault")"
    done
    for fault in retry-after retry-date; do
        start=$(date +%s%N)
        gateway "$fault" --workers 16 --retry-cap 10 "$TMP/p" >"$TMP/o"
        took=$((($(date +%s%N) - start) / 1000000))
        jq -c 'del(.model, .server_probe)' "$TMP/o" | cmp - "$TMP/want" || fail "$fault differs"
        [ "$took" -gt 900 ] || fail "$fault: the pause was $took ms"
    done
}

@test "a slow answer is given up and asked for again" {
    prompts 1 | head -n 1 >"$TMP/p"
    gateway slow --read-timeout 0.3 --connect-timeout 0.2 "$TMP/p" >"$TMP/o"
    stats slow | jq -e '.requests == 2 and .prompts == 1' >/dev/null
    assert_equal "$(wc -l <"$TMP/o")" 1
}

@test "bad answers are errors that name what was wrong (3), never scores" {
    prompts 1 | head -n 1 >"$TMP/p"
    fails nan 3 'no JSON: not JSON at byte'
    fails null 3 "has null for its log-probability"
    fails sentinel 3 "-9999 stands for 'not told'"
    fails positive 3 "0.5 is positive"
    fails too-much 3 "sum to 1.8"
    fails no-logprobs 3 "logprobs is null: the server gave no log-probabilities"
    fails no-list 3 "found null, expected the most probable tokens"
    fails empty 3 "content is empty"
    fails no-choices 3 "neither 'choices' nor"
    fails error-200 3 "out of memory"
    fails html 3 "a web page, not with JSON"
    fails prob-zero 3 "probability 0"
    fails prob-two 3 "2 is no probability"
    fails huge 4 "larger than"
}

@test "labels: exact texts, repeated ones summed, missing ones bounded by the smallest and named" {
    prompts 1 | head -n 1 >"$TMP/p"
    gateway twice "$TMP/p" | jq -e '(.logprobs[0] - ((-2 | exp) * 2 | log) | fabs) < 1e-12 and .missing == []' >/dev/null
    run --separate-stderr gateway few "$TMP/p"
    assert_success
    echo "$output" | jq -e '.missing == ["C"] and .logprobs == [-0.5, -3, -3] and ((.answer_mass - ((-0.5 | exp) + (-3 | exp))) | fabs) < 1e-12' >/dev/null
    [[ "$stderr" == *"1 answers lack labels"* ]]
    # " A" is no "A": the decision that rests on a bound says so.
    gateway spaced "$TMP/p" >"$TMP/o"
    jq -e '.missing == ["A"] and .logprobs == [-4, -2, -3]' "$TMP/o" >/dev/null
    head-apply --level raw "$TMP/o" | jq -e '.missing_labels == ["A"]' >/dev/null
}

@test "a chain of thought and a small label mass are said" {
    prompts 1 >"$TMP/p"
    run --separate-stderr prefill-gateway --url "$(url think)" "$TMP/p"
    assert_success
    [[ "$stderr" == *"3 answers begin with a chain of thought"*"in 3 answers the labels have less than 0.1"* ]]
    echo "$output" | jq -e -s 'all(.[]; .server_notes == ["reasoning", "low mass"])' >/dev/null
}

@test "the server's cap and the members it does not know are learned from its refusals" {
    prompts 3 >"$TMP/p"
    gateway cap5 "$TMP/p" >"$TMP/o"
    assert_equal "$(wc -l <"$TMP/o")" 9
    stats cap5 | jq -e '.last.logprobs == 5' >/dev/null
    gateway strict --api chat "$TMP/p" >"$TMP/o"
    stats strict | jq -e '.last | has("top_k") or has("min_p") or has("chat_template_kwargs") | not' >/dev/null
    assert_equal "$(wc -l <"$TMP/o")" 9
}

@test "refusals are final, with the server's words, cut (400: 3; 401, 404, redirects: 4)" {
    prompts 1 >"$TMP/p"
    fails 400 3 "the server answered 400: the prompt is very very"
    [ "${#stderr}" -lt 600 ]
    fails redirect 4 "answered 302"
    fails no-models 4 "/v1/models: the server answered 404: not found"
    fails two-models 2 'lists 2 models: "tiny", "second"'
    run --separate-stderr gateway ok --served-model other "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"lists no model 'other'; it has: \"tiny\""* ]]
    prompts 5 >"$TMP/p"
    run --separate-stderr gateway 400-some -k --errors "$TMP/e" "$TMP/p"
    assert_failure 1
    assert_equal "${#lines[@]}" 12
    assert_equal "$(jq -c .line "$TMP/e")" "7"$'\n'"8"$'\n'"9"
}

@test "the key: from the environment or a file that only its owner can read; never shown, whole or in part" {
    prompts 1 >"$TMP/p"
    ANYJEV_API_KEY=right-key gateway key "$TMP/p" >"$TMP/o"
    printf 'right-key\n' >"$TMP/key"
    chmod 600 "$TMP/key"
    gateway key --key-file "$TMP/key" "$TMP/p" | cmp - "$TMP/o"
    grep -q right-key "$TMP/o" && fail "the key is in a record"
    chmod 640 "$TMP/key"
    run --separate-stderr gateway key --key-file "$TMP/key" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"others can read this key; type: chmod 600"* ]]
    ANYJEV_API_KEY=sk-secret-0123456789 run --separate-stderr gateway 401 "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"answered 401: Incorrect API key provided: ***"* ]] || fail "$stderr"
    [[ "$stderr" != *sk-secret* ]]
    ANYJEV_API_KEY='two words' run --separate-stderr gateway key "$TMP/p"
    assert_failure 2
}

@test "hosts: http to this host only, unless it is allowed; no names, keys or queries in a URL; the environment's proxies are ignored" {
    prompts 1 >"$TMP/p"
    for u in http://example.org http://127.0.0.1.example.org http://10.0.0.1:8000 http://localhost.example.org; do
        run --separate-stderr prefill-gateway --url "$u" "$TMP/p"
        assert_failure 4
        [[ "$stderr" == *"is another host and the URL is not https"* ]] || fail "$u: $stderr"
    done
    for u in http://me:secret@127.0.0.1:1 http://127.0.0.1:1/?key=secret ftp://127.0.0.1 "" 127.0.0.1:1:2; do
        run --separate-stderr prefill-gateway --url "$u" "$TMP/p"
        assert_failure 2
        [[ "$stderr" != *secret* ]]
    done
    http_proxy=http://127.0.0.1:1 HTTP_PROXY=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 gateway ok "$TMP/p" >"$TMP/o"
    assert_equal "$(wc -l <"$TMP/o")" 3
    run --separate-stderr gateway ok --retries 0 --proxy http://127.0.0.1:1 "$TMP/p"
    assert_failure 5
}

@test "a server that is gone: the run stops, incomplete (5), and says how much is missing; a file does not appear" {
    prompts 20 >"$TMP/p"
    run --separate-stderr prefill-gateway --url http://127.0.0.1:1 --retries 1 "$TMP/p"
    assert_failure 5
    [[ "$stderr" == *"/v1/models: Failed to connect"*"(given up after 2 attempts)"* ]]
    run --separate-stderr gateway gone-after-20 --retries 1 --workers 4 -o "$TMP/o" "$TMP/p"
    assert_failure 5
    [[ "$stderr" =~ "incomplete: "([0-9]+)" prompts are without an answer: the server seems to be gone: 5 requests in a row" ]] || fail "$stderr"
    [ "${BASH_REMATCH[1]}" = 40 ] || fail "$stderr"
    [ ! -e "$TMP/o" ]
    run --separate-stderr gateway always-503 --retries 1 --breaker 0 "$TMP/p"
    assert_failure 5
    [[ "$stderr" == *"incomplete: 60 prompts are without an answer; the last one: the server answered 503: loading (given up after 2 attempts)"* ]] || fail "$stderr"
}

@test "an alias that moved during the run, in the list or in the probe's numbers, makes it incomplete (5)" {
    prompts 2 >"$TMP/p"
    for fault in moved drift; do
        run --separate-stderr gateway "$fault" -o "$TMP/o" "$TMP/p"
        assert_failure 5
        [[ "$stderr" == *"incomplete: at the end of the run: the served model 'tiny'"* ]]
        [ ! -e "$TMP/o" ]
    done
}

@test "the order is that of the input with any number of workers, and the numbers are the same" {
    prompts 60 >"$TMP/p"
    gateway uneven --workers 1 "$TMP/p" | jq -c 'del(.model)' >"$TMP/want"
    for w in 3 64; do
        gateway uneven --workers "$w" "$TMP/p" | jq -c 'del(.model)' | cmp - "$TMP/want" || fail "differs with $w workers"
    done
    assert_equal "$(jq -r .id "$TMP/want")" "$(jq -r .id "$TMP/p")"
}

@test "killed in the middle, a run with a journal goes on from there: nothing asked twice, no duplicate, the undisturbed result" {
    prompts 60 >"$TMP/p"
    gateway ok "$TMP/p" | jq -c 'del(.model)' >"$TMP/want"
    prefill-gateway --url "$(url crawl)" --min-mass 0 --workers 4 --journal "$TMP/j" "$TMP/p" >"$TMP/first" 3>&- &
    pid=$!
    sleep 1
    kill -9 "$pid"
    wait "$pid" || true
    kept=$(($(wc -l <"$TMP/j") - 1))
    [ "$kept" -gt 8 ] && [ "$kept" -lt 180 ] || fail "$kept answers in the journal"
    printf '{"key":"0123' >>"$TMP/j" # torn
    run --separate-stderr gateway crawl --workers 4 --journal "$TMP/j" "$TMP/p"
    assert_success
    [[ "$stderr" == *"$kept answers were in the journal, $kept of them are used"* ]] || fail "$stderr"
    echo "$output" | jq -c 'del(.model)' | cmp - "$TMP/want"
    assert_equal "$(echo "$output" | jq -r .id | sort | uniq -d)" ""
    # At most what flew when it was killed was asked twice.
    stats crawl | jq -e '.prompts == 180 and .requests <= 184' >/dev/null || fail "$(stats crawl)"
    # Once more: nothing is asked.
    before=$(stats crawl | jq .requests)
    gateway crawl --journal "$TMP/j" "$TMP/p" 2>/dev/null | jq -c 'del(.model)' | cmp - "$TMP/want"
    assert_equal "$(stats crawl | jq .requests)" "$before"
    # Another question under the same id is another prompt.
    sed 's/item 1 is here/item 1 is there/g' "$TMP/p" >"$TMP/q"
    gateway crawl --journal "$TMP/j" "$TMP/q" >"$TMP/o" 2>/dev/null
    assert_equal "$(stats crawl | jq .requests)" $((before + 3))
}

@test "a journal of another model, one in use, a broken one, and a file that is none are refused and left as they are" {
    prompts 2 >"$TMP/p"
    gateway ok --journal "$TMP/j" "$TMP/p" >"$TMP/o"
    run --separate-stderr gateway ok --api chat --journal "$TMP/j" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"answers of another model"* ]]
    sed 's/"probe":\[-[0-9.]*/"probe":[-9.5/' "$TMP/j" >"$TMP/k"
    run --separate-stderr gateway ok --journal "$TMP/k" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"answers the probe otherwise"* ]]
    sed '3s/answer/anwser/' "$TMP/j" >"$TMP/k"
    run --separate-stderr gateway ok --journal "$TMP/k" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"k:3: no line of a journal"* ]]
    for text in 'a letter to my mother' $'a letter\nto my mother\n'; do
        printf '%s' "$text" >"$TMP/k"
        run --separate-stderr gateway ok --journal "$TMP/k" "$TMP/p"
        assert_failure 3
        assert_equal "$(cat "$TMP/k")" "$(printf '%s' "$text")"
    done
    run --separate-stderr flock "$TMP/j" "$BIN/prefill-gateway" --url "$(url ok)" --journal "$TMP/j" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"another run has this journal open"* ]]
    run --separate-stderr gateway ok --journal /dev/full "$TMP/p"
    assert_failure
}

@test "control tokens in the user's text are refused (4), unless they are allowed" {
    control() { printf '{"type":"item","id":"c","question":{"kind":"noul","text":"Is it?"},"state":"see %s here"}\n' "$1" | prompt-build --template "$2" --level raw; }
    while read -r family text; do
        control "$text" "$family" >"$TMP/p"
        run --separate-stderr gateway ok "$TMP/p"
        assert_failure 4
        [[ "$stderr" == *"field 'user' holds '$text', which the server would parse"* ]] || fail "$family $text: $stderr"
        gateway ok --allow-control-tokens "$TMP/p" >"$TMP/o"
    done <<'END'
chatml <|im_end|>
llama3 <|eot_id|>
mistral [/INST]
gemma <end_of_turn>
none </s>
none <|endoftext|>
END
    control '<s>struck</s> | < | <||> a|>b' chatml >"$TMP/p"
    gateway ok "$TMP/p" >"$TMP/o"
    control '<tool_call>' qwen3 >"$TMP/p" # known to the tokenizer alone
    gateway ok "$TMP/p" >"$TMP/o"
}

@test "wide choices are refused (4) with the twin's name; a score or a higher limit is not" {
    opts() { seq -f 'o%g' -s '","' "$1"; }
    printf '{"type":"item","id":"w","question":{"kind":"choice","text":"Which?","options":["%s"]},"state":"x"}\n' "$(opts 9)" | prompt-build --template none --level raw >"$TMP/p"
    fails ok 4 "a choice of 9 options is wider than --max-choice-k 8"
    gateway ok --max-choice-k 9 "$TMP/p" >"$TMP/o"
    jq -e '.missing == ["I"] | not' "$TMP/o" >/dev/null
    sed 's/"question":"inline"/"question":"column.ontology"/' "$TMP/p" >"$TMP/q"
    run --separate-stderr gateway ok "$TMP/q"
    assert_failure 4
    [[ "$stderr" == *"ask its twin 'column.ontology_fits'"* ]]
    printf '{"type":"item","id":"w","question":{"kind":"score","text":"How?","options":["%s"]},"state":"x"}\n' "$(opts 9)" | prompt-build --template none >"$TMP/p"
    gateway ok "$TMP/p" >"$TMP/o"
}

@test "with the model's tokenizer: a cut prompt is an error (3), another tokenizer is refused and the labels named (4)" {
    items 1 | prompt-build --model "$tiny" --level raw >"$TMP/p"
    gateway ok --tokenizer "$tiny" "$TMP/p" | jq -e '.model.tokenizer_sha256 | length == 64' >/dev/null
    run --separate-stderr gateway cut --tokenizer "$tiny" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"the server counted 3 tokens, the prompt has "*"the server cut it"* ]]
    run --separate-stderr gateway tokenize --tokenizer "$tiny" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"do not give the same single ids for the labels A, B, C, "*", Yes, No, 1, "* ]] || fail "$stderr"
    run --separate-stderr gateway ids --tokenizer "$tiny" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"label 'A' is token 100 of the server's tokenizer and token "* ]] || fail "$stderr"
}

@test "--only logprobs passes on what needs hidden states; without it they are refused (4)" {
    prompts 1 >"$TMP/p"
    sed -i '1s/"need":{[^}]*}/"need":{"hidden":[3]}/; 2s/"need":{[^}]*}/"need":{"logprobs":true,"hidden":[3]}/' "$TMP/p"
    fails ok 4 "needs hidden states"
    run --separate-stderr gateway ok --only logprobs "$TMP/p"
    assert_success
    assert_equal "$(echo "$output" | jq -c 'has("logprobs")')" false$'\n'true$'\n'true
    echo "$output" | jq -e -s 'all(.[]; has("prefix") and .model.backend == "gateway")' >/dev/null
    stats ok | jq -e '.prompts == 2' >/dev/null
}

@test "composite: a server's log-probabilities and local hidden states, in one pipe and under one identity" {
    items 2 | prompt-build --model "$tiny" >"$TMP/p"
    sed -i '1s/"need":{[^}]*}/"need":{"hidden":[1]}/; 2s/"need":{[^}]*}/"need":{"logprobs":true,"hidden":[1]}/' "$TMP/p"
    gateway true-ids+tokenize --only logprobs --tokenizer "$tiny" "$TMP/p" >"$TMP/g"
    run --separate-stderr prefill-local --model "$tiny" --only hidden "$TMP/g"
    assert_success
    assert_equal "$(echo "$output" | jq -r .id)" "$(jq -r .id "$TMP/p")"
    assert_equal "$(echo "$output" | jq -c '[has("logprobs"), has("hidden")]' | sort | uniq -c | tr -s ' ')" $' 1 [false,true]\n 4 [true,false]\n 1 [true,true]'
    assert_equal "$(echo "$output" | jq -c 'select(has("logprobs")) | [.id, .logprobs, .label_ids]')" "$(jq -c 'select(has("logprobs")) | [.id, .logprobs, .label_ids]' "$TMP/g")"
    assert_equal "$(echo "$output" | jq -c .model | sort -u | wc -l)" 1
    echo "$output" | jq -e -s 'all(.[]; .model | .backend == "composite" and .logprobs.backend == "gateway" and .hidden.backend == "local" and (.fingerprint | length == 64))
        and all(.[]; has("prefix") | not)' >/dev/null
    # The hidden states are those of a plain local run.
    assert_equal "$(echo "$output" | jq -r 'select(has("hidden")) | .hidden["1"]')" \
        "$(prefill-local --model "$tiny" "$TMP/p" | jq -r 'select(has("hidden")) | .hidden["1"]')"
    # One label of another id: refused by either program, by name; ids that the server does not tell: refused too.
    gateway true-ids+tokenize+wrong-c --only logprobs "$TMP/p" >"$TMP/g"
    run --separate-stderr prefill-local --model "$tiny" --only hidden "$TMP/g"
    assert_failure 4
    [[ "$stderr" == *'different ids for the labels "C" ('* ]] || fail "$stderr"
    run --separate-stderr gateway true-ids+tokenize+wrong-c --only logprobs --tokenizer "$tiny" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"the same single ids for the labels C" ]] || fail "$stderr"
    gateway ok --only logprobs "$TMP/p" >"$TMP/g"
    run --separate-stderr prefill-local --model "$tiny" --only hidden "$TMP/g"
    assert_failure 4
    [[ "$stderr" == *"does not tell the ids"* ]] || fail "$stderr"
    run --separate-stderr prefill-local --model "$tiny" --only hidden "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"did not pass"* ]] || fail "$stderr"
}

@test "the recipes run on a server and on both, keep a journal, and say what they lack" {
    card=$FIXTURES/cards/tiny-crlf.md
    annotate() { "$ROOT/bin/anyjev-pipe" annotate BIN="$BIN" "$@" "$card"; }
    run --separate-stderr annotate BACKEND=gateway URL="$(url ok)" OUT="$TMP/g"
    assert_success
    assert_equal "$(jq -r .model.api "$TMP/g/decisions.jsonl" | sort -u)" chat
    run --separate-stderr annotate BACKEND=gateway URL="$(url true-ids+tokenize)" SERVED=tiny MODEL="$tiny" OUT="$TMP/h"
    assert_success
    assert_equal "$(jq -r .model.api "$TMP/h/decisions.jsonl" | sort -u)" completions
    asked=$(stats true-ids+tokenize | jq .requests)
    rm "$TMP"/h/*.filled.jsonl
    run --separate-stderr annotate BACKEND=gateway URL="$(url true-ids+tokenize)" SERVED=tiny MODEL="$tiny" OUT="$TMP/h"
    assert_success
    assert_equal "$(stats true-ids+tokenize | jq .requests)" "$asked"
    run --separate-stderr annotate BACKEND=composite URL="$(url true-ids+tokenize)" MODEL="$tiny" OUT="$TMP/c"
    assert_success
    assert_equal "$(jq -r .model.backend "$TMP/c/decisions.jsonl" | sort -u)" composite
    assert_equal "$(jq -c .probs "$TMP/c/decisions.jsonl")" "$(jq -c .probs "$TMP/h/decisions.jsonl")"
    run --separate-stderr annotate BACKEND=composite URL="$(url ok)" OUT="$TMP/n"
    assert_failure
    [[ "$stderr" == *"name the model"* ]]
    run --separate-stderr annotate BACKEND=gateway OUT="$TMP/n"
    assert_failure
    [[ "$stderr" == *"name the server"* ]]
    run --separate-stderr annotate BACKEND=nothing OUT="$TMP/n"
    assert_failure
    [[ "$stderr" == *"expected local, gateway, composite or fake"* ]]
}

@test "decide --url: one command, rendered by the server, or here with the model's template" {
    items 2 >"$TMP/i"
    run --separate-stderr "$ROOT/bin/anyjev-pipe" decide --url "$(url ok)" --min-mass 0 "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -r '.model.api')" chat$'\n'chat
    run --separate-stderr "$ROOT/bin/anyjev-pipe" decide --url "$(url ok)" --model "$tiny" --min-mass 0 --journal "$TMP/j" "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -r '.model.api')" completions$'\n'completions
    assert_equal "$(wc -l <"$TMP/j")" 7
    run --separate-stderr "$ROOT/bin/anyjev-pipe" decide --url "$(url ok)" --api systemone "$TMP/i"
    assert_success
    assert_equal "$(echo "$output" | jq -r '.model.api')" systemone$'\n'systemone
}

@test "bad prompts (3); no input gives no output; a full disk and a closed pipe are errors (6)" {
    for bad in '{"type":"card"}' '{"type":"prompt","id":"x"}' '{"type":"prompt","id":"x","prefix":"a","labels":["A","A"]}' '{"type":"prompt","id":"x","prefix":5,"labels":["A","B"]}' \
        '{"type":"prompt","id":"x","prefix":"a","labels":["A","B"],"need":{}}'; do
        echo "$bad" >"$TMP/p"
        run --separate-stderr gateway ok "$TMP/p"
        assert_failure 3
        [[ "$stderr" == *"$TMP/p:1: "* ]] || fail "$stderr"
    done
    run --separate-stderr gateway ok /dev/null
    assert_success
    assert_output ""
    prompts 3 >"$TMP/p"
    run bash -c "prefill-gateway --url '$(url ok)' '$TMP/p' >/dev/full"
    assert_failure 6
    run --separate-stderr prefill-gateway "$TMP/p"
    assert_failure 2
}
