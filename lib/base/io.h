/* io.h: lines in, bytes out. An input tells the end from a failed read; an output that goes to a file
 * appears under its name whole or not at all, and a full disk or a closed pipe is an error. */
#ifndef ANYJEV_BASE_IO_H
#define ANYJEV_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* The longest line, and the largest file that is read whole: what goes on for longer is no record but an
 * endless device or the wrong file, and is refused before it takes all memory. */
#define INPUT_MAX ((size_t)1 << 30)

/* --- input: the lines of files, one after the other ("-" is standard input; no files: likewise) --- */
typedef struct input input;

/* files (n of them) must outlive the input. Opens the first file; input_close frees. */
status input_open(input **in, char *const *files, size_t n, err *e);
/* *more tells whether there was a line; line (without its "\n") is valid until the next call.
 * A last line without "\n" is a line. A NUL byte is a byte. */
status input_next(input *in, bool *more, strv *line, err *e);
const char *input_file(const input *in); /* name of the line's file; "-" reads "(standard input)" */
size_t input_line(const input *in);      /* number of the line, from 1 in each file */
size_t input_bytes(const input *in);     /* bytes handed out so far, all files */
void input_close(input *in);

/* A whole file ("-" is standard input) appended to out. Directories are refused. */
status file_read(const char *path, buf *out, err *e);
/* A whole file, or one compressed with zstd (told by its magic number). */
status file_read_zst(const char *path, buf *out, err *e);
/* Writes beside path, syncs, renames. */
status file_write(const char *path, const void *bytes, size_t n, err *e);

/* --- output --- */
typedef struct output output;

/* path NULL or "-": standard output (the descriptor 1). Otherwise a file that appears under its name
 * at output_close (written beside it, fsync, rename). `each` hands every record on at once. */
status output_open(output **out, const char *path, bool each, err *e);
/* A failure is remembered; every later call returns it again. */
status output_put(output *out, const void *bytes, size_t n, err *e);
/* The buffer's bytes and a "\n". */
status output_line(output *out, const buf *b, err *e);
status output_flush(output *out, err *e);
/* Replaces the first n bytes of what was put, once their values are known; only where the output is a file. */
status output_restart(output *out, const void *bytes, size_t n, err *e);
/* Makes the output complete (or fails) and frees. */
status output_close(output *out, err *e);
/* Gives the output up: a file does not appear. Frees. */
void output_abort(output *out);
/* Both in one: closes when s is ST_OK or ST_PARTIAL, else aborts. Returns the worse of s and the closing. */
status output_end(output *out, status s, err *e);

#endif
