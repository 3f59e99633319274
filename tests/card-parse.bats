#!/usr/bin/env bats
# card-parse: dataset cards to card records.
load helper

tiny=$BATS_TEST_DIRNAME/fixtures/cards/tiny-crlf.md

@test "a card with byte order mark, CRLF, commas in names and bars in the profile is read whole" {
    run --separate-stderr card-parse "$tiny"
    assert_success
    [ -z "$stderr" ]
    echo "$output" | jq -c 'del(.sha256, .file)' >"$TMP/got"
    cat >"$TMP/want" <<'END'
{"type":"card","product_code":"T.1","table":"tiny","product_title":"Tiny table","product_description":"Two columns — and no more.","source":"","sites":[{"code":"S1","name":"Name, With Comma","state":"State","domain":"D01","domain_name":"Far North","habitat":"rock"},{"code":"S2","name":"Other","state":"State","domain":"D02","domain_name":"South","habitat":"sand"}],"rows":3,"months_from":"2020-01","months_to":"2020-02","columns":[{"name":"temp","description":"air temperature","dtype":"real","unit":"degree Celsius","profile":"min=1 | max=2","identifier":false},{"name":"note","description":"a note","dtype":"string","unit":"","profile":"all blank","identifier":true}]}
END
    diff "$TMP/want" "$TMP/got"
    assert_equal "$(echo "$output" | jq -r .sha256)" "$(sha256sum <"$tiny" | cut -d' ' -f1)"
}

@test "identifiers follow the rule: by name, by ending in any case, by type, by profile; taxonID is none" {
    {
        echo '# Dataset: P / t'
        for n in uid remarks publicationDate release siteID sampleUid statusCODE identifiedBy recordedby measuredBy taxonID temp; do
            echo "- $n | d | string | - | 2 distinct"
        done
        echo '- day | d | date | - | x'
        echo '- time | d | dateTime | - | x'
        echo '- blank | d | real | - | all blank'
        echo '- some | d | real | - | (not profiled)'
    } >"$TMP/c.md"
    run card-parse "$TMP/c.md"
    assert_success
    assert_equal "$(echo "$output" | jq -r '[.columns[] | select(.identifier | not) | .name] | join(" ")')" "taxonID temp"
}

@test "the dash of the product may be a hyphen, an en dash or an em dash" {
    for dash in - – —; do
        printf '# Dataset: P / t\nProduct: P %s Title. Text.\n- a | b | c | d | e\n' "$dash" >"$TMP/c.md"
        run card-parse "$TMP/c.md"
        assert_success
        assert_equal "$(echo "$output" | jq -r '.product_title + "/" + .product_description')" "Title/Text."
    done
}

@test "the real cards are read" {
    need_shared cards/DP1.10022.001.bet_sorting.md
    run card-parse --strict "$SHARED"/data/cards/*.md
    assert_success
    assert_equal "${#lines[@]}" 3
    assert_equal "$(echo "$output" | jq -s -r 'map(.columns | length) | join(" ")')" "22 24 30"
}

@test "many files, standard input and - give one record each, in order" {
    sed 's/tiny/second/' "$tiny" >"$TMP/second.md"
    run bash -c "card-parse '$TMP/second.md' - <'$tiny' | jq -r .table"
    assert_success
    assert_output $'second\ntiny'
    run bash -c "card-parse <'$tiny' | jq -r .file"
    assert_output "(standard input)"
}

@test "--strict refuses an unknown line with its number; without it the line is passed over" {
    run --separate-stderr card-parse --strict "$tiny"
    assert_failure 3
    assert_output ""
    assert_equal "$stderr" "card-parse: $tiny:8: a line that is no part of a card (--strict)"
}

@test "an empty file, a file that is no card, a card without columns are bad input (3)" {
    : >"$TMP/empty.md"
    echo 'hello' >"$TMP/no.md"
    printf '# Dataset: P / t\n' >"$TMP/bare.md"
    for f in empty no bare; do
        run --separate-stderr card-parse "$TMP/$f.md"
        assert_failure 3
        assert_output ""
        [[ "$stderr" == "card-parse: $TMP/$f.md:"*expected* ]] || fail "$stderr"
    done
    run --separate-stderr card-parse "$TMP/none.md"
    assert_failure 3
    run --separate-stderr card-parse "$TMP"
    assert_failure 3
}

@test "a card cut in the middle of a character is refused with its line" {
    printf '# Dataset: P / t\n- a | caf\xc3' >"$TMP/cut.md"
    run --separate-stderr card-parse "$TMP/cut.md"
    assert_failure 3
    [[ "$stderr" == "card-parse: $TMP/cut.md:2: invalid UTF-8"* ]]
}

@test "--keep-going does the others, exits 1 and names what was bad in --errors" {
    echo no >"$TMP/no.md"
    run --separate-stderr card-parse -k --errors "$TMP/e" "$TMP/no.md" "$tiny"
    assert_failure 1
    assert_equal "${#lines[@]}" 1
    assert_equal "$(jq -r .file "$TMP/e")" "$TMP/no.md"
}

@test "a full disk and a closed pipe are errors (6); a failed run leaves no output file" {
    run bash -c "card-parse '$tiny' >/dev/full"
    assert_failure 6
    run bash -c "{ card-parse '$tiny'; echo \$? >'$TMP/rc'; } 2>'$TMP/err' | true; cat '$TMP/rc'"
    # A small record may still fit into the pipe before its reader is gone: many do not.
    for i in $(seq 400); do sed "s/tiny/t$i/" "$tiny" >"$TMP/$i.md"; done
    run bash -c "{ card-parse '$TMP'/*.md; echo \$? >'$TMP/rc'; } 2>/dev/null | head -c 1 >/dev/null; cat '$TMP/rc'"
    assert_output 6
    echo no >"$TMP/no"
    run card-parse -o "$TMP/out" "$tiny" "$TMP/no"
    assert_failure 3
    [ ! -e "$TMP/out" ]
    run bash -c "ls '$TMP'/out*"
    assert_failure
}

@test "an endless line and an endless file are refused (3), before they take all memory" {
    run --separate-stderr card-parse /dev/zero
    assert_failure 3
    [[ "$stderr" == "card-parse: /dev/zero: more than "*" bytes" ]]
    run --separate-stderr head-apply /dev/zero
    assert_failure 3
    [[ "$stderr" == "head-apply: /dev/zero:1: a line of more than "* ]]
}

@test "a second Rows line and a number with separators are refused (3), not misread" {
    printf '# Dataset: P / t\nRows: 5\nRows: 5\n- a | b | c | d | e\n' >"$TMP/c.md"
    run card-parse "$TMP/c.md"
    assert_failure 3
    printf '# Dataset: P / t\nRows: 1,234; months covered: A to B\n- a | b | c | d | e\n' >"$TMP/c.md"
    run card-parse "$TMP/c.md"
    assert_failure 3
}
