/* Reports its time limit as termination. */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    float place;
    int32_t steps;
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    float place[2];
} Obs;

static inline void late_termination_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->place = hr_uniform(rng, -0.5f, 0.5f);
}

static inline void late_termination_step(const Params *p, State *s, const Action a[],
                                         hr_outcome out[], hr_rng *rng) {
    (void)p;
    s->place = hr_clamp(s->place + hr_uniform(rng, 0.0f, 0.1f) * (a->move == 1 ? 1.0f : -1.0f),
                        -1.0f, 1.0f);
    s->steps++;
    out->reward = s->place;
    out->terminated = s->steps == 40;
}

static inline void late_termination_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->place[0] = s->place;
    o->place[1] = 0.0f;
}

HR_ENV(late_termination, HR_OBS(HR_FIELD(Obs, place, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 2)), HR_PARAMS())
