/* The PPO learner: epochs of minibatches of shuffled tiles, gradients, clipping, Adam.
 *
 * A minibatch is cut into chunks by the number of its tiles alone; each chunk sums its own
 * gradient, and the chunks are added in order. So the result does not depend on threads. */
#ifndef HEADRACE_LEARN_H
#define HEADRACE_LEARN_H

#include "../../engine/core/pool.h"
#include "rollout.h"

#define HR_PASS       8  /* tiles whose activations are kept at once */
#define HR_MAX_CHUNKS 64 /* chunks of a minibatch at most */

typedef struct hr_learn_options {
    int32_t epochs, minibatches;
    int32_t normalize_advantage; /* 1: by mean and deviation over the rollout */
    float clip, value_clip, value_coef, entropy_coef;
    float max_grad_norm; /* 0: gradients are not clipped */
    float lr, beta1, beta2, eps;
} hr_learn_options;

/* Means over the minibatches, weighted by their rows. */
typedef struct hr_learn_stats {
    double policy_loss, value_loss, entropy, kl, clip_fraction;
    double grad_norm;          /* mean over minibatches, before clipping */
    double explained_variance; /* 1 - var(return - value) / var(return); NaN if returns are equal */
} hr_learn_stats;

/* Everything of one learner; memory belongs to the caller. */
typedef struct hr_learner {
    const hr_net *net;
    const hr_kernels *kernels;
    float *params, *m, *v; /* [params] */
    int64_t steps;         /* Adam steps so far */
    uint64_t key;          /* of the shuffles */
    uint64_t shuffles;     /* drawn so far */
    int32_t *order;        /* [tiles] */
    float *grads;          /* [HR_MAX_CHUNKS][params] */
    double *sums;          /* [HR_MAX_CHUNKS][HR_SUMS] */
    char *scratch;         /* [workers][hr_learn_scratch()] */
    int64_t scratch_size;
    double *seconds; /* [workers][HR_TIMES] or NULL: do not measure */
} hr_learner;

/* Bytes of scratch for one worker. */
int64_t hr_learn_scratch(const hr_net *net);
/* One rollout's update. On a fault the parameters are those before the minibatch that failed. */
hr_fault hr_learn(hr_learner *learner, const hr_rollout *rollout, const hr_learn_options *options,
                  const hr_pool_api *api, hr_pool *pool, hr_learn_stats *stats);
/* Gradient of the mean loss over the tiles order[0 .. tiles) into grads[0], unclipped, and the
 * sums of the loss: what one minibatch does before the optimiser. */
void hr_gradient(hr_learner *learner, const hr_rollout *rollout, const int32_t *order,
                 int64_t tiles, const hr_loss_options *loss, const hr_pool_api *api, hr_pool *pool);

#endif /* HEADRACE_LEARN_H */
