/* rope.h: the frequencies of rotary position embeddings (Su et al. 2021) and their scalings. */
#ifndef ANYJEV_MODEL_ROPE_H
#define ANYJEV_MODEL_ROPE_H

#include "model/config.h"

/* inv_freq[head_dim / 2]; *scale multiplies cosines and sines (1 but for yarn). factors (head_dim / 2, from a
 * GGUF's rope_freqs.weight) divides the frequencies, or is NULL. */
void rope_frequencies(const model_config *c, const float *factors, float *inv_freq, float *scale);

#endif
