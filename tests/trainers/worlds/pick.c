/* Observations and actions of every kind, and masks that always allow something. */
#include <headrace.h>

typedef struct {
    float unused;
} Params;
typedef struct {
    int32_t steps;
    float seen[4];
} State;
typedef struct {
    int32_t turn, fingers[2];
    float push[2];
} Action;
typedef struct {
    float place;
    float cube[2][3];
    int32_t count;
    int16_t height[2];
    int8_t small[2];
    uint8_t pixel[2][3][3];
} Obs;

static inline void pick_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->steps = 0;
    for (int k = 0; k < 4; k++) s->seen[k] = hr_uniform(rng, 0.0f, 1.0f);
}

static inline void pick_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    pick_reset(p, s, rng);
    out->reward = (float)a->turn + a->push[0];
    out->terminated = s->seen[0] < 0.2f;
}

static inline void pick_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->place = s->seen[0] - 2.0f;
    for (int k = 0; k < 6; k++) o->cube[k / 3][k % 3] = s->seen[k % 4] * (float)k;
    o->count = (int32_t)(5.0f * s->seen[1]);
    for (int k = 0; k < 2; k++) o->height[k] = (int16_t)(s->seen[k + 1] * 300.0f);
    for (int k = 0; k < 2; k++) o->small[k] = (int8_t)(-100.0f * s->seen[k]);
    for (int k = 0; k < 18; k++)
        o->pixel[k / 9][k / 3 % 3][k % 3] = (uint8_t)(s->seen[k % 4] * 255.0f);
}

static void pick_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    for (int k = 0; k < 3 + 8; k++) allowed[k] = s->seen[k % 4] > 0.4f;
    allowed[0] = allowed[3] = allowed[9] = true;
}

HR_ENV(pick,
       HR_OBS(HR_FIELD(Obs, place, -3.0f, 3.0f), HR_FIELD(Obs, cube, 0, 5),
              HR_DISCRETE(Obs, count, 5), HR_FIELD(Obs, height, 0, 300),
              HR_FIELD(Obs, small, -128, 127), HR_FIELD(Obs, pixel, 0, 255)),
       HR_ACTION(HR_DISCRETE(Action, turn, 3), HR_DISCRETE(Action, fingers, 4),
                 HR_FIELD(Action, push, -0.5f, 0.25f)),
       HR_PARAMS(HR_PARAM(unused, 0.0f)), .mask = pick_mask)
