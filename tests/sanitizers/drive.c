/* Drives the engine's C code over one environment, for the sanitizers (see run.sh).
 *
 * Linked with pool.c, vec.c, stepper.c, flight.c and one environment's source. Every array has
 * exactly the size that it must have, so that AddressSanitizer sees a write beyond it. Steps with
 * random actions in all modes, on ranges, on threads, and with worlds in flight; all ways must
 * leave the same bytes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "episodes.h"
#include "flight.h"
#include "pool.h"
#include "stepper.h"
#include "vec.h"

const hr_env *headrace_env(void);

enum { STEPS = 60, BIG = 150 };

static const int64_t BATCHES[] = {1, 3, 64, 65, BIG};

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static void fail(const char *what, const char *env) {
    fprintf(stderr, "drive: %s (%s)\n", what, env);
    exit(1);
}

static void *zeros(int64_t count, int64_t size) {
    void *memory = calloc((size_t)(count * size > 0 ? count * size : 1), 1);
    if (memory == NULL) fail("no memory", "");
    return memory;
}

static void fill_params(const hr_env *env, char *params) {
    static const int32_t lengths = 16;
    for (int32_t i = 0; i < env->params_count; i++) {
        const hr_param *p = &env->param_list[i];
        if (p->length_offset >= 0) {
            void *array = zeros(lengths, 8);
            memcpy(params + p->offset, &array, sizeof array);
            memcpy(params + p->length_offset, &lengths, sizeof lengths);
        } else if (p->dtype == HR_FLOAT32) {
            const float value = (float)p->initial;
            memcpy(params + p->offset, &value, sizeof value);
        } else if (p->dtype == HR_FLOAT64) {
            memcpy(params + p->offset, &p->initial, sizeof p->initial);
        } else {
            static const size_t sizes[] = {4, 1, 1, 2, 4, 8, 8}; /* by hr_dtype */
            const int64_t value = (int64_t)p->initial;           /* little-endian */
            memcpy(params + p->offset, &value, sizes[p->dtype]);
        }
    }
}

static void free_params(const hr_env *env, char *params) {
    for (int32_t i = 0; i < env->params_count; i++) {
        if (env->param_list[i].length_offset < 0) continue;
        void *array;
        memcpy(&array, params + env->param_list[i].offset, sizeof array);
        free(array);
    }
    free(params);
}

static hr_vec make_vec(const hr_env *env, int64_t worlds, int32_t mode, bool own_params) {
    const int64_t rows = worlds * env->agents, copies = own_params ? worlds : 1;
    char *params = zeros(copies, env->params_size);
    fill_params(env, params);
    for (int64_t i = 1; i < copies; i++) {
        memcpy(params + i * env->params_size, params, (size_t)env->params_size);
    }
    hr_vec vec = {
        .size = sizeof(hr_vec),
        .env = env,
        .batch =
            {
                .params = params,
                .params_stride = own_params ? env->params_size : 0,
                .state = zeros(worlds, env->state_size),
                .rng = zeros(worlds, sizeof(hr_rng)),
                .actions = zeros(rows, env->action_size),
                .rewards = zeros(rows, 4),
                .terminated = zeros(rows, 1),
                .truncated = zeros(rows, 1),
                .obs = zeros(rows, env->obs_size),
            },
        .worlds = worlds,
        .rows = rows,
        .autoreset = mode,
        .max_steps = 13,
        .elapsed = zeros(worlds, 4),
        .pending = zeros(worlds, 1),
        .world_over = zeros(worlds, 1),
        .final_obs = zeros(rows, env->obs_size),
        .present = zeros(rows, 1),
        .ended = zeros(rows, 1),
        .acted = zeros(rows, 1),
        .carried = zeros(rows, 4),
        .mask = zeros(rows, env->mask_size),
        .episode_return = zeros(rows, 4),
        .episode_length = zeros(rows, 4),
        .last_return = zeros(rows, 4),
        .last_length = zeros(rows, 4),
        .last_metrics = zeros(worlds, 4 * env->metrics_size),
        .step = hr_step_for(hr_level_get(), env),
    };
    for (int64_t w = 0; w < worlds; w++) vec.batch.rng[w] = hr_rng_from_seed((uint64_t)w);
    hr_vec_reset(&vec, 0, worlds, NULL);
    return vec;
}

static void free_vec(hr_vec *vec) {
    free_params(vec->env, (char *)vec->batch.params);
    void *arrays[] = {vec->batch.state,
                      vec->batch.rng,
                      (void *)vec->batch.actions,
                      vec->batch.rewards,
                      vec->batch.terminated,
                      vec->batch.truncated,
                      vec->batch.obs,
                      vec->elapsed,
                      vec->pending,
                      vec->world_over,
                      vec->final_obs,
                      vec->present,
                      vec->ended,
                      vec->acted,
                      vec->carried,
                      vec->mask,
                      vec->episode_return,
                      vec->episode_length,
                      vec->last_return,
                      vec->last_length,
                      vec->last_metrics};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

static void write_actions(hr_vec *vec) {
    const hr_env *env = vec->env;
    for (int64_t row = 0; row < vec->rows; row++) {
        char *slot = (char *)vec->batch.actions + row * env->action_size;
        for (int32_t f = 0; f < env->action_fields_count; f++) {
            const hr_field *field = &env->action_fields[f];
            int32_t items = 1;
            for (int32_t d = 0; d < field->rank; d++) items *= field->shape[d];
            for (int32_t k = 0; k < items; k++) {
                int32_t choice =
                    (int32_t)random_below((uint32_t)(field->choices + !field->choices));
                float force = (float)random_below(2001) / 500.0f - 2.0f;
                void *value = field->kind == HR_KIND_DISCRETE ? (void *)&choice : (void *)&force;
                memcpy(slot + field->offset + 4 * k, value, 4);
            }
        }
    }
}

/* How a step is carried out. */
typedef enum way { WHOLE, RANGES, SHARED, IN_FLIGHT, WAYS } way;

static void send(hr_async *async, const int64_t *ids, int64_t n) {
    bool neighbours = n > 0;
    for (int64_t i = 1; i < n; i++) neighbours &= ids[i] == ids[0] + i;
    if (hr_async_submit(async, neighbours ? ids[0] : -1, ids, n) != HR_ASYNC_OK)
        fail("submit", "worlds in flight");
}

/* Half of the worlds as neighbours, three at a time; the others mixed, one by one and together. */
static void step_in_flight(hr_vec *vec, hr_pool *pool, hr_pace *pace) {
    int64_t ids[BIG];
    hr_async *async = hr_async_new(vec, pool, pace);
    if (async == NULL) fail("no memory", vec->env->name);
    const int64_t patience[] = {0, 1, 20000, INT64_MAX / 4}; /* ns: some, all or no groups whole */
    hr_async_set_patience(async, patience[random_below(4)]);
    const int64_t half = vec->worlds / 2, rest = vec->worlds - half;
    for (int64_t w = 0; w < half; w++) ids[w] = w;
    for (int64_t w = 0; w < rest; w++) /* a permutation, whatever `rest` is */
        ids[half + w] = half + (rest % 7 == 0 ? w : (w * 7 + 3) % rest);
    for (int64_t w = 0; w < half; w += 3) send(async, ids + w, w + 3 < half ? 3 : half - w);
    for (int64_t w = 0; w < rest / 2; w++) send(async, ids + half + w, 1);
    send(async, ids + half + rest / 2, rest - rest / 2);
    while (hr_async_in_flight(async) > 0) {
        const int64_t some = hr_async_in_flight(async) > 1 ? 2 : 1;
        const int64_t ready = hr_async_wait(async, some, 1000000);
        if (ready < 0) fail("wait", vec->env->name);
        if (ready > 0) hr_async_take(async, ids, some);
    }
    hr_async_free(async);
}

/* With all that goes with a step: actions, where they are plain choices, and episodes. */
static void step_shared(hr_vec *vec, hr_pool *pool, hr_pace *pace) {
    const hr_env *env = vec->env;
    const int64_t size = hr_totals_size(env);
    void *values = zeros(vec->rows, env->action_size);
    hr_taking taking = {.values = values,
                        .from = HR_FROM_INT32,
                        .members = 1,
                        .choices = &env->action_fields[0].choices,
                        .slots = (void *)vec->batch.actions,
                        .stride = env->action_size};
    hr_turn turn = {.level = hr_level_get(),
                    .totals = zeros(size, sizeof(double)),
                    .cells = zeros(hr_cells_of(vec->worlds) * size, sizeof(double))};
    if (env->action_size == 4 && taking.choices[0] > 0) {
        memcpy(values, vec->batch.actions, (size_t)vec->rows * 4);
        memset((void *)vec->batch.actions, 0xFF, (size_t)vec->rows * 4);
        turn.taking = &taking;
    }
    const hr_copy copies[] = {
        {(const char *)vec->batch.rewards, zeros(vec->rows, 4), env->agents * 4},
        {(const char *)vec->batch.obs, NULL, 0},
    };
    turn.copies = copies;
    turn.copies_count = 2;
    atomic_store(&pace->world_ps, 100000000); /* as if a world took 100 us: share */
    hr_step_all(vec, pool, pace, &turn);
    if (turn.wrong >= 0) fail("an action is refused", env->name);
    if (memcmp(copies[0].from, copies[0].into, (size_t)vec->rows * 4) != 0)
        fail("a copy differs", env->name);
    free(copies[0].into);
    double whole = 0.0;
    for (int64_t row = 0; row < vec->rows; row++)
        whole += vec->batch.terminated[row] | vec->batch.truncated[row];
    if (turn.totals[HR_EPISODES] != whole) fail("episodes are lost", env->name);
    free(values);
    free(turn.totals);
    free(turn.cells);
}

static void step_vec(hr_vec *vec, way how, hr_pool *pool, hr_pace *pace) {
    if (how == WHOLE) {
        vec->step(vec, 0, vec->worlds);
    } else if (how == RANGES) {
        const int64_t cut = random_below((uint32_t)vec->worlds + 1);
        vec->step(vec, cut, vec->worlds);
        vec->step(vec, 0, cut);
    } else if (how == SHARED) {
        step_shared(vec, pool, pace);
    } else {
        step_in_flight(vec, pool, pace);
    }
}

static uint64_t digest(uint64_t hash, const void *bytes, int64_t size) {
    for (int64_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* Random episodes; the digest of all that they left behind at every step. */
static uint64_t run(const hr_env *env, int64_t worlds, int32_t mode, way how, bool own_params,
                    hr_pool *pool) {
    hr_vec vec = make_vec(env, worlds, mode, own_params);
    hr_pace pace = {0};
    uint64_t hash = 0xcbf29ce484222325u;
    random_state = 99;
    for (int step = 0; step < STEPS; step++) {
        write_actions(&vec);
        const uint64_t kept = random_state; /* cuts must not change the actions */
        step_vec(&vec, how, pool, &pace);
        random_state = kept;
        if (mode == HR_DISABLED) hr_vec_reset(&vec, 0, worlds, vec.pending);
        hash = digest(hash, vec.batch.state, worlds * env->state_size);
        hash = digest(hash, vec.batch.obs, vec.rows * env->obs_size);
        hash = digest(hash, vec.batch.rewards, vec.rows * 4);
        hash = digest(hash, vec.present, vec.rows);
        hash = digest(hash, vec.last_return, vec.rows * 4);
        hash = digest(hash, vec.last_metrics, worlds * 4 * env->metrics_size);
    }
    free_vec(&vec);
    return hash;
}

static void draw_one(const hr_env *env) {
    hr_vec vec = make_vec(env, 2, HR_SAME_STEP, false);
    for (int32_t size = 1; size < 80; size = size * 3 + 1) {
        hr_frame frame = {.pixels = zeros(size * (size + 5), 3), .width = size + 5, .height = size};
        env->draw(&vec.batch, 1, &frame);
        free(frame.pixels);
    }
    free_vec(&vec);
}

int main(void) {
    const hr_env *env = headrace_env();
    for (int32_t mode = HR_NEXT_STEP; mode <= HR_DISABLED; mode++) {
        for (size_t b = 0; b < sizeof BATCHES / sizeof *BATCHES; b++) {
            const uint64_t plain = run(env, BATCHES[b], mode, WHOLE, false, NULL);
            for (way how = RANGES; how < WAYS; how++) {
                hr_pool *pool = hr_pool_new(3);
                const bool own_params = how == RANGES && env->params_size > 0;
                if (run(env, BATCHES[b], mode, how, own_params, pool) != plain) {
                    fail("results depend on how the step is carried out", env->name);
                }
                hr_pool_free(pool);
            }
        }
    }
    if (env->draw != NULL) draw_one(env);
    printf("%s: clean\n", env->name);
    return 0;
}
