/* The functions of headrace/math.h over arrays, in a loop that vectorises and in one that may
 * not: the tests compare both with each other and with exact values. */
#include <headrace.h>

#define EXPORT __attribute__((visibility("default")))
#define PROBE(name)                                                                                \
    EXPORT void name##_vector(const float *restrict x, float *restrict y, int64_t count) {         \
        for (int64_t k = 0; k < count; k++) y[k] = hr_##name(x[k]);                                \
    }                                                                                              \
    EXPORT void name##_scalar(const float *x, float *y, int64_t count) {                           \
        for (int64_t k = 0; k < count; k++) {                                                      \
            y[k] = hr_##name(x[k]);                                                                \
            __asm__ volatile("" ::: "memory");                                                     \
        }                                                                                          \
    }

PROBE(sin)
PROBE(cos)
PROBE(tan)
PROBE(exp)
PROBE(log)
PROBE(tanh)
PROBE(sqrt)
PROBE(fabs)
PROBE(floor)
PROBE(wrap_angle)

EXPORT void atan2_vector(const float *restrict y, const float *restrict x, float *restrict out,
                         int64_t count) {
    for (int64_t k = 0; k < count; k++) out[k] = hr_atan2(y[k], x[k]);
}

EXPORT void clamp_vector(const float *restrict x, float low, float high, float *restrict out,
                         int64_t count) {
    for (int64_t k = 0; k < count; k++) out[k] = hr_clamp(x[k], low, high);
}

EXPORT void least_and_most(const float *x, const float *y, float *out) {
    out[0] = hr_min(*x, *y);
    out[1] = hr_max(*x, *y);
}
