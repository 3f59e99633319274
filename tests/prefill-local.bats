#!/usr/bin/env bats
# prefill-local: prompts to log-probabilities, against transformers, and in any company.
load helper

tiny=$BATS_TEST_DIRNAME/golden/models/qwen3-bf16

prompts() { # N: items with a shared state, as prompts for the tiny model
    for i in $(seq "$1"); do
        printf '{"type":"item","id":"i%d","question":{"kind":"choice","text":"Which?","options":["ab","cd","ef"]},"state":{"n":%d,"text":"the column of a dataset"}}\n' "$i" $((i % 7))
    done | prompt-build --template chatml
}

@test "SmolLM2 from the GGUF: label log-probabilities within 2e-3 of transformers on 20 prompts, token counts equal" {
    need_model
    jq -c '{type: "prompt", id: "\(input_line_number)", prefix: .prefix, suffix: "", labels: .labels, need: {logprobs: true}}' "$GOLDEN/smollm2_logprobs.jsonl" >"$TMP/p"
    run --separate-stderr prefill-local -m "$MODEL" "$TMP/p"
    assert_success
    assert_equal "${#lines[@]}" 20
    echo "$output" | jq -s -e --slurpfile want "$GOLDEN/smollm2_logprobs.jsonl" '
        [range(20) as $i | .[$i].n_tokens == ($want[$i].ids | length)] | all' >/dev/null
    worst=$(echo "$output" | jq -s --slurpfile want "$GOLDEN/smollm2_logprobs.jsonl" '
        [range(20) as $i | range($want[$i].logprobs | length) as $j | (.[$i].logprobs[$j] - $want[$i].logprobs[$j]) | fabs] | max')
    echo "# largest difference $worst" >&3
    jq -n -e --argjson w "$worst" '$w < 2e-3' >/dev/null
}

@test "a record keeps its fields in place, gains the numbers, and loses prefix and suffix" {
    prompts 1 | head -n 1 | sed 's/"need"/"mine":12345678901234567890.50,"need"/' >"$TMP/p"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/p"
    assert_success
    [ -z "$stderr" ]
    [[ "$output" == *'"mine":12345678901234567890.50,"need"'* ]]
    echo "$output" | jq -e '(.logprobs | length == 3 and all(. < 0)) and (.answer_mass > 0 and .answer_mass < 1) and .missing == [] and (.label_ids | length == 3)
        and .n_reused == 0 and .blocks == 3 and .model.backend == "local" and .model.compute == "f32" and (.model.fingerprint | length == 64)
        and (has("prefix") or has("suffix") | not)' >/dev/null
    run prefill-local -m "$tiny" --keep-prompt "$TMP/p"
    echo "$output" | jq -e 'has("prefix") and has("suffix")' >/dev/null
}

@test "alone, with 200 others, shuffled, in small batches, with 1, 2 and 3 threads, by the reference code: the same bytes" {
    prompts 70 >"$TMP/p"
    numbers() { jq -S -c 'del(.n_reused)' | sort; }
    prefill-local -m "$tiny" "$TMP/p" | numbers >"$TMP/all"
    for i in 1 77 210; do
        sed -n "${i}p" "$TMP/p" | prefill-local -m "$tiny" | numbers >>"$TMP/some"
    done
    while read -r line; do grep -qxF "$line" "$TMP/all" || fail "alone differs: ${line:0:300}"; done <"$TMP/some"
    shuf --random-source="$ROOT/Makefile" "$TMP/p" | prefill-local -m "$tiny" | numbers | cmp - "$TMP/all"
    for more in "--threads 1" "--threads 2" "--threads 3" "--batch-tokens 300" "--isa ref"; do
        # shellcheck disable=SC2086
        prefill-local -m "$tiny" $more "$TMP/p" | numbers | cmp - "$TMP/all" || fail "differs with $more"
    done
}

@test "--compute int8: on the record, near float32, and the same bytes on every instruction set, in any company, on any number of threads" {
    prompts 20 >"$TMP/p"
    numbers() { jq -S -c 'del(.n_reused)' | sort; }
    prefill-local -m "$tiny" --compute int8 "$TMP/p" | numbers >"$TMP/all"
    jq -s -e 'map(.model.compute) | unique == ["int8"]' "$TMP/all" >/dev/null
    for more in "--threads 1" "--threads 3" "--batch-tokens 300" "--isa ref" $([ "$(uname -m)" != x86_64 ] || echo "--isa=avx2"); do
        # shellcheck disable=SC2086
        prefill-local -m "$tiny" --compute int8 $more "$TMP/p" | numbers | cmp - "$TMP/all" || fail "differs with $more"
    done
    for i in 1 33 60; do
        sed -n "${i}p" "$TMP/p" | prefill-local -m "$tiny" --compute int8 | numbers >"$TMP/one"
        grep -qxF -f "$TMP/one" "$TMP/all" || fail "prompt $i alone differs"
    done
    prefill-local -m "$tiny" "$TMP/p" >"$TMP/f32"
    prefill-local -m "$tiny" --compute int8 "$TMP/p" >"$TMP/int8"
    run jq -n --slurpfile a "$TMP/int8" --slurpfile b "$TMP/f32" '[range($a | length) as $i | range(3) as $l | $a[$i].logprobs[$l] - $b[$i].logprobs[$l] | fabs] | max | . > 0 and . < 0.3'
    assert_output true
    run --separate-stderr prefill-local -m "$tiny" --compute int4 "$TMP/p"
    assert_failure 2
}

@test "prompts that leave at different blocks: each keeps the bits it has in a full pass of its own" {
    prompts 12 >"$TMP/p"
    jq -c --argjson b '[[1],[2],[0],[3],[1,2]]' '.need = (if input_line_number % 3 == 0 then {logprobs: true, hidden: [2]} else {hidden: $b[input_line_number % 5]} end)' "$TMP/p" >"$TMP/mixed"
    jq -c '.need = {logprobs: true, hidden: [0, 1, 2, 3]}' "$TMP/p" >"$TMP/full"
    prefill-local -m "$tiny" "$TMP/mixed" >"$TMP/a"
    prefill-local -m "$tiny" --isa ref --batch-tokens 1 "$TMP/full" >"$TMP/b"
    run jq -n --slurpfile a "$TMP/a" --slurpfile b "$TMP/b" '[range($a | length) as $i | $a[$i] as $x | $b[$i] as $y |
        ($x.hidden | to_entries | all(.value == $y.hidden[.key])) and (($x.logprobs == null) or $x.logprobs == $y.logprobs)
        and $x.blocks == (if $x.logprobs then 3 else ($x.hidden | keys | map(tonumber) | max) end)] | length == 36 and all'
    assert_output true
}

@test "the order of the output is that of the input, and every shared token is computed once" {
    prompts 3 | tac >"$TMP/p"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/p"
    assert_success
    assert_equal "$(echo "$output" | jq -r .id)" "$(jq -r .id "$TMP/p")"
    # 9 prompts: the first has nothing to reuse, the other permutations of an item all but their options
    assert_equal "$(echo "$output" | jq -s '[.[] | select(.n_reused == 0)] | length')" 1
}

@test "hidden states: the blocks asked for, as base64 of float32; a prompt that needs only block 1 leaves there" {
    prompts 1 | head -n 1 >"$TMP/p"
    sed 's/"need":{[^}]*}/"need":{"hidden":[1]}/' "$TMP/p" >"$TMP/q"
    sed 's/"need":{[^}]*}/"need":{"logprobs":true,"hidden":[0,1,3]}/' "$TMP/p" >"$TMP/r"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q" "$TMP/r"
    assert_success
    assert_equal "$(echo "${lines[0]}" | jq -c '[.blocks, has("logprobs"), (.hidden | keys)]')" '[1,false,["1"]]'
    assert_equal "$(echo "${lines[1]}" | jq -c '[.blocks, has("logprobs"), (.hidden | keys)]')" '[3,true,["0","1","3"]]'
    assert_equal "$(echo "${lines[0]}" | jq -r '.hidden["1"]')" "$(echo "${lines[1]}" | jq -r '.hidden["1"]')"
    assert_equal "$(echo "${lines[0]}" | jq -r '.hidden["1"]' | base64 -d | wc -c)" $((48 * 4))
}

@test "a look-alike of a control token in the state is plain text unless it is allowed" {
    choice='{"type":"item","id":"1","question":{"kind":"noul","text":"Is it?"},"state":"<|im_end|>"}'
    echo "$choice" | prompt-build --template chatml --level raw >"$TMP/p"
    echo "$choice" | prompt-build --template chatml --level raw --allow-control-tokens >"$TMP/q"
    plain=$(prefill-local -m "$tiny" "$TMP/p" | jq .n_tokens)
    parsed=$(prefill-local -m "$tiny" "$TMP/q" | jq .n_tokens)
    [ "$plain" -gt "$parsed" ]
}

@test "a shard missing, a tensor missing, extra or misshapen, a cut file: refused by name (3)" {
    cp -r "$tiny" "$TMP/m"
    prompts 1 >"$TMP/p"
    mv "$TMP/m/model-00002-of-00002.safetensors" "$TMP/away"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    assert_output ""
    [[ "$stderr" == *"model-00002-of-00002.safetensors' that the index names is missing"* ]]
    head -c 1000 "$TMP/away" >"$TMP/m/model-00002-of-00002.safetensors"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *model-00002-of-00002* ]]
    cp "$TMP/away" "$TMP/m/model-00002-of-00002.safetensors"
    chmod u+w "$TMP/m/config.json"
    sed 's/"num_hidden_layers": 3/"num_hidden_layers": 4/' "$tiny/config.json" >"$TMP/m/config.json"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"tensor 'model.layers.3."*"' is missing" ]]
    sed 's/"num_hidden_layers": 3/"num_hidden_layers": 2/' "$tiny/config.json" >"$TMP/m/config.json"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"tensor 'model.layers.2."*"' does not belong"* ]]
    sed 's/"intermediate_size": 80/"intermediate_size": 81/' "$tiny/config.json" >"$TMP/m/config.json"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"has shape ["*"], expected ["* ]]
    sed 's/"model_type": "qwen3"/"model_type": "falcon"/' "$tiny/config.json" >"$TMP/m/config.json"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"architecture 'falcon' is not supported"* ]]
}

@test "a GGUF cut at any byte is refused (3), never read past its end" {
    need_model
    size=$(stat -Lc %s "$MODEL")
    for n in 0 3 4 7 8 23 24 40 100 5000 200000 1000000 1700000 2500000 $((size / 2)) $((size - 1)); do
        head -c "$n" "$MODEL" >"$TMP/cut.gguf"
        run --separate-stderr prefill-local -m "$TMP/cut.gguf" /dev/null
        assert_failure 3
        assert_output ""
        [[ "$stderr" == "prefill-local: "*"$TMP/cut.gguf"* ]] || fail "cut at $n: $stderr"
    done
}

@test "a NaN in the weights is an error that names the model and the prompt" {
    cp -r "$tiny" "$TMP/m"
    chmod u+w "$TMP/m"/*
    # all bits set in the last tensor bytes of the last shard: a BF16 NaN
    size=$(stat -c %s "$TMP/m/model-00002-of-00002.safetensors")
    printf '\xff\xff\xff\xff' | dd of="$TMP/m/model-00002-of-00002.safetensors" bs=1 seek=$((size - 4)) conv=notrunc status=none
    prompts 1 | head -n 1 >"$TMP/p"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    assert_output ""
    [[ "$stderr" == "prefill-local: $TMP/p:1: "*"NaN or an infinity"* ]] || fail "$stderr"
}

@test "refusals: another template (4), a label of two tokens (4), a prompt beyond the context (3), not a prompt (3)" {
    prompts 1 | head -n 1 >"$TMP/p"
    sed 's/im_start|>system/im_start|>sys/' "$TMP/p" >"$TMP/q"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
    assert_failure 4
    [[ "$stderr" == *"$TMP/q:1: "*"another chat template"* ]]
    sed 's/"labels":\["A"/"labels":["A and more"/' "$TMP/p" >"$TMP/q"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
    assert_failure 4
    [[ "$stderr" == *"label 'A and more' is not a single token"* ]]
    printf '{"type":"prompt","id":"long","prefix":"%s","suffix":"","labels":["A","B"]}\n' "$(head -c 3000 /dev/zero | tr '\0' q)" >"$TMP/q"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
    assert_failure 3
    [[ "$stderr" == *'prompt "long"'*"context holds 512"* ]]
    printf '{"type":"prompt","id":"none","prefix":"","suffix":"","labels":["A","B"]}\n' >"$TMP/q"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
    assert_failure 3
    [[ "$stderr" == *"the prompt is empty"* ]]
    echo '{"type":"card"}' >"$TMP/q"
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
    assert_failure 3
    run --separate-stderr prefill-local -m "$TMP/none" "$TMP/p"
    assert_failure 3
    run --separate-stderr prefill-local "$TMP/p"
    assert_failure 2
}

@test "--keep-going sets bad prompts aside; a full disk and a closed pipe are errors (6); no input gives no output" {
    prompts 1 >"$TMP/p"
    echo '{"type":"prompt","id":"x"}' >>"$TMP/p"
    run --separate-stderr prefill-local -m "$tiny" -k --errors "$TMP/e" "$TMP/p"
    assert_failure 1
    assert_equal "${#lines[@]}" 3
    assert_equal "$(jq .line "$TMP/e")" 4
    run bash -c "prefill-local -m '$tiny' -k '$TMP/p' >/dev/full"
    assert_failure 6
    prompts 200 >"$TMP/many"
    run bash -c "{ prefill-local -m '$tiny' '$TMP/many'; echo \$? >'$TMP/rc'; } 2>/dev/null | head -c 1 >/dev/null; cat '$TMP/rc'"
    assert_output 6
    run --separate-stderr prefill-local -m "$tiny" /dev/null
    assert_success
    assert_output ""
}

@test "a model is found by name in the Hugging Face cache" {
    snap=$TMP/hub/models--org--tiny/snapshots/abc123
    mkdir -p "$snap" "$TMP/hub/models--org--tiny/refs"
    cp "$tiny"/* "$snap/"
    printf abc123 >"$TMP/hub/models--org--tiny/refs/main"
    prompts 1 >"$TMP/p"
    HF_HUB_CACHE=$TMP/hub run --separate-stderr prefill-local -m org/tiny "$TMP/p"
    assert_success
    assert_equal "$(echo "${lines[0]}" | jq -r .model.name)" org/tiny
    run --separate-stderr prefill-local -m "$snap/" "$TMP/p"
    assert_equal "$(echo "${lines[0]}" | jq -r .model.name)" abc123
    HF_HUB_CACHE=$TMP/hub run --separate-stderr prefill-local -m org/other "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"not in the Hugging Face cache"* ]]
}

@test "a prompt filled before: numbers that are not asked for now do not stay beside the new model" {
    prompts 1 | head -n 1 >"$TMP/p"
    prefill-local -m "$tiny" --keep-prompt "$TMP/p" | sed 's/"need":{[^}]*}/"need":{"hidden":[1]}/' >"$TMP/q"
    jq -e 'has("logprobs") and has("answer_mass")' "$TMP/q" >/dev/null
    run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
    assert_success
    echo "$output" | jq -e '(has("logprobs") or has("answer_mass") or has("missing") | not) and has("hidden")' >/dev/null
}

@test "a block asked for twice or more blocks than there are: refused (3)" {
    prompts 1 | head -n 1 >"$TMP/p"
    for need in '[1,1]' '[0,1,2,3,4]' '[9]'; do
        sed 's/"need":{[^}]*}/"need":{"hidden":'"$need"'}/' "$TMP/p" >"$TMP/q"
        run --separate-stderr prefill-local -m "$tiny" "$TMP/q"
        assert_failure 3
        [[ "$stderr" == *"field 'need'"* ]]
    done
}

@test "a partial rotary embedding is refused (4), senseless yarn numbers (3) too" {
    prompts 1 >"$TMP/p"
    cp -r "$tiny" "$TMP/m"
    jq '.partial_rotary_factor = 0.5' "$tiny/config.json" >"$TMP/m/config.json"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 4
    [[ "$stderr" == *"partial_rotary_factor"* ]]
    for change in '.beta_fast = -1' '.original_max_position_embeddings = 0' '.beta_slow = 0'; do
        jq 'del(.rope_parameters) | .rope_scaling = ({rope_type: "yarn", factor: 4} | '"$change"')' "$tiny/config.json" >"$TMP/m/config.json"
        run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
        assert_failure 3
        [[ "$stderr" == *yarn* ]]
    done
}

@test "bytes behind the last tensor are refused (3)" {
    prompts 1 >"$TMP/p"
    cp -r "$tiny" "$TMP/m"
    shard=$(find "$TMP/m" -name '*.safetensors' | sort | tail -n 1)
    chmod u+w "$shard"
    printf x >>"$shard"
    run --separate-stderr prefill-local -m "$TMP/m" "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"1 bytes behind the last tensor"* ]]
}

@test "the older spelling of RoPE in config.json (rope_theta, rope_scaling) gives the same numbers as the newer one" {
    for name in qwen3 llama llama-linear llama-yarn; do
        old=$GOLDEN/models/$name-f32
        rm -rf "$TMP/m"
        cp -r "$old" "$TMP/m"
        jq '.rope_theta = .rope_parameters.rope_theta
            | (if .rope_parameters.rope_type != "default" then .rope_scaling = (.rope_parameters | del(.rope_theta)) else . end)
            | del(.rope_parameters)' "$old/config.json" >"$TMP/m/config.json"
        prompts 2 >"$TMP/p"
        prefill-local -m "$old" "$TMP/p" | jq -c 'del(.model)' >"$TMP/a"
        prefill-local -m "$TMP/m" "$TMP/p" | jq -c 'del(.model)' >"$TMP/b"
        cmp "$TMP/a" "$TMP/b" || fail "$name differs"
        # The comparison notices another base.
        jq '.rope_theta = 77' "$TMP/m/config.json" >"$TMP/c" && cp "$TMP/c" "$TMP/m/config.json"
        prefill-local -m "$TMP/m" "$TMP/p" | jq -c 'del(.model)' >"$TMP/b"
        ! cmp -s "$TMP/a" "$TMP/b" || fail "$name: the base makes no difference"
    done
}

@test "--pack: the same bytes with it as without; a changed weight, a damaged copy and a foreign one are told" {
    cp -r "$tiny" "$TMP/m"
    chmod -R u+w "$TMP/m"
    prompts 3 >"$TMP/p"
    for c in f32 int8; do
        prefill-local -m "$TMP/m" --compute $c "$TMP/p" >"$TMP/$c"
        run --separate-stderr prefill-local -m "$TMP/m" --compute $c --pack
        assert_success
        assert_output ""
        [[ "$stderr" == "prefill-local: wrote $TMP/m/anyjev-$c.pack" ]] || fail "$stderr"
        for more in "" --verify "--isa ref" "--threads 3"; do
            # shellcheck disable=SC2086
            run --separate-stderr prefill-local -m "$TMP/m" --compute $c $more "$TMP/p"
            assert_success
            [ -z "$stderr" ]
            echo "$output" | cmp - "$TMP/$c"
        done
    done
    # a bit of a matrix: not looked at while size and time are the old ones, found by --verify, and found after a touch
    pack=$TMP/m/anyjev-int8.pack
    cp -p "$pack" "$TMP/keep"
    printf 'X' | dd of="$pack" bs=1 seek=100 conv=notrunc status=none
    run --separate-stderr prefill-local -m "$TMP/m" --compute int8 "$TMP/p"
    assert_failure 3
    [[ "$stderr" == *"$pack: the packed copy is damaged"* ]] || fail "$stderr"
    touch -r "$TMP/keep" "$pack"
    run --separate-stderr prefill-local -m "$TMP/m" --compute int8 --verify "$TMP/p"
    assert_failure 3
    # cut, or of another version: set aside, and the numbers are right all the same
    for n in 0 10 100 1000 $(($(stat -c %s "$TMP/keep") - 1)); do
        head -c "$n" "$TMP/keep" >"$pack"
        run --separate-stderr prefill-local -m "$TMP/m" --compute int8 "$TMP/p"
        assert_success
        [[ "$stderr" == *"$pack is cut or no packed copy: not used"* ]] || fail "$n: $stderr"
        echo "$output" | cmp - "$TMP/int8"
    done
    # other weights
    cp -p "$TMP/keep" "$pack"
    printf '\x01\x3c' | dd of="$TMP/m/model-00002-of-00002.safetensors" bs=1 seek=$(($(stat -c %s "$TMP/m/model-00002-of-00002.safetensors") - 2)) conv=notrunc status=none
    run --separate-stderr prefill-local -m "$TMP/m" --compute int8 "$TMP/p"
    assert_success
    [[ "$stderr" == *"$pack is of other weights: not used"* ]] || fail "$stderr"
    [ "$(echo "${lines[0]}" | jq -r .model.fingerprint)" != "$(head -n 1 "$TMP/int8" | jq -r .model.fingerprint)" ]
    # a copy of the folder: other inodes and times, everything is hashed once more and serves
    cp -r "$tiny" "$TMP/n"
    cp "$TMP/keep" "$TMP/n/anyjev-int8.pack"
    run --separate-stderr prefill-local -m "$TMP/n" --compute int8 "$TMP/p"
    assert_success
    [ -z "$stderr" ]
    jq -c .logprobs "$TMP/int8" >"$TMP/a"
    echo "$output" | jq -c .logprobs | cmp - "$TMP/a"
    # another model's
    cp "$TMP/keep" "$TMP/n/anyjev-f32.pack"
    run --separate-stderr prefill-local -m "$TMP/n" "$TMP/p"
    assert_success
    [[ "$stderr" == *"is of another model: not used"* ]] || fail "$stderr"
    run --separate-stderr prefill-local -m "$TMP/n" --pack "$TMP/p"
    assert_failure 2
}

@test "--cache-mib: a squeezed cache, duplicates and shuffling change no byte; too small a cache names the number that does" {
    prompts 40 >"$TMP/p"
    for i in $(seq 30); do sed "s/\"id\":\"/&copy$i-/" "$TMP/p"; done | shuf --random-source="$tiny/model-00001-of-00002.safetensors" >"$TMP/many"
    numbers() { jq -S -c 'del(.n_reused)' | sort; }
    prefill-local -m "$tiny" "$TMP/many" | numbers >"$TMP/all"
    assert_equal "$(wc -l <"$TMP/all")" 3600
    run --separate-stderr prefill-local -m "$tiny" --threads 2 --cache-mib 1 "$TMP/p"
    assert_failure 4
    [[ "$stderr" =~ "prefill-local: $TMP/p:1: prompt \"".*" tokens needs --cache-mib "([0-9]+)"; it is 1" ]] || fail "$stderr"
    least=${BASH_REMATCH[1]}
    run --separate-stderr prefill-local -m "$tiny" --threads 2 --cache-mib $((least - 1)) "$TMP/p"
    assert_failure 4
    for mib in "$least" $((least + 1)) 12; do
        prefill-local -m "$tiny" --threads 2 --cache-mib "$mib" "$TMP/many" | numbers | cmp - "$TMP/all" || fail "differs with $mib MiB"
    done
    # in order all the same, and a prompt that does not fit is set aside with the rest done
    prefill-local -m "$tiny" --threads 2 --cache-mib "$least" "$TMP/many" | jq -r .id | cmp - <(jq -r .id "$TMP/many")
}

@test "100,000 prompts of one token in 130 MB of address space; one prompt as long as the context" {
    [ -z "$ANYJEV_SANITIZE" ] || skip "the sanitizers reserve more memory than that"
    seq 100000 | sed 's/.*/{"type":"prompt","id":"&","prefix":"q","suffix":"","labels":["A","B"]}/' >"$TMP/p"
    run --separate-stderr bash -c "ulimit -v 130000; prefill-local -m '$tiny' --threads 1 --cache-mib 16 '$TMP/p' >'$TMP/out'"
    assert_success
    [ -z "$stderr" ]
    assert_equal "$(wc -l <"$TMP/out")" 100000
    assert_equal "$(head -n 1 "$TMP/out" | jq -c .logprobs)" "$(tail -n 1 "$TMP/out" | jq -c .logprobs)"
    cut -d, -f3- "$TMP/out" | sed 's/"n_reused":[01]//' | sort -u >"$TMP/kinds"
    assert_equal "$(wc -l <"$TMP/kinds")" 1
    # 512 tokens are the context of this model
    printf '{"type":"prompt","id":"long","prefix":"%s","suffix":"","labels":["A","B"]}\n' "$(yes 'q w' | head -n 256 | tr '\n ' '  ' | tr -d ' ')" >"$TMP/q"
    run --separate-stderr prefill-local -m "$tiny" --threads 2 "$TMP/q"
    assert_success
    assert_equal "$(echo "$output" | jq .n_tokens)" 512
}

@test "--features: rows of .npy files in the order of the records, the same bits as on the records, and head-fit reads either" {
    for i in $(seq 120); do
        printf '{"type":"item","id":"i%d","question":{"kind":"choice","text":"Which?","options":["ab","cd"]},"state":"%s","label":"%s","group":"g%d"}\n' \
            "$i" "$([ $((i * 7 / 3 % 2)) = 0 ] && echo one || echo other) $i" "$([ $((i * 7 / 3 % 2)) = 0 ] && echo ab || echo cd)" $((i % 4))
    done | prompt-build --template chatml --level L2 --hidden 1,3 >"$TMP/p"
    cd "$TMP"
    prefill-local -m "$tiny" p >inline
    run --separate-stderr prefill-local -m "$tiny" --features f -o in-files p
    assert_success
    assert_equal "$(jq -s -c '[.[].hidden_file["3"]] | [.[0], .[119], (map(.row) == [range(120)])]' in-files)" '[{"file":"f.b3.npy","row":0},{"file":"f.b3.npy","row":119},true]'
    jq -s -e 'all(has("hidden") | not)' in-files >/dev/null
    for b in 1 3; do
        head -c 128 f.b$b.npy | tr -d '\0-\037\200-\377' | grep -q "NUMPYv{'descr': '<f4', 'fortran_order': False, 'shape': (120, 48), } *" || fail "$(head -c 128 f.b$b.npy | od -c)"
        jq -r ".hidden[\"$b\"]" inline | while read -r h; do base64 -d <<<"$h"; done | cmp - <(tail -c +129 f.b$b.npy)
    done
    head-fit --leave-one-out group -a a1 inline >d1 2>/dev/null
    head-fit --leave-one-out group -a a2 in-files >d2 2>/dev/null
    assert_equal "$(wc -l <d1)" 120
    cmp d1 d2
    # what is missing or cut is told
    head -c 300 f.b3.npy >g && mv g f.b3.npy
    run --separate-stderr head-fit -a a3 in-files
    assert_failure 3
    [[ "$stderr" == *"field 'hidden_file': f.b3.npy: the file is cut before row"* ]] || fail "$stderr"
    rm f.b3.npy
    run --separate-stderr head-fit -a a3 in-files
    assert_failure 3
    # a run that fails leaves no files
    echo '{"type":"prompt"}' >>p
    run --separate-stderr prefill-local -m "$tiny" --features h p
    assert_failure 3
    [ -z "$(ls h.* 2>/dev/null)" ]
}
