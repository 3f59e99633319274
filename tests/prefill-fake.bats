#!/usr/bin/env bats
# prefill-fake: planted numbers.
load helper

setup() {
    for i in 1 2 3; do
        printf '{"type":"item","id":"%s","question":{"kind":"choice","text":"Which?","options":["red","green","blue"]},"state":%s,"label":"green"}\n' "$i" "$i"
    done | prompt-build --template none >"$TMP/p"
}

@test "the record has the shape of prefill-local's: numbers in, prefix and suffix out, a model" {
    run --separate-stderr prefill-fake "$TMP/p"
    assert_success
    assert_equal "${#lines[@]}" 9
    echo "$output" | jq -e -s 'all(.[]; (.logprobs | length) == 3 and .answer_mass == 0.9 and .missing == [] and .model.backend == "fake" and (has("prefix") | not)
        and (([.logprobs[] | exp] | add) - 0.9 | fabs) < 1e-12)' >/dev/null
}

@test "the planted answer is the label, else drawn by the id; the same input and seed give the same bytes" {
    prefill-fake --signal 5 "$TMP/p" >"$TMP/a"
    assert_equal "$(head-apply "$TMP/a" | jq -r .answer | sort -u)" green
    prefill-fake --signal 5 "$TMP/p" | cmp - "$TMP/a"
    prefill-fake --signal 5 --noise 1 "$TMP/p" >"$TMP/b"
    prefill-fake --signal 5 --noise 1 --seed 2 "$TMP/p" >"$TMP/c"
    ! cmp -s "$TMP/b" "$TMP/c"
    run bash -c "cat '$TMP/b' '$TMP/c' | head-apply"
    assert_failure 4 # other settings are another model
}

@test "a position bias raises the first position, a label bias the first label" {
    run bash -c "prefill-fake --signal 0 --position-bias 3 '$TMP/p' | jq -c '.logprobs | .[0] > .[1] and .[1] > .[2]' | sort -u"
    assert_output true
    run bash -c "prefill-fake --signal 0 --label-bias 3 '$TMP/p' | jq -c '.logprobs | .[0] > .[1] and .[1] == .[2]' | sort -u"
    assert_output true
}

@test "hidden states tell the answer at the planted block only" {
    sed -i 's/"need":{[^}]*}/"need":{"hidden":[3,4]}/' "$TMP/p"
    run prefill-fake --signal 50 --code-block 3 --hidden-dim 32 "$TMP/p"
    assert_success
    at() { echo "$output" | head -n 1 | jq -r ".hidden[\"$1\"]" | base64 -d | od -A n -t f4 -w128 | tr -s ' ' '\n' | grep . | awk '$1 > 30 {print NR - 1}'; }
    assert_equal "$(at 3)" 1
    assert_equal "$(at 4)" ""
}

@test "bad prompts are refused with their place (3)" {
    echo '{"type":"prompt","id":"x","options":["a"],"perm":[0],"labels":["A"]}' >"$TMP/q"
    run --separate-stderr prefill-fake "$TMP/q"
    assert_failure 3
    [[ "$stderr" == "prefill-fake: $TMP/q:1: "* ]]
}
