#include "token/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "json/json.h"
#include "token/nfc.h"
#include "token/tokenizer_internal.h"
#include "weights/gguf.h"

/* --- the vocabulary --- */

status tok_piece_add(tokenizer *t, uint32_t id, strv bytes, err *e) {
    if (id >= 1u << 24) return err_set(e, ST_INPUT, "token id %u is too large", id);
    size_t need = (size_t)id + 1;
    if (!mem_grow((void **)&t->pieces, &t->cap_pieces, need, sizeof *t->pieces)) return err_memory(e, need * sizeof *t->pieces);
    for (; t->n_pieces < need; t->n_pieces++) t->pieces[t->n_pieces] = (struct tok_piece){0};
    t->pieces[id] = (struct tok_piece){t->bytes.len, (uint32_t)bytes.n, true};
    buf_view(&t->bytes, bytes);
    return buf_ok(&t->bytes, e);
}

/* GPT-2's byte alphabet: printable bytes of Latin-1 stand for themselves, the other 68 for U+0100 onward. */
static int byte_of(int32_t c) {
    if ((c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF)) return (int)c;
    if (c < 0x100 || c >= 0x100 + 68) return -1;
    int k = (int)c - 0x100;
    return k <= 32 ? k : k <= 66 ? 0x7F + (k - 33) : 0xAD;
}

void tok_unmap(strv text, buf *out) {
    size_t start = out->len, i = 0;
    while (i < text.n) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)text.p + i, (utf8proc_ssize_t)(text.n - i), &c);
        int b = k > 0 ? byte_of(c) : -1;
        if (b < 0) {
            if (!out->failed) out->len = start;
            buf_view(out, text);
            return;
        }
        buf_byte(out, (char)b);
        i += (size_t)k;
    }
}

static size_t text_hash(strv s) {
    uint64_t h = fnv1a(FNV_START, s.p, s.n);
    return (size_t)(h ^ h >> 32);
}

strv tokenizer_piece(const tokenizer *t, uint32_t id) {
    if (id >= t->n_pieces || !t->pieces[id].used) return (strv){"", 0};
    return (strv){t->bytes.p + t->pieces[id].at, t->pieces[id].len};
}

status tok_index(tokenizer *t, err *e) {
    t->text_slots = 16;
    while (t->text_slots < t->n_pieces * 2) t->text_slots *= 2;
    t->by_text = mem_zero(t->text_slots, sizeof *t->by_text);
    if (!t->by_text) return err_memory(e, t->text_slots * sizeof *t->by_text);
    for (uint32_t id = 0; id < t->n_pieces; id++) {
        if (!t->pieces[id].used) continue;
        strv p = tokenizer_piece(t, id);
        size_t i = text_hash(p) & (t->text_slots - 1);
        while (t->by_text[i] && !strv_eq(tokenizer_piece(t, t->by_text[i] - 1), p)) i = (i + 1) & (t->text_slots - 1);
        if (!t->by_text[i]) t->by_text[i] = id + 1;
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        t->byte_id[b] = tok_lookup(t, (strv){&c, 1});
    }
    return ST_OK;
}

uint32_t tok_lookup(const tokenizer *t, strv bytes) {
    size_t i = text_hash(bytes) & (t->text_slots - 1);
    while (t->by_text[i]) {
        if (strv_eq(tokenizer_piece(t, t->by_text[i] - 1), bytes)) return t->by_text[i] - 1;
        i = (i + 1) & (t->text_slots - 1);
    }
    return TOKEN_NONE;
}

status tok_added_add(tokenizer *t, strv text, uint32_t id, bool special, bool lstrip, bool rstrip, bool normalized, err *e) {
    if (!text.n) return err_set(e, ST_INPUT, "an added token with an empty text");
    if (!mem_grow((void **)&t->added, &t->cap_added, t->n_added + 1, sizeof *t->added)) return err_memory(e, sizeof *t->added);
    char last = text.p[text.n - 1];
    bool look = (text.p[0] == '<' && last == '>') || (text.p[0] == '[' && last == ']');
    char *copy = mem_text(text.p, text.n);
    if (!copy) return err_memory(e, text.n);
    t->added[t->n_added++] = (tok_added){copy, text.n, id, special, lstrip, rstrip, normalized, special || look};
    /* Its text is its piece, unless the vocabulary said otherwise. */
    if (id >= t->n_pieces || !t->pieces[id].used) return tok_piece_add(t, id, text, e);
    return ST_OK;
}

static int added_order(const void *a, const void *b) {
    const tok_added *x = a, *y = b;
    return strv_cmp((strv){x->text, x->len}, (strv){y->text, y->len});
}

status tok_finish(tokenizer *t, err *e) {
    if (t->n_added) qsort(t->added, t->n_added, sizeof *t->added, added_order);
    for (size_t i = 0, c = 0; c <= 256; c++) {
        while (i < t->n_added && (unsigned char)t->added[i].text[0] < c) i++;
        t->first[c] = i;
    }
    if (!t->n_pieces) return err_set(e, ST_INPUT, "the vocabulary is empty");
    return ST_OK;
}

/* --- opening --- */

static tokenizer *begin(err *e) {
    tokenizer *t = mem_zero(1, sizeof *t);
    if (!t) err_memory(e, sizeof *t);
    if (t) t->bos = t->unk = TOKEN_NONE;
    return t;
}

static status end(tokenizer *t, status s, const char *path, tokenizer **to, err *e) {
    if (!s && (s = tok_finish(t, e))) err_prefix(e, "%s", path);
    if (s) tokenizer_close(t);
    else *to = t;
    return s;
}

status tokenizer_of_gguf(tokenizer **to, const gguf *g, err *e) {
    tokenizer *t = begin(e);
    *to = NULL;
    if (!t) return e->status;
    status s = splitter_create(&t->split, e);
    if (!s) s = tok_load_gguf(t, g, e);
    return end(t, s, gguf_path(g), to, e);
}

status tokenizer_open(tokenizer **to, const char *path, err *e) {
    *to = NULL;
    struct stat st;
    buf file = {0};
    status s = ST_OK;
    buf_text(&file, path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        buf_text(&file, "/tokenizer.json");
        if (!file.failed && access(file.p, F_OK) != 0) {
            buf_text(&file, ".zst");
            if (!file.failed && access(file.p, F_OK) != 0)
                s = err_set(e, ST_INPUT, "%s: holds no tokenizer.json (or tokenizer.json.zst)", path);
        }
    }
    if (!s) s = buf_ok(&file, e);
    if (!s && gguf_is(file.p)) {
        gguf *g = NULL;
        s = gguf_open(&g, file.p, e);
        if (!s) s = tokenizer_of_gguf(to, g, e);
        gguf_close(g);
    } else if (!s) {
        tokenizer *t = begin(e);
        s = t ? splitter_create(&t->split, e) : e->status;
        if (!s) s = tok_load_json(t, file.p, e);
        s = t ? end(t, s, path, to, e) : s;
    }
    buf_free(&file);
    return s;
}

void tokenizer_close(tokenizer *t) {
    if (!t) return;
    buf_free(&t->bytes);
    free(t->pieces);
    free(t->by_text);
    free(t->merges);
    for (size_t i = 0; i < t->n_added; i++) free(t->added[i].text);
    free(t->added);
    splitter_free(t->split);
    free(t);
}

/* --- encoding --- */

typedef struct encode {
    const tokenizer *t;
    tok_ids *out;
} encode;

static status merge_piece(void *ctx, strv piece, err *e) {
    encode *c = ctx;
    return tok_bpe(c->t, piece, c->out, e);
}

static bool overlaps(const tok_span *plain, size_t n, size_t from, size_t to) {
    for (size_t i = 0; i < n; i++)
        if (from < plain[i].to && plain[i].from < to) return true;
    return false;
}

static bool is_white(strv text, size_t at, size_t *len) {
    utf8proc_int32_t c;
    utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)text.p + at, (utf8proc_ssize_t)(text.n - at), &c);
    *len = k > 0 ? (size_t)k : 1;
    return k > 0 && ((c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
                     c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000);
}

/* The first of added[lo, hi), which agree in the bytes before `depth`, whose byte there is at least c. */
static size_t added_bound(const tokenizer *t, size_t lo, size_t hi, size_t depth, unsigned c) {
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)t->added[mid].text[depth] < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* The longest added token of the wanted kind that starts at `at`: the sorted list is narrowed byte by byte. */
static const tok_added *added_at(const tokenizer *t, strv text, size_t at, bool normalized, const tok_span *plain, size_t n_plain) {
    unsigned c = (unsigned char)text.p[at];
    size_t lo = t->first[c], hi = t->first[c + 1];
    const tok_added *best = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        for (; lo < hi && t->added[lo].len == depth; lo++) { /* in order, what ends here comes first */
            const tok_added *a = &t->added[lo];
            if (a->normalized == normalized && !(a->control && overlaps(plain, n_plain, at, at + depth))) best = a;
        }
        if (at + depth >= text.n) break;
        c = (unsigned char)text.p[at + depth];
        lo = added_bound(t, lo, hi, depth, c);
        hi = added_bound(t, lo, hi, depth, c + 1);
    }
    return best;
}

typedef status (*between)(encode *c, strv text, size_t at, const tok_span *plain, size_t n_plain, err *e);

/* Cuts the added tokens of one kind out of text; what lies between goes to rest. */
static status cut_added(encode *c, strv text, bool normalized, const tok_span *plain, size_t n_plain, between rest, err *e) {
    size_t start = 0;
    status s = ST_OK;
    for (size_t i = 0; !s && i < text.n;) {
        const tok_added *a = added_at(c->t, text, i, normalized, plain, n_plain);
        if (!a) {
            i++;
            continue;
        }
        size_t from = i, to = i + a->len, k;
        if (a->lstrip)
            while (from > start) {
                size_t b = from - 1;
                while (b > start && ((unsigned char)text.p[b] & 0xC0) == 0x80) b--;
                if (!is_white(text, b, &k)) break;
                from = b;
            }
        if (a->rstrip)
            while (to < text.n && is_white(text, to, &k)) to += k;
        if (from > start) s = rest(c, (strv){text.p + start, from - start}, start, plain, n_plain, e);
        if (!s) s = tok_push(c->out, a->id, e);
        /* As in the reference, an added token that begins in stripped white space is still found. */
        i += a->len;
        start = to;
    }
    if (!s && start < text.n) s = rest(c, (strv){text.p + start, text.n - start}, start, plain, n_plain, e);
    return s;
}

static status encode_text(encode *c, strv text, size_t at, const tok_span *plain, size_t n_plain, err *e) {
    (void)at, (void)plain, (void)n_plain;
    return splitter_run(c->t->split, text, merge_piece, c, e);
}

/* A stretch between raw added tokens: normalised, then the tokens that are looked for in normalised text. */
static status encode_stretch(encode *c, strv text, size_t at, const tok_span *plain, size_t n_plain, err *e) {
    tok_span here[8], whole = {0, text.n};
    size_t n = 0;
    for (size_t i = 0; i < n_plain; i++) {
        if (plain[i].to <= at || plain[i].from >= at + text.n) continue;
        if (n == sizeof here / sizeof *here) { /* more than anyone gives: all of it is plain then */
            here[0] = whole;
            n = 1;
            break;
        }
        here[n++] = (tok_span){plain[i].from > at ? plain[i].from - at : 0, plain[i].to - at};
    }
    if (!c->t->nfc) return cut_added(c, text, true, here, n, encode_text, e);
    strv v;
    buf space = {0};
    status s = nfc_normalize(text, &space, &v, e);
    /* Where normalising moved bytes the spans no longer fit: then the whole stretch counts as plain. */
    whole.to = v.n;
    bool same = strv_eq(v, text);
    if (!s) s = cut_added(c, v, true, same ? here : &whole, same ? n : n > 0, encode_text, e);
    buf_free(&space);
    return s;
}

status tokenizer_encode(const tokenizer *t, strv text, const tok_span *plain, size_t n_plain, tok_ids *out, err *e) {
    size_t at;
    if (!utf8_valid(text.p, text.n, &at)) return err_set(e, ST_INPUT, "the text holds invalid UTF-8 at byte %zu", at + 1);
    encode c = {t, out};
    return cut_added(&c, text, false, plain, n_plain, encode_stretch, e);
}

void tok_ids_free(tok_ids *ids) {
    free(ids->id);
    *ids = (tok_ids){0};
}

status tokenizer_single(const tokenizer *t, strv text, uint32_t *id, err *e) {
    tok_ids ids = {0};
    status s = tokenizer_encode(t, text, NULL, 0, &ids, e);
    *id = !s && ids.n == 1 ? ids.id[0] : TOKEN_NONE;
    tok_ids_free(&ids);
    return s;
}

size_t tokenizer_size(const tokenizer *t) {
    return t->n_pieces;
}

uint32_t tokenizer_added(const tokenizer *t, strv text) {
    for (size_t i = 0; i < t->n_added; i++)
        if (strv_eq((strv){t->added[i].text, t->added[i].len}, text)) return t->added[i].id;
    return TOKEN_NONE;
}

uint32_t tokenizer_bos(const tokenizer *t) {
    return t->bos;
}

const char *tokenizer_sha256(const tokenizer *t) {
    return t->sha256;
}
