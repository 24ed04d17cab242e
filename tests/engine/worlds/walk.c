/* One agent on a line: two discrete members, masks, metrics, observations of two dtypes. */
#include <headrace.h>

#ifndef LENGTH
#define LENGTH 5
#endif

typedef struct {
    float slip; /* probability of staying where one is */
} Params;

typedef struct {
    int32_t place, steps;
    float energy;
} State;

typedef struct {
    int32_t move; /* 0 left, 1 stay, 2 right */
    int32_t jump; /* 1 doubles the move */
} Action;

typedef struct {
    float energy;
    int32_t place;
} Obs;

struct Metrics {
    float steps, place;
};

static inline void walk_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->place = 1 + hr_randint(rng, LENGTH - 1);
    s->steps = 0;
    s->energy = hr_uniform(rng, 0.0f, 1.0f);
}

static inline void walk_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    int32_t stays = hr_uniform(rng, 0.0f, 1.0f) < p->slip;
    int32_t place = s->place + (stays ? 0 : (a->move - 1) * (a->jump + 1));
    s->place = place < 0 ? 0 : place > LENGTH - 1 ? LENGTH - 1 : place;
    s->steps += 1;
    s->energy += 0.5f * (float)a->jump;
    out->reward = 0.25f * (float)s->place - 0.1f * s->energy;
    out->terminated = s->place == 0;
    out->truncated = s->energy > 6.0f;
}

static inline void walk_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->energy = s->energy;
    o->place = s->place;
}

static inline void walk_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    allowed[0] = true;
    allowed[1] = s->energy > 0.5f;
    allowed[2] = s->place < LENGTH - 1;
    allowed[3] = true;
    allowed[4] = s->energy < 3.0f;
}

static inline void walk_metrics(const Params *p, const State *s, struct Metrics *m) {
    (void)p;
    m->steps = (float)s->steps;
    m->place = (float)s->place;
}

HR_ENV(walk, HR_OBS(HR_FIELD(Obs, energy, 0.0f, 100.0f), HR_DISCRETE(Obs, place, LENGTH)),
       HR_ACTION(HR_DISCRETE(Action, move, 3), HR_DISCRETE(Action, jump, 2)),
       HR_PARAMS(HR_PARAM(slip, 0.1f)), .max_steps = 20, .mask = walk_mask, .metrics = walk_metrics,
       HR_METRICS(steps, place))
