#include "base/intern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

struct intern_entry {
    uint64_t hash;
    char *p; /* owned */
    size_t n;
};

static size_t slot_of(const intern *t, strv s, uint64_t h) {
    size_t i = (size_t)(h ^ h >> 31) & (t->n_slots - 1);
    for (; t->slots[i]; i = (i + 1) & (t->n_slots - 1)) {
        const struct intern_entry *x = &t->entries[t->slots[i] - 1];
        if (x->hash == h && x->n == s.n && (!s.n || memcmp(x->p, s.p, s.n) == 0)) break;
    }
    return i;
}

static bool grow(intern *t) {
    if (t->n_slots > t->n * 2 + 1) return true;
    size_t n = t->n_slots ? t->n_slots * 2 : 64, *old = t->slots;
    if (!(t->slots = mem_zero(n, sizeof *t->slots))) {
        t->slots = old;
        return false;
    }
    t->n_slots = n;
    for (size_t i = 0; i < t->n; i++) {
        const struct intern_entry *x = &t->entries[i];
        t->slots[slot_of(t, (strv){x->p, x->n}, x->hash)] = i + 1;
    }
    free(old);
    return true;
}

size_t intern_put(intern *t, strv s, bool *fresh) {
    if (!grow(t)) return INTERN_NONE;
    uint64_t h = fnv1a(FNV_START, s.p, s.n);
    size_t i = slot_of(t, s, h);
    if (fresh) *fresh = !t->slots[i];
    if (t->slots[i]) return t->slots[i] - 1;
    char *copy = mem_text(s.p, s.n);
    if (!copy || !mem_grow((void **)&t->entries, &t->cap, t->n + 1, sizeof *t->entries)) {
        free(copy);
        return INTERN_NONE;
    }
    t->entries[t->n] = (struct intern_entry){.hash = h, .p = copy, .n = s.n};
    t->slots[i] = ++t->n;
    return t->n - 1;
}

size_t intern_find(const intern *t, strv s) {
    if (!t->n) return INTERN_NONE;
    size_t i = slot_of(t, s, fnv1a(FNV_START, s.p, s.n));
    return t->slots[i] ? t->slots[i] - 1 : INTERN_NONE;
}

strv intern_text(const intern *t, size_t number) {
    return (strv){t->entries[number].p, t->entries[number].n};
}

void intern_free(intern *t) {
    for (size_t i = 0; i < t->n; i++) free(t->entries[i].p);
    free(t->entries);
    free(t->slots);
    *t = (intern){0};
}
