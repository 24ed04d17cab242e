/* A State of WORDS words, whatever its size: word k grows by k + 1 times the action. */
#include <headrace.h>

#ifndef WORDS
#define WORDS 5
#endif

typedef hr_none Params;

typedef struct {
    uint32_t word[WORDS];
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    int32_t last;
} Obs;

static inline void uneven_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)rng;
    (void)s;
}

static inline void uneven_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                               hr_rng *rng) {
    (void)p;
    (void)rng;
    uint32_t push = (uint32_t)a->push;
    HR_UNROLL
    for (uint32_t k = 0; k < WORDS; k++) s->word[k] += (k + 1u) * push;
    out->reward = (float)a->push;
    out->terminated = s->word[0] >= 20u;
}

static inline void uneven_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->last = (int32_t)s->word[WORDS - 1];
}

HR_ENV(uneven, HR_OBS(HR_FIELD(Obs, last, 0, 2147483647)), HR_ACTION(HR_DISCRETE(Action, push, 10)),
       HR_PARAMS())
/* after HR_ENV */
#include "driver.h"
