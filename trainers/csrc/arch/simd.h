/* Vector lanes for one instruction set: types, selections, elementary functions.
 *
 * GNU vector extensions carry the arithmetic; the few operations that they lack (min, max,
 * square root) have one line per instruction set. All functions are accurate to about 1e-7
 * relative and pass NaN through. tanh has a file of its own.
 */
#ifndef HEADRACE_SIMD_H
#define HEADRACE_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <math.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE          static inline __attribute__((always_inline))
#define HR_PASTE2(a, b) a##_##b
#define HR_PASTE(a, b)  HR_PASTE2(a, b)
#define HR_SYM(name)    HR_PASTE(name, HR_ARCH)

typedef float vf __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(LANES * 4), may_alias));
typedef uint32_t vu __attribute__((vector_size(LANES * 4), may_alias));
typedef float vf_any __attribute__((vector_size(LANES * 4), may_alias, aligned(4)));
typedef uint8_t vb __attribute__((vector_size(LANES), may_alias, aligned(1)));

/* x - 0 is x for every x, so that only the broadcast remains (x + 0 would not be: -0). */
INLINE vf splat(float x) { return x - (vf){}; }
INLINE vi splat_i(int32_t x) { return (vi){} + x; }
INLINE vu splat_u(uint32_t x) { return (vu){} + x; }
INLINE vf load(const float *p) { return *(const vf *)p; }
INLINE void store(float *p, vf x) { *(vf *)p = x; }
INLINE vf load_any(const float *p) { return *(const vf_any *)p; }
INLINE void store_any(float *p, vf x) { *(vf_any *)p = x; }
/* mask lanes are 0 or -1, as comparisons give them */
INLINE vf pick(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
INLINE vi pick_i(vi mask, vi yes, vi no) { return (mask & yes) | (~mask & no); }

/* min and max give b where either is NaN. */
#if defined(__AVX512F__)
INLINE vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf vsqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
#elif defined(__AVX2__)
INLINE vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf vsqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
#elif defined(__x86_64__)
INLINE vf vmin(vf a, vf b) { return (vf)_mm_min_ps((__m128)a, (__m128)b); }
INLINE vf vmax(vf a, vf b) { return (vf)_mm_max_ps((__m128)a, (__m128)b); }
INLINE vf vsqrt(vf a) { return (vf)_mm_sqrt_ps((__m128)a); }
#else
INLINE vf vmin(vf a, vf b) { return pick(a < b, a, b); }
INLINE vf vmax(vf a, vf b) { return pick(a > b, a, b); }
INLINE vf vsqrt(vf a) {
    for (int k = 0; k < LANES; k++) a[k] = sqrtf(a[k]);
    return a;
}
#endif

/* Sum of all lanes, in one fixed order: neighbours first. */
INLINE float vsum(vf x) {
#if LANES == 16
    x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#elif LANES == 8
    x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
#else
    x += __builtin_shufflevector(x, x, 1, 0, 3, 2);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1);
#endif
    return x[0];
}

/* e^x; flushes to about 1e-38 below -87, infinite above 88.7 */
INLINE vf vexp(vf x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vf y = vmax(splat(-87.0f), vmin(splat(88.8f), x));
    vf n = (y * 1.44269504088896341f + magic) - magic;
    vf r = y - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    vi k = __builtin_convertvector(n, vi);
    vi low = k >> 1; /* two factors, so that 2^128 is no overflow of the exponent */
    vf a = (vf)((low + 127) << 23), b = (vf)((k - low + 127) << 23);
    return p * a * b;
}

/* Natural logarithm of positive normal numbers. */
INLINE vf vlog(vf x) {
    vi bits = (vi)x;
    vi e = ((bits - 0x3f3504f3) >> 23); /* exponent that leaves the mantissa in [0.707, 1.414) */
    vf m = (vf)(bits - (e << 23)) - 1.0f;
    vf n = __builtin_convertvector(e, vf);
    vf z = m * m;
    vf p = splat(7.0376836292e-2f);
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z;
    p = p + n * -2.12194440e-4f;
    p = p - 0.5f * z;
    vf y = m + p + n * 0.693359375f;
    return pick(x == x, y, x);
}

/* sine and cosine of 2 pi u, u in [0, 1) */
INLINE void vsincos_turn(vf u, vf *sine, vf *cosine) {
    const float magic = 12582912.0f;
    vf quarter = (u * 4.0f + magic) - magic;
    vi k = __builtin_convertvector(quarter, vi);
    vf a = (u - quarter * 0.25f) * 6.28318530717958648f; /* [-pi/4, pi/4] */
    vf z = a * a;
    vf s = splat(-1.9515295891e-4f), c = splat(2.443315711809948e-5f);
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * a + a;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - 0.5f * z + 1.0f;
    vi swap = -(k & 1);
    vi flip_s = (k & 2) << 30, flip_c = ((k + 1) & 2) << 30;
    *sine = (vf)((vi)pick(swap, c, s) ^ flip_s);
    *cosine = (vf)((vi)pick(swap, s, c) ^ flip_c);
}

INLINE vu rotate(vu x, int n) { return (x << n) | (x >> (32 - n)); }

/* Threefry-2x32 with 20 rounds (Salmon et al. 2011): the generator of headrace/random.h,
 * one counter per lane. */
INLINE void vthreefry(vu k0, vu k1, vu *x0, vu *x1) {
    static const int turn[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const vu key[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
    vu a = *x0 + key[0], b = *x1 + key[1];
#pragma GCC unroll 5
    for (int group = 0; group < 5; group++) {
#pragma GCC unroll 4
        for (int round = 0; round < 4; round++) {
            a += b;
            b = rotate(b, turn[(group & 1) * 4 + round]) ^ a;
        }
        a += key[(group + 1) % 3];
        b += key[(group + 2) % 3] + (uint32_t)(group + 1);
    }
    *x0 = a;
    *x1 = b;
}

#endif /* HEADRACE_SIMD_H */
