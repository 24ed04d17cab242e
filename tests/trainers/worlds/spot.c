/* Say in which third of the picture the bright spot is. */
#include <headrace.h>

#define SIDE 10

typedef struct {
    int32_t unused;
} Params;

typedef struct {
    int32_t row, column;
} State;

typedef struct {
    int32_t third;
} Action;

typedef struct {
    uint8_t picture[SIDE][SIDE][1];
} Obs;

static inline void spot_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->row = hr_randint(rng, SIDE);
    s->column = hr_randint(rng, SIDE);
}

static inline void spot_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    out->reward = a->third == s->column * 3 / SIDE ? 1.0f : 0.0f;
    spot_reset(p, s, rng);
}

static inline void spot_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t r = 0; r < SIDE; r++)
        for (int32_t c = 0; c < SIDE; c++) o->picture[r][c][0] = 0;
    o->picture[s->row][s->column][0] = 255;
}

HR_ENV(spot, HR_OBS(HR_FIELD(Obs, picture, 0, 255)), HR_ACTION(HR_DISCRETE(Action, third, 3)),
       HR_PARAMS(HR_PARAM(unused, 0)), .max_steps = 8)
