/* Two agents in a world of ten steps; the second is away from its fourth step on. */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    int32_t steps;
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float steps;
} Obs;

static inline void leave_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)rng;
    s->steps = 0;
}

static inline void leave_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)p;
    (void)a;
    (void)rng;
    s->steps += 1;
    out[0].reward = 1.0f;
    out[1].reward = s->steps <= 3 ? 2.0f : 0.0f;
}

static inline void leave_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o[0].steps = o[1].steps = (float)s->steps;
}

static inline void leave_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    present[0] = true;
    present[1] = s->steps < 3;
}

HR_ENV(leave, HR_OBS(HR_FIELD(Obs, steps, 0.0f, 10.0f)), HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(), .max_steps = 10, .agents = 2, .present = leave_present)
