/* vec.h: one name per vector operation for the instruction sets, so that vec_ops.h is written once. VL lanes
 * of float in a vec; TILE_ROWS by TILE_VECS accumulators fill the registers. */
#ifndef ANYJEV_KERNEL_VEC_H
#define ANYJEV_KERNEL_VEC_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#if defined(__x86_64__)
#include <immintrin.h>

/* x[i] + x[i + 8], of that x[i] + x[i + 4] and so on: the fold of ref.c. */
INLINE float v_fold8(__m256 a) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
INLINE float v_top8(__m256 a) {
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
#endif

#if defined(__AVX512F__)
enum { VL = 16, TILE_ROWS = 14, TILE_VECS = 2 };
typedef __m512 vec;
typedef __mmask16 vmask;
INLINE vec v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vec a) { _mm512_storeu_ps(p, a); }
INLINE vec v_all(float a) { return _mm512_set1_ps(a); }
INLINE vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec v_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
INLINE vec v_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
INLINE vec v_div(vec a, vec b) { return _mm512_div_ps(a, b); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vec v_max(vec a, vec b) { return _mm512_max_ps(a, b); } /* b where a is NaN */
INLINE vec v_min(vec a, vec b) { return _mm512_min_ps(a, b); }
INLINE vec v_neg(vec a) { return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN))); }
INLINE vmask v_greater(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
INLINE vmask v_isnan(vec a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
INLINE vec v_select(vmask m, vec yes, vec no) { return _mm512_mask_blend_ps(m, no, yes); }
INLINE vmask v_bits(uint64_t bits) { return (vmask)bits; } /* lane i from bit i */
/* The float whose bits are (bits(t) << 23) + 0x3f800000. */
INLINE vec v_exponent(vec t) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(t), 23), _mm512_set1_epi32(0x3f800000)));
}
INLINE float v_fold16(const vec *s) {
    return v_fold8(_mm256_add_ps(_mm512_castps512_ps256(s[0]), _mm512_extractf32x8_ps(s[0], 1)));
}
INLINE float v_top(vec a) { return v_top8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1))); }
#elif defined(__AVX2__)
enum { VL = 8, TILE_ROWS = 6, TILE_VECS = 2 };
typedef __m256 vec;
typedef __m256 vmask;
INLINE vec v_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void v_store(float *p, vec a) { _mm256_storeu_ps(p, a); }
INLINE vec v_all(float a) { return _mm256_set1_ps(a); }
INLINE vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
INLINE vec v_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
INLINE vec v_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
INLINE vec v_div(vec a, vec b) { return _mm256_div_ps(a, b); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vec v_max(vec a, vec b) { return _mm256_max_ps(a, b); }
INLINE vec v_min(vec a, vec b) { return _mm256_min_ps(a, b); }
INLINE vec v_neg(vec a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
INLINE vmask v_greater(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
INLINE vmask v_isnan(vec a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
INLINE vec v_select(vmask m, vec yes, vec no) { return _mm256_blendv_ps(no, yes, m); }
INLINE vmask v_bits(uint64_t bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i b = _mm256_and_si256(_mm256_set1_epi32((int)(bits & 255)), lane);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(b, lane));
}
INLINE vec v_exponent(vec t) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(t), 23), _mm256_set1_epi32(0x3f800000)));
}
INLINE float v_fold16(const vec *s) { return v_fold8(_mm256_add_ps(s[0], s[1])); }
INLINE float v_top(vec a) { return v_top8(a); }
#elif defined(__aarch64__)
#include <arm_neon.h>
enum { VL = 4, TILE_ROWS = 6, TILE_VECS = 4 };
typedef float32x4_t vec;
typedef uint32x4_t vmask;
INLINE vec v_load(const float *p) { return vld1q_f32(p); }
INLINE void v_store(float *p, vec a) { vst1q_f32(p, a); }
INLINE vec v_all(float a) { return vdupq_n_f32(a); }
INLINE vec v_add(vec a, vec b) { return vaddq_f32(a, b); }
INLINE vec v_sub(vec a, vec b) { return vsubq_f32(a, b); }
INLINE vec v_mul(vec a, vec b) { return vmulq_f32(a, b); }
INLINE vec v_div(vec a, vec b) { return vdivq_f32(a, b); }
INLINE vec v_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
INLINE vec v_max(vec a, vec b) { return vmaxnmq_f32(a, b); }
INLINE vec v_min(vec a, vec b) { return vminnmq_f32(a, b); }
INLINE vec v_neg(vec a) { return vnegq_f32(a); }
INLINE vmask v_greater(vec a, vec b) { return vcgtq_f32(a, b); }
INLINE vmask v_isnan(vec a) { return vmvnq_u32(vceqq_f32(a, a)); }
INLINE vec v_select(vmask m, vec yes, vec no) { return vbslq_f32(m, yes, no); }
INLINE vmask v_bits(uint64_t bits) {
    static const uint32_t lanes[4] = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32((uint32_t)(bits & 15)), vld1q_u32(lanes));
}
INLINE vec v_exponent(vec t) {
    return vreinterpretq_f32_u32(vaddq_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23), vdupq_n_u32(0x3f800000)));
}
/* x[i] + x[i + 8], of that x[i] + x[i + 4] and so on: the fold of ref.c. */
INLINE float v_fold16(const vec *s) {
    float32x4_t a = vaddq_f32(vaddq_f32(s[0], s[2]), vaddq_f32(s[1], s[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
INLINE float v_top(vec a) { return vmaxnmvq_f32(a); }
#endif

#endif
