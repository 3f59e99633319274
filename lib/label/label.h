/* label.h: labels from files to labelled items, one per question and state. */
#ifndef ANYJEV_LABEL_LABEL_H
#define ANYJEV_LABEL_LABEL_H

#include "base/intern.h"
#include "json/json.h"
#include "question/registry.h"

/* A card that labels may be about. */
typedef struct label_card {
    char *dataset, *text; /* owned: <product>.<table>, and the record */
    json doc;             /* of text */
} label_card;

/* A candidate term: {label, curie, ontology_id, description, synonyms, has_children, ...} as JSON. */
typedef struct label_term {
    char *text; /* owned */
} label_term;

/* An item, and how heavy the label is that it carries. */
typedef struct labelled {
    const question *q;
    char *text; /* the item record; owned */
    char *label;
    double weight;
    char *where; /* "file:line" of the label; owned */
} labelled;

/* Starts as {0} but for registry; label_free ends it. */
typedef struct labels {
    const registry *registry;
    label_card *cards;
    size_t n_cards, cap_cards;
    intern curies; /* of terms */
    label_term *terms;
    size_t cap_terms;
    intern states; /* question and state */
    labelled *items; /* by number in states */
    size_t cap_items;
    intern ids;
    buf notes; /* what was settled and left out, one line each */
    size_t conflicts, outweighed, repeated;
} labels;

/* card records, and candidate records (type may be absent), from JSON Lines. */
status label_cards(labels *l, const char *path, err *e);
status label_terms(labels *l, const char *path, err *e);
/* The card of this dataset name, sha256 or product code (when only one card has it). */
const label_card *label_card_find(const labels *l, strv name);
/* The term of this CURIE as JSON, or one made of label and CURIE alone. */
status label_term_put(const labels *l, strv curie, strv name, buf *out, err *e);

/* One label. */
typedef struct label {
    const question *q;
    const label_card *card; /* NULL: state holds the whole state */
    strv case_text;         /* JSON object: what state_build needs beside the card; or the state itself when card is NULL */
    strv label, source, group, scope, target, option;
    double weight;
    strv meta;              /* JSON object of the user's own, or empty */
    const char *where;      /* "file:line" */
} label;

/* Builds the state. When the state has a label already, the heavier one stays; of two equally heavy ones that disagree the
 * first stays, and notes say so. ST_INPUT when a state cannot be built or the label is none of the options. */
status label_add(labels *l, const label *x, err *e);
/* Weight of a label by where it comes from; false: an unknown source. */
bool label_weight(strv source, double *weight);
void label_free(labels *l);

/* --- files --- */
/* A row of the user's own, as an object: {card, question, target, option, label, weight, source, ...}. fallback: the question
 * of rows that name none, or NULL. */
status label_row(labels *l, const json *row, const question *fallback, const char *where, err *e);

/* Annotation runs {model, rep, card, avus: [...]} gathered; silver_finish turns their agreement into labels. */
typedef struct silver silver;
status silver_create(silver **s, err *e);
status silver_add(silver *s, const json *doc, jref run, const char *where, err *e);
status silver_finish(silver *s, labels *l, err *e);
void silver_free(silver *s);

#endif
