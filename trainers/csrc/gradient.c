#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "units.h"

/* The tiles of one pass. */
typedef struct window {
    int tiles;
    const float *obs[HR_PASS];
    float *hidden[HR_PASS];
    float *delta[HR_PASS];
    float *dout[HR_PASS];
} window;

/* What the tasks of one minibatch share. */
typedef struct batch {
    hr_learner *learner;
    const hr_rollout *rollout;
    const hr_loss_options *loss;
    hr_reference reference;
    const int32_t *order;
    int64_t units;
    int64_t chunks;
    int64_t groups;                      /* of chunks that are added up together; a power of 2 */
    _Atomic int64_t finished[HR_GROUPS]; /* chunks of each group */
    _Atomic int64_t met[HR_GROUPS]; /* of pairs of groups, and of pairs of these: those added up */
} batch;

static int64_t kept_tiles(const hr_net *net, int64_t horizon) {
    return net->state ? horizon : HR_PASS;
}

int64_t hr_learn_scratch(const hr_net *net, int64_t horizon) {
    const int64_t columns = kept_tiles(net, horizon) * ((int64_t)net->hidden + net->outputs) +
                            HR_PASS * (int64_t)net->hidden + net->state + net->outputs +
                            (int64_t)net->heads * HR_HEAD_WORK;
    return columns * HR_TILE * (int64_t)sizeof(float);
}

hr_scratch hr_learn_carve(const hr_learner *l, const hr_rollout *ro, int worker) {
    const int64_t hidden = (int64_t)l->net->hidden * HR_TILE;
    const int64_t outputs = (int64_t)l->net->outputs * HR_TILE;
    const int64_t kept = kept_tiles(l->net, ro->horizon);
    hr_scratch s;
    s.hidden = (float *)(l->scratch + worker * l->scratch_size);
    s.dout = s.hidden + kept * hidden;
    s.delta = s.dout + kept * outputs;
    s.carry = s.delta + HR_PASS * hidden;
    s.out = s.carry + (int64_t)l->net->state * HR_TILE;
    s.heads = s.out + outputs;
    return s;
}

int64_t hr_units(const hr_net *net, const hr_rollout *ro) {
    return net->state ? (int64_t)ro->blocks * ro->agents : ro->tiles;
}

/* ---- backward ---------------------------------------------------------------------------- */

/* Input units of a layer done together on the way back, so that their activations are read
 * from the outer cache once: for the weight gradient, for their own delta, for the layer below. */
#define BACK_UNITS 16

static void offset_tiles(int tiles, float *const *base, int64_t feature, const float **moved) {
    for (int k = 0; k < tiles; k++) moved[k] = base[k] + feature * HR_TILE;
}

/* Weight gradient of a layer, and where there is a layer below, the gradient by its output. */
static void layer_backward(const hr_learner *l, const hr_tower *tower, int index,
                           const float *const *dy, const window *win, float *grad) {
    const int tiles = win->tiles;
    const hr_layer *layer = &tower->layer[index];
    const float *w = l->params + layer->weight;
    float *dw = grad + layer->weight, *db = grad + layer->bias;
    if (index == 0) {
        l->kernels->layer_grad(layer->out, layer->in, layer->in, tiles, dy, win->obs, dw, db);
        return;
    }
    const hr_layer *below = &tower->layer[index - 1];
    for (int i = 0; i < layer->in; i += BACK_UNITS) {
        const int units = layer->in - i < BACK_UNITS ? layer->in - i : BACK_UNITS;
        const float *h[HR_PASS], *d[HR_PASS];
        offset_tiles(tiles, win->hidden, below->hidden + i, h);
        offset_tiles(tiles, win->delta, below->hidden + i, d);
        l->kernels->layer_grad(layer->out, units, layer->in, tiles, dy, h, dw + i,
                               i == 0 ? db : NULL);
        for (int k = 0; k < tiles; k++)
            l->kernels->layer_back(layer->out, units, layer->in, below->activation, w + i, dy[k],
                                   h[k], (float *)d[k]);
        if (index == 1)
            l->kernels->layer_grad(units, below->in, below->in, tiles, d, win->obs,
                                   grad + below->weight + (int64_t)i * below->in,
                                   grad + below->bias + i);
    }
    if (index > 1) {
        const float *d[HR_PASS];
        offset_tiles(tiles, win->delta, below->hidden, d);
        layer_backward(l, tower, index - 1, d, win, grad);
    }
}

/* The kept tiles first .. first + tiles - 1, which are those of the rollout from `order`, or the
 * steps of one unit. */
static window window_at(const batch *b, const hr_scratch *s, int64_t first, int64_t tiles) {
    const hr_net *net = b->learner->net;
    window win;
    win.tiles = tiles < HR_PASS ? (int)tiles : HR_PASS;
    for (int k = 0; k < win.tiles; k++) {
        win.hidden[k] = s->hidden + (first + k) * net->hidden * HR_TILE;
        win.dout[k] = s->dout + (first + k) * net->outputs * HR_TILE;
        win.delta[k] = s->delta + (int64_t)k * net->hidden * HR_TILE;
    }
    return win;
}

/* Forward and loss of one tile; adds to the chunk's gradient and sums. */
static void tile_loss(const batch *b, const hr_scratch *s, int64_t tile, const hr_memory *memory,
                      float *hidden, float *dout, float *grad, double *sums, double *seconds) {
    const hr_learner *l = b->learner;
    const hr_net *net = l->net;
    double mark = hr_start(seconds);
    hr_forward(net, l->kernels, l->params, b->rollout->obs + tile * net->features * HR_TILE, memory,
               hidden, s->out);
    hr_lap(seconds, HR_TIME_LEARN_FORWARD, &mark);
    const hr_loss_rows rows = hr_loss_rows_of(net, b->rollout, b->reference, tile);
    l->kernels->loss(net, l->params, b->loss, &rows, s->out, dout, s->heads, grad, sums);
    hr_lap(seconds, HR_TIME_LOSS, &mark);
}

/* Has what the loss reads of a tile fetched while another is worked on. */
static void fetch_tile(const batch *b, int64_t tile) {
    const hr_net *net = b->learner->net;
    const hr_rollout *ro = b->rollout;
    const float *rows[] = {ro->value, ro->advantage, ro->ret, ro->valid, b->reference.logp};
    hr_fetch(ro->obs + tile * net->features * HR_TILE, (int64_t)net->features * HR_TILE);
    hr_fetch((const float *)ro->actions + tile * net->heads * HR_TILE, net->heads * HR_TILE);
    for (int k = 0; k < 5; k++) hr_fetch(rows[k] + tile * HR_TILE, HR_TILE);
}

/* Forward, loss and backward of at most HR_PASS tiles. */
static void pass(const batch *b, const hr_scratch *s, const int32_t *order, int64_t tiles,
                 float *grad, double *sums, double *seconds) {
    const hr_net *net = b->learner->net;
    window win = window_at(b, s, 0, tiles);
    fetch_tile(b, order[0]);
    for (int k = 0; k < win.tiles; k++) {
        if (k + 1 < tiles) fetch_tile(b, order[k + 1]);
        win.obs[k] = b->rollout->obs + (int64_t)order[k] * net->features * HR_TILE;
        tile_loss(b, s, order[k], NULL, win.hidden[k], win.dout[k], grad, sums, seconds);
    }
    double mark = hr_start(seconds);
    for (int t = 0; t < net->towers; t++) {
        const hr_tower *tower = &net->tower[t];
        const float *dy[HR_PASS];
        offset_tiles(win.tiles, win.dout, tower->output, dy);
        layer_backward(b->learner, tower, tower->layers - 1, dy, &win, grad);
    }
    hr_lap(seconds, HR_TIME_BACKWARD, &mark);
}

/* The way back through the steps first .. first + win->tiles - 1 of a unit. */
static void steps_backward(const batch *b, const hr_scratch *s, int64_t unit, int64_t first,
                           const window *win, float *grad) {
    const hr_learner *l = b->learner;
    const hr_net *net = l->net;
    const hr_tower *tower = &net->tower[0];
    const hr_layer *last = &tower->layer[tower->layers - 1], *memory = hr_memory_layer(net);
    const int64_t kept = hr_remembered(net), step_size = (int64_t)net->hidden * HR_TILE;
    const float *h[HR_PASS], *given[HR_PASS];
    for (int k = 0; k < win->tiles; k++) h[k] = win->hidden[k] + kept;
    offset_tiles(win->tiles, win->delta, memory->hidden, given);
    l->kernels->layer_grad(last->out, last->in, last->in, win->tiles,
                           (const float *const *)win->dout, h, grad + last->weight,
                           grad + last->bias);
    for (int k = win->tiles - 1; k >= 0; k--) {
        float *dh = win->delta[k] + kept;
        const hr_memory at =
            hr_memory_at(net, b->rollout, unit, first + k, s->hidden + kept, step_size);
        l->kernels->layer_back(last->out, last->in, last->in, HR_IDENTITY, l->params + last->weight,
                               win->dout[k], h[k], dh);
        l->kernels->mingru_back(net->state, at.before, at.began, at.live,
                                win->hidden[k] + (int64_t)memory->hidden * HR_TILE, dh, s->carry,
                                (float *)given[k]);
    }
    layer_backward(l, tower, tower->layers - 2, given, win, grad);
}

/* Forward, loss and backward of all steps of 64 rows. */
static void sequence(const batch *b, const hr_scratch *s, int64_t unit, float *grad, double *sums,
                     double *seconds) {
    const hr_net *net = b->learner->net;
    const hr_rollout *ro = b->rollout;
    const int64_t steps = ro->horizon, kept = hr_remembered(net);
    const int64_t step_size = (int64_t)net->hidden * HR_TILE;
    for (int64_t t = 0; t < steps; t++) {
        float *hidden = s->hidden + t * step_size;
        const hr_memory memory = hr_memory_at(net, ro, unit, t, s->hidden + kept, step_size);
        tile_loss(b, s, hr_tile_of(net, ro, unit, t), &memory, hidden,
                  s->dout + t * net->outputs * HR_TILE, grad, sums, seconds);
    }
    double mark = hr_start(seconds);
    memset(s->carry, 0, sizeof(float) * HR_TILE * (size_t)net->state);
    for (int64_t first = (steps - 1) / HR_PASS * HR_PASS; first >= 0; first -= HR_PASS) {
        window win = window_at(b, s, first, steps - first);
        for (int k = 0; k < win.tiles; k++)
            win.obs[k] = ro->obs + hr_tile_of(net, ro, unit, first + k) * net->features * HR_TILE;
        steps_backward(b, s, unit, first, &win, grad);
    }
    hr_lap(seconds, HR_TIME_BACKWARD, &mark);
}

/* Adds a chunk's gradient and sums to another's. */
static void add_chunk(const hr_learner *l, int64_t into, int64_t chunk) {
    float *grad = l->grads + into * l->grad_size;
    const float *more = l->grads + chunk * l->grad_size;
    hr_fetch(more, l->net->params);
    for (int64_t k = 0; k < l->net->params; k++) grad[k] += more[k];
    for (int k = 0; k < HR_SUMS; k++)
        l->sums[into * HR_SUMS_APART + k] += l->sums[chunk * HR_SUMS_APART + k];
}

/* The first chunk of a group. The groups' bounds are those of what 2, 4 or 8 workers begin with. */
static int64_t group_start(const batch *b, int64_t group) { return group * b->chunks / b->groups; }

/* Whoever finishes the last chunk of a group adds the group up, then pairs of groups, of which it
 * has come last too, up to all of them: mostly from its own cache, and always in the same order. */
static void finish_chunk(batch *b, int64_t chunk) {
    int64_t group = ((chunk + 1) * b->groups - 1) / b->chunks;
    const int64_t first = group_start(b, group), end = group_start(b, group + 1);
    if (atomic_fetch_add(&b->finished[group], 1) + 1 < end - first) return;
    for (int64_t c = first + 1; c < end; c++) add_chunk(b->learner, first, c);
    for (int64_t size = 1, node = b->groups + group; size < b->groups; size *= 2) {
        node /= 2; /* of the binary tree whose leaves are the groups */
        if (atomic_fetch_add(&b->met[node], 1) == 0) return;
        group &= ~size;
        add_chunk(b->learner, group_start(b, group), group_start(b, group + size));
    }
}

static void gradient_task(void *arg, int64_t chunk, int worker) {
    batch *b = arg;
    hr_learner *l = b->learner;
    const hr_scratch s = hr_learn_carve(l, b->rollout, worker);
    float *grad = l->grads + chunk * l->grad_size;
    double *sums = l->sums + chunk * HR_SUMS_APART;
    double *timed = l->seconds + worker * HR_TIMES_APART, *seconds = l->detailed ? timed : NULL;
    double mark = hr_start(timed);
    hr_fetch(l->params, l->net->params);
    const int64_t end = (chunk + 1) * b->units / b->chunks, step = l->net->state ? 1 : HR_PASS;
    memset(grad, 0, sizeof(float) * (size_t)l->net->params);
    memset(sums, 0, sizeof(double) * HR_SUMS);
    for (int64_t k = chunk * b->units / b->chunks; k < end && !hr_stopped(l->stop); k += step) {
        if (l->net->state)
            sequence(b, &s, b->order[k], grad, sums, seconds);
        else
            pass(b, &s, b->order + k, end - k, grad, sums, seconds);
    }
    finish_chunk(b, chunk);
    hr_lap(timed, HR_TIME_LEARN_TASK, &mark);
}

/* From so many passes on a chunk has two: there is enough to share all the same, and half as many
 * gradients are added up. */
#define MANY_PASSES 32

/* Chunks of a minibatch: as many passes or sequences as it holds, an even number where it can
 * be. */
static int64_t chunks_of(const hr_net *net, int64_t units) {
    int64_t chunks = net->state ? units : (units + HR_PASS - 1) / HR_PASS;
    if (chunks >= MANY_PASSES && !net->state) chunks = (chunks + 1) / 2;
    chunks += chunks & 1 && chunks < units;
    return chunks < HR_MAX_CHUNKS ? chunks : HR_MAX_CHUNKS;
}

void hr_gradient(hr_learner *l, const hr_rollout *rollout, hr_reference reference,
                 const int32_t *order, int64_t units, const hr_loss_options *loss,
                 const hr_pool_api *api, hr_pool *pool) {
    batch b = {l, rollout, loss, reference, order, units, chunks_of(l->net, units), 1, {0}, {0}};
    while (b.groups < HR_GROUPS && 4 * b.groups <= b.chunks) b.groups *= 2;
    api->run(pool, gradient_task, &b, b.chunks);
}
