"""Golden labels of label-ingest from annotation runs, by an independent reading of the rules, over shared data:

    python tests/golden/make_silver.py RUNS.json CARDS.jsonl > tests/golden/silver.tsv

One row per label: question, card, scope, target, option, aspect, label, weight. Aspects and columns in order of first sight.
"""
import json
import sys
from collections import defaultdict

runs = json.load(open(sys.argv[1]))
cards = {f"{c['product_code']}.{c['table']}": c for c in map(json.loads, open(sys.argv[2]))}
registry = json.load(open("pipelines/questions.json"))
ontologies = registry["ontologies"]
choices = next(q for q in registry["questions"] if q["id"] == "column.ontology")["options"]


def row(*fields):
    print("\t".join(str(f) for f in fields))


def most(votes):
    """The key with most votes; dicts keep the order of first sight, max takes the first."""
    return max(votes, key=lambda k: votes[k])


for name in dict.fromkeys(r["card"] for r in runs):
    mine = [r for r in runs if r["card"] == name]
    card = cards[name]
    columns = {c["name"]: c for c in card["columns"]}
    models = {r["model"] for r in mine}
    avus = [(r["model"], a, [c.strip() for c in (a["column"] or "").split(",") if c.strip() in columns])
            for r in mine for a in r["avus"] if a["resolves"] and not a["obsolete"] and a["canonical"]]

    by_curie = {}
    for model, a, cols in avus:
        d = by_curie.setdefault(a["curie"], {"models": set(), "columns": defaultdict(int), "aspects": defaultdict(int)})
        d["models"].add(model)
        d["aspects"][a["aspect"]] += 1
        for c in cols:
            d["columns"][c] += 1
    for curie, d in by_curie.items():
        aspect = most(d["aspects"])
        if d["columns"]:
            scope, target = "column", most(d["columns"])
        elif aspect in ("environment", "location") and len(card["sites"]) == 1:
            scope, target = "site", card["sites"][0]["code"]
        else:
            scope, target = "dataset", ""
        n = len(d["models"])
        row("term.fits", name, scope, target, curie, aspect, "Yes" if n >= 2 else "No", 0.8 if n == len(models) else 0.6 if n >= 2 else 0.5)

    for c in card["columns"]:
        on = [(m, a) for m, a, cols in avus if c["name"] in cols]
        n = len({m for m, _ in on})
        if n >= 2:
            row("column.annotate", name, "column", c["name"], "", "", "Yes", 0.6)
        elif n == 0 and not c["identifier"]:
            row("column.annotate", name, "column", c["name"], "", "", "No", 0.5)
        votes = {}
        for m, a in on:
            votes.setdefault(a["aspect"], set()).add(m)
        votes = {k: len(v) for k, v in votes.items() if len(v) >= 2}
        if not votes:
            continue
        aspect = most(votes)
        row("column.aspect", name, "column", c["name"], "", "", aspect, 0.6)
        used = {}
        for m, a in on:
            used.setdefault(a["curie"].split(":")[0], set()).add(m)
        listed = {k: len(v) for k, v in used.items() if k in choices}
        if listed:
            row("column.ontology", name, "column", c["name"], "", aspect, most(listed), 0.6)
        for o in ontologies:
            if o["id"] in used:
                row("column.ontology_fits", name, "column", c["name"], o["id"], aspect, "Yes", 0.6)
            elif aspect in o["aspects"]:
                row("column.ontology_fits", name, "column", c["name"], o["id"], aspect, "No", 0.5)
