/* Gives a NaN observation, or an infinite reward, at a step that Python chooses. */
#include <headrace.h>

typedef struct {
    int32_t bad_obs;    /* step of the episode whose observation is NaN; 0: none */
    int32_t bad_reward; /* likewise for an infinite reward */
    float pay;          /* reward of the others */
} Params;

typedef struct {
    int32_t steps;
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float calm, wild;
} Obs;

static inline void fuse_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)rng;
    s->steps = 0;
}

static inline void fuse_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)a;
    (void)rng;
    s->steps += 1;
    out->reward = s->steps == p->bad_reward ? HR_INFINITY : p->pay;
}

static inline void fuse_observe(const Params *p, const State *s, Obs o[]) {
    o->calm = (float)s->steps;
    o->wild = p->bad_obs != 0 && s->steps == p->bad_obs ? HR_INFINITY - HR_INFINITY : 0.0f;
}

HR_ENV(fuse, HR_OBS(HR_FIELD(Obs, calm, 0.0f, 100.0f), HR_FIELD(Obs, wild, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(HR_PARAM(bad_obs, 0), HR_PARAM(bad_reward, 0), HR_PARAM(pay, 1.0f)),
       .max_steps = 50)
