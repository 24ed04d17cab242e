/* Takes as long for a step as Python says: `work` turns of a loop that cannot be hurried. */
#include <headrace.h>

typedef struct {
    int32_t work;
} Params;

typedef struct {
    float x;
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float x;
} Obs;

static inline void busy_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->x = hr_uniform(rng, 0.1f, 0.9f);
}

static inline void busy_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)rng;
    for (int32_t k = 0; k < p->work; k++) s->x = 3.9f * s->x * (1.0f - s->x);
    out->reward = a->push == (s->x > 0.5f) ? 1.0f : 0.0f;
}

static inline void busy_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->x = s->x;
}

HR_ENV(busy, HR_OBS(HR_FIELD(Obs, x, 0.0f, 1.0f)), HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(HR_PARAM(work, 1)), .max_steps = 50)
