/* ops_avx512.c: the table of the AVX512 variants. */
#include "kernel/internal.h"

#if defined(__x86_64__)
#include "kernel/vec_x86.h"

const kernel_ops kernel_ops_avx512 = {
    .isa = KERNEL_AVX512,
    .mul_panel = vec_mul_panel,
    .transpose = vec_transpose,
    .widen = vec_widen,
    .mul_int8 = int8_mul_avx512,
    .quant_row = int8_quant_avx512,
    .rmsnorm = vec_rmsnorm,
    .swiglu = vec_swiglu,
    .rope_half = vec_rope_half,
    .attn_block = vec_attn_block,
    .attn_merge = vec_attn_merge,
};
#endif
