#!/usr/bin/env bats
# term-search: an index of ontologies, and searching it.
load helper

obo() {
    cat <<'END'
format-version: 1.4
ontology: envo

[Term]
id: ENVO:00000001
name: environmental thing

[Term]
id: ENVO:00000020
name: lake
def: "Standing \"still\" water, see [1]." [ref:1]
synonym: "mere" EXACT []
synonym: "See" RELATED [lang:de]
alt_id: ENVO:99999999
is_a: ENVO:00000001 ! environmental thing

[Term]
id: ENVO:00000021
name: freshwater lake {source="x"} ! a remark
is_a: ENVO:00000020 ! lake

[Term]
id: ENVO:00000030
name: obsolete pond
is_obsolete: true

[Term]
id: PATO:0000122
name: length
is_a: PATO:0000001

[Term]
id: ENVO:00000040
is_a: ENVO:00000001

[Typedef]
id: part_of
name: part of
END
}
build() { run --separate-stderr term-search --build "$TMP/t.db" "$@"; }
search() { run --separate-stderr term-search --index "$TMP/t.db" "$@"; }

@test "OBO: labels, synonyms, alternates; what is left out is counted" {
    obo >"$TMP/e.obo"
    build "$TMP/e.obo"
    assert_success
    [[ "$stderr" == *"2 terms in "*"left out: 1 obsolete, 1 imported from other ontologies, 1 roots, 1 without a label"* ]] || fail "$stderr"
    search -q LAKE
    assert_equal "$(echo "$output" | jq -c '[.rank, .label, .curie, .ontology_id, .has_children]')" '[1,"lake","ENVO:00000020","envo",true]
[2,"freshwater lake","ENVO:00000021","envo",false]'
    assert_equal "$(echo "$output" | head -n 1 | jq -c '[.description, .synonyms, .iri, .query]')" '["Standing \"still\" water, see [1].",["mere","See"],"http://purl.obolibrary.org/obo/ENVO_00000020","LAKE"]'
    for q in mere ENVO:99999999 envo:00000020 "  see "; do
        search -q "$q" -n 1
        assert_equal "$(echo "$output" | jq -r .curie)" ENVO:00000020
    done
    search -q "nothing of it"
    assert_success
    assert_output ""
    # some words are better than none
    search -q "deep freshwater" -n 1
    assert_equal "$(echo "$output" | jq -r .label)" "freshwater lake"
}

@test "OBO Graphs and OLS terms give the same, compressed or not" {
    cat >"$TMP/g.json" <<'END'
{"graphs":[{"id":"http://example.org/envo.json","nodes":[
 {"id":"http://purl.obolibrary.org/obo/ENVO_00000001","type":"CLASS","lbl":"environmental thing"},
 {"id":"http://purl.obolibrary.org/obo/ENVO_00000020","type":"CLASS","lbl":"lake","meta":{"definition":{"val":"Standing \"still\" water, see [1]."},"synonyms":[{"pred":"hasExactSynonym","val":"mere"},{"pred":"hasRelatedSynonym","val":"See"}],"basicPropertyValues":[{"pred":"http://www.geneontology.org/formats/oboInOwl#hasAlternativeId","val":"ENVO:99999999"}]}},
 {"id":"http://purl.obolibrary.org/obo/ENVO_00000021","type":"CLASS","lbl":"freshwater lake"},
 {"id":"http://purl.obolibrary.org/obo/ENVO_00000030","type":"CLASS","lbl":"pond","meta":{"deprecated":true}},
 {"id":"http://purl.obolibrary.org/obo/PATO_0000122","type":"CLASS","lbl":"length"},
 {"id":"http://purl.obolibrary.org/obo/BFO_0000050","type":"PROPERTY","lbl":"part of"}],
 "edges":[{"sub":"http://purl.obolibrary.org/obo/ENVO_00000020","pred":"is_a","obj":"http://purl.obolibrary.org/obo/ENVO_00000001"},
 {"sub":"http://purl.obolibrary.org/obo/ENVO_00000021","pred":"is_a","obj":"http://purl.obolibrary.org/obo/ENVO_00000020"}]}]}
END
    cat >"$TMP/o.json" <<'END'
[{"_embedded":{"terms":[
 {"iri":"http://purl.obolibrary.org/obo/ENVO_00000001","label":"environmental thing","obo_id":"ENVO:00000001","ontology_name":"envo","is_root":true,"has_children":true},
 {"iri":"http://purl.obolibrary.org/obo/ENVO_00000020","label":["lake"],"description":["Standing \"still\" water, see [1].","more"],"obo_id":"ENVO:00000020","ontology_name":"envo","synonyms":["mere","See"],"has_children":true,"is_obsolete":false}]}},
 {"_embedded":{"terms":[{"iri":"http://purl.obolibrary.org/obo/ENVO_00000021","label":"freshwater lake","obo_id":null,"ontology_name":"envo","has_children":false},
 {"iri":"http://purl.obolibrary.org/obo/ENVO_00000030","label":"pond","obo_id":"ENVO:00000030","is_obsolete":true}]}}]
END
    obo >"$TMP/e.obo"
    build "$TMP/e.obo"
    search -q lake
    want=$(echo "$output" | jq -c .)
    for f in g o; do
        zstd -q "$TMP/$f.json" -o "$TMP/$f.json.zst"
        for name in "$TMP/$f.json" "$TMP/$f.json.zst"; do
            build "$name"
            assert_success
            search -q lake
            assert_equal "$(echo "$output" | jq -c .)" "$want"
        done
    done
}

@test "records: ontologies by any case, other fields pass on, bad ones are refused or set aside" {
    build "$ROOT"/pipelines/terms/*.obo
    assert_success
    { echo '{"query":"brown trout","ontologies":["ncbitaxon"],"meta":{"card":"c"},"n":1.0}'; echo '{"query":"temperature","ontology":"PATO"}'; } >"$TMP/q"
    search -n 1 "$TMP/q"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.query, .curie, .ontology_id, .meta]')" '["brown trout","NCBITaxon:8032","ncbitaxon",{"card":"c"}]
["temperature","PATO:0000146","pato",null]'
    assert_output --partial '"meta":{"card":"c"},"n":1.0}'
    { echo '{"query":"x","ontology":"GO"}'; echo '{"q":1}'; echo '{"query":" "}'; echo '{"query":"lake"}'; } >"$TMP/q"
    search "$TMP/q"
    assert_failure 3
    [[ "$stderr" == *"q:1: the index has no ontology 'GO'"* ]]
    search -k --errors "$TMP/e" "$TMP/q"
    assert_failure 1
    assert_equal "$(echo "$output" | head -n 1 | jq -r .curie)" ENVO:00000020
    assert_equal "$(jq -r .line "$TMP/e" | tr '\n' ' ')" "1 2 3 "
    # what looks like the query language of the index is text
    for q in 'lake"' 'NEAR(lake' '*' 'label:lake' "lake' OR 1" 'lake AND' '-lake'; do
        search -q "$q"
        assert_success
    done
}

@test "every candidate makes a state of term.fits" {
    build "$ROOT"/pipelines/terms/*.obo
    card=$(card-parse "$ROOT/pipelines/examples/stream_chemistry.md")
    search -q "degree Celsius" -n 1
    printf '{"type":"case","question":"term.fits","card":%s,"scope":"column","column":"waterTemp","aspect":"unit","candidate":%s,"n_candidates":1}\n' "$card" "$output" >"$TMP/c"
    run prompt-build --template none --level raw "$TMP/c"
    assert_success
    assert_output --partial 'UO:0000027'
}

@test "the terms of the examples: one CURIE once, no label twice in an ontology" {
    for f in "$ROOT"/pipelines/terms/*.obo; do
        assert_equal "$(grep '^id:' "$f" | sort | uniq -d)" ""
        assert_equal "$(grep '^name:' "$f" | sort | uniq -d)" ""
    done
}

@test "files that are no terms, and indexes that are none" {
    echo hello >"$TMP/x"
    build "$TMP/x"
    assert_failure 3
    [ ! -e "$TMP/t.db" ]
    [[ "$stderr" == *"x: no terms: expected OBO"* ]] || fail "$stderr"
    : >"$TMP/x"
    build "$TMP/x"
    assert_failure 3
    build "$TMP/nowhere"
    assert_failure 3
    build
    assert_failure 2
    search -q lake
    assert_failure 3
    echo nonsense >"$TMP/t.db"
    search -q lake
    assert_failure 3
    run term-search -q lake
    assert_failure 2
    obo >"$TMP/e.obo"
    run term-search --build /nowhere/t.db "$TMP/e.obo"
    assert_failure 6
    [ "$(find "$TMP" -name '*.part*' | wc -l)" = 0 ]
}
