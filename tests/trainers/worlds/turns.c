/* Two agents take turns for four steps; then the first has won, and both hear of it at once. */
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

static inline void turns_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)rng;
    s->steps = 0;
}

static inline void turns_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)p;
    (void)a;
    (void)rng;
    s->steps += 1;
    if (s->steps < 4) return;
    out[0].reward = 1.0f;
    out[1].reward = -1.0f;
    out[0].terminated = out[1].terminated = true;
}

static inline void turns_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o[0].steps = o[1].steps = (float)s->steps;
}

static inline void turns_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    present[0] = s->steps % 2 == 1;
    present[1] = s->steps % 2 == 0;
}

HR_ENV(turns, HR_OBS(HR_FIELD(Obs, steps, 0.0f, 4.0f)), HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(), .agents = 2, .present = turns_present)
