#include "vec.h"

#include "arch/passes.h"

hr_rng hr_rng_from_seed(uint64_t seed) {
    /* SplitMix64 (Steele, Lea and Flood 2014): one step of its counter and its finaliser,
     * variant 13 of Stafford's mixers. Each part is a bijection, so no two seeds share a key. */
    uint64_t key = seed + 0x9E3779B97F4A7C15u;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
    return (hr_rng){.key = key ^ (key >> 31), .counter = 0};
}

/* What a world that was reset reports of its last step: nothing. */
static void clear_outcome(hr_vec *vec, int64_t w) {
    const int64_t agents = vec->env->agents;
    vec->world_over[w] = 0;
    for (int64_t row = w * agents; row < (w + 1) * agents; row++) {
        vec->batch.rewards[row] = 0.0f;
        vec->batch.terminated[row] = 0;
        vec->batch.truncated[row] = 0;
        vec->acted[row] = 0;
    }
}

/* Resets the worlds of [lo, hi), at most a block. */
static void reset_range(hr_vec *vec, int64_t lo, int64_t hi) {
    int32_t worlds[HR_BLOCK];
    for (int64_t w = lo; w < hi; w++) worlds[w - lo] = (int32_t)w;
    vec->env->reset(&vec->batch, worlds, hi - lo);
    for (int64_t w = lo; w < hi; w++) {
        clear_episode(vec, w);
        clear_outcome(vec, w);
        vec->pending[w] = 0;
    }
    refresh_present(vec, lo, hi);
    vec->env->observe(&vec->batch, lo, hi);
    refresh_mask(vec, lo, hi);
}

void hr_vec_reset(hr_vec *vec, int64_t lo, int64_t hi, const uint8_t *which) {
    const int64_t n = hi - lo;
    for (int64_t i = 0, end; i < n; i = end) {
        if (which != NULL) i = next_set(which, i, n);
        if (i == n) return;
        end = block_end(lo + i, hi) - lo;
        for (int64_t k = i; which != NULL && k < end; k++)
            if (which[k] == 0) end = k;
        reset_range(vec, lo + i, lo + end);
    }
}
