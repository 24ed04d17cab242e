/* Continuous actions, an array parameter, and a step whose cost Python chooses. */
#include <headrace.h>

typedef struct {
    const float *slope; /* shared by all worlds */
    int32_t slope_length;
    int32_t spin;    /* turns of an idle loop in each step */
    double friction; /* per step */
    int64_t seats;
} Params;

typedef struct {
    float place[2];
} State;

typedef struct {
    float push[2];
} Action;

typedef struct {
    float place[2];
} Obs;

static inline void slide_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    for (int32_t i = 0; i < 2; i++) s->place[i] = hr_uniform(rng, -1.0f, 1.0f);
}

static inline void slide_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)rng;
    float burnt = 0.0f;
    for (int32_t k = 0; k < p->spin; k++) burnt = burnt * 0.5f + s->place[k & 1];
    for (int32_t i = 0; i < 2; i++) {
        float slope = p->slope_length > 0 ? p->slope[i % p->slope_length] : 0.0f;
        s->place[i] = (s->place[i] + a->push[i] + slope) * (float)(1.0 - p->friction);
    }
    out->reward = s->place[0] + (float)p->seats + (burnt > 1e30f ? 1.0f : 0.0f);
    out->terminated = hr_fabs(s->place[0]) > 50.0f;
}

static inline void slide_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t i = 0; i < 2; i++) o->place[i] = s->place[i];
}

HR_ENV(slide, HR_OBS(HR_FIELD(Obs, place, -100.0f, 100.0f)),
       HR_ACTION(HR_FIELD(Action, push, -1.0f, 1.0f)),
       HR_PARAMS(HR_ARRAY(slope, slope_length), HR_PARAM(spin, 0), HR_PARAM(friction, 0.0),
                 HR_PARAM(seats, 0)),
       .max_steps = 200)
