/* locate.h: what a --model argument means. */
#ifndef ANYJEV_WEIGHTS_LOCATE_H
#define ANYJEV_WEIGHTS_LOCATE_H

#include "base/err.h"

/* A folder or file that exists is meant as it is; otherwise a name like "Qwen/Qwen3-0.6B" is looked up in the local
 * Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub), at the revision of refs/main.
 * Nothing is fetched. *path is the caller's to free. */
status model_locate(const char *name, char **path, err *e);

#endif
