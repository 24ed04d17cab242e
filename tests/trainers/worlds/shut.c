/* Its mask allows nothing at a step that Python chooses; each of its steps may take long. */
#include <headrace.h>

typedef struct {
    int32_t shut; /* step of the episode at which nothing is allowed; -1: none */
    int32_t spin; /* rounds that each step turns */
} Params;

typedef struct {
    int32_t steps;
    uint32_t noise;
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float steps;
} Obs;

static inline void shut_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)rng;
    s->steps = 0;
    s->noise = 1;
}

static inline void shut_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)a;
    (void)rng;
    for (int32_t i = 0; i < p->spin; i++) s->noise = s->noise * 1664525u + (s->noise >> 16);
    s->steps += 1;
    out->reward = 1.0f;
}

static inline void shut_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->steps = (float)s->steps;
}

static inline void shut_mask(const Params *p, const State *s, bool allowed[]) {
    allowed[0] = allowed[1] = s->steps != p->shut;
}

HR_ENV(shut, HR_OBS(HR_FIELD(Obs, steps, 0.0f, 50.0f)), HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(HR_PARAM(shut, -1), HR_PARAM(spin, 0)), .max_steps = 50, .mask = shut_mask)
