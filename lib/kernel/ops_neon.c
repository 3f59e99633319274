/* ops_neon.c: the table of the NEON variants. */
#include "kernel/internal.h"

#if defined(__aarch64__)
#include "kernel/vec_ops.h"

static void vec_transpose(const float *src, size_t src_stride, size_t k, float *dst) {
    size_t i = 0;
    for (; k - i >= 4; i += 4)
        for (size_t n = 0; n < PANEL; n += 4) {
            const float *s = src + n * src_stride + i;
            float32x4_t a = vld1q_f32(s), b = vld1q_f32(s + src_stride), c = vld1q_f32(s + 2 * src_stride);
            float32x4_t d = vld1q_f32(s + 3 * src_stride);
            float32x4x2_t ab = vtrnq_f32(a, b), cd = vtrnq_f32(c, d);
            float *t = dst + i * PANEL + n;
            vst1q_f32(t, vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0])));
            vst1q_f32(t + PANEL, vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1])));
            vst1q_f32(t + 2 * PANEL, vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0])));
            vst1q_f32(t + 3 * PANEL, vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1])));
        }
    for (; i < k; i++)
        for (size_t n = 0; n < PANEL; n++) dst[i * PANEL + n] = src[n * src_stride + i];
}

static void vec_widen(kmat_type t, const void *src, size_t n, float *dst) {
    const unsigned char *p = src;
    size_t i = 0;
    if (t == KMAT_BF16)
        for (; n - i >= 4; i += 4) {
            uint32x4_t u = vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + i * 2)));
            vst1q_f32(dst + i, vreinterpretq_f32_u32(vshlq_n_u32(u, 16)));
        }
    else if (t == KMAT_F16)
        for (; n - i >= 4; i += 4) vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + i * 2))));
    kmat_widen(t, p + i * 2, n - i, dst + i);
}

const kernel_ops kernel_ops_neon = {
    .isa = KERNEL_NEON,
    .mul_panel = vec_mul_panel,
    .transpose = vec_transpose,
    .widen = vec_widen,
    .mul_int8 = int8_mul_neon,
    .quant_row = int8_quant_neon,
    .rmsnorm = vec_rmsnorm,
    .swiglu = vec_swiglu,
    .rope_half = vec_rope_half,
    .attn_block = vec_attn_block,
    .attn_merge = vec_attn_merge,
};
#endif
