/* What the learner's tasks share: their scratch memory, and the tiles of a unit. */
#ifndef HEADRACE_UNITS_H
#define HEADRACE_UNITS_H

#include <stddef.h>

#include "forward.h"
#include "learn.h"

/* One worker's memory. */
typedef struct hr_scratch {
    float *hidden; /* [kept][hidden][64] activations, of a pass or of a whole sequence */
    float *dout;   /* [kept][outputs][64] gradients by the outputs */
    float *delta;  /* [HR_PASS][hidden][64] gradients by what goes into the activation */
    float *carry;  /* [state][64] gradient by what is remembered */
    float *out;    /* [outputs][64] */
    float *heads;  /* [heads * HR_HEAD_WORK][64] */
} hr_scratch;

/* The scratch of one worker. */
hr_scratch hr_learn_carve(const hr_learner *learner, const hr_rollout *rollout, int worker);

static inline int64_t hr_unit_steps(const hr_net *net, const hr_rollout *ro) {
    return net->state ? ro->horizon : 1;
}

static inline int64_t hr_tile_of(const hr_net *net, const hr_rollout *ro, int64_t unit,
                                 int64_t step) {
    if (!net->state) return unit;
    return (unit / ro->agents * ro->horizon + step) * ro->agents + unit % ro->agents;
}

static inline int64_t hr_unit_rows(const hr_net *net, const hr_rollout *ro, int64_t unit) {
    int64_t rows = 0;
    for (int64_t t = 0; t < hr_unit_steps(net, ro); t++)
        rows += ro->tile_rows[hr_tile_of(net, ro, unit, t)];
    return rows;
}

/* What is remembered before a step of a unit: after the step before it, which lies at
 * kept + (step - 1) * stride. */
static inline hr_memory hr_memory_at(const hr_net *net, const hr_rollout *ro, int64_t unit,
                                     int64_t step, const float *kept, int64_t stride) {
    const float *valid = ro->valid + hr_tile_of(net, ro, unit, step) * HR_TILE;
    if (step == 0) return (hr_memory){ro->states + unit * net->state * HR_TILE, NULL, valid, NULL};
    const float *done = ro->done + hr_tile_of(net, ro, unit, step - 1) * HR_TILE;
    return (hr_memory){kept + (step - 1) * stride, done, valid, NULL};
}

/* Where what is remembered lies among the hidden features. */
static inline int64_t hr_remembered(const hr_net *net) {
    return (hr_memory_layer(net)->hidden + 2 * (int64_t)net->state) * HR_TILE;
}

/* One tile as the loss reads it. */
static inline hr_loss_rows hr_loss_rows_of(const hr_net *net, const hr_rollout *ro,
                                           hr_reference reference, int64_t tile) {
    return (hr_loss_rows){
        ro->actions + tile * net->heads * HR_TILE,
        reference.logp + tile * HR_TILE,
        reference.proximal ? reference.proximal + tile * HR_TILE : NULL,
        ro->value + tile * HR_TILE,
        ro->advantage + tile * HR_TILE,
        ro->ret + tile * HR_TILE,
        ro->valid + tile * HR_TILE,
        ro->mask ? ro->mask + tile * net->mask_size * HR_TILE : NULL,
    };
}

#endif /* HEADRACE_UNITS_H */
