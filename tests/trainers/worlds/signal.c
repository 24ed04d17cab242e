/* Say yes where the hint is given and the lamp is lit: an observation of several kinds. */
#include <headrace.h>

typedef struct {
    int32_t unused;
} Params;

typedef struct {
    int32_t hint, lit, steps;
} State;

typedef struct {
    int32_t answer;
} Action;

typedef struct {
    int32_t hint;
    float noise[2];
    int16_t steps;
    uint8_t lamp, dark;
} Obs;

static inline void signal_ask(State *s, hr_rng *rng) {
    s->hint = hr_randint(rng, 2);
    s->lit = hr_randint(rng, 2);
}

static inline void signal_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->steps = 0;
    signal_ask(s, rng);
}

static inline void signal_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                               hr_rng *rng) {
    (void)p;
    out->reward = a->answer == (s->hint & s->lit) ? 1.0f : 0.0f;
    s->steps += 1;
    signal_ask(s, rng);
}

static inline void signal_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->hint = s->hint;
    o->noise[0] = (float)(s->steps % 3) - 1.0f;
    o->noise[1] = 0.5f;
    o->steps = (int16_t)s->steps;
    o->lamp = s->lit ? 255 : 0;
    o->dark = 0;
}

HR_ENV(signal,
       HR_OBS(HR_DISCRETE(Obs, hint, 2), HR_FIELD(Obs, noise, -1.0f, 1.0f),
              HR_FIELD(Obs, steps, 0, 8), HR_FIELD(Obs, lamp, 0, 255), HR_FIELD(Obs, dark, 0, 255)),
       HR_ACTION(HR_DISCRETE(Action, answer, 2)), HR_PARAMS(HR_PARAM(unused, 0)), .max_steps = 8)
