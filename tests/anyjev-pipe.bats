#!/usr/bin/env bats
# The front command, in the source tree and installed.
load helper

@test "--help lists every program with its line and every recipe" {
    run --separate-stderr "$ROOT/bin/anyjev-pipe" --help
    assert_success
    for f in "$ROOT"/filters/*.c; do
        assert_line --regexp "^  $(basename "$f" .c) +[a-z]"
    done
    assert_line --regexp '^  annotate +dataset cards'
}

@test "a program runs by its name and keeps its exit status" {
    run --separate-stderr "$ROOT/bin/anyjev-pipe" card-parse --no-such
    assert_failure 2
    [[ "$stderr" == "card-parse: unknown option"* ]]
}

@test "no name, an unknown name and a path are usage errors" {
    for n in "" nothing ../bin/card-parse --nope; do
        run --separate-stderr "$ROOT/bin/anyjev-pipe" $n
        assert_failure 2
        assert_output ""
    done
}

@test "--version names the version and the commit" {
    run "$ROOT/bin/anyjev-pipe" --version
    assert_success
    assert_output --regexp '^anyjev-pipe [0-9.]+, commit [0-9a-f]+'
}

@test "installed under a prefix it works from there, man pages included" {
    make -s -C "$ROOT" install BIN="$BIN" BUILD="${BUILD:-build}" PREFIX="$TMP/prefix" >"$TMP/log" 2>&1 || fail "$(cat "$TMP/log")"
    card=$(ls "$ROOT"/pipelines/examples/*.md | head -n 1)
    cd "$TMP"
    run --separate-stderr "$TMP/prefix/bin/anyjev-pipe" card-parse "$card"
    assert_success
    assert_output --partial '"type":"card"'
    "$TMP/prefix/bin/anyjev-pipe" card-parse -o cards.jsonl "$card"
    run --separate-stderr "$TMP/prefix/bin/anyjev-pipe" prompt-build --template chatml --question column.annotate cards.jsonl
    assert_success
    [ -e "$TMP/prefix/share/man/man1/card-parse.1" ]
    [ -e "$TMP/prefix/share/man/man7/anyjev-pipe.7" ]
    [ "$(ls "$TMP/prefix/bin")" = anyjev-pipe ]
}

@test "a card with white space in its name is refused by recipes, not torn in two" {
    run --separate-stderr "$ROOT/bin/anyjev-pipe" annotate "$TMP/a b.md" MODEL=x OUT="$TMP/o"
    assert_failure 2
    [[ "$stderr" == *"'$TMP/a b.md' has white space in its name"* ]]
}

@test "a recipe without cards or model says what to give, status from make" {
    run --separate-stderr "$ROOT/bin/anyjev-pipe" annotate OUT="$TMP/o"
    assert_failure
    [[ "$stderr" == *"name the dataset cards"* ]]
}

@test "decide: one command from items to decisions; the status is that of the first stage that knows why" {
    decide() { "$ROOT/bin/anyjev-pipe" decide "$@"; }
    echo '{"type":"item","id":"1","question":{"kind":"choice","text":"Which?","options":["red","green"]},"state":"x","label":"green"}' >"$TMP/items"
    run --separate-stderr decide --fake "$TMP/items"
    assert_success
    assert_equal "$output" "$(prompt-build --template none "$TMP/items" | prefill-fake | head-apply)"
    run --separate-stderr decide --fake --level=raw -f table "$TMP/items"
    assert_success
    assert_equal "$output" "$(prompt-build --template none --level raw "$TMP/items" | prefill-fake | head-apply --level raw --format table)"
    run --separate-stderr bash -c "'$ROOT/bin/anyjev-pipe' decide --fake -o '$TMP/o' <'$TMP/items'"
    assert_success
    assert_output ""
    assert_equal "$(jq -r .answer "$TMP/o")" green
    tiny=$GOLDEN/models/qwen3-bf16
    run --separate-stderr decide --model "$tiny" --template chatml "$TMP/items"
    assert_success
    assert_equal "$output" "$(prompt-build --template chatml "$TMP/items" | prefill-local --model "$tiny" --template chatml | head-apply)"
    run --separate-stderr bash -c "echo '{}' | '$ROOT/bin/anyjev-pipe' decide --fake"
    assert_failure 3
    run --separate-stderr decide --url http://127.0.0.1:1 --retries 0 "$TMP/items"
    assert_failure 5
    run --separate-stderr decide --url http://example.org "$TMP/items"
    assert_failure 4
    run bash -c "'$ROOT/bin/anyjev-pipe' decide --fake '$TMP/items' >/dev/full"
    assert_failure 6
    for wrong in "" "--fake --model x" "--fake --nonsense 1" "--fake --level" "--nonsense"; do
        # shellcheck disable=SC2086
        run --separate-stderr decide $wrong "$TMP/items"
        assert_failure 2
        assert_output ""
    done
    run --separate-stderr decide --fake "$TMP/items" --level raw
    assert_failure 2
    run --separate-stderr decide --help
    assert_success
    assert_output --partial "usage: anyjev-pipe decide"
}
