#!/usr/bin/env bats
# The recipe annotate: cards to decisions with the small model.
load helper

annotate() { "$ROOT/bin/anyjev-pipe" annotate BIN="$BIN" MODEL="$MODEL" "$@"; }
card() { ls "$FIXTURES"/cards/*.md | head -n 1; }

@test "a card becomes decisions and a table; again it does nothing; elsewhere it gives the same bytes" {
    need_model
    run --separate-stderr annotate OUT="$TMP/a" "$(card)"
    assert_success
    assert_output --partial L0
    [ -s "$TMP/a/decisions.jsonl" ]
    stat -c '%Y %n' "$TMP"/a/* >"$TMP/before"
    run --separate-stderr annotate OUT="$TMP/a" "$(card)"
    assert_success
    stat -c '%Y %n' "$TMP"/a/* | diff "$TMP/before" -
    run --separate-stderr annotate OUT="$TMP/b" "$(card)"
    assert_success
    cmp "$TMP/a/decisions.jsonl" "$TMP/b/decisions.jsonl"
    cmp "$TMP/a/decisions.txt" "$TMP/b/decisions.txt"
    # Only columns that were to be annotated are asked for their aspect.
    yes=$(jq -r 'select(.question == "column.annotate" and .answer == "Yes").meta.column' "$TMP/a/decisions.jsonl" | sort)
    aspects=$(jq -r 'select(.question == "column.aspect").meta.column' "$TMP/a/decisions.jsonl" | sort)
    assert_equal "$aspects" "$yes"
    jq -e 'select(.level != "L0")' "$TMP/a/decisions.jsonl" && fail "a decision at another level"
    # A stage that was lost is made again, with the same bytes.
    rm "$TMP/a/aspect.filled.jsonl" "$TMP/a/aspect.decisions.jsonl"
    run --separate-stderr annotate OUT="$TMP/a" "$(card)"
    assert_success
    cmp "$TMP/a/decisions.jsonl" "$TMP/b/decisions.jsonl"
}

@test "a file that is no card stops the recipe and leaves no decisions" {
    need_model
    echo "no card" >"$TMP/x.md"
    run --separate-stderr annotate OUT="$TMP/a" "$TMP/x.md"
    assert_failure
    [[ "$stderr" == *"x.md"* ]]
    [ ! -e "$TMP/a/cards.jsonl" ]
    [ ! -e "$TMP/a/decisions.jsonl" ]
}
