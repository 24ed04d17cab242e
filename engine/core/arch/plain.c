/* One agent, always there: rows are worlds, presence and ends are those of the world.
 *
 * Worlds pass through in stretches, each pass over a stretch while what it touches is in the
 * first cache. Those that start anew are gathered over a span of eight stretches: enough of them
 * to be reset side by side. */
#include "passes.h"

#define STRETCH_BYTES 32768

static int64_t stretch_of(const hr_env *env) {
    const int64_t bytes = env->state_size + env->obs_size + env->action_size + 32;
    const int64_t worlds = least(STRETCH_BYTES / bytes, STRETCH_MAX);
    return worlds < HR_BLOCK ? HR_BLOCK : worlds - worlds % HR_BLOCK;
}

/* Statistics and time limit, as if all of the worlds played. */
static void count(hr_vec *vec, int64_t lo, uint32_t n) {
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

/* Flags of worlds of which those in `started`, flags (NULL: none), took no step. Returns whether
 * any ended. */
static bool flag(hr_vec *vec, int64_t lo, uint32_t n, const uint8_t *restrict started) {
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
    return any != 0;
}

static inline void clear(hr_vec *vec, int64_t w) {
    vec->episode_return[w] = 0.0f;
    vec->episode_length[w] = vec->elapsed[w] = 0;
}

/* Results of a world that ended; its state is still the final one. */
static inline void keep(hr_vec *vec, int64_t w) {
    vec->last_return[w] = vec->episode_return[w];
    vec->last_length[w] = vec->episode_length[w];
    if (vec->env->metrics != NULL) write_metrics(vec, w);
}

/* NextStep and Disabled: who ended waits; who waited and took no step has started. */
static void wait(hr_vec *vec, int64_t lo, uint32_t n) {
    const uint8_t *restrict over = vec->world_over + lo;
    const uint8_t *restrict acted = vec->acted + lo;
    uint8_t *restrict pending = vec->pending + lo;
    uint8_t *restrict present = vec->present + lo;
    uint8_t *restrict ended = vec->ended + lo;
    for (uint32_t i = 0; i < n; i++) {
        pending[i] = (pending[i] & acted[i]) | over[i];
        ended[i] = (ended[i] & acted[i]) | over[i];
        present[i] = (present[i] | (acted[i] ^ 1)) & (over[i] ^ 1);
    }
}

/* NextStep and Disabled: the observations, which of the worlds that ended are the final ones. */
static void observe_and_wait(hr_vec *vec, int64_t lo, int64_t hi, slice over) {
    const int64_t size = vec->env->obs_size;
    vec->env->observe(&vec->batch, lo, hi);
    refresh_mask(vec, lo, hi);
    for (int32_t k = 0; k < over.count; k++) {
        const int64_t w = over.at[k];
        copy_words(row_of(vec->final_obs, w, size), row_of(vec->batch.obs, w, size), (size_t)size);
    }
    wait(vec, lo, (uint32_t)(hi - lo));
}

/* Steps the worlds of a stretch; those that ended are added to `over`. */
static void step_stretch(hr_vec *vec, int64_t lo, int64_t hi, slice started, list *over) {
    const uint32_t n = (uint32_t)(hi - lo);
    const int32_t before = over->count;
    step_others(vec, lo, hi, started);
    count(vec, lo, n);
    for (int32_t k = 0; k < started.count; k++) {
        vec->batch.rewards[started.at[k]] = 0.0f;
        clear(vec, started.at[k]);
    }
    if (flag(vec, lo, n, started.count > 0 ? vec->pending + lo : NULL)) {
        append_set(over, vec->world_over, lo, hi);
        for (int32_t k = before; k < over->count; k++) keep(vec, over->at[k]);
    }
}

/* SameStep: the worlds that ended start anew, after their final observations. */
static void restart(hr_vec *vec, const list *over) {
    hr_batch final = vec->batch;
    final.obs = vec->final_obs;
    for (int32_t k = 0; k < over->count; k++) {
        vec->env->observe(&final, over->at[k], over->at[k] + 1);
        clear(vec, over->at[k]);
    }
    if (over->count > 0) vec->env->reset(&vec->batch, over->at, over->count);
}

static void step_span(hr_vec *vec, int64_t lo, int64_t hi, int64_t stretch) {
    list started, over;
    started.count = over.count = 0;
    if (vec->autoreset == HR_NEXT_STEP) append_set(&started, vec->pending, lo, hi);
    if (started.count > 0) vec->env->reset(&vec->batch, started.at, started.count);
    int32_t first = 0;
    for (int64_t at = lo, end; at < hi; at = end) {
        end = least(at + stretch, hi);
        slice part = {started.at + first, 0};
        while (first < started.count && started.at[first] < end) first++, part.count++;
        const int32_t before = over.count;
        step_stretch(vec, at, end, part, &over);
        if (vec->autoreset != HR_SAME_STEP) {
            const slice ended = {over.at + before, over.count - before};
            observe_and_wait(vec, at, end, ended);
        }
    }
    if (vec->autoreset != HR_SAME_STEP) return;
    restart(vec, &over);
    for (int64_t at = lo; at < hi; at += stretch) {
        vec->env->observe(&vec->batch, at, least(at + stretch, hi));
        refresh_mask(vec, at, least(at + stretch, hi));
    }
}

void HR_SYM(hr_step_plain)(hr_vec *vec, int64_t lo, int64_t hi) {
    const int64_t stretch = stretch_of(vec->env), span = 8 * stretch;
    for (int64_t end; lo < hi; lo = end) {
        end = least(lo - lo % span + span, hi);
        step_span(vec, lo, end, stretch);
    }
}
