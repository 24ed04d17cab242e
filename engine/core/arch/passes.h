/* What stepping with one agent and with several have in common: flags as bits and lists, and
 * the kernel's step around worlds that only start. Compiled once per instruction-set level. */
#ifndef HEADRACE_PASSES_H
#define HEADRACE_PASSES_H

#include <stdbool.h>
#include <string.h>

#include "vec.h"

#define HR_PASTE2(a, b) a##_##b
#define HR_PASTE(a, b)  HR_PASTE2(a, b)
#ifdef HR_ARCH
#define HR_SYM(name) HR_PASTE(name, HR_ARCH)
#else
#define HR_SYM(name) HR_PASTE(name, base)
#endif

/* Pending worlds whose State is at most this many bytes are stepped with their neighbours (and
 * put back afterwards); around larger ones the range is cut. */
#define STASH_STATE 64

#define SPAN_MAX    4096 /* worlds in the longest list */
#define STRETCH_MAX (SPAN_MAX / 8)

/* Worlds, ascending. */
typedef struct list {
    int32_t count;
    int32_t at[SPAN_MAX + 4]; /* list_bits() writes beyond the last */
} list;

/* A part of a list. */
typedef struct slice {
    const int32_t *at;
    int32_t count;
} slice;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* First block boundary after lo, or hi. */
static inline int64_t block_end(int64_t lo, int64_t hi) {
    return least((lo / HR_BLOCK + 1) * HR_BLOCK, hi);
}

static inline bool any_set(const uint8_t *flags, int64_t n) {
    uint8_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= flags[i];
    return any != 0;
}

/* First index from i on with flags[index] != 0; n when there is none. */
static inline int64_t next_set(const uint8_t *flags, int64_t i, int64_t n) {
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, flags + i, 8);
        if (word != 0) break;
    }
    while (i < n && flags[i] == 0) i++;
    return i;
}

/* One bit per flag, bit i for the lowest bit of flags[i]; n is at most 64. */
static inline uint64_t bits_of(const uint8_t *flags, int64_t n) {
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, flags + i, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        word &= 0x0101010101010101u;
        bits |= word * 0x0102040810204080u >> 56 << i; /* gathers the eight low bits */
    }
    for (; i < n; i++) bits |= (uint64_t)(flags[i] & 1) << i;
    return bits;
}

/* Takes the lowest bit off: its index. */
static inline int64_t take_bit(uint64_t *bits) {
    const int64_t index = __builtin_ctzll(*bits);
    *bits &= *bits - 1;
    return index;
}

/* Writes base + i for each bit i, and up to three entries more: four at a time, since how many
 * there are is not to be foreseen. Returns how many there are. */
static inline int32_t list_bits(int32_t *at, int64_t base, uint64_t bits) {
    const int32_t count = __builtin_popcountll(bits);
    for (int32_t k = 0; k < count; k += 4)
        for (int32_t j = 0; j < 4; j++, bits &= bits - 1)
            at[k + j] = (int32_t)base + __builtin_ctzll(bits | (uint64_t)1 << 63);
    return count;
}

/* Adds the worlds of [lo, hi), at most SPAN_MAX, whose flag is set. */
static inline void append_set(list *to, const uint8_t *flags, int64_t lo, int64_t hi) {
    for (; lo < hi; lo += 64)
        to->count += list_bits(to->at + to->count, lo, bits_of(flags + lo, least(64, hi - lo)));
}

/* Copies whole words, which is what States and observations mostly are made of. */
static inline void copy_words(void *to, const void *from, size_t size) {
    size_t at = 0;
    for (; at + 16 <= size; at += 16) memcpy((char *)to + at, (const char *)from + at, 16);
    for (; at + 4 <= size; at += 4) memcpy((char *)to + at, (const char *)from + at, 4);
    for (; at < size; at++) ((char *)to)[at] = ((const char *)from)[at];
}

static inline char *row_of(void *rows, int64_t row, int64_t size) {
    return (char *)rows + row * size;
}

/* Steps the worlds of [lo, hi) around those that have just `started`. */
static inline void step_around(hr_vec *vec, int64_t lo, int64_t hi, slice started) {
    for (int32_t k = 0; k < started.count; k++) {
        if (lo < started.at[k]) vec->env->step(&vec->batch, lo, started.at[k]);
        lo = started.at[k] + 1;
    }
    if (lo < hi) vec->env->step(&vec->batch, lo, hi);
}

/* Lets those that have just started take part in the step of their neighbours, and puts them
 * back to their start. */
static inline void step_over(hr_vec *vec, int64_t lo, int64_t hi, slice started) {
    const int64_t size = vec->env->state_size;
    hr_rng rng[STRETCH_MAX];
    unsigned char state[STRETCH_MAX * STASH_STATE];
    for (int32_t k = 0; k < started.count; k++) {
        const int64_t w = started.at[k];
        rng[k] = vec->batch.rng[w];
        copy_words(state + k * size, row_of(vec->batch.state, w, size), (size_t)size);
    }
    vec->env->step(&vec->batch, lo, hi);
    for (int32_t k = 0; k < started.count; k++) {
        const int64_t w = started.at[k];
        vec->batch.rng[w] = rng[k];
        copy_words(row_of(vec->batch.state, w, size), state + k * size, (size_t)size);
    }
}

/* The kernel's step of the worlds of [lo, hi), at most STRETCH_MAX, without those of them that
 * have just `started`. */
static inline void step_others(hr_vec *vec, int64_t lo, int64_t hi, slice started) {
    if (started.count > 0 && (vec->env->failure != NULL || vec->env->state_size > STASH_STATE)) {
        step_around(vec, lo, hi, started);
    } else {
        step_over(vec, lo, hi, started);
    }
}

static inline void write_metrics(hr_vec *vec, int64_t w) {
    const hr_env *env = vec->env;
    if (env->metrics != NULL) {
        env->metrics(&vec->batch, w, vec->last_metrics + w * env->metrics_size);
    }
}

/* A new episode's statistics for world w, and for its rows. */
static inline void clear_episode(hr_vec *vec, int64_t w) {
    const int64_t agents = vec->env->agents;
    vec->elapsed[w] = 0;
    for (int64_t row = w * agents; row < (w + 1) * agents; row++) {
        vec->episode_return[row] = 0.0f;
        vec->episode_length[row] = 0;
        vec->carried[row] = 0.0f;
        vec->ended[row] = 0;
        vec->present[row] = 1;
    }
}

/* Presence at the next step, by the author's word; ended rows stay away. */
static inline void refresh_present(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    const int64_t first = lo * env->agents, rows = (hi - lo) * env->agents;
    uint8_t *restrict present = vec->present + first;
    const uint8_t *restrict ended = vec->ended + first;
    if (env->present != NULL) {
        env->present(&vec->batch, lo, hi, vec->present);
    } else {
        memset(present, 1, (size_t)rows);
    }
    for (int64_t i = 0; i < rows; i++) present[i] = present[i] != 0 && ended[i] == 0;
}

static inline void refresh_mask(hr_vec *vec, int64_t lo, int64_t hi) {
    if (vec->env->mask != NULL) vec->env->mask(&vec->batch, lo, hi, vec->mask);
}

#endif /* HEADRACE_PASSES_H */
