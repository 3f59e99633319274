#!/usr/bin/env bats
# tokenize: texts and prompts to token ids; goldens of the reference tokenizers; hostile models; bad input.
load helper

setup() {
    QWEN=$SHARED/data/tokenizers/qwen3
    TOY=$FIXTURES/tokenizers/toy
}

# said TEXT: what $stderr must contain
said() { [[ "$stderr" == *"$1"* ]] || fail "stderr: $stderr"; }

@test "Qwen3: all golden texts, ids equal to the reference's" {
    need_shared tokenizers/qwen3/golden.jsonl
    run --separate-stderr tokenize --model "$QWEN" --allow-control-tokens -o "$TMP/out" "$QWEN/golden.jsonl"
    assert_success
    [ "$(wc -l <"$TMP/out")" = 40 ]
    cmp "$TMP/out" "$QWEN/golden.jsonl"
}

@test "Qwen3: rendered chats; a control token in the user's text is text by default, a token when allowed" {
    need_shared tokenizers/qwen3/chat_golden.jsonl
    jq -c '{type: "prompt", system, user, prefix: .rendered, suffix: ""}' "$QWEN/chat_golden.jsonl" >"$TMP/prompts"
    run --separate-stderr tokenize --model "$QWEN" --allow-control-tokens "$TMP/prompts"
    assert_success
    [ "$(jq -c .ids <<<"$output")" = "$(jq -c .ids "$QWEN/chat_golden.jsonl")" ]
    run --separate-stderr tokenize --model "$QWEN" --pieces "$TMP/prompts"
    assert_success
    [ "$(jq -c .ids <<<"${lines[0]}")" = "$(head -n 1 "$QWEN/chat_golden.jsonl" | jq -c .ids)" ]
    # The second: as many turns as the template makes, though the user wrote a look-alike; and the text is whole (in normal form C).
    [ "$(jq '[.ids[] | select(. == 151644)] | length' <<<"${lines[1]}")" = 3 ]
    [ "$(jq -r '.pieces | join("")' <<<"${lines[1]}")" = "$(tail -n 1 "$QWEN/chat_golden.jsonl" | jq -r '.rendered | gsub("e\u0301"; "\u00e9")')" ]
    # The record can ask for it, too.
    jq -c '.allow_control_tokens = true' "$TMP/prompts" >"$TMP/allowed"
    run --separate-stderr tokenize --model "$QWEN" "$TMP/allowed"
    assert_success
    [ "$(jq -c .ids <<<"$output")" = "$(jq -c .ids "$QWEN/chat_golden.jsonl")" ]
}

@test "Qwen3: a prompt whose bytes come from another template is refused (4)" {
    need_shared tokenizers/qwen3/chat_golden.jsonl
    run --separate-stderr tokenize --model "$QWEN" <<<'{"type":"prompt","system":"s","user":"u","split":0,"prefix":"s\n\n","suffix":"u"}'
    assert_failure 4
    assert_output ""
    said '(standard input):1: the prompt was rendered by another chat template'
    run --separate-stderr tokenize --model "$QWEN" --template none <<<'{"type":"prompt","system":"s","user":"u","split":0,"prefix":"s\n\n","suffix":"u"}'
    assert_success
}

@test "SmolLM2 from the GGUF: hard texts, ids equal to the reference's" {
    need_model
    [ -e "$GOLDEN/smollm2_tokens.jsonl" ] || skip "needs tests/golden/smollm2_tokens.jsonl"
    run --separate-stderr tokenize --model "$MODEL" --allow-control-tokens -o "$TMP/out" "$GOLDEN/smollm2_tokens.jsonl"
    assert_success
    jq -c .ids "$TMP/out" >"$TMP/ids"
    [ "$(wc -l <"$TMP/ids")" -ge 200 ]
    jq -c .ids "$GOLDEN/smollm2_tokens.jsonl" | diff - "$TMP/ids"
}

@test "the man page's example prints what it says" {
    need_model
    run --separate-stderr tokenize --model "$MODEL" --pieces <<<'{"text":"The sky is blue."}'
    assert_success
    assert_output '{"text":"The sky is blue.","ids":[504,6376,314,4461,30],"pieces":["The"," sky"," is"," blue","."]}'
    sed -n '/^prints$/,/^\.Ed/p' "$ROOT/man/tokenize.1" | sed '1,2d;$d' | tr -d '\n' >"$TMP/page"
    [ "$(cat "$TMP/page")" = "$output" ]
}

@test "toy tokenizer: unknown fields pass untouched, ids replaced in place, prompts without user parsed" {
    run --separate-stderr tokenize --model "$TOY" <<<'{ "n": 1.50, "ids": null, "text":"abc", "z": "\u00e4" }'
    assert_success
    assert_output '{"n":1.50,"ids":[258],"text":"abc","z":"\u00e4"}'
    run --separate-stderr tokenize --model "$TOY" --pieces <<<'{"prefix":"<|x|>","suffix":"abcab"}'
    assert_success
    assert_output '{"prefix":"<|x|>","suffix":"abcab","ids":[261,258,256],"pieces":["<|x|>","abc","ab"]}'
    run --separate-stderr tokenize --model "$TOY/tokenizer.json" --pieces <<<'{"text":"é\u0000"}'
    assert_success
    assert_output '{"text":"é\u0000","ids":[195,169,0],"pieces":[[195],[169],"\u0000"]}'
    run --separate-stderr tokenize --model "$TOY" <<<'{"text":""}'
    assert_output '{"text":"","ids":[]}'
}

@test "toy tokenizer: control tokens only when allowed; ordinary added tokens always, longest first" {
    run --separate-stderr tokenize --model "$TOY" <<<'{"text":"ab<|x|>"}'
    assert_output '{"text":"ab<|x|>","ids":[256,60,124,120,124,62]}'
    run --separate-stderr tokenize --model "$TOY" --allow-control-tokens <<<'{"text":"ab<|x|>"}'
    assert_output '{"text":"ab<|x|>","ids":[256,261]}'
    run --separate-stderr tokenize --model "$TOY" <<<'{"text":"a@@@b@@"}'
    assert_output '{"text":"a@@@b@@","ids":[97,263,98,262]}'
}

@test "the same vocabulary compressed with zstd gives the same ids" {
    command -v zstd >/dev/null || skip "needs zstd"
    mkdir "$TMP/m"
    zstd -q "$TOY/tokenizer.json" -o "$TMP/m/tokenizer.json.zst"
    for m in "$TMP/m" "$TMP/m/tokenizer.json.zst"; do
        run --separate-stderr tokenize --model "$m" <<<'{"text":"abc"}'
        assert_success
        assert_output '{"text":"abc","ids":[258]}'
    done
}

@test "a line of 5 MB, and one of equal characters, take no time" {
    { printf '{"text":"'; head -c 5000000 /dev/zero | tr '\0' a; printf '"}\n'; printf '{"text":"'; head -c 5000000 /dev/zero | tr '\0' ' '; printf '"}\n'; } >"$TMP/in"
    run --separate-stderr timeout 60 "$BIN/tokenize" --model "$TOY" -o "$TMP/out" "$TMP/in"
    assert_success
    [ "$(wc -l <"$TMP/out")" = 2 ]
    if [ -e "$MODEL" ]; then
        run --separate-stderr timeout 60 "$BIN/tokenize" --model "$MODEL" -o "$TMP/out" "$TMP/in"
        assert_success
    fi
}

@test "bad records: the first ends the run (3) with its place; --keep-going sets them aside (1)" {
    printf '%s\n' '{"text":"a"}' '{"text":"a"} {"text":"b"}' '{"text":1}' '{"x":1}' '["text"]' '{"text":"b"}' >"$TMP/in"
    run --separate-stderr tokenize --model "$TOY" "$TMP/in"
    assert_failure 3
    said "$TMP/in:2: "
    run --separate-stderr tokenize --model "$TOY" -k --errors "$TMP/bad" "$TMP/in"
    assert_failure 1
    assert_output $'{"text":"a","ids":[97]}\n{"text":"b","ids":[98]}'
    [ "$(jq -s -c 'map(.line)' "$TMP/bad")" = '[2,3,4,5]' ]
    printf '{"text":"a\xc3"}\n' >"$TMP/cut"
    run --separate-stderr tokenize --model "$TOY" "$TMP/cut"
    assert_failure 3
    run --separate-stderr tokenize --model "$TOY" </dev/null
    assert_success
    assert_output ""
}

@test "no model, a model that is not there, a folder without a tokenizer, a file that is none" {
    run --separate-stderr tokenize <<<'{"text":"a"}'
    assert_failure 2
    run --separate-stderr tokenize --model "$TMP/nowhere" <<<'{"text":"a"}'
    assert_failure 3
    said "$TMP/nowhere"
    mkdir "$TMP/empty"
    run --separate-stderr tokenize --model "$TMP/empty" <<<'{"text":"a"}'
    assert_failure 3
    said "holds no tokenizer.json"
    echo 'not json' >"$TMP/tokenizer.json"
    run --separate-stderr tokenize --model "$TMP/tokenizer.json" <<<'{"text":"a"}'
    assert_failure 3
    said "$TMP/tokenizer.json"
}

@test "tokenizers of other kinds are refused by name" {
    while IFS=@ read -r edit said; do
        mkdir -p "$TMP/t"
        jq "$edit" "$TOY/tokenizer.json" >"$TMP/t/tokenizer.json"
        run --separate-stderr tokenize --model "$TMP/t" <<<'{"text":"a"}'
        assert_failure 3
        said "$said"
    done <<'EOF'
.model.type = "Unigram"@tokenizer model 'Unigram'
.model.byte_fallback = true@SentencePiece
.model.dropout = 0.1@model.dropout
.pre_tokenizer = {type: "Metaspace"}@pre-tokenizer 'Metaspace'
.pre_tokenizer = null@without the pre-tokenizer ByteLevel
.pre_tokenizer.pretokenizers |= reverse@behind ByteLevel the pre-tokenizer 'Split'
.pre_tokenizer.pretokenizers[0].behavior = "MergedWithNext"@split behaviour 'MergedWithNext'
.pre_tokenizer.pretokenizers[0].pattern.Regex = "(a"@not understood
.normalizer = {type: "Lowercase"}@normalizer 'Lowercase'
.added_tokens[0].single_word = true@single word
EOF
}

@test "an unknown chat template is refused (4) when a prompt needs it, and not before" {
    mkdir "$TMP/m"
    cp "$TOY/tokenizer.json" "$TMP/m"
    echo '{"chat_template":"{{ messages | tojson }}"}' >"$TMP/m/tokenizer_config.json"
    run --separate-stderr tokenize --model "$TMP/m" <<<'{"text":"abc"}'
    assert_success
    run --separate-stderr tokenize --model "$TMP/m" <<<'{"user":"abc"}'
    assert_failure 4
    said "no known family"
    run --separate-stderr tokenize --model "$TMP/m" --template none <<<'{"user":"abc"}'
    assert_success
    assert_output '{"user":"abc","ids":[258]}'
}

@test "a GGUF cut short is refused (3), named, and nothing is written" {
    need_model
    for n in 0 3 4 11 24 25 100 1000 40000 1000000 1700000; do
        head -c "$n" "$MODEL" >"$TMP/cut.gguf"
        run --separate-stderr tokenize --model "$TMP/cut.gguf" <<<'{"text":"a"}'
        assert_failure 3
        assert_output ""
        said "$TMP/cut.gguf"
    done
}

@test "a full disk and a closed pipe are errors (6)" {
    run bash -c "echo '{\"text\":\"a\"}' | '$BIN/tokenize' --model '$TOY' >/dev/full"
    assert_failure 6
    yes '{"text":"abc"}' | head -n 200000 >"$TMP/in"
    run bash -c "{ '$BIN/tokenize' --model '$TOY' '$TMP/in'; echo \$? >'$TMP/status'; } | head -n 1"
    [ "$(cat "$TMP/status")" = 6 ]
}

@test "a compressed tokenizer that grows without end is refused (3)" {
    command -v zstd >/dev/null || skip "needs zstd"
    head -c 1200000000 /dev/zero | zstd -q -o "$TMP/bomb.json.zst"
    run --separate-stderr tokenize --model "$TMP/bomb.json.zst" /dev/null
    assert_failure 3
    [[ "$stderr" == *"bomb.json.zst: more than "*" bytes when decompressed" ]]
}
