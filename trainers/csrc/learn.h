/* The PPO learner: epochs of minibatches of units, dealt out at random, gradients, clipping, Adam.
 *
 * A *unit* is what stays together: a tile; where the policy remembers, all steps of 64 rows. A
 * minibatch is cut into chunks by the number of its units alone; each chunk sums its own
 * gradient, then groups of chunks are added up in order, then pairs of groups. So the result does
 * not depend on threads. The units of a minibatch lie in the order of the rollout: so a worker
 * mostly learns from what it has collected, which is in its own cache. */
#ifndef HEADRACE_LEARN_H
#define HEADRACE_LEARN_H

#include "../../engine/core/pool.h"
#include "rollout.h"

#define HR_PASS       6  /* tiles whose activations are kept at once */
#define HR_MAX_CHUNKS 64 /* chunks of a minibatch at most */
#define HR_GROUPS     8  /* groups of chunks at most */
#define HR_SAMPLED    8  /* one unit in so many tells the sample size that correction clip has */

/* What is done about a behaviour policy older than the one that learns. The *current* policy is
 * that of the weights at the start of the update.
 *   none       rows count as the current policy's: the ratio is taken to it, weights are 1
 *   clip       PPO as it stands: the ratio is taken to the behaviour policy, and clipped there
 *   vtrace     as decoupled, rows weighed by at most rho_max; advantages by V-trace
 *   decoupled  the ratio is taken to the current policy, rows are weighed by current / behaviour
 * All are the same where no row lags. */
typedef enum hr_correction { HR_NONE, HR_CLIP, HR_VTRACE, HR_DECOUPLED } hr_correction;

typedef struct hr_learn_options {
    int32_t epochs, minibatches;
    int32_t normalize_advantage; /* 1: by mean and deviation over the rollout */
    float clip, value_clip, value_coef, entropy_coef;
    float max_grad_norm; /* 0: gradients are not clipped */
    float target_kl;     /* nats: no epoch after one whose mean KL divergence is above; 0: all */
    float lr, beta1, beta2, eps;
    int32_t correction; /* hr_correction */
    int32_t lagged;     /* 1: rows of the rollout are of older weights than the learner's */
    float weight_max;   /* bound of decoupled's weights */
    hr_gae_options gae; /* of V-trace */
} hr_learn_options;

/* Means over the minibatches, weighted by their rows. */
typedef struct hr_learn_stats {
    double policy_loss, value_loss, entropy, kl, clip_fraction;
    double grad_norm;          /* mean over minibatches, before clipping */
    double explained_variance; /* 1 - var(return - value) / var(return); NaN if returns are equal */
    double ess; /* effective sample size of the weights current / behaviour, share of the rows */
} hr_learn_stats;

/* What has to be kept of the rollout before, so that what was remembered after it can be computed
 * anew by newer weights. Arrays as the rollout's. */
typedef struct hr_past {
    float *obs, *valid, *done, *states; /* NULL: not wanted */
    int32_t there;                      /* 1 once a rollout was kept */
} hr_past;

/* Everything of one learner; memory belongs to the caller. */
typedef struct hr_learner {
    const hr_net *net;
    const hr_kernels *kernels;
    float *params, *m, *v; /* [params] */
    int32_t *order;        /* [units], minibatch by minibatch */
    int32_t *part;         /* [units] minibatch of each */
    int32_t *filled;       /* [units] room: where the next unit of each minibatch goes */
    hr_past past;
    float *current;    /* [tiles][64] log-probabilities under the current policy */
    double *weights;   /* [tiles][2] sums of the rows' weights and of their squares */
    float *grads;      /* [HR_MAX_CHUNKS][grad_size], of which params are used */
    int64_t grad_size; /* whole cache lines */
    double *sums;      /* [HR_MAX_CHUNKS][HR_SUMS_APART] */
    char *scratch;     /* [workers][hr_learn_scratch()] */
    int64_t scratch_size;
    double *seconds;     /* [workers][HR_TIMES_APART] */
    int32_t detailed;    /* whether the stages within a task are timed too */
    const int32_t *stop; /* see hr_stopped */
    uint64_t key;        /* of the shuffles */
    char apart[HR_LINE]; /* what changes lies apart from what the workers read */
    int64_t steps;       /* Adam steps so far */
    uint64_t shuffles;   /* drawn so far */
} hr_learner;

/* Bytes of scratch for one worker, for rollouts of so many steps. */
int64_t hr_learn_scratch(const hr_net *net, int64_t horizon);
/* How many units there are. */
int64_t hr_units(const hr_net *net, const hr_rollout *rollout);
/* One rollout's update. On a fault the parameters are those before the minibatch that failed. */
hr_fault hr_learn(hr_learner *learner, const hr_rollout *rollout, const hr_learn_options *options,
                  const hr_pool_api *api, hr_pool *pool, hr_learn_stats *stats);
/* To which policies a rollout's rows are compared: arrays [tiles][64], see hr_loss_rows. */
typedef struct hr_reference {
    const float *logp;
    const float *proximal; /* or NULL */
} hr_reference;
/* Gradient of the mean loss over the units order[0 .. units) into grads[0], unclipped, and the
 * sums of the loss: what one minibatch does before the optimiser. */
void hr_gradient(hr_learner *learner, const hr_rollout *rollout, hr_reference reference,
                 const int32_t *order, int64_t units, const hr_loss_options *loss,
                 const hr_pool_api *api, hr_pool *pool);
/* Log-probabilities of the rollout's actions under the parameters, and the sums of the rows'
 * weights, into current and weights; of one unit in `stride`. */
void hr_current(hr_learner *learner, const hr_rollout *rollout, int64_t stride,
                const hr_pool_api *api, hr_pool *pool);
/* (sum of weights)^2 / (rows * sum of their squares), of one unit in `stride`. */
double hr_effective_share(const hr_learner *learner, const hr_rollout *rollout, int64_t stride);
/* Puts into the rollout's `states` what these weights remember where it begins, computed from the
 * rollout before, and keeps this one for the next call; nothing where no past is wanted. */
void hr_recall(hr_learner *learner, const hr_rollout *rollout, const hr_pool_api *api,
               hr_pool *pool);
/* V-trace advantages, value targets and moments of the rollout, from `current`. */
void hr_vtrace(hr_learner *learner, const hr_rollout *rollout, const hr_gae_options *options,
               const hr_pool_api *api, hr_pool *pool);

#endif /* HEADRACE_LEARN_H */
