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
        vec->carried[row] = 0.0f;
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

/* Counts a step in the worlds of a block, as if all of them played. Returns those that have
 * reached the time limit, as bits. */
static uint64_t count_worlds(hr_vec *vec, int64_t lo, uint32_t n) {
    const int32_t limit = vec->max_steps > 0 ? vec->max_steps : INT32_MAX;
    int32_t *elapsed = vec->elapsed + lo;
    uint64_t reached = 0;
    for (uint32_t i = 0; i < n; i++) {
        elapsed[i] += 1;
        reached |= (uint64_t)(elapsed[i] >= limit) << i;
    }
    return reached;
}

/* Outcomes and statistics of rows [first, first + n), of which those in `acted` took a step:
 * an agent whose episode has ended has no outcome, and what an absent one is paid waits for
 * its next transition or its end. Returns whether the episode of any row ended. */
static bool count_rows(hr_vec *vec, int64_t first, int64_t n) {
    const uint8_t *restrict acted = vec->acted + first;
    uint8_t *restrict terminated = vec->batch.terminated + first;
    uint8_t *restrict truncated = vec->batch.truncated + first;
    uint8_t *restrict ended = vec->ended + first;
    uint8_t *restrict present = vec->present + first;
    float *restrict rewards = vec->batch.rewards + first;
    float *restrict carried = vec->carried + first;
    float *restrict sum = vec->episode_return + first;
    int32_t *restrict length = vec->episode_length + first;
    uint8_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        terminated[i] &= ended[i] ^ 1;
        truncated[i] &= ended[i] ^ 1;
        const uint8_t ends = terminated[i] | truncated[i];
        any |= ends;
        ended[i] |= ends;
        present[i] &= ended[i] ^ 1;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t told = acted[i] | terminated[i] | truncated[i];
        const float due = carried[i] + rewards[i];
        carried[i] = told | ended[i] ? 0.0f : due;
        rewards[i] = told ? due : 0.0f;
        sum[i] += rewards[i];
        length[i] += acted[i];
    }
    return any != 0;
}

/* Worlds of a block in which no row is left, as bits. */
static uint64_t find_empty(const hr_vec *vec, int64_t lo, int64_t n) {
    const int64_t agents = vec->env->agents;
    uint64_t empty = 0;
    for (int64_t i = 0; i < n; i++) {
        empty |= (uint64_t)!any_set(vec->present + (lo + i) * agents, agents) << i;
    }
    return empty;
}

/* The world's episode is over: whoever has acted or been paid in it, was not told of an end
 * and may be away has been cut, as all who end with the time limit (`reached`) have. */
static void end_world(hr_vec *vec, int64_t w, bool reached) {
    const int64_t agents = vec->env->agents;
    for (int64_t row = w * agents; row < (w + 1) * agents; row++) {
        const bool told = (vec->batch.terminated[row] | vec->batch.truncated[row]) != 0;
        const bool begun = vec->episode_length[row] > 0 || vec->carried[row] != 0.0f;
        if (told ? reached : !vec->ended[row] && begun) vec->batch.truncated[row] = 1;
        vec->batch.rewards[row] += vec->carried[row];
        vec->episode_return[row] += vec->carried[row];
        vec->carried[row] = 0.0f;
        vec->ended[row] = 1;
        vec->present[row] = 0;
    }
    vec->world_over[w] = 1;
    write_metrics(vec, w);
}

/* First row from `row` on whose episode ended in this step; `last` when there is none. */
static int64_t next_end(const hr_vec *vec, int64_t row, int64_t last) {
    const int64_t a = row + next_set(vec->batch.terminated + row, 0, last - row);
    return row + next_set(vec->batch.truncated + row, 0, a - row);
}

/* Results of the rows of [first, last) whose episode ended. */
static void keep_results(hr_vec *vec, int64_t first, int64_t last) {
    for (int64_t row = next_end(vec, first, last); row < last; row = next_end(vec, row + 1, last)) {
        vec->last_return[row] = vec->episode_return[row];
        vec->last_length[row] = vec->episode_length[row];
    }
}

/* Final observations of the rows of [first, last) whose episode ended; those of worlds that
 * were reset since (`restarted`, as bits, the first for the world of row `first`) are there. */
static void keep_final(hr_vec *vec, int64_t first, int64_t last, uint64_t restarted) {
    const int64_t agents = vec->env->agents, size = vec->env->obs_size;
    for (int64_t row = next_end(vec, first, last); row < last; row = next_end(vec, row + 1, last)) {
        if (restarted >> ((row - first) / agents) & 1) continue;
        copy_words(row_of(vec->final_obs, row, size), row_of(vec->batch.obs, row, size),
                   (size_t)size);
    }
}

/* SameStep: the worlds of `over` start anew, after their final observations. */
static void restart_worlds(hr_vec *vec, int64_t lo, int64_t hi, uint64_t over) {
    hr_batch final = vec->batch;
    final.obs = vec->final_obs;
    while (over != 0) {
        const int64_t w = lo + take_bit(&over);
        vec->env->observe(&final, w, w + 1);
        clear_episode(vec, w);
    }
    vec->env->reset(&vec->batch, lo, hi, vec->world_over + lo);
}

static void step_agents_block(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    const int64_t n = hi - lo, first = lo * env->agents, rows = n * env->agents;
    const bool same_step = vec->autoreset == HR_SAME_STEP;
    uint64_t started = 0, over = 0;
    if (vec->autoreset == HR_NEXT_STEP && any_set(vec->pending + lo, n)) {
        started = bits_of(vec->pending + lo, n);
        step_and_reset_pending(vec, lo, hi);
    } else {
        env->step(&vec->batch, lo, hi);
    }
    memcpy(vec->acted + first, vec->present + first, (size_t)rows); /* nobody where pending */
    refresh_present(vec, lo, hi);
    const uint64_t reached = count_worlds(vec, lo, (uint32_t)n) & ~started;
    const bool any_end = count_rows(vec, first, rows);
    if (any_end || env->present != NULL) over = find_empty(vec, lo, n);
    over = (over | reached) & ~started;
    memset(vec->world_over + lo, 0, (size_t)n);
    for (uint64_t bits = over; bits != 0;) {
        const int64_t w = lo + take_bit(&bits);
        end_world(vec, w, (reached >> (w - lo) & 1) != 0);
        vec->pending[w] = !same_step;
    }
    if (any_end || over != 0) keep_results(vec, first, first + rows);
    for (uint64_t bits = started; bits != 0;) {
        const int64_t w = lo + take_bit(&bits);
        clear_episode(vec, w);
        vec->pending[w] = 0;
    }
    const uint64_t restarted = same_step ? over : 0;
    if (restarted != 0) restart_worlds(vec, lo, hi, restarted);
    if ((restarted | started) != 0) refresh_present(vec, lo, hi);
    env->observe(&vec->batch, lo, hi);
    if (any_end || over != 0) keep_final(vec, first, first + rows, restarted);
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
