/* Random numbers from a counter: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011).
 *
 * A stream is a key; its n-th draw is a pure function of key and n. Every function below
 * takes one draw (the counter grows by one) unless it says otherwise. No branches, so a loop
 * over worlds vectorises.
 */
#ifndef HEADRACE_RANDOM_H
#define HEADRACE_RANDOM_H

#include "abi.h"
#include "math.h"

HR__INLINE uint32_t hr__rotate(uint32_t hr__x, int32_t hr__by) {
    return (hr__x << hr__by) | (hr__x >> (32 - hr__by));
}

/* Four rounds, then a key injection. */
#define HR__THREEFRY_ROUNDS(hr__r0, hr__r1, hr__r2, hr__r3, hr__ka, hr__kb, hr__number)            \
    hr__a += hr__b, hr__b = hr__rotate(hr__b, hr__r0) ^ hr__a;                                     \
    hr__a += hr__b, hr__b = hr__rotate(hr__b, hr__r1) ^ hr__a;                                     \
    hr__a += hr__b, hr__b = hr__rotate(hr__b, hr__r2) ^ hr__a;                                     \
    hr__a += hr__b, hr__b = hr__rotate(hr__b, hr__r3) ^ hr__a;                                     \
    hr__a += (hr__ka), hr__b += (hr__kb) + (hr__number)

/* The function itself: low words first, in and out. */
HR__INLINE uint64_t hr__threefry(uint64_t hr__key, uint64_t hr__counter) {
    uint32_t hr__k0 = (uint32_t)hr__key, hr__k1 = (uint32_t)(hr__key >> 32);
    uint32_t hr__k2 = 0x1bd11bdau ^ hr__k0 ^ hr__k1;
    uint32_t hr__a = (uint32_t)hr__counter + hr__k0;
    uint32_t hr__b = (uint32_t)(hr__counter >> 32) + hr__k1;
    HR__THREEFRY_ROUNDS(13, 15, 26, 6, hr__k1, hr__k2, 1u);
    HR__THREEFRY_ROUNDS(17, 29, 16, 24, hr__k2, hr__k0, 2u);
    HR__THREEFRY_ROUNDS(13, 15, 26, 6, hr__k0, hr__k1, 3u);
    HR__THREEFRY_ROUNDS(17, 29, 16, 24, hr__k1, hr__k2, 4u);
    HR__THREEFRY_ROUNDS(13, 15, 26, 6, hr__k2, hr__k0, 5u);
    return (uint64_t)hr__b << 32 | hr__a;
}

/* 64 random bits. */
HR__INLINE uint64_t hr_bits(hr_rng *hr__rng) {
    return hr__threefry(hr__rng->key, hr__rng->counter++);
}

/* Uniform in [0, 1): a multiple of 2^-24. */
HR__INLINE float hr_unit(hr_rng *hr__rng) {
    return (float)(int32_t)(hr_bits(hr__rng) >> 40) * 5.9604644775390625e-8f;
}

/* Uniform in [low, high) for finite low < high; rounding may reach high where the interval is
 * narrow against its ends. low when both are equal. */
HR__INLINE float hr_uniform(hr_rng *hr__rng, float hr__low, float hr__high) {
    return hr__low + (hr__high - hr__low) * hr_unit(hr__rng);
}

/* Fills values[0 .. count-1] with uniform numbers in [low, high), two from each draw: half the
 * work of as many hr_uniform. Takes (count + 1) / 2 draws. */
HR__INLINE void hr_uniforms(hr_rng *hr__rng, float *hr__values, int32_t hr__count, float hr__low,
                            float hr__high) {
    HR_UNROLL
    for (int32_t hr__k = 0; hr__k < hr__count; hr__k += 2) {
        uint64_t hr__bits = hr_bits(hr__rng);
        float hr__first = (float)(int32_t)((uint32_t)hr__bits >> 8) * 5.9604644775390625e-8f;
        float hr__second = (float)(int32_t)(hr__bits >> 40) * 5.9604644775390625e-8f;
        hr__values[hr__k] = hr__low + (hr__high - hr__low) * hr__first;
        if (hr__k + 1 < hr__count)
            hr__values[hr__k + 1] = hr__low + (hr__high - hr__low) * hr__second;
    }
}

/* Normal with mean 0 and variance 1 (Box and Muller); at most 6.56 in size. */
HR__INLINE float hr_normal(hr_rng *hr__rng) {
    uint64_t hr__bits = hr_bits(hr__rng);
    float hr__radius = ((float)(int32_t)((uint32_t)hr__bits >> 1) + 1.0f) * 4.656612873077393e-10f;
    float hr__turn = (float)(int32_t)(hr__bits >> 40) * 5.9604644775390625e-8f;
    return hr_sqrt(-2.0f * hr_log(hr__radius)) * hr_cos(2.0f * HR_PI * hr__turn);
}

/* Integer in 0 .. n-1 for n >= 1. Each value's probability is off by less than 2^-64
 * (64-bit multiply and shift, no rejection). */
HR__INLINE int32_t hr_randint(hr_rng *hr__rng, int32_t hr__n) {
    uint64_t hr__bits = hr_bits(hr__rng), hr__range = (uint64_t)(uint32_t)hr__n;
    uint64_t hr__low = ((hr__bits & 0xffffffffu) * hr__range) >> 32;
    return (int32_t)(((hr__bits >> 32) * hr__range + hr__low) >> 32);
}

/* True with the given probability (resolution 2^-24): never at 0 or below, always at 1. */
HR__INLINE bool hr_bernoulli(hr_rng *hr__rng, float hr__probability) {
    return hr_unit(hr__rng) < hr__probability;
}

/* Puts values[0 .. count-1] in a random order (Fisher and Yates), taking count - 1 draws. */
static inline void hr_shuffle(hr_rng *hr__rng, int32_t *hr__values, int32_t hr__count) {
    for (int32_t hr__last = hr__count - 1; hr__last > 0; hr__last--) {
        int32_t hr__pick = hr_randint(hr__rng, hr__last + 1);
        int32_t hr__value = hr__values[hr__last];
        hr__values[hr__last] = hr__values[hr__pick];
        hr__values[hr__pick] = hr__value;
    }
}

#endif /* HEADRACE_RANDOM_H */
