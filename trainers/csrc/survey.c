#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "units.h"

/* What the tasks of the pass before an update share. */
typedef struct survey {
    hr_learner *learner;
    const hr_rollout *rollout;
    int64_t stride;
    const hr_gae_options *gae;
} survey;

/* Units of one task of the survey. */
static int64_t units_per_task(const hr_net *net) { return net->state ? 1 : HR_PASS; }

/* Log-probabilities and weights of one unit. */
static void survey_unit(const survey *v, const hr_scratch *s, int64_t unit) {
    hr_learner *l = v->learner;
    const hr_net *net = l->net;
    const hr_rollout *ro = v->rollout;
    float *last = net->state ? s->hidden + hr_remembered(net) : NULL;
    for (int64_t t = 0; t < hr_unit_steps(net, ro); t++) {
        const int64_t tile = hr_tile_of(net, ro, unit, t);
        const hr_loss_rows rows = hr_loss_rows_of(net, ro, (hr_reference){ro->logp, NULL}, tile);
        double *sums = l->weights + tile * 2;
        hr_memory memory = {0};
        if (net->state) memory = hr_memory_at(net, ro, unit, t, last, 0);
        sums[0] = sums[1] = 0.0;
        hr_forward(net, l->kernels, l->params, ro->obs + tile * net->features * HR_TILE, &memory,
                   s->hidden, s->out);
        l->kernels->logp(net, l->params, &rows, s->out, l->current + tile * HR_TILE, s->dout,
                         s->heads, sums);
    }
}

static void current_task(void *arg, int64_t task, int worker) {
    const survey *v = arg;
    const hr_learner *l = v->learner;
    const hr_scratch s = hr_learn_carve(l, v->rollout, worker);
    const int64_t units = hr_units(l->net, v->rollout), per = units_per_task(l->net);
    double *seconds = l->seconds + worker * HR_TIMES_APART;
    double mark = hr_start(seconds);
    for (int64_t k = task * per; k < (task + 1) * per && k * v->stride < units; k++)
        survey_unit(v, &s, k * v->stride);
    hr_lap(seconds, HR_TIME_LEARN_TASK, &mark);
}

void hr_current(hr_learner *l, const hr_rollout *rollout, int64_t stride, const hr_pool_api *api,
                hr_pool *pool) {
    survey v = {l, rollout, stride, NULL};
    const int64_t units = (hr_units(l->net, rollout) + stride - 1) / stride;
    const int64_t per = units_per_task(l->net);
    api->run(pool, current_task, &v, (units + per - 1) / per);
}

static void vtrace_task(void *arg, int64_t block, int worker) {
    const survey *v = arg;
    const hr_learner *l = v->learner;
    const hr_rollout *ro = v->rollout;
    const int64_t width = (int64_t)ro->agents * HR_TILE, at = block * ro->horizon * width;
    const hr_gae_rows from = {
        ro->reward + at, ro->value + at,           ro->done + at, ro->bootstrap + at,
        ro->valid + at,  ro->last + block * width, ro->logp + at, l->current + at,
    };
    double *seconds = l->seconds + worker * HR_TIMES_APART;
    double mark = hr_start(seconds);
    ro->moments[block] = (hr_moments){0};
    l->kernels->gae(ro->horizon, (int)width, &from, v->gae, ro->advantage + at, ro->ret + at,
                    &ro->moments[block]);
    hr_lap(seconds, HR_TIME_LEARN_TASK, &mark);
}

void hr_vtrace(hr_learner *l, const hr_rollout *rollout, const hr_gae_options *options,
               const hr_pool_api *api, hr_pool *pool) {
    survey v = {l, rollout, 1, options};
    api->run(pool, vtrace_task, &v, rollout->blocks);
}

double hr_effective_share(const hr_learner *l, const hr_rollout *rollout, int64_t stride) {
    double rows = 0.0, sum = 0.0, square = 0.0;
    const int64_t units = hr_units(l->net, rollout), steps = hr_unit_steps(l->net, rollout);
    for (int64_t unit = 0; unit < units; unit += stride)
        for (int64_t t = 0; t < steps; t++) {
            const int64_t tile = hr_tile_of(l->net, rollout, unit, t);
            rows += rollout->tile_rows[tile];
            sum += l->weights[tile * 2];
            square += l->weights[tile * 2 + 1];
        }
    if (rows == 0.0) return 1.0;
    const double share = sum * sum / (rows * square);
    return isfinite(share) ? share : 0.0;
}

/* ---- memory computed anew ---------------------------------------------------------------- */

/* What is remembered at the beginning of a unit of the rollout, from the rollout before it. */
static void recall_task(void *arg, int64_t unit, int worker) {
    const survey *v = arg;
    hr_learner *l = v->learner;
    const hr_net *net = l->net;
    const hr_scratch s = hr_learn_carve(l, v->rollout, worker);
    const int64_t size = (int64_t)net->state * HR_TILE;
    hr_rollout past = *v->rollout;
    past.obs = l->past.obs, past.valid = l->past.valid, past.done = l->past.done;
    past.states = l->past.states;
    float *after = v->rollout->states + unit * size;
    double *seconds = l->seconds + worker * HR_TIMES_APART;
    double mark = hr_start(seconds);
    for (int64_t t = 0; t < past.horizon; t++) {
        hr_memory memory = hr_memory_at(net, &past, unit, t, after, 0);
        memory.after = after;
        hr_forward_memory(net, l->kernels, l->params,
                          past.obs + hr_tile_of(net, &past, unit, t) * net->features * HR_TILE,
                          &memory, s.hidden);
    }
    const float *done = past.done + hr_tile_of(net, &past, unit, past.horizon - 1) * HR_TILE;
    for (int64_t k = 0; k < size; k++)
        if (done[k % HR_TILE] != 0.0f) after[k] = 0.0f;
    hr_lap(seconds, HR_TIME_LEARN_TASK, &mark);
}

void hr_recall(hr_learner *l, const hr_rollout *ro, const hr_pool_api *api, hr_pool *pool) {
    survey v = {l, ro, 1, NULL};
    if (l->past.obs == NULL) return;
    if (l->past.there) api->run(pool, recall_task, &v, hr_units(l->net, ro));
    const size_t rows = sizeof(float) * HR_TILE * (size_t)ro->tiles;
    memcpy(l->past.obs, ro->obs, rows * (size_t)ro->features);
    memcpy(l->past.valid, ro->valid, rows);
    memcpy(l->past.done, ro->done, rows);
    memcpy(l->past.states, ro->states,
           sizeof(float) * HR_TILE * (size_t)(hr_units(l->net, ro) * l->net->state));
    l->past.there = 1;
}
