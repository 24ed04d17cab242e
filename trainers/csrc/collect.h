/* Fused collection: a block of 64 worlds runs T steps of encode, forward, sample, step and
 * record while its state, observations and weights stay in cache; then its advantages. */
#ifndef HEADRACE_COLLECT_H
#define HEADRACE_COLLECT_H

#include "../../engine/core/pool.h"
#include "../../engine/core/vec.h"
#include "rollout.h"
#include "slots.h"

/* Everything of one collector; memory belongs to the caller. */
typedef struct hr_collector {
    const hr_net *net;
    const hr_kernels *kernels;
    hr_vec *vec; /* autoreset HR_SAME_STEP */
    hr_gae_options gae;
    float obs_clip;    /* of normalised observations; 0: observations as they are */
    float reward_clip; /* of normalised rewards; 0: rewards as they are */
    uint64_t key;      /* hash of the run's seed */
    float *states;     /* [rows / 64, rounded up][state][64] what is remembered of each row */
    float *discounted; /* [rows] discounted return so far, when rewards are normalised */
    char *scratch;     /* [workers][hr_collect_scratch()] */
    int64_t scratch_size;
    double *seconds;     /* [workers][HR_TIMES_APART] */
    int32_t timed;       /* one step of a block in so many has its stages timed */
    const int32_t *stop; /* see hr_stopped */
} hr_collector;

/* One actor: some of the collector's blocks, which a job of their own steps. */
typedef struct hr_share {
    hr_collector *collector;
    int32_t first, blocks;     /* blocks first .. first + blocks - 1 */
    uint64_t step;             /* steps of its rows since the run began */
    const hr_weights *weights; /* act throughout; NULL: */
    hr_slots *slots;           /* the newest act, picked up before each block */
    hr_rollout *rollout;       /* being filled */
    hr_job job;
} hr_share;

/* Bytes of scratch for one worker. */
int64_t hr_collect_scratch(const hr_net *net);
/* Starts to fill the share's part of its rollout from where its worlds stand, by the share's
 * weights or slots. Actions depend on seed, row and step alone; nothing depends on the number
 * of threads. The share must be idle. */
void hr_share_start(hr_share *share, const hr_pool_api *api, hr_pool *pool);
/* The same at once, without an end to wait for. */
void hr_share_run(hr_share *share, const hr_pool_api *api, hr_pool *pool);
/* Works on a share that was started until its part is filled. */
void hr_share_wait(hr_share *share, const hr_pool_api *api, hr_pool *pool);
/* Once all shares have filled their parts: episodes in order, and rows counted. A fault makes
 * the rollout void. */
hr_fault hr_collect_finish(hr_rollout *rollout);

#endif /* HEADRACE_COLLECT_H */
