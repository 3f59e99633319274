#!/usr/bin/env bats
# label-ingest: label files to labelled items.
load helper

setup() {
    card-parse "$FIXTURES"/cards/HF.*.md >"$TMP/cards"
}
ingest() { run --separate-stderr label-ingest --cards "$TMP/cards" "$@"; }

@test "the example labels: one item per label, states like those of prompt-build" {
    ingest "$FIXTURES/labels.tsv"
    assert_success
    assert_equal "$(echo "$output" | wc -l)" "$(($(wc -l <"$FIXTURES/labels.tsv") - 1))"
    assert_equal "$(echo "$output" | head -n 1 | jq -c '[.type, .id, .question, .group, .label, .weight, .source, .meta]')" \
        '["item","column.annotate:HF.0101.lake_profiles:siteName","column.annotate","HF.0101.lake_profiles","Yes",1,"gold",{"card":"HF.0101.lake_profiles","scope":"column","target":"siteName","column":"siteName"}]'
    # the card's own prompt has the same state
    want=$(head -n 1 "$TMP/cards" | prompt-build --template none --level raw --question column.annotate | jq -r 'select(.meta.column == "depth") | .state_sha256')
    assert_equal "$(echo "$output" | grep ':depth"' | head -n 1 | prompt-build --template none --level raw | jq -r .state_sha256)" "$want"
}

@test "agreement of annotating models: all 200 labels of an independent reading of the rules" {
    need_shared labels/validated_sample.json
    card-parse "$SHARED"/data/cards/*.md >"$TMP/cards"
    ingest "$SHARED/data/labels/validated_sample.json"
    assert_success
    echo "$output" | jq -r '[.question, .meta.card, .meta.scope, (.meta.target // ""), (.meta.option // ""), (.state.aspect // ""), .label, .weight] | map(tostring) | join("\t")' | sort >"$TMP/mine"
    sort "$GOLDEN/silver.tsv" | diff - "$TMP/mine"
}

run_of() { # MODEL AVUS
    printf '{"model":"%s","rep":"r","card":"HF.0102.moth_traps","avus":[%s]}\n' "$1" "$2"
}
avu() { # COLUMN ASPECT CURIE [MORE]
    printf '{"value":"v","aspect":"%s","column":%s,"curie":"%s","resolves":true,"ols_label":"v","obsolete":false,"canonical":{"attribute":"a","value":"v","unit":"%s"}%s}' "$2" "$1" "$3" "$3" "${4:-}"
}

@test "agreement: weights, votes, the only site, and what is no valid AVU" {
    { run_of m1 "$(avu '"species"' taxon NCBITaxon:1),$(avu null environment ENVO:1),$(avu '"habitat"' environment ENVO:2 ',"resolves":false')"
      run_of m2 "$(avu '"species"' taxon NCBITaxon:1),$(avu '"species, habitat"' taxon NCBITaxon:2)"
      run_of m3 "$(avu '"species"' taxon NCBITaxon:1),$(avu '"habitat"' taxon NCBITaxon:2)"; } >"$TMP/runs"
    ingest "$TMP/runs"
    assert_success
    assert_equal "$(echo "$output" | jq -c 'select(.question == "term.fits") | [.meta.option, .label, .weight, .meta.scope, .meta.target, .state.n_candidates]')" \
'["NCBITaxon:1","Yes",0.8,"column","species",1]
["ENVO:1","No",0.5,"site","OAK",1]
["NCBITaxon:2","Yes",0.6,"column","habitat",1]'
    assert_equal "$(echo "$output" | jq -c 'select(.question == "column.annotate" and .label == "Yes") | .meta.target' | tr '\n' ' ')" '"species" "habitat" '
    # uid is an identifier: no label; lampColour has no vote: No
    assert_equal "$(echo "$output" | jq -c 'select(.question == "column.annotate" and (.meta.target == "uid" or .meta.target == "lampColour")) | [.meta.target, .label, .weight]')" '["lampColour","No",0.5]'
}

@test "one model alone agrees with nobody: told, no labels" {
    run_of m1 "$(avu '"species"' taxon NCBITaxon:1)" >"$TMP/runs"
    ingest "$TMP/runs"
    assert_success
    assert_output ""
    [[ "$stderr" == *"one model alone agrees with nobody"* ]]
}

@test "of several labels on a state the heaviest wins; equal ones that disagree are told, and the first stays" {
    printf 'card\tquestion\ttarget\tlabel\tsource\tweight\n' >"$TMP/l"
    printf 'HF.0101.lake_profiles\tcolumn.annotate\tdepth\t%s\t%s\t%s\n' No teacher '' Yes curator '' No gold '' No '' 3 >>"$TMP/l"
    ingest "$TMP/l"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.label, .weight, .source]')" '["No",3,null]'
    [[ "$stderr" == *"l:4: label 'No' disagrees with 'Yes' of "*"l:3 (both of weight 1) on the same state of 'column.annotate': the first stays"* ]] || fail "$stderr"
    [[ "$stderr" == *"2 labels outweighed"* ]] || fail "$stderr"
}

@test "labels with a state of their own need no card; JSON Lines, CRLF and a byte order mark" {
    printf '\xef\xbb\xbfquestion\tstate\tlabel\tgroup\r\ncolumn.annotate\ta text\tYes\tg1\r\n' >"$TMP/l"
    run label-ingest "$TMP/l"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.state, .label, .group]')" '["a text","Yes","g1"]'
    echo '{"question":"column.annotate","state":{"x":1.0},"label":"No","weight":2,"meta":{"mine":7}}' >"$TMP/l"
    run label-ingest "$TMP/l"
    assert_output --partial '"state":{"x":1.0},"label":"No","weight":2.0,"meta":{"mine":7}}'
    run bash -c "printf 'state\tlabel\nx\tYes\n' | label-ingest -q column.annotate | jq -r .question"
    assert_output column.annotate
}

@test "term.fits: a candidate by its CURIE, what is known of it from --terms" {
    printf 'card\tquestion\ttarget\toption\toption_label\taspect\tlabel\nHF.0101\tterm.fits\tdepth\tPATO:0001595\tdepth\tmeasurement\tYes\nHF.0101\tterm.fits\tMER\tENVO:00000020\tlake\tenvironment\tYes\n' >"$TMP/l"
    echo '{"label":"depth","curie":"PATO:0001595","ontology_id":"pato","description":"How far down","synonyms":["deepness"],"has_children":false,"rank":1}' >"$TMP/t"
    ingest --terms "$TMP/t" "$TMP/l"
    assert_success
    assert_equal "$(echo "$output" | jq -c '[.state.scope, .state.candidate, .meta.option]')" \
'["column",{"label":"depth","curie":"PATO:0001595","ontology_id":"pato","description":"How far down","synonyms":["deepness"],"has_children":false},"PATO:0001595"]
["site",{"label":"lake","curie":"ENVO:00000020","ontology_id":"envo","description":"","synonyms":[],"has_children":false},"ENVO:00000020"]'
}

@test "bad labels are refused with their line" {
    check() { # MESSAGE ROW (card question target label source)
        printf 'card\tquestion\ttarget\tlabel\tsource\n%b\n' "$2" >"$TMP/l"
        ingest "$TMP/l"
        assert_failure 3
        assert_output ""
        [[ "$stderr" == *"l:2: "*"$1"* ]] || fail "$stderr"
    }
    check "label 'Maybe' is none of the options" 'HF.0101\tcolumn.annotate\tdepth\tMaybe\tgold'
    check "no question 'column.colour'" 'HF.0101\tcolumn.colour\tdepth\tYes\tgold'
    check "is not among those of --cards" 'HF.0999\tcolumn.annotate\tdepth\tYes\tgold'
    check "source 'hearsay' has no weight" 'HF.0101\tcolumn.annotate\tdepth\tYes\thearsay'
    check "field 'label' is missing" 'HF.0101\tcolumn.annotate\tdepth\t\tgold'
    check "too few fields: 'source' is missing" 'HF.0101\tcolumn.annotate\tdepth\tYes'
    check "more fields than the heading has" 'HF.0101\tcolumn.annotate\tdepth\tYes\tgold\tmore'
    printf 'a\tb\n1\t2\n' >"$TMP/l"
    ingest "$TMP/l"
    assert_failure 3
    [[ "$stderr" == *"with 'label' among them"* ]]
    : >"$TMP/l"
    ingest "$TMP/l"
    assert_failure 3
    ingest "$TMP/nowhere"
    assert_failure 3
}

@test "--keep-going sets bad labels aside" {
    printf 'card\tquestion\ttarget\tlabel\nHF.0101\tcolumn.annotate\tdepth\tMaybe\nHF.0101\tcolumn.annotate\tdepth\tYes\n' >"$TMP/l"
    ingest -k --errors "$TMP/e" "$TMP/l"
    assert_failure 1
    assert_equal "$(echo "$output" | jq -r .label)" Yes
    assert_equal "$(jq -c '[.line, .status]' "$TMP/e")" '[2,3]'
}
