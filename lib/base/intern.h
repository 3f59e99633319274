/* intern.h: byte strings to small numbers: the same bytes get the same number, counted from 0 in order of arrival. */
#ifndef ANYJEV_BASE_INTERN_H
#define ANYJEV_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define INTERN_NONE ((size_t)-1)

/* Starts as {0}; intern_free ends it. */
typedef struct intern {
    struct intern_entry *entries; /* owned */
    size_t n, cap;
    size_t *slots; /* open addressing: number + 1 */
    size_t n_slots;
} intern;

/* The number of s, given now if it is new (*fresh tells; may be NULL). INTERN_NONE: out of memory. */
size_t intern_put(intern *t, strv s, bool *fresh);
/* The number of s, or INTERN_NONE. */
size_t intern_find(const intern *t, strv s);
/* The bytes of a number (a NUL follows them); valid until intern_free. */
strv intern_text(const intern *t, size_t number);
void intern_free(intern *t);

#endif
