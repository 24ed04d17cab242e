#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "collect.h"

#include <math.h>
#include <string.h>

#include "clock.h"
#include "forward.h"

/* One worker's memory, carved out of its scratch. */
typedef struct scratch {
    float *hidden;       /* [hidden][64] */
    float *out;          /* [outputs][64] */
    float *work;         /* [outputs][64] */
    float *x;            /* [features][64] last observations */
    float *finals;       /* [features][64] final observations waiting for their value, */
    float *kept;         /* [state][64] what was remembered then, */
    int64_t *places;     /* [64] where these values go in `bootstrap` */
    double *obs_sums;    /* [2][features] of the block, until it is done, */
    double *reward_sums; /* [3] likewise: in the rollout other threads write next to them */
    int waiting;         /* how many there are */
} scratch;

/* What one task works on. */
typedef struct call {
    hr_collector *collector;
    const hr_weights *weights;
    hr_rollout *rollout;
    uint64_t step; /* steps before the rollout */
} call;

/* Whether a row may be away: because the author says so, or because it ended before its world. */
static int comes_and_goes(const hr_vec *vec) { return vec->env->present || vec->env->agents > 1; }

static int64_t tile_bytes(int64_t features) { return features * HR_TILE * (int64_t)sizeof(float); }

int64_t hr_collect_scratch(const hr_net *net) {
    const int64_t sums = 2 * (int64_t)net->features + 3;
    return tile_bytes(net->hidden + 2 * net->outputs + 2 * net->features + net->state + 2 +
                      sums * (int64_t)sizeof(double) / tile_bytes(1) + 1);
}

static scratch carve(const hr_collector *c, int worker) {
    const hr_net *net = c->net;
    scratch s;
    s.hidden = (float *)(c->scratch + worker * c->scratch_size);
    s.out = s.hidden + (int64_t)net->hidden * HR_TILE;
    s.work = s.out + (int64_t)net->outputs * HR_TILE;
    s.x = s.work + (int64_t)net->outputs * HR_TILE;
    s.finals = s.x + (int64_t)net->features * HR_TILE;
    s.kept = s.finals + (int64_t)net->features * HR_TILE;
    s.places = (int64_t *)(s.kept + (int64_t)net->state * HR_TILE);
    s.obs_sums = (double *)(s.places + HR_TILE);
    s.reward_sums = s.obs_sums + 2 * net->features;
    s.waiting = 0;
    return s;
}

/* What is remembered of a tile's rows, by the first of them. */
static float *memory_of(const hr_collector *c, int64_t row) {
    return c->states + row * c->net->state;
}

/* Where the first number that is not finite lies; the kernel has found that there is one. */
static hr_fault find_bad(int kind, const float *x, int features, int step, int64_t row) {
    for (int r = 0; r < HR_TILE; r++)
        for (int f = 0; f < features; f++)
            if (!isfinite(x[f * HR_TILE + r]))
                return (hr_fault){kind, step, row + r, f, x[f * HR_TILE + r]};
    return (hr_fault){0};
}

static void write_actions(const hr_net *net, const int32_t *actions, int rows, char *into) {
    if (net->heads == 1 && net->action_size == 4 && net->head[0].kind == HR_CATEGORICAL) {
        memcpy(into, actions, sizeof(int32_t) * (size_t)rows);
        return;
    }
    for (int k = 0; k < net->heads; k++) {
        const hr_head *head = &net->head[k];
        char *to = into + head->offset;
        if (head->kind == HR_CATEGORICAL) {
            for (int r = 0; r < rows; r++)
                *(int32_t *)(to + (int64_t)r * net->action_size) = actions[k * HR_TILE + r];
        } else {
            const float *sampled = (const float *)(actions + k * HR_TILE);
            for (int r = 0; r < rows; r++) {
                float a = sampled[r] > head->low ? sampled[r] : head->low;
                *(float *)(to + (int64_t)r * net->action_size) = a < head->high ? a : head->high;
            }
        }
    }
}

/* mask[columns][64] from [rows][columns]; lanes beyond the batch allow everything. */
static void transpose_mask(const uint8_t *from, int rows, int columns, uint8_t *mask) {
    if (rows < HR_TILE) memset(mask, 1, (size_t)columns * HR_TILE);
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < columns; k++) mask[k * HR_TILE + r] = from[(int64_t)r * columns + k];
}

/* A row that is there and to which the mask of some head allows nothing. */
static hr_fault check_mask(const hr_net *net, const uint8_t *mask, const float *valid, int step,
                           int64_t row) {
    for (int k = 0; k < net->heads; k++) {
        const hr_head *head = &net->head[k];
        uint8_t any[HR_TILE] = {0};
        int bad = 0;
        if (head->mask < 0) continue;
        for (int j = 0; j < head->size; j++)
            for (int r = 0; r < HR_TILE; r++) any[r] |= mask[(head->mask + j) * HR_TILE + r];
        for (int r = 0; r < HR_TILE; r++) bad |= valid[r] > 0.0f && !any[r];
        for (int r = 0; bad && r < HR_TILE; r++)
            if (valid[r] > 0.0f && !any[r])
                return (hr_fault){HR_FAULT_MASK, step, row + r, k, 0.0f};
    }
    return (hr_fault){0};
}

/* Encodes a tile, zeros where there[64] is 0 (NULL: nowhere); its statistics and its normalisation
 * where these are on. */
static hr_fault encode(const call *run, int64_t row, int rows, int step, const uint8_t *there,
                       const float *valid, double *sums, float *x) {
    const hr_collector *c = run->collector;
    const hr_vec *vec = c->vec;
    const hr_net *net = c->net;
    c->kernels->encode(net, (const char *)vec->batch.obs + row * net->obs_size, rows, there, x);
    if (!c->kernels->finite(x, (int64_t)net->features * HR_TILE))
        return find_bad(HR_FAULT_OBS, x, net->features, step, row);
    if (c->obs_clip > 0.0f) {
        const hr_weights *w = run->weights;
        if (sums)
            c->kernels->observe(net->features, x, w->obs_mean, valid, sums, sums + net->features);
        c->kernels->normalize(net->features, w->obs_mean, w->obs_scale, c->obs_clip, x);
    }
    return (hr_fault){0};
}

/* Values of the final observations that wait, to where they belong. */
static void flush_finals(const call *run, scratch *s) {
    const hr_collector *c = run->collector;
    const hr_net *net = c->net;
    if (s->waiting == 0) return;
    if (c->obs_clip > 0.0f)
        c->kernels->normalize(net->features, run->weights->obs_mean, run->weights->obs_scale,
                              c->obs_clip, s->finals);
    const hr_memory memory = {s->kept, NULL, NULL, NULL};
    hr_forward_value(net, c->kernels, run->weights->params, s->finals, &memory, s->hidden, s->out);
    for (int k = 0; k < s->waiting; k++)
        run->rollout->bootstrap[s->places[k]] = s->out[(net->outputs - 1) * HR_TILE + k];
    s->waiting = 0;
}

/* Takes one row's final observation, and what is remembered in lane r of memory, into the tile of
 * those that wait for their value. */
static hr_fault add_final(const call *run, scratch *s, int64_t row, int step, int64_t place,
                          const float *memory, int r) {
    const hr_collector *c = run->collector;
    const hr_net *net = c->net;
    const char *from = (const char *)c->vec->final_obs + row * net->obs_size;
    c->kernels->encode(net, from, 1, NULL, s->x);
    for (int f = 0; f < net->features; f++) {
        const float value = s->x[f * HR_TILE];
        if (!isfinite(value)) return (hr_fault){HR_FAULT_OBS, step, row, f, value};
        s->finals[f * HR_TILE + s->waiting] = value;
    }
    for (int u = 0; u < net->state; u++)
        s->kept[u * HR_TILE + s->waiting] = memory[u * HR_TILE + r];
    s->places[s->waiting++] = place;
    if (s->waiting == HR_TILE) flush_finals(run, s);
    return (hr_fault){0};
}

/* Whether four flags are 0.0f, in one look: ends are rare. */
static int none_of_four(const float *flags) {
    uint64_t pair[2];
    memcpy(pair, flags, sizeof pair);
    return (pair[0] | pair[1]) == 0;
}

/* Episodes that ended in the step just taken: their results, and the value of what was cut. What
 * was remembered of them is forgotten. */
static hr_fault record_ends(const call *run, scratch *s, int block, int64_t row, int rows, int step,
                            int64_t tile) {
    hr_collector *c = run->collector;
    const hr_vec *vec = c->vec;
    hr_rollout *ro = run->rollout;
    hr_episode *episodes = ro->block_episodes + (int64_t)block * ro->horizon * ro->agents * HR_TILE;
    float *memory = memory_of(c, row);
    hr_fault fault = {0};
    for (int r = 0; r < rows && fault.kind == 0; r++) {
        const int64_t at = tile * HR_TILE + r;
        if (r % 4 == 0 && none_of_four(ro->done + at)) {
            r += 3;
            continue;
        }
        if (ro->done[at] == 0.0f) continue;
        episodes[ro->logs[block].episodes++] = (hr_episode){
            step, (int32_t)(row + r), vec->last_return[row + r], vec->last_length[row + r]};
        if (!vec->batch.terminated[row + r])
            fault = add_final(run, s, row + r, step, at, memory, r);
        for (int u = 0; u < c->net->state; u++) memory[u * HR_TILE + r] = 0.0f;
        if (c->discounted) c->discounted[row + r] = 0.0f;
    }
    return fault;
}

/* Rewards scaled by the spread of discounted returns, whose sums go to the learner. One that
 * comes while a row is away counts as if it had come with the row's last step. */
static void normalize_rewards(const call *run, int64_t row, int rows, int64_t tile, double *sums) {
    const hr_collector *c = run->collector;
    float *reward = run->rollout->reward + tile * HR_TILE;
    const float *valid = run->rollout->valid + tile * HR_TILE;
    float *total = c->discounted + row;
    const float mean = run->weights->reward_mean, scale = run->weights->reward_scale;
    for (int r = 0; r < rows; r++) {
        if (valid[r] == 0.0f && reward[r] == 0.0f) continue;
        total[r] = (valid[r] == 0.0f ? total[r] : total[r] * c->gae.gamma) + reward[r];
        const double d = (double)(total[r] - mean);
        sums[0] += 1.0;
        sums[1] += d;
        sums[2] += d * d;
        const float y = reward[r] * scale;
        reward[r] = y > c->reward_clip ? c->reward_clip : y < -c->reward_clip ? -c->reward_clip : y;
    }
}

/* Rewards, ends and validity of one tile after the step. */
static hr_fault record(const call *run, scratch *s, int block, int64_t row, int rows, int step,
                       int64_t tile) {
    hr_collector *c = run->collector;
    const hr_vec *vec = c->vec;
    hr_rollout *ro = run->rollout;
    float *reward = ro->reward + tile * HR_TILE, *done = ro->done + tile * HR_TILE;
    int ends;
    memset(ro->bootstrap + tile * HR_TILE, 0, sizeof(float) * HR_TILE);
    if (!c->kernels->record(rows, vec->batch.rewards + row, vec->batch.terminated + row,
                            vec->batch.truncated + row, reward, done, &ends))
        return find_bad(HR_FAULT_REWARD, reward, 1, step, row);
    if (c->reward_clip > 0.0f) normalize_rewards(run, row, rows, tile, s->reward_sums);
    return ends ? record_ends(run, s, block, row, rows, step, tile) : (hr_fault){0};
}

static int rows_in(const hr_collector *c, int64_t row) {
    const int64_t left = c->vec->rows - row;
    return left > HR_TILE ? HR_TILE : left > 0 ? (int)left : 0;
}

/* Which lanes of a tile are transitions of the step to come; returns how many. */
static int mark_valid(const hr_vec *vec, int64_t row, int rows, float *valid) {
    const uint8_t *present = comes_and_goes(vec) ? vec->present + row : NULL;
    int count = 0;
    if (rows == HR_TILE && !present) {
        for (int r = 0; r < HR_TILE; r++) valid[r] = 1.0f;
        return HR_TILE;
    }
    for (int r = 0; r < HR_TILE; r++) {
        const int live = r < rows && (!present || present[r]);
        valid[r] = (float)live;
        count += live;
    }
    return count;
}

/* Encode, forward and sample one tile; its actions go to the batch. */
static hr_fault act(const call *run, scratch *s, int64_t row, int rows, int step, int64_t tile,
                    double *seconds) {
    const hr_collector *c = run->collector;
    const hr_vec *vec = c->vec;
    const hr_net *net = c->net;
    hr_rollout *ro = run->rollout;
    float *x = ro->obs + tile * net->features * HR_TILE;
    int32_t *actions = ro->actions + tile * net->heads * HR_TILE;
    uint8_t *mask = ro->mask ? ro->mask + tile * net->mask_size * HR_TILE : NULL;
    double *sums = ro->obs_sums ? s->obs_sums : NULL;
    double mark = hr_start(seconds);
    ro->tile_rows[tile] = mark_valid(vec, row, rows, ro->valid + tile * HR_TILE);
    const uint8_t *there = comes_and_goes(vec) ? vec->present + row : NULL;
    hr_fault fault = encode(run, row, rows, step, there, ro->valid + tile * HR_TILE, sums, x);
    if (fault.kind) return fault;
    hr_lap(seconds, HR_TIME_ENCODE, &mark);
    float *state = memory_of(c, row);
    const hr_memory memory = {state, NULL, ro->valid + tile * HR_TILE, state};
    hr_forward(net, c->kernels, run->weights->params, x, &memory, s->hidden, s->out);
    hr_lap(seconds, HR_TIME_FORWARD, &mark);
    if (mask) {
        transpose_mask(vec->mask + row * net->mask_size, rows, net->mask_size, mask);
        fault = check_mask(net, mask, ro->valid + tile * HR_TILE, step, row);
        if (fault.kind) return fault;
    }
    const hr_draw draw = {c->key, run->step + (uint64_t)step, (uint32_t)row, 0, NULL, NULL};
    c->kernels->sample(net, run->weights->params, s->out, mask, &draw, actions,
                       ro->logp + tile * HR_TILE, s->work);
    memcpy(ro->value + tile * HR_TILE, s->out + (net->outputs - 1) * HR_TILE,
           sizeof(float) * HR_TILE);
    write_actions(net, actions, rows, (char *)vec->batch.actions + row * net->action_size);
    hr_lap(seconds, HR_TIME_SAMPLE, &mark);
    return fault;
}

/* The rows whose episode goes on, whether or not their agent acts next. */
static const uint8_t *under_way(const hr_vec *vec, int64_t row, int rows, uint8_t *there) {
    if (!comes_and_goes(vec)) return NULL;
    for (int r = 0; r < rows; r++) there[r] = !vec->ended[row + r];
    return there;
}

/* V of the observations after the last step, then the block's advantages. */
static hr_fault finish_block(const call *run, scratch *s, int block, int64_t first_row) {
    const hr_collector *c = run->collector;
    hr_rollout *ro = run->rollout;
    const int value_at = (c->net->outputs - 1) * HR_TILE;
    float *last = ro->last + (int64_t)block * ro->agents * HR_TILE;
    flush_finals(run, s);
    for (int part = 0; part < ro->agents; part++) {
        const int64_t row = first_row + (int64_t)part * HR_TILE;
        const int rows = rows_in(c, row);
        uint8_t there[HR_TILE];
        hr_fault fault = encode(run, row, rows, ro->horizon, under_way(c->vec, row, rows, there),
                                NULL, NULL, s->x);
        if (fault.kind) return fault;
        const hr_memory memory = {memory_of(c, row), NULL, NULL, NULL};
        hr_forward_value(c->net, c->kernels, run->weights->params, s->x, &memory, s->hidden,
                         s->out);
        memcpy(last + part * HR_TILE, s->out + value_at, sizeof(float) * HR_TILE);
    }
    const int64_t at = (int64_t)block * ro->horizon * ro->agents * HR_TILE;
    ro->moments[block] = (hr_moments){0};
    const hr_gae_rows from = {
        ro->reward + at, ro->value + at, ro->done + at, ro->bootstrap + at,
        ro->valid + at,  last,           NULL,          NULL,
    };
    c->kernels->gae(ro->horizon, ro->agents * HR_TILE, &from, &c->gae, ro->advantage + at,
                    ro->ret + at, &ro->moments[block]);
    return (hr_fault){0};
}

static hr_fault run_block(const call *run, scratch *s, int block, double *spent) {
    hr_collector *c = run->collector;
    hr_vec *vec = c->vec;
    hr_rollout *ro = run->rollout;
    const int64_t lo = (int64_t)block * HR_TILE, row = lo * ro->agents;
    const int64_t hi = lo + HR_TILE < vec->worlds ? lo + HR_TILE : vec->worlds;
    hr_fault fault = {0};
    if (c->net->state)
        memcpy(ro->states + row * c->net->state, memory_of(c, row),
               (size_t)tile_bytes((int64_t)c->net->state * ro->agents));
    for (int t = 0; t < ro->horizon; t++) {
        const int64_t tile = ((int64_t)block * ro->horizon + t) * ro->agents;
        double *seconds = (run->step + (uint64_t)t) % (uint64_t)c->timed ? NULL : spent;
        if (hr_stopped(c->stop)) return (hr_fault){.kind = HR_FAULT_STOPPED};
        for (int part = 0; part < ro->agents; part++) {
            const int64_t at = row + (int64_t)part * HR_TILE;
            fault = act(run, s, at, rows_in(c, at), t, tile + part, seconds);
            if (fault.kind) return fault;
        }
        double mark = hr_start(seconds);
        vec->step(vec, lo, hi);
        hr_lap(seconds, HR_TIME_ENV, &mark);
        for (int part = 0; part < ro->agents; part++) {
            const int64_t at = row + (int64_t)part * HR_TILE;
            fault = record(run, s, block, at, rows_in(c, at), t, tile + part);
            if (fault.kind) return fault;
        }
        hr_lap(seconds, HR_TIME_RECORD, &mark);
    }
    double mark = hr_start(spent);
    fault = finish_block(run, s, block, row);
    hr_lap(spent, HR_TIME_ADVANTAGE, &mark);
    return fault;
}

/* Whose weights act in a block, and about which means its sums are taken: from nothing. */
static void begin_sums(hr_rollout *ro, int block, const hr_weights *w, scratch *s) {
    ro->versions[block] = w->version;
    if (ro->obs_sums) {
        memset(s->obs_sums, 0, sizeof(double) * 2 * (size_t)ro->features);
        for (int f = 0; f < ro->features; f++)
            ro->obs_centres[(int64_t)block * ro->features + f] = (double)w->obs_mean[f];
    }
    if (ro->reward_sums) {
        memset(s->reward_sums, 0, sizeof(double) * 3);
        ro->reward_centres[block] = (double)w->reward_mean;
    }
}

static void end_sums(hr_rollout *ro, int block, const scratch *s) {
    const int64_t size = 2 * (int64_t)ro->features;
    if (ro->obs_sums)
        memcpy(ro->obs_sums + block * size, s->obs_sums, sizeof(double) * (size_t)size);
    if (ro->reward_sums)
        memcpy(ro->reward_sums + (int64_t)block * 3, s->reward_sums, sizeof(double) * 3);
}

static void collect_task(void *arg, int64_t task, int worker) {
    const hr_share *share = arg;
    hr_collector *c = share->collector;
    double *seconds = c->seconds + worker * HR_TIMES_APART;
    double began = hr_start(seconds);
    const int block = share->first + (int)task;
    hr_slot *slot = share->weights ? NULL : hr_slots_acquire(share->slots);
    const call run = {c, slot ? &slot->weights : share->weights, share->rollout, share->step};
    scratch s = carve(c, worker);
    hr_fetch(run.weights->params, c->net->params);
    memset(s.finals, 0, (size_t)tile_bytes(c->net->features));
    share->rollout->logs[block] = (hr_block_log){0};
    begin_sums(share->rollout, block, run.weights, &s);
    share->rollout->logs[block].fault = run_block(&run, &s, block, seconds);
    end_sums(share->rollout, block, &s);
    hr_lap(seconds, HR_TIME_COLLECT_TASK, &began);
    if (slot) hr_slots_release(slot);
}

void hr_share_start(hr_share *share, const hr_pool_api *api, hr_pool *pool) {
    hr_job_set(&share->job, collect_task, share, share->blocks);
    api->submit(pool, &share->job);
}

void hr_share_run(hr_share *share, const hr_pool_api *api, hr_pool *pool) {
    api->run(pool, collect_task, share, share->blocks);
    share->step += (uint64_t)share->rollout->horizon;
}

void hr_share_wait(hr_share *share, const hr_pool_api *api, hr_pool *pool) {
    api->wait(pool, &share->job);
    share->step += (uint64_t)share->rollout->horizon;
}

/* The blocks' episodes in order of step and row: each block's are already. */
static void merge_episodes(hr_rollout *ro) {
    const int64_t room = (int64_t)ro->horizon * ro->agents * HR_TILE;
    int64_t count = 0;
    for (int t = 0; t < ro->horizon; t++)
        for (int b = 0; b < ro->blocks; b++) {
            const hr_episode *from = ro->block_episodes + b * room;
            hr_block_log *log = &ro->logs[b];
            while (log->merged < log->episodes && from[log->merged].step == t)
                ro->episodes[count++] = from[log->merged++];
        }
    ro->episode_count = count;
}

hr_fault hr_collect_finish(hr_rollout *rollout) {
    for (int b = 0; b < rollout->blocks; b++)
        if (rollout->logs[b].fault.kind) return rollout->logs[b].fault;
    merge_episodes(rollout);
    rollout->valid_rows = 0;
    for (int64_t k = 0; k < rollout->tiles; k++) rollout->valid_rows += rollout->tile_rows[k];
    return (hr_fault){0};
}
