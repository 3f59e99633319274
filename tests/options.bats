#!/usr/bin/env bats
# Every program: --help, --version, its man page and its option table agree; start-up is quick.
load helper

programs() { (cd "$ROOT/filters" && for f in *.c; do echo "${f%.c}"; done); }

@test "every program has a man page, and mandoc finds nothing wrong in it" {
    for p in $(programs); do
        [ -e "$ROOT/man/$p.1" ] || fail "man/$p.1 is missing"
    done
    command -v mandoc >/dev/null || skip "needs mandoc"
    run mandoc -T lint -W warning "$ROOT"/man/*.[157]
    assert_success
    assert_output ""
}

@test "--help lists the options of the man page, and the man page those of --help" {
    for p in $(programs); do
        "$BIN/$p" --help >"$TMP/help"
        sed -nE 's/^  (-., |    )--([a-z0-9-]+).*/\2/p' "$TMP/help" | sort >"$TMP/a"
        sed -nE 's/^\.It Fl.* Fl -([a-z0-9-]+).*/\1/p; s/^\.It Fl -([a-z0-9-]+).*/\1/p' "$ROOT/man/$p.1" | sort -u >"$TMP/b"
        diff "$TMP/a" "$TMP/b" >"$TMP/diff" || fail "$p: --help (<) and man page (>) differ: $(cat "$TMP/diff")"
    done
}

@test "every value that an option may take and every default stands in the man page" {
    for p in $(programs); do
        "$BIN/$p" --help | tr '\n' ' ' | sed -E 's/ +/ /g' >"$TMP/help"
        tr '\n' ' ' <"$ROOT/man/$p.1" >"$TMP/man"
        grep -oE 'one of [^ ;]+[|][^ ;]+' "$TMP/help" | sed 's/^one of //' | tr '|' '\n' | sort -u >"$TMP/values"
        while read -r v; do grep -qwF -- "$v" "$TMP/man" || fail "$p: the value '$v' is not in its man page"; done <"$TMP/values"
        grep -oE '[(]default: [^)]+' "$TMP/help" | sed 's/.*: //' | sort -u >"$TMP/values"
        while read -r v; do grep -qF -- "$v" "$TMP/man" || fail "$p: the default '$v' is not in its man page"; done <"$TMP/values"
    done
}

@test "--help and -h print the usage on stdout and exit 0; --version names version and commit" {
    for p in $(programs); do
        run --separate-stderr "$BIN/$p" -h
        assert_success
        [[ "${lines[0]}" == "usage: $p "* ]] || fail "$p: ${lines[0]}"
        [ -z "$stderr" ]
        run --separate-stderr "$BIN/$p" --version
        assert_success
        assert_output --regexp "^$p \(anyjev-pipe\) [0-9]+\.[0-9]+\.[0-9]+, commit "
    done
}

@test "an unknown option and a missing value are usage errors (2), told on stderr only" {
    for p in $(programs); do
        run --separate-stderr "$BIN/$p" --no-such-option
        assert_failure 2
        assert_output ""
        [[ "$stderr" == "$p: unknown option '--no-such-option'"* ]] || fail "$p: $stderr"
    done
}

@test "--help into a full disk is an error (6)" {
    for p in $(programs); do
        run bash -c "'$BIN/$p' --help >/dev/full"
        assert_failure 6
    done
}
