#!/usr/bin/env bats
# bundle-pack: versions, promotion, checks; and what head-apply and prompt-build do with a bundle.
load helper

setup_file() {
    export W="$BATS_FILE_TMPDIR" PATH="$BIN:$PATH"
    for i in $(seq 200); do
        l=Yes
        [ $(((i * 7 / 3) % 2)) = 0 ] && l=No
        printf '{"type":"item","id":"%s","question":"column.annotate","state":%s,"label":"%s","group":"g%s"}\n' "$i" "$i" "$l" $((i % 5))
    done >"$W/items"
    prompt-build --template none --level L2 --hidden 2,3 --random-order "$W/items" | prefill-fake --hidden-dim 32 --signal 3 >"$W/f"
    head-fit --leave-one-out card --risk 0.2 -a "$W/good" "$W/f" >"$W/held" 2>/dev/null
    score "$W/held" >"$W/good.json" 2>/dev/null
    # a worse one: trained on labels of which every fifth is wrong
    jq -c 'if (.item | tonumber) % 5 == 0 then .label = (if .label == "Yes" then "No" else "Yes" end) else . end' "$W/f" >"$W/f2"
    head-fit --leave-one-out card -a "$W/worse" "$W/f2" 2>/dev/null | score >"$W/worse.json" 2>/dev/null
    prompt-build --template none --level L1 "$W/items" | prefill-fake --hidden-dim 32 --signal 3 | head-fit --level L1 --leave-one-out card -a "$W/l1" >"$W/held1" 2>/dev/null
}
pack() { run --separate-stderr bundle-pack --home "$TMP/b" "$@"; }
fake() { prefill-fake --hidden-dim 32 --signal 3 "$@"; }

@test "create, list, promote, current, inspect, verify; zstdcat reads it" {
    pack create --results "$W/good.json" "$W/good"
    assert_success
    f=$output
    [[ "$f" == "$TMP"/b/fake/????????/v1.jsonl.zst ]]
    pack current -m fake
    assert_failure 4
    [[ "$stderr" == *"no version is in service"* ]]
    pack promote -m fake
    assert_success
    pack current -m some/path/fake
    assert_output "$f"
    pack list -m fake
    assert_output --regexp $'^v1 \\*\tcolumn.annotate/L2\tn=200\taccuracy=0\\.[0-9]+\tECE=0\\.[0-9]+$'
    pack verify "$f" "$(dirname "$f")"
    assert_success
    assert_equal "${#lines[@]}" 2
    pack inspect "$f"
    assert_equal "$(echo "$output" | jq -c '[.type, .version, .parent, .identity.name, (.questions["column.annotate/L2"] | [.n, .level, .held_out.n, .classes.Yes])]')" '["bundle",1,null,"fake",[200,"L2",200,99]]'
    assert_equal "$(zstdcat "$f" | jq -r .type | sort | uniq -c | tr -s ' ' | tr '\n' ';')" " 1 artifact; 1 bundle; 200 observation;"
}

@test "a version that is worse, unmeasured, or lacks a question is not promoted; rollback goes back; prune keeps" {
    pack create --results "$W/good.json" "$W/good"
    pack promote -m fake
    pack create --results "$W/worse.json" "$W/worse"
    assert_output --partial v2.jsonl.zst
    pack promote -m fake
    assert_failure 4
    [[ "$stderr" == *"v2 is worse at 'column.annotate/L2': held-out accuracy"* ]] || fail "$stderr"
    pack create "$W/worse"
    pack promote -m fake
    assert_failure 4
    [[ "$stderr" == *"no held-out figures"* ]]
    pack promote -m fake --unmeasured --number 2
    assert_success
    pack rollback -m fake
    assert_output --partial v1.jsonl.zst
    pack rollback -m fake
    assert_failure 4
    score "$W/held1" 2>/dev/null >"$TMP/l1.json"
    pack create --fresh --results "$TMP/l1.json" "$W/l1"
    pack promote -m fake
    assert_failure 4
    [[ "$stderr" == *"lacks 'column.annotate/L2'"* ]]
    # without --fresh what is in service comes along
    pack create --results "$TMP/l1.json" "$W/l1"
    pack promote -m fake
    assert_success
    pack list -m fake
    assert_equal "$(echo "$output" | grep -c '^v5 \*')" 2
    pack prune -m fake --keep 1
    assert_output "4 removed"
    pack verify "$(dirname "$(bundle-pack --home "$TMP/b" current -m fake)")"
    assert_success
}

@test "a bundle with any byte flipped is refused by name" {
    pack create --results "$W/good.json" "$W/good"
    f=$output
    size=$(stat -c %s "$f")
    for at in 0 10 $((size / 2)) $((size - 5)) $((size - 1)); do
        cp "$f" "$TMP/bad.jsonl.zst"
        byte=$(od -An -tu1 -j "$at" -N1 "$f" | tr -d ' ')
        printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$TMP/bad.jsonl.zst" bs=1 seek="$at" conv=notrunc status=none
        run --separate-stderr bundle-pack verify "$TMP/bad.jsonl.zst"
        assert_failure 3
        [[ "$stderr" == *"bad.jsonl.zst"* ]]
    done
    head -c $((size / 2)) "$f" >"$TMP/bad.jsonl.zst"
    run bundle-pack verify "$TMP/bad.jsonl.zst"
    assert_failure 3
    # a line changed, and packed again: the manifest's hash tells
    zstdcat "$f" | sed '2s/"temperature":/"temperature":1/' | zstd -q -f -o "$TMP/bad.jsonl.zst"
    run --separate-stderr bundle-pack verify "$TMP/bad.jsonl.zst"
    assert_failure 3
    [[ "$stderr" == *"not what the manifest's hash says"* ]]
}

@test "two promotions at once, and kill -9 at any moment, leave the old or the new state" {
    pack create --results "$W/good.json" "$W/good"
    d=$(dirname "$output")
    cp "$d/v1.jsonl.zst" "$TMP/keep"
    pack create --results "$W/good.json" "$W/good"
    for i in $(seq 20); do
        bundle-pack promote --unmeasured --number 1 "$d" >/dev/null &
        a=$!
        bundle-pack promote --unmeasured --number 2 "$d" >/dev/null &
        b=$!
        [ $((i % 2)) = 0 ] && { sleep "0.00$((i % 10))"; kill -9 $a 2>/dev/null || true; }
        wait $a $b 2>/dev/null || true
        case $(cat "$d/CURRENT") in v1 | v2) ;; *) fail "CURRENT: $(cat "$d/CURRENT")" ;; esac
    done
    bundle-pack verify "$d" >/dev/null
    cmp "$d/v1.jsonl.zst" "$TMP/keep"
    # versions made at once get numbers of their own
    for _ in 1 2 3; do bundle-pack --home "$TMP/b" create --results "$W/good.json" "$W/good" >>"$TMP/made" & done
    wait
    assert_equal "$(sort -u "$TMP/made" | wc -l)" 3
    bundle-pack verify "$d"/v*.zst >/dev/null
}

@test "served: L2 where a head answers, L0 elsewhere; exactly the held-in head's answers" {
    pack create --results "$W/good.json" "$W/good"
    f=$output
    { head -n 10 "$W/items"; echo '{"type":"item","id":"x","question":"column.aspect","state":1}'; } >"$TMP/i"
    prompt-build --template none --bundle "$f" --level auto "$TMP/i" >"$TMP/p"
    assert_equal "$(jq -c .need "$TMP/p" | sort | uniq -c | tr -s ' ' | tr '\n' ';')" ' 10 {"hidden":[3]}; 8 {"logprobs":true};'
    fake "$TMP/p" >"$TMP/f"
    run --separate-stderr head-apply --level auto --bundle "$f" "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.question, .level, .calibration.method, .calibration.block, .bundle.version]' | sort -u)" \
'["column.annotate","L2","head:'"$(jq -r 'select(.type == "fit").solver' "$W/good")"'",3,1]
["column.aspect","L0",null,null,null]'
    [ "$(echo "$output" | jq -c 'select(.level == "L2" and .answer == .label)' | wc -l)" -ge 9 ]
    assert_equal "$(echo "$output" | jq -c 'select(.level == "L2") | .certified | type' | sort -u)" '"boolean"'
    run head-apply --level L2 --bundle "$f" --require L2 "$TMP/f"
    assert_failure 4
    run head-apply --level auto --bundle "$f" --require L2 "$TMP/f"
    assert_failure 4
    run head-apply --level auto --bundle "$f" --require L0 "$TMP/f"
    assert_success
    run head-apply --level L2 "$TMP/f"
    assert_failure 2
}

@test "L1 is served with the frozen prior: one item alone gets what it gets in company" {
    score "$W/held1" 2>/dev/null >"$TMP/l1.json"
    pack create --results "$TMP/l1.json" "$W/l1"
    f=$output
    head -n 30 "$W/items" | prompt-build --template none --level L1 --bundle "$f" | fake >"$TMP/f"
    head-apply --level L1 --bundle "$f" "$TMP/f" >"$TMP/all"
    head -n 2 "$TMP/f" | head-apply --level L1 --bundle "$f" | cmp - <(head -n 1 "$TMP/all")
    assert_equal "$(head -n 1 "$TMP/all" | jq -c '[.level, .calibration.prior, .calibration.prior_items, .calibration.method]')" '["L1","batch",200,"temperature"]'
}

@test "another model is refused, and both identities are named; so is another registry" {
    pack create --results "$W/good.json" "$W/good"
    f=$output
    head -n 3 "$W/items" | prompt-build --template none --bundle "$f" --level auto | prefill-fake --hidden-dim 32 --signal 9 >"$TMP/f"
    run --separate-stderr head-apply --level auto --bundle "$f" "$TMP/f"
    assert_failure 4
    assert_output ""
    assert_equal "$(echo "$stderr" | grep -o '"fingerprint":"[0-9a-f]*"' | sort -u | wc -l)" 2
    sed 's/Which aspect of/What part of/' "$ROOT/pipelines/questions.json" >"$TMP/q.json"
    run --separate-stderr prompt-build --template none --questions "$TMP/q.json" --bundle "$f" --level auto "$W/items"
    assert_failure 4
    [[ "$stderr" == *"fitted under lock"* ]]
    # artifacts of two models do not go into one bundle
    prompt-build --template none --level L2 --hidden 3 "$W/items" | prefill-fake --hidden-dim 32 --signal 5 | head-fit -a "$TMP/other"
    pack create "$W/good" "$TMP/other"
    assert_failure 4
    [[ "$stderr" == *"fitted on another model"* ]]
}

# Two registries that differ in one question: its options in another order, or another wording.
registry() { # OPTIONS TEXT
    printf '{"questions":[{"id":"sky","kind":"choice","text":"%s","options":%s}]}\n' "$2" "$1" >"$TMP/q.json"
}

@test "options in another order are served by a head fitted on random orders; another wording only when asked for" {
    registry '["red","green","blue"]' "Which colour?"
    for i in $(seq 120); do
        set -- red green blue
        shift $((i % 3))
        printf '{"type":"item","id":"%s","question":"sky","state":%s,"label":"%s","group":"g%s"}\n' "$i" "$i" "$1" $((i % 4))
    done >"$TMP/i"
    prompt-build --template none --questions "$TMP/q.json" --level L2 --hidden 3 --random-order "$TMP/i" | fake | head-fit -a "$TMP/a"
    pack --questions "$TMP/q.json" create "$TMP/a"
    f=$output
    # the same options listed otherwise: another key, the same head, mapped by text
    jq -c '.question = {"id":"sky","kind":"choice","text":"Which colour?","options":["blue","red","green"]}' "$TMP/i" >"$TMP/j"
    prompt-build --template none --questions "$TMP/q.json" --bundle "$f" --level auto "$TMP/j" >"$TMP/p"
    assert_equal "$(jq -c '[.need, .options]' "$TMP/p" | sort -u)" '[{"hidden":[3]},["blue","red","green"]]'
    fake "$TMP/p" | jq -c --slurpfile h <(prompt-build --template none --questions "$TMP/q.json" --level L2 --hidden 3 "$TMP/i" | fake) '
        . as $p | .hidden = ($h[] | select(.item == $p.item) | .hidden)' >"$TMP/f"
    run --separate-stderr head-apply --level auto --bundle "$f" "$TMP/f"
    assert_success
    [ "$(echo "$output" | jq -c 'select(.answer != .label) | .id' | wc -l)" -lt 6 ]
    assert_equal "$(echo "$output" | jq -c '[.level, .calibration.reordered]' | sort -u)" '["L2",true]'
    # another wording: L0 without --route, L2 with it, and it is said
    jq -c '.question = {"id":"sky","kind":"choice","text":"What colour is it?","options":["red","green","blue"]}' "$TMP/i" >"$TMP/j"
    prompt-build --template none --questions "$TMP/q.json" --bundle "$f" --level auto "$TMP/j" | jq -c .need | sort -u | grep -qx '{"logprobs":true}'
    prompt-build --template none --questions "$TMP/q.json" --bundle "$f" --level auto --route wording "$TMP/j" | fake >"$TMP/f"
    run head-apply --level L2 --bundle "$f" "$TMP/f"
    assert_failure 4
    run --separate-stderr head-apply --level auto --route wording --bundle "$f" "$TMP/f"
    assert_success
    assert_equal "$(echo "$output" | jq -c '.calibration | [.adapted, .adapt_n, .routed_from != null]' | sort -u)" '[true,120,true]'
    run --separate-stderr head-apply --level auto --route wording --bundle "$f" <(head -n 29 "$TMP/f")
    assert_equal "$(echo "$output" | jq -c '.calibration | [.adapted, .adapt_n]' | sort -u)" '[false,29]'
}

@test "AnyJev's JSON goes out and comes in again, arrays as base64 or numbers" {
    pack create --results "$W/good.json" "$W/good"
    f=$output
    head -n 20 "$W/items" | prompt-build --template none --bundle "$f" --level auto | fake >"$TMP/f"
    head-apply --level L2 --bundle "$f" "$TMP/f" | jq -c .probs >"$TMP/want"
    for how in "" --plain; do
        bundle-pack export $how "$f" >"$TMP/anyjev.json"
        assert_equal "$(jq -c '[.model, (.heads[] | [.method[:5], .layer_abs, .hidden_size])]' "$TMP/anyjev.json")" '["fake",["head:",3,32]]'
        bundle-pack import --like "$TMP/f" "$TMP/anyjev.json" >"$TMP/in"
        rm -rf "$TMP/c"
        g=$(bundle-pack --home "$TMP/c" create "$TMP/in")
        cmp "$TMP/want" <(head-apply --level L2 --bundle "$g" "$TMP/f" | jq -c .probs)
    done
    run bundle-pack import "$TMP/anyjev.json"
    assert_failure 2
    echo '{"model":"m","heads":{"k":{"method":"head:bank"}}}' >"$TMP/x"
    run --separate-stderr bundle-pack import --like "$TMP/f" "$TMP/x"
    assert_failure 3
}

@test "commands that are none, and folders that are none" {
    pack
    assert_failure 2
    pack forget
    assert_failure 2
    pack list "$TMP/nowhere"
    assert_failure 3
    pack promote
    assert_failure 2
    pack create
    assert_failure 2
    pack create "$W/items"
    assert_failure 3
}
