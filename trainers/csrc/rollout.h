/* T steps of every row, in tiles of 64 rows, as a collector writes and a learner reads them.
 *
 * Worlds are cut into blocks of 64. Tile number = (block * horizon + t) * agents + part: the
 * rows 64*part .. 64*part+63 of the block's worlds at step t, so that one block's steps lie
 * together. Lanes beyond the batch, and rows that were no transition, have valid = 0.
 * Memory belongs to the caller; every array is 64-byte aligned.
 */
#ifndef HEADRACE_ROLLOUT_H
#define HEADRACE_ROLLOUT_H

#include "kernels.h"

/* An episode that finished. */
typedef struct hr_episode {
    int32_t step; /* of the rollout, from 0 */
    int32_t row;
    float ret;      /* sum of rewards */
    int32_t length; /* steps */
} hr_episode;

/* Where a number that is not finite, or a mask that allows nothing, was met; or that the stop
 * flag was set. kind 0: nowhere. */
enum {
    HR_FAULT_NONE,
    HR_FAULT_OBS,
    HR_FAULT_REWARD,
    HR_FAULT_LOSS,
    HR_FAULT_GRADIENT,
    HR_FAULT_MASK,
    HR_FAULT_STOPPED
};
typedef struct hr_fault {
    int32_t kind;
    int32_t step;    /* of the rollout, or number of the minibatch */
    int64_t row;     /* or index of the parameter */
    int32_t feature; /* of the encoded observation, or number of the head */
    float value;
} hr_fault;

/* What a collected block reports beside its tiles. */
typedef struct hr_block_log {
    int64_t episodes; /* that finished in the block */
    int64_t merged;   /* of these, how many the rollout has */
    hr_fault fault;
    char apart[24]; /* a cache line in all */
} hr_block_log;
_Static_assert(sizeof(hr_block_log) == HR_LINE, "a cache line");

typedef struct hr_rollout {
    int32_t horizon; /* steps, T */
    int32_t blocks;
    int32_t agents; /* tiles of one block and step */
    int32_t features, heads, mask_size;
    int64_t tiles;       /* blocks * horizon * agents */
    float *obs;          /* [tiles][features][64], encoded and normalised */
    int32_t *actions;    /* [tiles][heads][64]; floats by their bits, as sampled (not clipped) */
    uint8_t *mask;       /* [tiles][mask_size][64] or NULL */
    float *logp;         /* [tiles][64], log-probability under the behaviour policy; likewise: */
    float *value;        /* V(obs) under the behaviour weights */
    float *reward;       /* scaled when rewards are normalised */
    float *done;         /* 1 where the episode ended here */
    float *bootstrap;    /* V(final observation) where it was cut, 0 elsewhere */
    float *valid;        /* 1 where the row was a transition */
    float *advantage;    /* GAE, or V-trace once the learner has corrected it */
    float *ret;          /* the value target: advantage + value */
    float *states;       /* [blocks * agents][net's state][64] remembered before the first step */
    float *last;         /* [blocks][agents * 64] V(observation) after the last step */
    int32_t *tile_rows;  /* [tiles] valid rows */
    hr_moments *moments; /* [blocks] */
    int64_t *versions;   /* [blocks] of the weights that acted and normalised */
    double *obs_centres; /* [blocks][features] the means of the sums below; or NULL */
    double *reward_centres; /* [blocks]; or NULL */
    double *obs_sums;       /* [blocks][2][features] of raw obs - mean, and its square; or NULL */
    double *reward_sums;    /* [blocks][3] rows, discounted return - mean, its square; or NULL */
    hr_episode *episodes;   /* [tiles * 64] room; sorted by (step, row) */
    hr_episode *block_episodes; /* [blocks][horizon * agents * 64] room: each block's */
    hr_block_log *logs;         /* [blocks] */
    int64_t episode_count;
    int64_t valid_rows; /* of all tiles: the environment steps taken */
} hr_rollout;

/* Whether somebody has set the flag (NULL: nobody can). Whoever sees it leaves off and returns
 * HR_FAULT_STOPPED: what was begun is void. */
static inline int hr_stopped(const int32_t *stop) {
    return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* Weights as collectors and learners share them: never written once published. */
typedef struct hr_weights {
    const float *params;
    const float *obs_mean;  /* [features] */
    const float *obs_scale; /* [features] 1 / standard deviation */
    float reward_mean;      /* of discounted returns */
    float reward_scale;     /* rewards are multiplied by it */
    int64_t version;        /* updates before them */
} hr_weights;

/* Seconds spent in each stage, summed over threads. */
enum {
    HR_TIME_ENV,
    HR_TIME_ENCODE,
    HR_TIME_FORWARD,
    HR_TIME_SAMPLE,
    HR_TIME_RECORD,
    HR_TIME_ADVANTAGE,
    HR_TIME_LEARN_FORWARD,
    HR_TIME_LOSS,
    HR_TIME_BACKWARD,
    HR_TIME_OPTIMIZER,
    HR_TIME_COLLECT_TASK, /* whole tasks of collecting */
    HR_TIME_LEARN_TASK,   /* and of learning */
    HR_TIMES
};
#define HR_TIMES_APART 16 /* doubles from one worker's to the next's: whole cache lines */
_Static_assert(HR_TIMES <= HR_TIMES_APART, "room for all stages");

#endif /* HEADRACE_ROLLOUT_H */
