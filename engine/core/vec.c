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

/* Pending worlds start their episodes first, take part in the step of their block (in a
 * state that is as good as any other) and are put back to their start. */
static void step_over_pending(hr_vec *vec, int64_t lo, int64_t hi) {
    const size_t size = (size_t)vec->env->state_size;
    const uint8_t *pending = vec->pending + lo;
    const int64_t n = hi - lo;
    stash kept;
    for (int64_t i = next_set(pending, 0, n); i < n; i = next_set(pending, i + 1, n)) {
        kept.rng[i] = vec->batch.rng[lo + i];
        memcpy(kept.state + (size_t)i * size, row_of(vec->batch.state, lo + i, size), size);
    }
    vec->env->step(&vec->batch, lo, hi);
    for (int64_t i = next_set(pending, 0, n); i < n; i = next_set(pending, i + 1, n)) {
        vec->batch.rng[lo + i] = kept.rng[i];
        memcpy(row_of(vec->batch.state, lo + i, size), kept.state + (size_t)i * size, size);
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

/* Time limit and statistics of worlds [lo, hi), as if none were pending. */
static bool count_plain(hr_vec *vec, int64_t lo, int64_t hi) {
    const uint32_t n = (uint32_t)(hi - lo);
    const int32_t limit = vec->max_steps > 0 ? vec->max_steps : INT32_MAX;
    const float *restrict rewards = vec->batch.rewards + lo;
    const uint8_t *restrict terminated = vec->batch.terminated + lo;
    uint8_t *restrict truncated = vec->batch.truncated + lo;
    uint8_t *restrict over = vec->world_over + lo;
    int32_t *restrict elapsed = vec->elapsed + lo;
    int32_t *restrict length = vec->episode_length + lo;
    float *restrict sum = vec->episode_return + lo;
    uint8_t any = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t now = elapsed[i] + 1;
        elapsed[i] = now;
        length[i] += 1;
        sum[i] += rewards[i];
        const uint8_t cut = truncated[i] | (uint8_t)(now >= limit);
        truncated[i] = cut;
        over[i] = terminated[i] | cut;
        any |= terminated[i] | cut;
    }
    memset(vec->acted + lo, 1, n);
    return any != 0;
}

/* Worlds that ended: their results are kept; their episodes are over. */
static void end_plain(hr_vec *vec, int64_t lo, int64_t hi) {
    const int64_t n = hi - lo;
    const uint8_t *over = vec->world_over + lo;
    const bool same_step = vec->autoreset == HR_SAME_STEP;
    for (int64_t i = next_set(over, 0, n); i < n; i = next_set(over, i + 1, n)) {
        const int64_t w = lo + i;
        vec->last_return[w] = vec->episode_return[w];
        vec->last_length[w] = vec->episode_length[w];
        write_metrics(vec, w);
        if (same_step) {
            observe_into(vec, vec->final_obs, w, w + 1);
            clear_episode(vec, w);
        } else {
            vec->pending[w] = 1;
            vec->present[w] = 0;
            vec->ended[w] = 1;
        }
    }
    if (same_step) vec->env->reset(&vec->batch, lo, hi, over);
}

static void step_plain_block(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    const int64_t n = hi - lo, size = env->obs_size;
    uint8_t *pending = vec->pending + lo;
    const bool resets = vec->autoreset == HR_NEXT_STEP && any_set(pending, n);
    if (resets) {
        step_and_reset_pending(vec, lo, hi);
    } else {
        env->step(&vec->batch, lo, hi);
    }
    bool any_over = count_plain(vec, lo, hi);
    if (resets) {
        for (int64_t i = next_set(pending, 0, n); i < n; i = next_set(pending, i + 1, n)) {
            clear_episode(vec, lo + i);
            clear_outcome(vec, lo + i);
            pending[i] = 0;
        }
        any_over = any_set(vec->world_over + lo, n);
    }
    if (any_over) end_plain(vec, lo, hi);
    env->observe(&vec->batch, lo, hi);
    if (any_over && vec->autoreset != HR_SAME_STEP) {
        const uint8_t *over = vec->world_over + lo;
        for (int64_t i = next_set(over, 0, n); i < n; i = next_set(over, i + 1, n)) {
            memcpy(row_of(vec->final_obs, lo + i, size), row_of(vec->batch.obs, lo + i, size),
                   (size_t)size);
        }
    }
}

/* ---- several agents, or agents that come and go --------------------------------------- */

/* Presence at the next step, by the author's word; ended rows stay away. */
static void refresh_present(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    const int64_t first = lo * env->agents, rows = (hi - lo) * env->agents;
    uint8_t *restrict present = vec->present + first;
    const uint8_t *restrict ended = vec->ended + first;
    if (env->present != NULL) {
        env->present(&vec->batch, lo, hi, present);
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
