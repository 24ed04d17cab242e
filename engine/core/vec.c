#include "vec.h"

#include <string.h>

/* Pending worlds whose State is at most this many bytes are stepped with their block (and
 * put back afterwards); around larger ones the block is cut. */
#define STASH_STATE 64

/* What the pending worlds of a block are to look like after the step pass. */
typedef struct stash {
    hr_rng rng[HR_BLOCK];
    unsigned char state[HR_BLOCK * STASH_STATE];
} stash;

hr_rng hr_rng_from_seed(uint64_t seed) {
    /* SplitMix64 (Steele, Lea and Flood 2014): one step of its counter and its finaliser,
     * variant 13 of Stafford's mixers. Each part is a bijection, so no two seeds share a key. */
    uint64_t key = seed + 0x9E3779B97F4A7C15u;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
    return (hr_rng){.key = key ^ (key >> 31), .counter = 0};
}

/* ---- small passes ------------------------------------------------------------------- */

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

/* First index from i on with flags[index] == 0; n when there is none. */
static inline int64_t next_clear(const uint8_t *flags, int64_t i, int64_t n) {
    while (i < n && flags[i] != 0) i++;
    return i;
}

/* One bit per flag, bit i for flags[i]; n is at most 64, each flag 0 or 1. */
static inline uint64_t bits_of(const uint8_t *flags, int64_t n) {
    uint64_t bits = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, flags + i, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        bits |= word * 0x0102040810204080u >> 56 << i; /* gathers the eight low bits */
    }
    for (; i < n; i++) bits |= (uint64_t)flags[i] << i;
    return bits;
}

/* Takes the lowest bit off: its index. */
static inline int64_t take_bit(uint64_t *bits) {
    const int64_t index = __builtin_ctzll(*bits);
    *bits &= *bits - 1;
    return index;
}

/* Copies 4 bytes at a time, as the author's code writes, so that a copy right after a write
 * finds it in the store buffer. */
static inline void copy_words(void *to, const void *from, size_t size) {
    for (size_t at = 0; at + 4 <= size; at += 4)
        memcpy((char *)to + at, (const char *)from + at, 4);
    for (size_t at = size - size % 4; at < size; at++) {
        ((char *)to)[at] = ((const char *)from)[at];
    }
}

static inline char *row_of(void *rows, int64_t row, int64_t size) {
    return (char *)rows + row * size;
}

/* Author's observe of worlds [lo, hi) into another array of rows. */
static void observe_into(const hr_vec *vec, void *obs, int64_t lo, int64_t hi) {
    hr_batch elsewhere = vec->batch;
    elsewhere.obs = obs;
    vec->env->observe(&elsewhere, lo, hi);
}

/* One agent, always there: presence and ends are those of the world. */
static inline bool is_plain(const hr_env *env) { return env->agents == 1 && env->present == NULL; }

/* ---- the kernel's step -------------------------------------------------------------- */

static void step_around_pending(hr_vec *vec, int64_t lo, int64_t hi) {
    const uint8_t *pending = vec->pending + lo;
    const int64_t n = hi - lo;
    for (int64_t i = next_clear(pending, 0, n); i < n; i = next_clear(pending, i, n)) {
        const int64_t end = next_set(pending, i, n);
        vec->env->step(&vec->batch, lo + i, lo + end);
        i = end;
    }
}

/* Pending worlds, which have just been reset, take part in the step of their block and are
 * put back to their start. */
static void step_over_pending(hr_vec *vec, int64_t lo, int64_t hi) {
    const size_t size = (size_t)vec->env->state_size;
    const uint64_t pending = bits_of(vec->pending + lo, hi - lo);
    char *state = row_of(vec->batch.state, lo, vec->env->state_size);
    hr_rng *rng = vec->batch.rng + lo;
    stash kept;
    for (uint64_t bits = pending; bits != 0;) {
        const int64_t i = take_bit(&bits);
        kept.rng[i] = rng[i];
        copy_words(kept.state + (size_t)i * size, state + (size_t)i * size, size);
    }
    vec->env->step(&vec->batch, lo, hi);
    for (uint64_t bits = pending; bits != 0;) {
        const int64_t i = take_bit(&bits);
        rng[i] = kept.rng[i];
        copy_words(state + (size_t)i * size, kept.state + (size_t)i * size, size);
    }
}

/* Steps the worlds of a block that play and resets the pending ones (NextStep). */
static void step_and_reset_pending(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    env->reset(&vec->batch, lo, hi, vec->pending + lo);
    if (env->failure == NULL && env->state_size <= STASH_STATE) {
        step_over_pending(vec, lo, hi);
    } else {
        step_around_pending(vec, lo, hi);
    }
}

/* A new episode's statistics for world w, and for its rows. */
static void clear_episode(hr_vec *vec, int64_t w) {
    const int64_t agents = vec->env->agents;
    vec->elapsed[w] = 0;
    for (int64_t row = w * agents; row < (w + 1) * agents; row++) {
        vec->episode_return[row] = 0.0f;
        vec->episode_length[row] = 0;
        vec->ended[row] = 0;
        vec->present[row] = 1;
    }
}

/* What the step of a pending world reports: nothing. */
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

static void write_metrics(hr_vec *vec, int64_t w) {
    const hr_env *env = vec->env;
    if (env->metrics != NULL) {
        env->metrics(&vec->batch, w, vec->last_metrics + w * env->metrics_size);
    }
}

/* ---- one agent ---------------------------------------------------------------------- */

/* Statistics and time limit of a block, as if all of its worlds played. */
static void count_plain(hr_vec *vec, int64_t lo, uint32_t n) {
    const int32_t limit = vec->max_steps > 0 ? vec->max_steps : INT32_MAX;
    const float *restrict rewards = vec->batch.rewards + lo;
    float *restrict sum = vec->episode_return + lo;
    int32_t *restrict elapsed = vec->elapsed + lo;
    int32_t *restrict length = vec->episode_length + lo;
    int32_t reached = 0;
    for (uint32_t i = 0; i < n; i++) sum[i] += rewards[i];
    for (uint32_t i = 0; i < n; i++) {
        elapsed[i] += 1;
        length[i] += 1;
        reached |= elapsed[i] >= limit;
    }
    if (!reached) return;
    uint8_t *restrict truncated = vec->batch.truncated + lo;
    for (uint32_t i = 0; i < n; i++) truncated[i] |= elapsed[i] >= limit;
}

/* Flags of a block; `started` worlds took no step. Returns the worlds that ended, as bits. */
static uint64_t flag_plain(hr_vec *vec, int64_t lo, uint32_t n, const uint8_t *restrict started) {
    uint8_t *restrict terminated = vec->batch.terminated + lo;
    uint8_t *restrict truncated = vec->batch.truncated + lo;
    uint8_t *restrict over = vec->world_over + lo;
    uint8_t *restrict acted = vec->acted + lo;
    uint8_t any = 0;
    if (started == NULL) {
        memset(acted, 1, n);
        for (uint32_t i = 0; i < n; i++) any |= over[i] = terminated[i] | truncated[i];
    } else {
        for (uint32_t i = 0; i < n; i++) {
            acted[i] = started[i] ^ 1;
            terminated[i] &= acted[i];
            truncated[i] &= acted[i];
            any |= over[i] = terminated[i] | truncated[i];
        }
    }
    return any ? bits_of(over, n) : 0;
}

/* The rows of the worlds that started instead of stepping. */
static void start_plain(hr_vec *vec, int64_t lo, uint64_t started) {
    while (started != 0) {
        const int64_t w = lo + take_bit(&started);
        vec->batch.rewards[w] = 0.0f;
        vec->episode_return[w] = 0.0f;
        vec->episode_length[w] = vec->elapsed[w] = 0;
        vec->ended[w] = 0;
        vec->present[w] = 1;
    }
}

/* Results of the worlds that ended; their states are still the final ones. */
static void end_plain(hr_vec *vec, int64_t lo, uint64_t over) {
    const hr_env *env = vec->env;
    while (over != 0) {
        const int64_t w = lo + take_bit(&over);
        vec->last_return[w] = vec->episode_return[w];
        vec->last_length[w] = vec->episode_length[w];
        if (env->metrics != NULL) write_metrics(vec, w);
    }
}

/* SameStep: the worlds that ended start anew. */
static void restart_plain(hr_vec *vec, int64_t lo, int64_t hi, uint64_t over) {
    hr_batch final = vec->batch;
    final.obs = vec->final_obs;
    for (uint64_t bits = over; bits != 0;) {
        const int64_t w = lo + take_bit(&bits);
        vec->env->observe(&final, w, w + 1);
        vec->episode_return[w] = 0.0f;
        vec->episode_length[w] = vec->elapsed[w] = 0;
    }
    vec->env->reset(&vec->batch, lo, hi, vec->world_over + lo);
}

/* NextStep and Disabled: the worlds that ended wait, and show their final observation. */
static void retire_plain(hr_vec *vec, int64_t lo, uint64_t over) {
    const int64_t size = vec->env->obs_size;
    while (over != 0) {
        const int64_t w = lo + take_bit(&over);
        copy_words(row_of(vec->final_obs, w, size), row_of(vec->batch.obs, w, size), (size_t)size);
        vec->pending[w] = 1;
        vec->present[w] = 0;
        vec->ended[w] = 1;
    }
}

static void step_plain_block(hr_vec *vec, int64_t lo, int64_t hi) {
    const uint32_t n = (uint32_t)(hi - lo);
    uint8_t *pending = vec->pending + lo;
    uint64_t started = 0, over;
    if (vec->autoreset == HR_NEXT_STEP && any_set(pending, n)) {
        started = bits_of(pending, n);
        step_and_reset_pending(vec, lo, hi);
    } else {
        vec->env->step(&vec->batch, lo, hi);
    }
    count_plain(vec, lo, n);
    if (started == 0) {
        over = flag_plain(vec, lo, n, NULL);
    } else {
        over = flag_plain(vec, lo, n, pending);
        start_plain(vec, lo, started);
        memset(pending, 0, n);
    }
    if (over != 0) {
        end_plain(vec, lo, over);
        if (vec->autoreset == HR_SAME_STEP) restart_plain(vec, lo, hi, over);
    }
    vec->env->observe(&vec->batch, lo, hi);
    if (over != 0 && vec->autoreset != HR_SAME_STEP) retire_plain(vec, lo, over);
}

/* ---- several agents, or agents that come and go --------------------------------------- */

/* Presence at the next step, by the author's word; ended rows stay away. */
static void refresh_present(hr_vec *vec, int64_t lo, int64_t hi) {
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

/* Statistics of one row's step; the row's episode ends with its flags. */
static void count_row(hr_vec *vec, int64_t row) {
    hr_batch *batch = &vec->batch;
    if (!vec->acted[row]) {
        batch->rewards[row] = 0.0f;
        batch->terminated[row] = batch->truncated[row] = 0;
        return;
    }
    vec->episode_return[row] += batch->rewards[row];
    vec->episode_length[row] += 1;
    vec->ended[row] = batch->terminated[row] | batch->truncated[row];
}

/* The world's episode is over: whoever acted last and was not told so has been cut; the
 * results of rows that are away count too. */
static void end_world(hr_vec *vec, int64_t w) {
    const int64_t agents = vec->env->agents;
    for (int64_t row = w * agents; row < (w + 1) * agents; row++) {
        if (!vec->acted[row]) {
            if (!vec->ended[row] && vec->episode_length[row] > 0) {
                vec->last_return[row] = vec->episode_return[row];
                vec->last_length[row] = vec->episode_length[row];
            }
        } else if (!vec->ended[row]) {
            vec->batch.truncated[row] = 1;
        }
        vec->ended[row] = 1;
        vec->present[row] = 0;
    }
    vec->world_over[w] = 1;
    write_metrics(vec, w);
}

/* Time limit, statistics and ends of one world that was stepped. `acted` holds who acted and
 * `present` who the author says is there now. Returns whether the world's episode is over. */
static bool count_world(hr_vec *vec, int64_t w) {
    const int64_t agents = vec->env->agents;
    const int64_t first = w * agents, last = first + agents;
    vec->elapsed[w] += 1;
    const bool cut = vec->max_steps > 0 && vec->elapsed[w] >= vec->max_steps;
    bool alive = false;
    for (int64_t row = first; row < last; row++) {
        if (cut) vec->batch.truncated[row] = 1;
        count_row(vec, row);
        vec->present[row] &= !vec->ended[row];
        alive |= vec->present[row];
    }
    const bool over = cut || !alive;
    vec->world_over[w] = 0;
    if (over) end_world(vec, w);
    for (int64_t row = first; row < last; row++) {
        if (vec->batch.terminated[row] | vec->batch.truncated[row]) {
            vec->last_return[row] = vec->episode_return[row];
            vec->last_length[row] = vec->episode_length[row];
        }
    }
    return over;
}

/* Rows whose episode ended in this step while their observation is still there. */
static void keep_final_rows(hr_vec *vec, int64_t w) {
    const int64_t agents = vec->env->agents, size = vec->env->obs_size;
    for (int64_t row = w * agents; row < (w + 1) * agents; row++) {
        if (vec->batch.terminated[row] | vec->batch.truncated[row]) {
            memcpy(row_of(vec->final_obs, row, size), row_of(vec->batch.obs, row, size),
                   (size_t)size);
        }
    }
}

static void step_agents_block(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    const int64_t n = hi - lo, agents = env->agents;
    const int64_t first = lo * agents, rows = n * agents;
    const bool same_step = vec->autoreset == HR_SAME_STEP;
    uint8_t started[HR_BLOCK] = {0};
    if (vec->autoreset == HR_NEXT_STEP && any_set(vec->pending + lo, n)) {
        memcpy(started, vec->pending + lo, (size_t)n);
        step_and_reset_pending(vec, lo, hi);
    } else {
        env->step(&vec->batch, lo, hi);
    }
    memcpy(vec->acted + first, vec->present + first, (size_t)rows);
    refresh_present(vec, lo, hi);
    bool resets = false;
    for (int64_t i = 0; i < n; i++) {
        const int64_t w = lo + i;
        if (started[i]) {
            clear_episode(vec, w);
            clear_outcome(vec, w);
            vec->pending[w] = 0;
            resets = true;
        } else if (count_world(vec, w)) {
            if (same_step) {
                observe_into(vec, vec->final_obs, w, w + 1);
                clear_episode(vec, w);
                resets = true;
            } else {
                vec->pending[w] = 1;
            }
        }
    }
    if (same_step && resets) env->reset(&vec->batch, lo, hi, vec->world_over + lo);
    if (resets) refresh_present(vec, lo, hi);
    env->observe(&vec->batch, lo, hi);
    for (int64_t i = 0; i < n; i++) {
        if (!(same_step && vec->world_over[lo + i])) keep_final_rows(vec, lo + i);
    }
}

/* ---- public ------------------------------------------------------------------------- */

static void refresh_mask(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    if (env->mask != NULL) env->mask(&vec->batch, lo, hi, vec->mask);
}

void hr_vec_step(hr_vec *vec, int64_t lo, int64_t hi) {
    const bool plain = is_plain(vec->env);
    for (int64_t end; lo < hi; lo = end) {
        end = block_end(lo, hi);
        if (plain) {
            step_plain_block(vec, lo, end);
        } else {
            step_agents_block(vec, lo, end);
        }
        refresh_mask(vec, lo, end);
    }
}

void hr_vec_reset(hr_vec *vec, int64_t lo, int64_t hi, const uint8_t *which) {
    const int64_t n = hi - lo;
    for (int64_t i = 0, end; i < n; i = end) {
        if (which != NULL) i = next_set(which, i, n);
        if (i == n) return;
        end = block_end(lo + i, hi) - lo;
        if (which != NULL) end = least(next_clear(which, i, n), end);
        vec->env->reset(&vec->batch, lo + i, lo + end, NULL);
        for (int64_t w = lo + i; w < lo + end; w++) {
            clear_episode(vec, w);
            clear_outcome(vec, w);
            vec->pending[w] = 0;
        }
        refresh_present(vec, lo + i, lo + end);
        vec->env->observe(&vec->batch, lo + i, lo + end);
        refresh_mask(vec, lo + i, lo + end);
    }
}
