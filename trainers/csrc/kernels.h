/* The vector kernels, compiled once per instruction set (arch/), chosen at run time.
 *
 * None allocates or keeps state. Tiles and parameters are 64-byte aligned unless said
 * otherwise. "tiles" arguments are arrays of pointers to feature-major tiles.
 */
#ifndef HEADRACE_TRAINER_KERNELS_H
#define HEADRACE_TRAINER_KERNELS_H

#include "net.h"

/* What the PPO loss needs beside the rows. */
typedef struct hr_loss_options {
    float clip;            /* range of the probability ratio around 1 */
    float value_clip;      /* range of the value around the old one; 0: not clipped */
    float value_coef;      /* weight of 0.5 (value - return)^2 */
    float entropy_coef;    /* weight of the entropy bonus */
    float advantage_mean;  /* subtracted from advantages, then */
    float advantage_scale; /* multiplied */
    float scale;           /* 1 / valid rows of the minibatch */
    float weight_max;      /* bound of a row's weight, where there is a proximal policy */
} hr_loss_options;

/* One tile of a rollout as the loss reads it; all [64] unless noted. */
typedef struct hr_loss_rows {
    const int32_t *actions; /* [heads][64], floats by their bits */
    const float *logp;      /* of the behaviour policy */
    const float *proximal;  /* of the policy that the ratio is taken to, whose distance from the
                             * behaviour policy weighs the row; NULL: the behaviour policy */
    const float *value;     /* of the behaviour policy */
    const float *advantage;
    const float *ret;    /* value target */
    const float *valid;  /* 1 or 0 */
    const uint8_t *mask; /* [mask_size][64] or NULL */
} hr_loss_rows;

#define HR_HEAD_WORK 2 /* columns of scratch memory that the loss needs for each head */

/* Sums over valid rows. */
enum { HR_SUM_POLICY, HR_SUM_VALUE, HR_SUM_ENTROPY, HR_SUM_KL, HR_SUM_CLIPPED, HR_SUMS };
#define HR_SUMS_APART 8 /* doubles from one chunk's to the next's: a cache line */
_Static_assert((int)HR_SUMS <= HR_SUMS_APART, "room for all sums");

/* Which random stream a tile samples from. */
typedef struct hr_draw {
    uint64_t key;          /* hash of the run's seed */
    uint64_t step;         /* steps since the run began */
    uint32_t row;          /* of lane 0; the others follow */
    int32_t greedy;        /* 1: the most likely action, no randomness */
    const uint32_t *rows;  /* [64] or NULL: the row of each lane, instead of `row`, */
    const uint64_t *steps; /* [64] and its step, instead of `step` */
} hr_draw;

typedef struct hr_adam_options {
    float lr, beta1, beta2, eps;
    float correction1, correction2; /* 1 - beta^step */
    float scale;                    /* gradients are multiplied by it first */
} hr_adam_options;

typedef struct hr_gae_options {
    float gamma, lambda;
    float rho_max, c_max; /* bounds of V-trace's ratios */
} hr_gae_options;

/* What advantages are computed from: arrays [steps][rows], rows a multiple of 64. */
typedef struct hr_gae_rows {
    const float *reward;
    const float *value;
    const float *done;      /* not 0 where an episode ended, on any row */
    const float *bootstrap; /* the next value where it did */
    const float *valid;     /* 0 where the row was no transition */
    const float *last;      /* [rows], V after the last step */
    const float *logp;      /* of the behaviour policy; read where the next is not NULL */
    const float *current;   /* of the current policy: V-trace. NULL: GAE */
} hr_gae_rows;

/* Sums over valid rows: rows, advantage, return and the error return - value, with squares. */
typedef struct hr_moments {
    double count, advantage, advantage2, ret, ret2, error, error2;
} hr_moments;

typedef struct hr_kernels {
    const char *name; /* instruction set */
    /* y[out][64] = activation(w x[in][64] + b); w [out][in] and b need no alignment. */
    void (*layer)(int out, int in, int activation, const float *w, const float *b, const float *x,
                  float *y);
    /* dx[in][64] = (w^T dy) * activation'(h), h[in][64] being the layer's input; w has rows of
     * ld >= in floats. */
    void (*layer_back)(int out, int in, int ld, int activation, const float *w, const float *dy,
                       const float *h, float *dx);
    /* dw[out][ld] += dy x^T (columns 0 .. in-1), and db[out] += sum of dy where db is not
     * NULL, over `tiles` tiles. */
    void (*layer_grad)(int out, int in, int ld, int tiles, const float *const *dy,
                       const float *const *x, float *dw, float *db);
    /* One step of `size` minimal gated recurrent units (Feng et al. 2024):
     *     z = sigmoid(gate), n = c + 0.5 where c >= 0, else sigmoid(c),
     *     after = b + z (n - b), b = before, or 0 where began[64] != 0 (NULL: nowhere);
     * where live[64] == 0 (NULL: nowhere) after = b. given[2 * size][64]: gates, then candidates
     * c; they become z and n. after[size][64] may be before itself. */
    void (*mingru)(int size, const float *before, const float *began, const float *live,
                   float *given, float *after);
    /* Its way back: given as mingru left it, dafter[size][64] the gradient by what the layers
     * above read of `after`; carry[size][64] the gradient by `after` from the steps behind it,
     * which becomes that by `before`. dgiven[2 * size][64]: the gradient by gates and
     * candidates. */
    void (*mingru_back)(int size, const float *before, const float *began, const float *live,
                        const float *given, const float *dafter, float *carry, float *dgiven);
    /* Chooses actions[heads][64] from out[outputs][64] and writes their log-probability.
     * scratch: [outputs][64]. mask [mask_size][64] may be NULL. */
    void (*sample)(const hr_net *net, const float *params, const float *out, const uint8_t *mask,
                   const hr_draw *draw, int32_t *actions, float *logp, float *scratch);
    /* dout[outputs][64] = gradient of the loss; adds to sums[HR_SUMS] and to the gradients of
     * the log standard deviations in grad. work: [heads * HR_HEAD_WORK][64]. */
    void (*loss)(const hr_net *net, const float *params, const hr_loss_options *options,
                 const hr_loss_rows *rows, const float *out, float *dout, float *work, float *grad,
                 double *sums);
    /* Log-probabilities [64] of the tile's actions under out[outputs][64]; adds to sums[2] the
     * rows' weights exp(logp - behaviour's) and their squares. scratch: [outputs][64]; work: as
     * above. */
    void (*logp)(const hr_net *net, const float *params, const hr_loss_rows *rows, const float *out,
                 float *logp, float *scratch, float *work, double *sums);
    /* x[features][64] from `rows` Obs structs (0 .. 64; the other lanes become 0, as do rows
     * with present[r] == 0 when present is not NULL). */
    void (*encode)(const hr_net *net, const void *obs, int rows, const uint8_t *present, float *x);
    /* Adds sum and sum of squares of x - mean over rows with valid != 0 to sum[features] and
     * square[features]. */
    void (*observe)(int features, const float *x, const float *mean, const float *valid,
                    double *sum, double *square);
    /* x = clip((x - mean) * scale) */
    void (*normalize)(int features, const float *mean, const float *scale, float clip, float *x);
    /* 1 when all n floats are finite; n a multiple of 64. */
    int (*finite)(const float *x, int64_t n);
    /* reward[64] and done[64] (1 where a row terminated or was truncated, present or not) after a
     * step, from the batch's arrays of `rows` rows; 0 in the other lanes. *ends counts done rows.
     * Returns 1 when all rewards are finite. */
    int (*record)(int rows, const float *rewards, const uint8_t *terminated,
                  const uint8_t *truncated, float *reward, float *done, int *ends);
    /* Advantages and value targets [steps][rows]: generalised advantage estimation, or with
     * rows->current V-trace, which is the same where the two policies agree. With
     * rho = min(rho_max, ratio), c = lambda min(c_max, ratio), delta = reward + gamma V' - V:
     *     ret - V = rho delta + gamma c (ret' - V'),  advantage = delta + gamma lambda (ret' - V')
     * Where done != 0, V' is `bootstrap` and nothing flows back; else it is of the row's next
     * valid step (last[rows] after the last one). Rows with valid == 0 get 0 and are stepped
     * over, but what happens there reaches the row's valid step before them: done ends it too,
     * and their rewards, undiscounted, are added to its own (before the first valid step of an
     * episode in the rollout they are dropped). Adds to *moments. */
    void (*gae)(int steps, int rows, const hr_gae_rows *from, const hr_gae_options *options,
                float *advantage, float *ret, hr_moments *moments);
    /* sum of squares of n floats (no alignment needed). */
    double (*square)(const float *x, int64_t n);
    /* One Adam step. Arrays of n floats need no alignment. */
    void (*adam)(int64_t n, const float *grad, const hr_adam_options *options, float *params,
                 float *m, float *v);
} hr_kernels;

/* The best level that this CPU has and HEADRACE_ISA allows (engine/core/isa.h). */
const hr_kernels *hr_kernels_get(void);
/* By name (base, v3, v4); NULL when the build or the CPU lacks it. */
const hr_kernels *hr_kernels_named(const char *name);

#endif /* HEADRACE_TRAINER_KERNELS_H */
