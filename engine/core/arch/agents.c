/* Several agents, or agents that come and go: blocks of 64 worlds, whose bits fit a word. */
#include "passes.h"

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
static void restart_worlds(hr_vec *vec, slice over) {
    hr_batch final = vec->batch;
    final.obs = vec->final_obs;
    for (int32_t k = 0; k < over.count; k++) {
        vec->env->observe(&final, over.at[k], over.at[k] + 1);
        clear_episode(vec, over.at[k]);
    }
    vec->env->reset(&vec->batch, over.at, over.count);
}

static void step_block(hr_vec *vec, int64_t lo, int64_t hi) {
    const hr_env *env = vec->env;
    const int64_t n = hi - lo, first = lo * env->agents, rows = n * env->agents;
    const bool same_step = vec->autoreset == HR_SAME_STEP;
    const uint64_t starting = vec->autoreset == HR_NEXT_STEP ? bits_of(vec->pending + lo, n) : 0;
    int32_t at[HR_BLOCK + 4];
    const slice started = {at, list_bits(at, lo, starting)};
    uint64_t over = 0;
    if (starting != 0) env->reset(&vec->batch, started.at, started.count);
    step_others(vec, lo, hi, started);
    memcpy(vec->acted + first, vec->present + first, (size_t)rows); /* nobody where pending */
    refresh_present(vec, lo, hi);
    const uint64_t reached = count_worlds(vec, lo, (uint32_t)n) & ~starting;
    const bool any_end = count_rows(vec, first, rows);
    if (any_end || env->present != NULL) over = find_empty(vec, lo, n);
    over = (over | reached) & ~starting;
    memset(vec->world_over + lo, 0, (size_t)n);
    for (uint64_t bits = over; bits != 0;) {
        const int64_t w = lo + take_bit(&bits);
        end_world(vec, w, (reached >> (w - lo) & 1) != 0);
        vec->pending[w] = !same_step;
    }
    if (any_end || over != 0) keep_results(vec, first, first + rows);
    for (int32_t k = 0; k < started.count; k++) {
        clear_episode(vec, started.at[k]);
        vec->pending[started.at[k]] = 0;
    }
    const uint64_t restarted = same_step ? over : 0;
    if (restarted != 0) {
        const slice again = {at, list_bits(at, lo, restarted)};
        restart_worlds(vec, again);
    }
    if ((restarted | starting) != 0) refresh_present(vec, lo, hi);
    env->observe(&vec->batch, lo, hi);
    refresh_mask(vec, lo, hi);
    if (any_end || over != 0) keep_final(vec, first, first + rows, restarted);
}

void HR_SYM(hr_step_agents)(hr_vec *vec, int64_t lo, int64_t hi) {
    for (int64_t end; lo < hi; lo = end) {
        end = block_end(lo, hi);
        step_block(vec, lo, end);
    }
}
