/* Single-precision functions that vectorise: branch-free, no errno, no library call.
 *
 * Each is plain IEEE arithmetic, so a value has the same bits in a vector and in a scalar
 * loop (compile with -ffp-contract=off, as headrace does). An error of n ulp is measured
 * against the exact value; tests/engine/test_math.py holds every bound stated here. NaN in
 * gives NaN out, unless a line says otherwise.
 */
#ifndef HEADRACE_MATH_H
#define HEADRACE_MATH_H

#include "abi.h"

#define HR__INLINE static inline __attribute__((always_inline, unused))

/* Before a loop with a constant count of at most 8: written out, it fits into a loop over worlds.
 */
#if defined(__clang__)
#define HR_UNROLL _Pragma("clang loop unroll_count(8)")
#else
#define HR_UNROLL _Pragma("GCC unroll 8")
#endif

#define HR_PI       3.14159265358979323846f
#define HR_INFINITY __builtin_inff()

/* The bits of a float, and back. */
HR__INLINE uint32_t hr__float_bits(float hr__x) {
    uint32_t hr__bits;
    __builtin_memcpy(&hr__bits, &hr__x, sizeof hr__bits);
    return hr__bits;
}

HR__INLINE float hr__bits_float(uint32_t hr__bits) {
    float hr__x;
    __builtin_memcpy(&hr__x, &hr__bits, sizeof hr__x);
    return hr__x;
}

/* 1.5 * 2^23: added to |x| <= 2^22 it leaves round(x) in the low bits of the sum. */
#define HR__ROUNDER 12582912.0f

/* Absolute value. Exact. */
HR__INLINE float hr_fabs(float hr__x) { return __builtin_fabsf(hr__x); }

/* Square root, NaN below zero. Correctly rounded. */
HR__INLINE float hr_sqrt(float hr__x) { return __builtin_sqrtf(hr__x); }

/* The smaller of two; the second when either is NaN. Exact. */
HR__INLINE float hr_min(float hr__x, float hr__y) { return hr__x < hr__y ? hr__x : hr__y; }

/* The larger of two; the second when either is NaN. Exact. */
HR__INLINE float hr_max(float hr__x, float hr__y) { return hr__x > hr__y ? hr__x : hr__y; }

/* x limited to [low, high], low <= high. Exact. */
HR__INLINE float hr_clamp(float hr__x, float hr__low, float hr__high) {
    float hr__raised = hr__x < hr__low ? hr__low : hr__x;
    return hr__raised > hr__high ? hr__high : hr__raised;
}

/* Largest integer <= x, as a float. Exact for every x. */
HR__INLINE float hr_floor(float hr__x) {
    float hr__small = hr_min(hr_max(hr__x, -8388608.0f), 8388608.0f);
    float hr__cut = (float)(int32_t)hr__small;
    float hr__down = hr__cut - (hr__cut > hr__small ? 1.0f : 0.0f);
    return hr_fabs(hr__x) < 8388608.0f ? hr__down : hr__x; /* larger ones have no fraction */
}

/* x = rest + quadrant * pi/2 (modulo 2 pi), |rest| <= pi/4 and a little more for large x, whose
 * quadrant is found in single precision. */
typedef struct hr__reduced {
    float rest;
    uint32_t quadrant; /* its two low bits count */
} hr__reduced;

HR__INLINE hr__reduced hr__reduce(float hr__x) {
    float hr__shifted = hr__x * 0.636619772367581343f + HR__ROUNDER;
    double hr__turns = (double)(hr__shifted - HR__ROUNDER);
    /* pi/2 in two parts: the first has 33 bits, so its product with `turns` is exact */
    double hr__rest = ((double)hr__x - hr__turns * 1.57079632673412561417e+00) -
                      hr__turns * 6.07710050650619224932e-11;
    hr__reduced hr__result;
    hr__result.rest = hr_clamp((float)hr__rest, -0.9f, 0.9f);
    hr__result.quadrant = hr__float_bits(hr__shifted);
    return hr__result;
}

/* sin and cos of |x| <= 0.8. */
HR__INLINE float hr__sin_core(float hr__x) {
    float hr__z = hr__x * hr__x;
    float hr__p = (-1.9515295891e-4f * hr__z + 8.3321608736e-3f) * hr__z - 1.6666654611e-1f;
    return hr__p * hr__z * hr__x + hr__x;
}

HR__INLINE float hr__cos_core(float hr__x) {
    float hr__z = hr__x * hr__x;
    float hr__p =
        (2.443315711809948e-5f * hr__z - 1.388731625493765e-3f) * hr__z + 4.166664568298827e-2f;
    return hr__p * hr__z * hr__z - 0.5f * hr__z + 1.0f;
}

/* sin or cos by quadrant: 0 sin, 1 cos, 2 -sin, 3 -cos. */
HR__INLINE float hr__sin_quadrant(float hr__rest, uint32_t hr__quadrant) {
    float hr__sin = hr__sin_core(hr__rest), hr__cos = hr__cos_core(hr__rest);
    float hr__value = (hr__quadrant & 1u) != 0u ? hr__cos : hr__sin;
    return hr__bits_float(hr__float_bits(hr__value) ^ ((hr__quadrant & 2u) << 30));
}

/* Sine of x radians. 2 ulp for |x| <= 1e5, 4 ulp for 1e6; beyond, some number in [-1, 1]; NaN
 * for infinities. The sign of a zero is not kept. */
HR__INLINE float hr_sin(float hr__x) {
    hr__reduced hr__part = hr__reduce(hr__x);
    return hr__sin_quadrant(hr__part.rest, hr__part.quadrant);
}

/* Cosine of x radians; range and error as hr_sin. Both of one x cost little more than one. */
HR__INLINE float hr_cos(float hr__x) {
    hr__reduced hr__part = hr__reduce(hr__x);
    return hr__sin_quadrant(hr__part.rest, hr__part.quadrant + 1u);
}

/* Tangent of x radians. 4 ulp for |x| <= 1e5; NaN for infinities. */
HR__INLINE float hr_tan(float hr__x) {
    hr__reduced hr__part = hr__reduce(hr__x);
    return hr__sin_quadrant(hr__part.rest, hr__part.quadrant) /
           hr__sin_quadrant(hr__part.rest, hr__part.quadrant + 1u);
}

/* Angle of the point (x, y) in radians, in [-pi, pi]; 0 for the origin. 4 ulp for finite
 * arguments; a zero's sign is not looked at. */
HR__INLINE float hr_atan2(float hr__y, float hr__x) {
    float hr__ax = hr_fabs(hr__x), hr__ay = hr_fabs(hr__y);
    float hr__long = hr_max(hr__ax, hr__ay), hr__short = hr_min(hr__ax, hr__ay);
    float hr__t = hr__long > 0.0f ? hr__short / hr__long : hr__long;
    float hr__high = (hr__t - 1.0f) / (hr__t + 1.0f);
    float hr__base = hr__t > 0.41421356f ? 0.785398163397448f : 0.0f;
    float hr__u = hr__t > 0.41421356f ? hr__high : hr__t;
    float hr__z = hr__u * hr__u;
    float hr__p =
        ((8.05374449538e-2f * hr__z - 1.38776856032e-1f) * hr__z + 1.99777106478e-1f) * hr__z -
        3.33329491539e-1f;
    float hr__angle = hr__base + (hr__p * hr__z * hr__u + hr__u);
    hr__angle = hr__ay > hr__ax ? 1.57079632679489662f - hr__angle : hr__angle;
    hr__angle = hr__x < 0.0f ? HR_PI - hr__angle : hr__angle;
    return hr__y < 0.0f ? -hr__angle : hr__angle;
}

/* x + 2 pi k for the k that brings it into [-pi, pi]. Off by at most 2.4e-7
 * (one ulp of pi) for |x| <= 1e6; within the interval for every finite x. */
HR__INLINE float hr_wrap_angle(float hr__x) {
    double hr__turns = (double)((hr__x * 0.159154943091895336f + HR__ROUNDER) - HR__ROUNDER);
    double hr__rest = ((double)hr__x - hr__turns * 6.28318530693650245668e+00) -
                      hr__turns * 2.43084020260247689973e-10;
    hr__rest -= hr__rest > 3.14159265358979323846 ? 6.28318530717958647693 : 0.0;
    hr__rest += hr__rest < -3.14159265358979323846 ? 6.28318530717958647693 : 0.0;
    return hr_clamp((float)hr__rest, -HR_PI, HR_PI);
}

/* 2^k for -126 <= k <= 127. */
HR__INLINE float hr__power_of_two(int32_t hr__k) {
    return hr__bits_float((uint32_t)(hr__k + 127) << 23);
}

/* e^x. 2 ulp; infinity above 88.73, subnormal below -87.34, 0 below -103.98. */
HR__INLINE float hr_exp(float hr__x) {
    float hr__limited = hr_clamp(hr__x, -105.0f, 90.0f);
    float hr__shifted = hr__limited * 1.44269504088896341f + HR__ROUNDER;
    float hr__k = hr__shifted - HR__ROUNDER;
    float hr__r = (hr__limited - hr__k * 0.693359375f) + hr__k * 2.12194440e-4f;
    float hr__p = 1.9875691500e-4f;
    hr__p = hr__p * hr__r + 1.3981999507e-3f;
    hr__p = hr__p * hr__r + 8.3334519073e-3f;
    hr__p = hr__p * hr__r + 4.1665795894e-2f;
    hr__p = hr__p * hr__r + 1.6666665459e-1f;
    hr__p = hr__p * hr__r + 5.0000001201e-1f;
    hr__p = hr__p * (hr__r * hr__r) + hr__r + 1.0f;
    /* in two halves, since 2^k alone may be subnormal or infinite; & 1023 keeps NaN defined */
    int32_t hr__n = (int32_t)((hr__float_bits(hr__shifted) + 512u) & 1023u) - 512;
    int32_t hr__half = hr__n / 2;
    return hr__p * hr__power_of_two(hr__half) * hr__power_of_two(hr__n - hr__half);
}

/* Natural logarithm. 2 ulp, subnormals included; -infinity at 0, NaN below. */
HR__INLINE float hr_log(float hr__x) {
    bool hr__tiny = hr__x < 1.17549435e-38f;
    float hr__scaled = hr__tiny ? hr__x * 8388608.0f : hr__x;
    uint32_t hr__bits = hr__float_bits(hr__scaled) - 0x3f3504f3u; /* relative to sqrt(1/2) */
    int32_t hr__exponent = (int32_t)hr__bits >> 23;
    float hr__e = (float)(hr__exponent - (hr__tiny ? 23 : 0));
    float hr__m = hr__bits_float((hr__bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float hr__z = hr__m * hr__m;
    float hr__p = 7.0376836292e-2f;
    hr__p = hr__p * hr__m - 1.1514610310e-1f;
    hr__p = hr__p * hr__m + 1.1676998740e-1f;
    hr__p = hr__p * hr__m - 1.2420140846e-1f;
    hr__p = hr__p * hr__m + 1.4249322787e-1f;
    hr__p = hr__p * hr__m - 1.6668057665e-1f;
    hr__p = hr__p * hr__m + 2.0000714765e-1f;
    hr__p = hr__p * hr__m - 2.4999993993e-1f;
    hr__p = hr__p * hr__m + 3.3333331174e-1f;
    float hr__y = hr__p * hr__m * hr__z - hr__e * 2.12194440e-4f - 0.5f * hr__z;
    float hr__value = hr__m + hr__y + hr__e * 0.693359375f;
    hr__value = hr__x < HR_INFINITY ? hr__value : hr__x; /* infinity, NaN */
    hr__value = hr__x == 0.0f ? -HR_INFINITY : hr__value;
    return hr__x < 0.0f ? __builtin_nanf("") : hr__value;
}

/* Hyperbolic tangent. 2 ulp. */
HR__INLINE float hr_tanh(float hr__x) {
    float hr__size = hr_fabs(hr__x);
    float hr__z = hr__x * hr__x;
    float hr__p = -5.70498872745e-3f;
    hr__p = hr__p * hr__z + 2.06390887954e-2f;
    hr__p = hr__p * hr__z - 5.37397155531e-2f;
    hr__p = hr__p * hr__z + 1.33314422036e-1f;
    hr__p = hr__p * hr__z - 3.33332819422e-1f;
    float hr__near = hr__p * hr__z * hr__x + hr__x;
    float hr__far = 1.0f - 2.0f / (hr_exp(2.0f * hr__size) + 1.0f);
    return hr__size < 0.625f ? hr__near : __builtin_copysignf(hr__far, hr__x);
}

#endif /* HEADRACE_MATH_H */
