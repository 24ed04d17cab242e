#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "learn.h"

#include <math.h>
#include <string.h>

#include "clock.h"
#include "forward.h"

/* One worker's memory. */
typedef struct scratch {
    float *hidden[HR_PASS]; /* [hidden][64] activations */
    float *delta[HR_PASS];  /* [hidden][64] gradients by what goes into the activation */
    float *dout[HR_PASS];   /* [outputs][64] gradients by the outputs */
    float *out;             /* [outputs][64] */
    float *heads;           /* [heads * HR_HEAD_WORK][64] */
} scratch;

/* What the tasks of one minibatch share. */
typedef struct batch {
    hr_learner *learner;
    const hr_rollout *rollout;
    const hr_loss_options *loss;
    hr_reference reference;
    const int32_t *order;
    int64_t tiles;
    int64_t chunks;
} batch;

int64_t hr_learn_scratch(const hr_net *net) {
    const int64_t columns = HR_PASS * (2 * (int64_t)net->hidden + net->outputs) + net->outputs +
                            (int64_t)net->heads * HR_HEAD_WORK;
    return columns * HR_TILE * (int64_t)sizeof(float);
}

static scratch carve(const hr_learner *l, int worker) {
    const int64_t hidden = (int64_t)l->net->hidden * HR_TILE;
    const int64_t outputs = (int64_t)l->net->outputs * HR_TILE;
    float *at = (float *)(l->scratch + worker * l->scratch_size);
    scratch s;
    for (int k = 0; k < HR_PASS; k++, at += hidden) s.hidden[k] = at;
    for (int k = 0; k < HR_PASS; k++, at += hidden) s.delta[k] = at;
    for (int k = 0; k < HR_PASS; k++, at += outputs) s.dout[k] = at;
    s.out = at;
    s.heads = at + outputs;
    return s;
}

/* Input units of a layer done together on the way back, so that their activations are read
 * from the outer cache once: for the weight gradient, for their own delta, for the layer below. */
#define BACK_UNITS 8

static void offset_tiles(int tiles, float *const *base, int64_t feature, const float **moved) {
    for (int k = 0; k < tiles; k++) moved[k] = base[k] + feature * HR_TILE;
}

/* Weight gradient of a layer, and where there is a layer below, the gradient by its output. */
static void layer_backward(const hr_learner *l, const hr_tower *tower, int index, int tiles,
                           const float *const *dy, const scratch *s, const float *const *obs,
                           float *grad) {
    const hr_layer *layer = &tower->layer[index];
    const float *w = l->params + layer->weight;
    float *dw = grad + layer->weight, *db = grad + layer->bias;
    if (index == 0) {
        l->kernels->layer_grad(layer->out, layer->in, layer->in, tiles, dy, obs, dw, db);
        return;
    }
    const hr_layer *below = &tower->layer[index - 1];
    for (int i = 0; i < layer->in; i += BACK_UNITS) {
        const int units = layer->in - i < BACK_UNITS ? layer->in - i : BACK_UNITS;
        const float *h[HR_PASS], *d[HR_PASS];
        offset_tiles(tiles, s->hidden, below->hidden + i, h);
        offset_tiles(tiles, s->delta, below->hidden + i, d);
        l->kernels->layer_grad(layer->out, units, layer->in, tiles, dy, h, dw + i,
                               i == 0 ? db : NULL);
        for (int k = 0; k < tiles; k++)
            l->kernels->layer_back(layer->out, units, layer->in, below->activation, w + i, dy[k],
                                   h[k], (float *)d[k]);
        if (index == 1)
            l->kernels->layer_grad(units, below->in, below->in, tiles, d, obs,
                                   grad + below->weight + (int64_t)i * below->in,
                                   grad + below->bias + i);
    }
    if (index > 1) {
        const float *d[HR_PASS];
        offset_tiles(tiles, s->delta, below->hidden, d);
        layer_backward(l, tower, index - 1, tiles, d, s, obs, grad);
    }
}

/* One tile as the loss reads it. */
static hr_loss_rows loss_rows(const hr_net *net, const hr_rollout *ro, hr_reference reference,
                              int64_t tile) {
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

/* Forward, loss and backward of at most HR_PASS tiles; adds to the chunk's gradient and sums. */
static void pass(const batch *b, const scratch *s, const int32_t *order, int tiles, float *grad,
                 double *sums, double *seconds) {
    const hr_learner *l = b->learner;
    const hr_net *net = l->net;
    const hr_rollout *ro = b->rollout;
    const float *obs[HR_PASS];
    for (int k = 0; k < tiles; k++) {
        const int64_t tile = order[k];
        double mark = hr_start(seconds);
        obs[k] = ro->obs + tile * net->features * HR_TILE;
        hr_forward(net, l->kernels, l->params, obs[k], s->hidden[k], s->out);
        hr_lap(seconds, HR_TIME_LEARN_FORWARD, &mark);
        const hr_loss_rows rows = loss_rows(net, ro, b->reference, tile);
        l->kernels->loss(net, l->params, b->loss, &rows, s->out, s->dout[k], s->heads, grad, sums);
        hr_lap(seconds, HR_TIME_LOSS, &mark);
    }
    double mark = hr_start(seconds);
    for (int t = 0; t < net->towers; t++) {
        const hr_tower *tower = &net->tower[t];
        const float *dy[HR_PASS];
        offset_tiles(tiles, s->dout, tower->output, dy);
        layer_backward(l, tower, tower->layers - 1, tiles, dy, s, obs, grad);
    }
    hr_lap(seconds, HR_TIME_BACKWARD, &mark);
}

static void gradient_task(void *arg, int64_t chunk, int worker) {
    const batch *b = arg;
    hr_learner *l = b->learner;
    const scratch s = carve(l, worker);
    float *grad = l->grads + chunk * l->net->params;
    double *sums = l->sums + chunk * HR_SUMS;
    double *seconds = l->seconds + worker * HR_TIMES;
    double mark = hr_start(seconds);
    const int64_t end = (chunk + 1) * b->tiles / b->chunks;
    memset(grad, 0, sizeof(float) * (size_t)l->net->params);
    memset(sums, 0, sizeof(double) * HR_SUMS);
    for (int64_t k = chunk * b->tiles / b->chunks; k < end && !hr_stopped(l->stop); k += HR_PASS)
        pass(b, &s, b->order + k, end - k < HR_PASS ? (int)(end - k) : HR_PASS, grad, sums,
             l->detailed ? seconds : NULL);
    hr_lap(seconds, HR_TIME_LEARN_TASK, &mark);
}

/* Chunks of a minibatch: as many passes as it holds, an even number where it can be. */
static int64_t chunks_of(int64_t tiles) {
    int64_t chunks = (tiles + HR_PASS - 1) / HR_PASS;
    chunks += chunks & 1 && chunks < tiles;
    return chunks < HR_MAX_CHUNKS ? chunks : HR_MAX_CHUNKS;
}

void hr_gradient(hr_learner *l, const hr_rollout *rollout, hr_reference reference,
                 const int32_t *order, int64_t tiles, const hr_loss_options *loss,
                 const hr_pool_api *api, hr_pool *pool) {
    batch b = {l, rollout, loss, reference, order, tiles, chunks_of(tiles)};
    api->run(pool, gradient_task, &b, b.chunks);
    for (int64_t c = 1; c < b.chunks; c++) {
        const float *from = l->grads + c * l->net->params;
        for (int64_t k = 0; k < l->net->params; k++) l->grads[k] += from[k];
        for (int k = 0; k < HR_SUMS; k++) l->sums[k] += l->sums[c * HR_SUMS + k];
    }
}

/* SplitMix64 of key + number: shuffles need few, independent numbers. */
static uint64_t random_bits(uint64_t key, uint64_t number) {
    uint64_t z = key + (number + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Fisher and Yates over the tiles. */
static void shuffle(hr_learner *l, int64_t tiles) {
    const uint64_t key = random_bits(l->key, l->shuffles++);
    for (int64_t k = 0; k < tiles; k++) l->order[k] = (int32_t)k;
    for (int64_t k = tiles - 1; k > 0; k--) {
        const int64_t pick =
            (int64_t)((random_bits(key, (uint64_t)k) >> 32) * (uint64_t)(k + 1) >> 32);
        const int32_t kept = l->order[k];
        l->order[k] = l->order[pick];
        l->order[pick] = kept;
    }
}

static hr_moments total_moments(const hr_rollout *rollout) {
    hr_moments all = {0};
    for (int b = 0; b < rollout->blocks; b++) {
        const hr_moments *m = &rollout->moments[b];
        all.count += m->count;
        all.advantage += m->advantage;
        all.advantage2 += m->advantage2;
        all.ret += m->ret;
        all.ret2 += m->ret2;
        all.error += m->error;
        all.error2 += m->error2;
    }
    return all;
}

static double variance(double count, double sum, double square) {
    const double v = count > 0 ? (square - sum * sum / count) / count : 0.0;
    return v > 0.0 ? v : 0.0;
}

static hr_loss_options loss_options(const hr_learn_options *o, const hr_moments *m) {
    hr_loss_options loss = {o->clip, o->value_clip, o->value_coef, o->entropy_coef,
                            0.0f,    1.0f,          0.0f,          o->weight_max};
    if (o->correction == HR_VTRACE) loss.weight_max = o->gae.rho_max;
    if (o->normalize_advantage && m->count > 1) {
        const double v = variance(m->count, m->advantage, m->advantage2);
        loss.advantage_mean = (float)(m->advantage / m->count);
        loss.advantage_scale = (float)(1.0 / (sqrt(v * m->count / (m->count - 1)) + 1e-8));
    }
    return loss;
}

/* Norm of the gradient, and a fault where it or the loss is not finite. */
static hr_fault check(const hr_learner *l, int minibatch, double norm) {
    for (int k = 0; k < HR_SUMS; k++)
        if (!isfinite(l->sums[k]))
            return (hr_fault){HR_FAULT_LOSS, minibatch, k, 0, (float)l->sums[k]};
    if (!isfinite(norm))
        for (int64_t k = 0; k < l->net->params; k++)
            if (!isfinite(l->grads[k]))
                return (hr_fault){HR_FAULT_GRADIENT, minibatch, k, 0, l->grads[k]};
    return (hr_fault){0};
}

static void optimize(hr_learner *l, const hr_learn_options *o, double norm) {
    const double steps = (double)++l->steps;
    hr_adam_options adam = {o->lr, o->beta1, o->beta2, o->eps, 0.0f, 0.0f, 1.0f};
    adam.correction1 = (float)(1.0 - pow(o->beta1, steps));
    adam.correction2 = (float)(1.0 - pow(o->beta2, steps));
    if (o->max_grad_norm > 0.0f && norm + 1e-6 > o->max_grad_norm)
        adam.scale = (float)(o->max_grad_norm / (norm + 1e-6));
    l->kernels->adam(l->net->params, l->grads, &adam, l->params, l->m, l->v);
}

/* ---- correction for lag ------------------------------------------------------------------ */

/* What the tasks of the pass before an update share. */
typedef struct survey {
    hr_learner *learner;
    const hr_rollout *rollout;
    int64_t stride;
    const hr_gae_options *gae;
} survey;

static void current_task(void *arg, int64_t task, int worker) {
    const survey *v = arg;
    hr_learner *l = v->learner;
    const hr_net *net = l->net;
    const hr_rollout *ro = v->rollout;
    const scratch s = carve(l, worker);
    double *seconds = l->seconds + worker * HR_TIMES;
    double mark = hr_start(seconds);
    for (int64_t k = task * HR_PASS; k < (task + 1) * HR_PASS; k++) {
        const int64_t tile = k * v->stride;
        if (tile >= ro->tiles) break;
        const hr_loss_rows rows = loss_rows(net, ro, (hr_reference){ro->logp, NULL}, tile);
        double *sums = l->weights + tile * 2;
        sums[0] = sums[1] = 0.0;
        hr_forward(net, l->kernels, l->params, ro->obs + tile * net->features * HR_TILE,
                   s.hidden[0], s.out);
        l->kernels->logp(net, l->params, &rows, s.out, l->current + tile * HR_TILE, s.dout[0],
                         s.heads, sums);
    }
    hr_lap(seconds, HR_TIME_LEARN_TASK, &mark);
}

void hr_current(hr_learner *l, const hr_rollout *rollout, int64_t stride, const hr_pool_api *api,
                hr_pool *pool) {
    survey v = {l, rollout, stride, NULL};
    const int64_t tiles = (rollout->tiles + stride - 1) / stride;
    api->run(pool, current_task, &v, (tiles + HR_PASS - 1) / HR_PASS);
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
    double *seconds = l->seconds + worker * HR_TIMES;
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

/* (sum of weights)^2 / (rows * sum of their squares), of one tile in `stride`. */
static double effective_share(const hr_learner *l, const hr_rollout *rollout, int64_t stride) {
    double rows = 0.0, sum = 0.0, square = 0.0;
    for (int64_t tile = 0; tile < rollout->tiles; tile += stride) {
        rows += rollout->tile_rows[tile];
        sum += l->weights[tile * 2];
        square += l->weights[tile * 2 + 1];
    }
    if (rows == 0.0) return 1.0;
    const double share = sum * sum / (rows * square);
    return isfinite(share) ? share : 0.0;
}

/* To what the rows are compared in this update; V-trace's advantages where these are asked for. */
static hr_reference correct(hr_learner *l, const hr_rollout *rollout, const hr_learn_options *o,
                            const hr_pool_api *api, hr_pool *pool, double *ess) {
    hr_reference reference = {rollout->logp, NULL};
    *ess = 1.0;
    if (!o->lagged) return reference;
    const int64_t stride = o->correction == HR_CLIP ? HR_SAMPLED : 1;
    hr_current(l, rollout, stride, api, pool);
    *ess = effective_share(l, rollout, stride);
    if (o->correction == HR_NONE) reference.logp = l->current;
    if (o->correction == HR_VTRACE || o->correction == HR_DECOUPLED)
        reference.proximal = l->current;
    if (o->correction == HR_VTRACE) hr_vtrace(l, rollout, &o->gae, api, pool);
    return reference;
}

hr_fault hr_learn(hr_learner *l, const hr_rollout *rollout, const hr_learn_options *o,
                  const hr_pool_api *api, hr_pool *pool, hr_learn_stats *stats) {
    const hr_reference reference = correct(l, rollout, o, api, pool, &stats->ess);
    const hr_moments m = total_moments(rollout);
    hr_loss_options loss = loss_options(o, &m);
    double sums[HR_SUMS] = {0}, rows_seen = 0.0, norms = 0.0;
    const int64_t parts = o->minibatches < rollout->tiles ? o->minibatches : rollout->tiles;
    int updates = 0;
    for (int epoch = 0; epoch < o->epochs; epoch++) {
        shuffle(l, rollout->tiles);
        for (int64_t part = 0; part < parts; part++) {
            const int64_t lo = part * rollout->tiles / parts;
            const int64_t hi = (part + 1) * rollout->tiles / parts;
            int64_t rows = 0;
            for (int64_t k = lo; k < hi; k++) rows += rollout->tile_rows[l->order[k]];
            if (rows == 0) continue;
            loss.scale = (float)(1.0 / (double)rows);
            hr_gradient(l, rollout, reference, l->order + lo, hi - lo, &loss, api, pool);
            double mark = hr_start(l->seconds);
            if (hr_stopped(l->stop)) return (hr_fault){.kind = HR_FAULT_STOPPED};
            const double norm = sqrt(l->kernels->square(l->grads, l->net->params));
            hr_fault fault = check(l, updates, norm);
            if (fault.kind) return fault;
            optimize(l, o, norm);
            for (int k = 0; k < HR_SUMS; k++) sums[k] += l->sums[k];
            rows_seen += (double)rows;
            norms += norm;
            updates++;
            hr_lap(l->seconds, HR_TIME_OPTIMIZER, &mark);
        }
    }
    const double all = rows_seen > 0 ? rows_seen : 1.0;
    stats->policy_loss = sums[HR_SUM_POLICY] / all;
    stats->value_loss = sums[HR_SUM_VALUE] / all;
    stats->entropy = sums[HR_SUM_ENTROPY] / all;
    stats->kl = sums[HR_SUM_KL] / all;
    stats->clip_fraction = sums[HR_SUM_CLIPPED] / all;
    stats->grad_norm = updates ? norms / updates : 0.0;
    const double spread = variance(m.count, m.ret, m.ret2);
    const double unexplained = variance(m.count, m.error, m.error2);
    stats->explained_variance = spread > 0.0 ? 1.0 - unexplained / spread : (double)NAN;
    return (hr_fault){0};
}
