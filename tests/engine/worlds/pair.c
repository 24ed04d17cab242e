/* Two agents in one world; an agent that falls behind leaves before the episode is over. */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    float place[2];
    int32_t gone[2];
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float own, other;
} Obs;

static inline void pair_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    for (int32_t i = 0; i < 2; i++) {
        s->place[i] = hr_uniform(rng, 0.0f, 1.0f);
        s->gone[i] = 0;
    }
}

static inline void pair_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)p;
    for (int32_t i = 0; i < 2; i++) {
        float noise = hr_uniform(rng, -0.5f, 0.5f);
        if (s->gone[i]) continue;
        s->place[i] += (float)a[i].push + noise;
        out[i].reward = s->place[i];
        out[i].terminated = s->place[i] > 6.0f || s->place[i] < s->place[1 - i] - 3.0f;
        s->gone[i] = out[i].terminated;
    }
}

static inline void pair_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t i = 0; i < 2; i++) {
        o[i].own = s->place[i];
        o[i].other = s->place[1 - i];
    }
}

static inline void pair_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    for (int32_t i = 0; i < 2; i++) present[i] = !s->gone[i];
}

HR_ENV(pair, HR_OBS(HR_FIELD(Obs, own, -100.0f, 100.0f), HR_FIELD(Obs, other, -100.0f, 100.0f)),
       HR_ACTION(HR_DISCRETE(Action, push, 3)), HR_PARAMS(), .max_steps = 30, .agents = 2,
       .present = pair_present)
