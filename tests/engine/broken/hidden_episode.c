/* Keeps something outside its State that a snapshot cannot hold. */
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

static int32_t hidden[1 << 20]; /* steps by the world's stream */

static inline void hidden_episode_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->place = hr_uniform(rng, -0.5f, 0.5f);
    hidden[rng->key % (1 << 20)] = 0;
}

static inline void hidden_episode_step(const Params *p, State *s, const Action a[],
                                       hr_outcome out[], hr_rng *rng) {
    (void)p;
    s->place += hr_uniform(rng, 0.0f, 0.1f) * (a->move == 1 ? 1.0f : -1.0f);
    s->steps++;
    int32_t *steps = &hidden[rng->key % (1 << 20)];
    *steps += 1;
    out->reward = (float)*steps;
    out->terminated = hr_fabs(s->place) > 0.9f;
}

static inline void hidden_episode_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->place[0] = s->place;
    o->place[1] = 0.0f;
}

HR_ENV(hidden_episode, HR_OBS(HR_FIELD(Obs, place, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 2)), HR_PARAMS(), .max_steps = 60)
