/* An environment for the tests of the core, written directly against the kernel ABI: integer
 * arithmetic that tests/engine/naive_vec.py repeats line by line. Not for people.
 */
#include <headrace/abi.h>

#ifndef AGENTS
#define AGENTS 1
#endif
#ifndef LEAVING /* 1: agents come and go by the author's word */
#define LEAVING 0
#endif
#ifndef BULK /* further bytes of State, a multiple of 4 */
#define BULK 4
#endif
#ifndef WORK /* rounds of idle arithmetic per step, to be a slow environment */
#define WORK 0
#endif
#ifndef RARE /* an end has a chance of 1 in 2^RARE */
#define RARE 4
#endif

typedef struct {
    uint32_t value;
    int32_t clock;
    int32_t dead; /* 1 after every agent has ended at once: must not be stepped then */
    uint8_t bulk[BULK];
} State;

typedef struct {
    int32_t seen, clock;
} Obs;

/* Steps of dead worlds so far, which the engine must not ask for. */
__attribute__((visibility("default"))) _Atomic int32_t drift_violations;

/* 1: steps wait until it is 0 again, and say 2 that they do. Set by tests. */
__attribute__((visibility("default"))) _Atomic int32_t drift_hold;
/* The only world that waits; negative: all do. */
__attribute__((visibility("default"))) _Atomic int32_t drift_held_world = -1;

static uint32_t draw(hr_rng *rng) {
    return (uint32_t)((rng->key ^ rng->counter++ * 0x9E3779B97F4A7C15u) >> 13);
}

static void step(const hr_batch *b, int64_t lo, int64_t hi) {
    const int32_t *actions = b->actions;
    for (int64_t w = lo; w < hi; w++) {
        State *s = (State *)b->state + w;
        uint32_t value = s->value * 1664525u + 1013904223u + draw(b->rng + w);
        int32_t ends = 0;
        if (s->dead) drift_violations++;
        if (drift_hold && (drift_held_world < 0 || drift_held_world == w)) {
            for (drift_hold = 2; drift_hold;) {
            }
        }
        for (volatile int32_t i = 0; i < WORK; i++) {
        }
        for (int k = 0; k < AGENTS; k++) {
            value += (uint32_t)actions[w * AGENTS + k] * (uint32_t)(k + 1);
        }
        for (int k = 0; k < AGENTS; k++) {
            const int64_t row = w * AGENTS + k;
            b->rewards[row] = (float)((value >> k) & 7) - 3.0f;
            b->terminated[row] = ((value >> (5 + 2 * k)) & ((1u << RARE) - 1)) == 0;
            b->truncated[row] = ((value >> (7 + 3 * k)) & ((2u << RARE) - 1)) == 1;
            ends += b->terminated[row] | b->truncated[row];
        }
        s->value = value;
        s->clock += 1;
        s->dead = ends == AGENTS;
        s->bulk[BULK - 1] = (uint8_t)value;
    }
}

static void observe(const hr_batch *b, int64_t lo, int64_t hi) {
    for (int64_t w = lo; w < hi; w++) {
        const State *s = (const State *)b->state + w;
        for (int k = 0; k < AGENTS; k++) {
            ((Obs *)b->obs)[w * AGENTS + k] = (Obs){(int32_t)(s->value ^ (uint32_t)k), s->clock};
        }
    }
}

static void reset(const hr_batch *b, const int32_t *worlds, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        State *s = (State *)b->state + worlds[k];
        hr_rng *rng = b->rng + worlds[k];
        *s = (State){.value = draw(rng)};
        s->value ^= draw(rng) << 7;
    }
}

static void present(const hr_batch *b, int64_t lo, int64_t hi, uint8_t *out) {
    for (int64_t w = lo; w < hi; w++) {
        const uint32_t value = ((const State *)b->state + w)->value;
        for (int k = 0; k < AGENTS; k++) out[w * AGENTS + k] = ((value >> (11 + k)) & 3) != 0;
    }
}

static void mask(const hr_batch *b, int64_t lo, int64_t hi, uint8_t *out) {
    for (int64_t w = lo; w < hi; w++) {
        const uint32_t value = ((const State *)b->state + w)->value;
        for (int k = 0; k < AGENTS; k++) {
            for (int j = 0; j < 3; j++) out[(w * AGENTS + k) * 3 + j] = (value >> (j + k)) & 1;
        }
    }
}

static void metrics(const hr_batch *b, int64_t world, float *out) {
    const State *s = (const State *)b->state + world;
    out[0] = (float)s->clock;
    out[1] = (float)(s->value & 255);
}

static const hr_field obs_fields[] = {
    {.name = "seen", .dtype = HR_INT32, .offset = 0, .low = -2147483648.0, .high = 2147483647.0},
    {.name = "clock", .dtype = HR_INT32, .offset = 4, .low = 0.0, .high = 1e9},
};
static const hr_field action_fields[] = {
    {.name = "push", .kind = HR_KIND_DISCRETE, .dtype = HR_INT32, .choices = 3},
};
static const char *const metric_names[] = {"clock", "low_byte"};

static const hr_env env = {
    .abi_version = HR_ABI_VERSION,
    .agents = AGENTS,
    .name = "drift",
    .source_hash = "",
    .state_size = sizeof(State),
    .action_size = sizeof(int32_t),
    .obs_size = sizeof(Obs),
    .mask_size = 3,
    .metrics_size = 2,
    .obs_fields_count = 2,
    .action_fields_count = 1,
    .obs_fields = obs_fields,
    .action_fields = action_fields,
    .metric_names = metric_names,
    .step = step,
    .observe = observe,
    .reset = reset,
    .present = LEAVING ? present : NULL,
    .mask = mask,
    .metrics = metrics,
};

__attribute__((visibility("default"))) const hr_env *headrace_env(void) { return &env; }
