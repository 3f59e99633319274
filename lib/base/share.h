/* share.h: where the data files of the suite lie (questions.json, readout.json, policy.json). */
#ifndef ANYJEV_BASE_SHARE_H
#define ANYJEV_BASE_SHARE_H

#include "base/err.h"

/* The path of a data file: in $ANYJEV_SHARE when that is set; else beside the running program, in ../share/anyjev-pipe
 * (from PREFIX/libexec/anyjev-pipe: ../../share/anyjev-pipe) where it is installed, or in pipelines/ of the source tree
 * that it was built in (looked for in the folders above the program). The caller frees *path. */
status share_path(const char *file, char **path, err *e);

#endif
