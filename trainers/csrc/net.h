/* What a native policy is made of: plain numbers that the kernels read.
 *
 * Rows live in vector lanes. A *tile* is 64 rows of any array, feature-major:
 * x[feature][64] float32, 64-byte aligned. Parameters are one flat float32 array;
 * weights are [out][in] as torch has them.
 */
#ifndef HEADRACE_NET_H
#define HEADRACE_NET_H

#include <stdint.h>

#define HR_TILE      64 /* rows in one tile */
#define HR_LINE      64 /* bytes of a cache line: what two threads write lies on two of them */
#define HR_MAX_DEPTH 15 /* hidden layers of one tower */

typedef enum hr_activation { HR_IDENTITY, HR_TANH, HR_RELU, HR_MINGRU } hr_activation;
typedef enum hr_head_kind { HR_CATEGORICAL, HR_GAUSSIAN } hr_head_kind;

/* y = activation(W x + b); HR_MINGRU: the gates and candidates of `out / 2` units that remember,
 * see hr_kernels.mingru. */
typedef struct hr_layer {
    int32_t in, out;
    int32_t activation; /* hr_activation */
    int32_t hidden;     /* first row of y among the hidden features; -1 for the last layer.
                         * HR_MINGRU: gates, candidates, and then what is remembered */
    int64_t weight;     /* where W lies in the parameters, floats */
    int64_t bias;
} hr_layer;

/* A chain of layers from the observation to some of the outputs. */
typedef struct hr_tower {
    int32_t layers; /* hidden layers + 1 */
    int32_t output; /* first output that the last layer writes */
    hr_layer layer[HR_MAX_DEPTH + 1];
} hr_tower;

/* One element of the action: a choice among `size`, or one real number. */
typedef struct hr_head {
    int32_t kind;    /* hr_head_kind */
    int32_t size;    /* logits; 1 for a Gaussian (its mean) */
    int32_t output;  /* first of its outputs */
    int32_t mask;    /* first of its mask columns; -1: never masked */
    int32_t draw;    /* which 32-bit random word of the step */
    int32_t offset;  /* bytes from the start of the Action struct */
    int64_t log_std; /* where its log standard deviation lies in the parameters */
    float low, high; /* bounds to which the environment's copy of the action is clipped */
} hr_head;

/* One observation member, and the features it becomes: numbers as float32 (integers times
 * `scale`), discrete values one-hot, `count` elements in C order. */
typedef struct hr_input {
    int32_t dtype;   /* hr_dtype */
    int32_t offset;  /* bytes from the start of the Obs struct */
    int32_t count;   /* elements */
    int32_t choices; /* values of a discrete element; 0 for a number */
    int32_t feature; /* first feature */
    float scale;     /* 1 / the greatest that the integers can be; 1 for floats */
} hr_input;

typedef struct hr_net {
    int32_t features;    /* encoded observation */
    int32_t outputs;     /* logits and means, then the value (the last output) */
    int32_t hidden;      /* sum of all hidden widths */
    int32_t width;       /* widest hidden layer, at least 1 */
    int32_t towers;      /* 1: shared trunk; 2: policy, value */
    int32_t heads;       /* elements of one action */
    int32_t inputs;      /* observation members */
    int32_t mask_size;   /* mask columns; 0: none */
    int32_t action_size; /* bytes of one Action */
    int32_t obs_size;    /* bytes of one Obs */
    int32_t plain;       /* 1: an Obs is exactly `features` float32 in feature order */
    int32_t state;       /* units that remember: then the one tower's layer before the last is
                          * HR_MINGRU; 0: none */
    int64_t params;      /* floats */
    hr_tower tower[2];
    const hr_head *head;   /* [heads] */
    const hr_input *input; /* [inputs] */
} hr_net;

/* The layer that remembers; only where net->state > 0. */
static inline const hr_layer *hr_memory_layer(const hr_net *net) {
    return &net->tower[0].layer[net->tower[0].layers - 2];
}

/* Has [n] floats that another core may have written fetched all at once: read one after the other,
 * each line would be waited for. Of many, only the first: the others come while these are used. */
static inline void hr_fetch(const float *x, int64_t n) {
    for (int64_t k = 0; k < n && k < 8192; k += 16) __builtin_prefetch(x + k, 0, 2);
}

#endif /* HEADRACE_NET_H */
