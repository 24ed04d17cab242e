/* Keeps a pointer to a constant in its State. */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    const float *home;
    float place;
    int32_t steps;
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    float place[2];
} Obs;

static const float homes[2] = {0.0f, 0.5f};

static inline void static_pointer_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->place = hr_uniform(rng, -0.5f, 0.5f);
    s->home = &homes[1];
}

static inline void static_pointer_step(const Params *p, State *s, const Action a[],
                                       hr_outcome out[], hr_rng *rng) {
    (void)p;
    s->place += hr_uniform(rng, 0.0f, 0.1f) * (a->move == 1 ? 1.0f : -1.0f);
    s->steps++;
    out->reward = s->place;
    out->terminated = hr_fabs(s->place) > 0.9f;
}

static inline void static_pointer_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->place[0] = s->place;
    o->place[1] = 0.0f;
}

HR_ENV(static_pointer, HR_OBS(HR_FIELD(Obs, place, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 2)), HR_PARAMS(), .max_steps = 60)
