/* status.h: what a function or a program says of its end. The only place where the numbers stand;
 * every man page repeats them in words, and tests/options.bats compares. */
#ifndef ANYJEV_BASE_STATUS_H
#define ANYJEV_BASE_STATUS_H

typedef enum status {
    ST_OK = 0,         /* done */
    ST_PARTIAL = 1,    /* done, but records failed under --keep-going */
    ST_USAGE = 2,      /* the command line is wrong */
    ST_INPUT = 3,      /* bad input */
    ST_REFUSED = 4,    /* wrong model, level not reached, policy */
    ST_INCOMPLETE = 5, /* something remote did not answer, or memory ran out: the result is not clean */
    ST_WRITE = 6       /* cannot write */
} status;

#endif
