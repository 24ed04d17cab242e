/* Fused collection: a block of 64 worlds runs T steps of encode, forward, sample, step and
 * record while its state, observations and weights stay in cache; then its advantages. */
#ifndef HEADRACE_COLLECT_H
#define HEADRACE_COLLECT_H

#include "../../engine/core/pool.h"
#include "../../engine/core/vec.h"
#include "rollout.h"

/* What a block reports beside its tiles. */
typedef struct hr_block_log {
    int64_t episodes; /* that finished in the block */
    int64_t merged;   /* of these, how many the rollout has */
    hr_fault fault;
} hr_block_log;

/* Everything of one collector; memory belongs to the caller. */
typedef struct hr_collector {
    const hr_net *net;
    const hr_kernels *kernels;
    hr_vec *vec; /* autoreset HR_SAME_STEP */
    hr_gae_options gae;
    float obs_clip;    /* of normalised observations; 0: observations as they are */
    float reward_clip; /* of normalised rewards; 0: rewards as they are */
    uint64_t key;      /* hash of the run's seed */
    uint64_t step;     /* steps since the run began */
    float *discounted; /* [rows] discounted return so far, when rewards are normalised */
    char *scratch;     /* [workers][hr_collect_scratch()] */
    int64_t scratch_size;
    hr_episode *block_episodes; /* [blocks][horizon * agents * 64] room */
    hr_block_log *logs;         /* [blocks] */
    double *seconds;            /* [workers][HR_TIMES] or NULL: do not measure */
} hr_collector;

/* Bytes of scratch for one worker. */
int64_t hr_collect_scratch(const hr_net *net, int agents);
/* Fills the rollout from where the worlds stand. Actions depend on seed, row and step alone;
 * nothing depends on the number of threads. A fault ends it early, and the rollout is void. */
hr_fault hr_collect(hr_collector *collector, const hr_weights *weights, hr_rollout *rollout,
                    const hr_pool_api *api, hr_pool *pool);

#endif /* HEADRACE_COLLECT_H */
