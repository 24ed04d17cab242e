/* The functions of headrace/random.h over one stream. */
#include <headrace.h>

#define EXPORT __attribute__((visibility("default")))
#define PROBE(type, name, call)                                                                    \
    EXPORT void name(hr_rng *rng, type *values, int64_t count) {                                   \
        for (int64_t k = 0; k < count; k++) values[k] = call;                                      \
    }

PROBE(uint64_t, bits, hr_bits(rng))
PROBE(float, unit, hr_unit(rng))
PROBE(float, uniform, hr_uniform(rng, -3.0f, 5.0f))
PROBE(float, normal, hr_normal(rng))
PROBE(int32_t, die, hr_randint(rng, 6))
PROBE(int32_t, large, hr_randint(rng, 2147483647))
PROBE(int32_t, one, hr_randint(rng, 1))
PROBE(bool, never, hr_bernoulli(rng, 0.0f))
PROBE(bool, seldom, hr_bernoulli(rng, 0.125f))
PROBE(bool, always, hr_bernoulli(rng, 1.0f))

EXPORT void uniforms(hr_rng *rng, float *values, int32_t count) {
    hr_uniforms(rng, values, count, -3.0f, 5.0f);
}

EXPORT void shuffle(hr_rng *rng, int32_t *values, int32_t count) { hr_shuffle(rng, values, count); }
