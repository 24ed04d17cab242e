/* A batch of worlds and one step of it: kernel, time limit, statistics, autoreset, observe.
 *
 * hr_vec.step is the only place where these rules are written down (arch/plain.c for one agent,
 * arch/agents.c for several). It works on a range of whole worlds, takes no lock and allocates
 * nothing; ranges that do not overlap may be stepped on different threads. The result for a world
 * depends on that world alone.
 *
 * A row's episode ends where terminated | truncated is set in it, and nowhere else, whether its
 * agent acted in that step or was absent. Agents that are absent (several, or that come and go):
 * - the author's flags end the episode of an agent whose episode has not ended, present or not;
 * - a reward given to an absent agent is added to that of its next transition, or to that of the
 *   row which ends its episode; an agent whose episode has ended is given nothing;
 * - when the world ends, every row whose episode has begun (it acted, or was given a reward) and
 *   has not ended is truncated in that step.
 */
#ifndef HEADRACE_VEC_H
#define HEADRACE_VEC_H

#include "../include/headrace/abi.h"

typedef enum hr_autoreset { HR_NEXT_STEP, HR_SAME_STEP, HR_DISABLED } hr_autoreset;

typedef struct hr_vec {
    uint64_t size; /* sizeof(hr_vec) where it was made: another means another version */
    const hr_env *env;
    hr_batch batch; /* params, state, rng, actions, rewards, terminated, truncated, obs */
    int64_t worlds;
    int64_t rows;      /* worlds * env->agents */
    int32_t autoreset; /* hr_autoreset */
    int32_t max_steps; /* time limit in steps, 0: none (env->max_steps unless overridden) */

    /* per world */
    int32_t *elapsed;    /* steps taken in the running episode */
    uint8_t *pending;    /* NextStep: reset at the next step. Disabled: must be reset */
    uint8_t *world_over; /* 1 where the world's episode ended in the last step */

    /* per row */
    void *final_obs;  /* [rows] Obs: valid where terminated|truncated was set in the last step */
    uint8_t *present; /* 1 where the row's agent acts at the next step */
    uint8_t *ended;   /* 1 where the row's episode has ended and its world was not reset since */
    uint8_t *acted; /* 1 where the row's last step was a transition (0: reset row, absent agent) */
    float *carried; /* rewards of an absent agent, due with its next transition or its end */
    uint8_t *mask;  /* [rows][mask_size] or NULL */
    float *episode_return;   /* sum of rewards of the running episode */
    int32_t *episode_length; /* steps of the running episode */
    float *last_return;      /* of the episode that ended most recently in this row */
    int32_t *last_length;
    float *last_metrics; /* [worlds][metrics_size] or NULL; of the episode that ended last */

    /* Steps worlds [lo, hi). Reads batch.actions, writes everything above for those worlds.
     * One of hr_level's; a pointer, since other modules do not link to this file. */
    void (*step)(struct hr_vec *vec, int64_t lo, int64_t hi);
} hr_vec;

typedef void (*hr_step_fn)(hr_vec *vec, int64_t lo, int64_t hi);

/* Starts new episodes in the worlds of [lo, hi) with which[w - lo] != 0 (NULL: all), and
 * writes their observations, presence and masks. Clears their pending flags and statistics. */
void hr_vec_reset(hr_vec *vec, int64_t lo, int64_t hi, const uint8_t *which);
/* key = mix(seed), counter = 0: the stream of a seed depends on the seed alone. */
hr_rng hr_rng_from_seed(uint64_t seed);

#endif /* HEADRACE_VEC_H */
