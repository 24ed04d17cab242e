/* Courier: fetch a parcel at one door of a square and bring it to another.
 *
 * Its observation is of several kinds, and so a Dict.
 *
 * observation  row and column; parcel: the door at which it waits, or 4 once the courier has it;
 *              destination: the door to which it goes; left: share of the time that is left
 * action       0 to 3 walk up, down, left, right; 4 picks the parcel up or hands it over
 * reward       0.5 for picking it up, 1 for handing it over, minus 0.02 each step
 * start        the courier anywhere, the parcel at a random door, its destination another
 * end          terminated when the parcel is handed over; truncated after 100 steps
 */
#include <headrace.h>

#define SIZE  6 /* cells of a side */
#define DOORS 4
#define LIMIT 100 /* steps of an episode */

typedef struct {
    float step_cost;
} Params;

typedef struct {
    int32_t row, column;
    int32_t parcel; /* the door at which it waits; DOORS: the courier has it */
    int32_t destination;
    int32_t steps;     /* of the episode */
    int32_t delivered; /* 1: the parcel was handed over */
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    int32_t row, column, parcel, destination;
    float left;
} Obs;

struct Metrics {
    float delivered; /* 1: the parcel was handed over */
};

/* The doors are near the corners, none of them in one. */
static inline bool at_door(const State *s, int32_t door) {
    int32_t row = door < 2 ? 0 : SIZE - 1;
    int32_t column = door == 0 || door == 3 ? 1 : SIZE - 2;
    return s->row == row && s->column == column;
}

static inline void courier_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->row = hr_randint(rng, SIZE);
    s->column = hr_randint(rng, SIZE);
    s->steps = s->delivered = 0;
    s->parcel = hr_randint(rng, DOORS);
    s->destination = (s->parcel + 1 + hr_randint(rng, DOORS - 1)) % DOORS;
}

static inline void courier_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                hr_rng *rng) {
    (void)rng;
    int32_t down = a->move == 1 ? 1 : a->move == 0 ? -1 : 0;
    int32_t right = a->move == 3 ? 1 : a->move == 2 ? -1 : 0;
    s->row = s->row + down < 0 || s->row + down >= SIZE ? s->row : s->row + down;
    s->column = s->column + right < 0 || s->column + right >= SIZE ? s->column : s->column + right;

    bool has = s->parcel == DOORS;
    bool over = a->move == 4 && has && at_door(s, s->destination);
    bool fetched = a->move == 4 && !has && at_door(s, s->parcel);
    s->parcel = fetched ? DOORS : s->parcel;
    s->steps += 1;
    s->delivered = over ? 1 : 0;
    out->reward = (over ? 1.0f : 0.0f) + (fetched ? 0.5f : 0.0f) - p->step_cost;
    out->terminated = over;
}

static inline void courier_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->row = s->row;
    o->column = s->column;
    o->parcel = s->parcel;
    o->destination = s->destination;
    o->left = (float)(LIMIT - s->steps) / (float)LIMIT;
}

static inline void courier_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->delivered = (float)s->delivered;
}

HR_ENV(courier,
       HR_OBS(HR_DISCRETE(Obs, row, SIZE), HR_DISCRETE(Obs, column, SIZE),
              HR_DISCRETE(Obs, parcel, DOORS + 1), HR_DISCRETE(Obs, destination, DOORS),
              HR_FIELD(Obs, left, 0.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 5)), HR_PARAMS(HR_PARAM(step_cost, 0.02f)),
       .max_steps = LIMIT, .metrics = courier_metrics, HR_METRICS(delivered))
