/* Foraging: agents of different strength pick food that may need several of them.
 *
 * As in level-based foraging (Albrecht and Ramamoorthy, 2013): food of level n goes when the
 * agents that pick beside it have levels of n or more in sum. Agents tire and leave, one by
 * one, so that strong food must be picked while there are helpers.
 *
 * observation  of each agent: its row and column (1: the last ones), level, time left; then of
 *              each other agent, from itself on: rows and columns away, level (all 0: gone);
 *              then of each food: rows and columns away, level (all 0: picked)
 * action       0 picks, 1 goes up, 2 right, 3 down, 4 left; walls and food stop it, agents share
 *              cells (or those who move blindly would block each other for good)
 * reward       for food that an agent helped to pick: AGENTS times its part of the food's level
 *              (by the levels of those who picked), as a share of all food. If all is picked,
 *              the agents' mean return is 1
 * start        agents (levels 1 to 3) and food (levels 1 to the sum of the two strongest
 *              agents) in random cells of a SIZE x SIZE grid; each agent stays for a random
 *              time of `stamina` / 2 to `stamina` steps
 * end          terminated for an agent that leaves, for all of them when no food is left
 */
#include <headrace.h>

#ifndef SIZE
#define SIZE 8 /* cells in a row, 4 to 100 */
#endif
#ifndef AGENTS
#define AGENTS 4 /* 2 to 16 */
#endif
#ifndef FOODS
#define FOODS 4
#endif

#define MAX_LEVEL 3

#if AGENTS < 2 || 2 * (AGENTS + FOODS) > SIZE * SIZE
#error "foraging needs two AGENTS at least, and a grid twice as large as AGENTS + FOODS"
#endif

typedef struct {
    int32_t stamina; /* steps that the most enduring agent stays */
} Params;

typedef struct {
    int32_t row, column, level;
} Thing;

typedef struct {
    Thing agent[AGENTS];  /* level 0: it has left */
    int32_t left[AGENTS]; /* steps that the agent still stays */
    Thing food[FOODS];    /* level 0: it is picked */
    int32_t total;        /* sum of the levels of all food, picked or not */
    int32_t picked;       /* sum of the levels of the food that is picked */
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    float row, column, level, time;
    float others[AGENTS - 1][3];
    float food[FOODS][3];
} Obs;

struct Metrics {
    float picked; /* share of the food */
};

static inline bool is_at(const Thing *thing, int32_t row, int32_t column) {
    return thing->level > 0 && thing->row == row && thing->column == column;
}

/* Whether agents can be in this cell: inside the grid, and no food there. */
static inline bool is_passable(const State *s, int32_t row, int32_t column) {
    if (row < 0 || row >= SIZE || column < 0 || column >= SIZE) return false;
    bool food = false;
    for (int32_t i = 0; i < FOODS; i++) food |= is_at(&s->food[i], row, column);
    return !food;
}

static inline bool is_free(const State *s, int32_t row, int32_t column) {
    bool taken = !is_passable(s, row, column);
    for (int32_t i = 0; i < AGENTS; i++) taken |= is_at(&s->agent[i], row, column);
    return !taken;
}

/* A thing of this level in a random free cell: half of all cells are, so few tries do. */
static inline Thing place(const State *s, int32_t level, hr_rng *rng) {
    Thing thing;
    do {
        thing.row = hr_randint(rng, SIZE);
        thing.column = hr_randint(rng, SIZE);
    } while (!is_free(s, thing.row, thing.column));
    thing.level = level;
    return thing;
}

static inline void foraging_reset(const Params *p, State *s, hr_rng *rng) {
    int32_t strongest = 0, second = 0;
    for (int32_t i = 0; i < AGENTS; i++) {
        int32_t level = 1 + hr_randint(rng, MAX_LEVEL);
        s->agent[i] = place(s, level, rng);
        s->left[i] = p->stamina - hr_randint(rng, p->stamina / 2 + 1);
        int32_t weaker = level < strongest ? level : strongest;
        second = weaker > second ? weaker : second;
        strongest = level > strongest ? level : strongest;
    }
    for (int32_t i = 0; i < FOODS; i++) {
        s->food[i] = place(s, 1 + hr_randint(rng, strongest + second), rng);
        s->total += s->food[i].level;
    }
}

/* Moves agent i unless something is in its way. */
static inline void move(State *s, int32_t i, int32_t direction) {
    Thing *agent = &s->agent[i];
    int32_t row = agent->row + (direction == 3 ? 1 : 0) - (direction == 1 ? 1 : 0);
    int32_t column = agent->column + (direction == 2 ? 1 : 0) - (direction == 4 ? 1 : 0);
    if (!is_passable(s, row, column)) return;
    agent->row = row;
    agent->column = column;
}

static inline bool is_beside(const Thing *a, const Thing *b) {
    int32_t rows = a->row - b->row, columns = a->column - b->column;
    return rows * rows + columns * columns == 1;
}

/* Picks one food if those who pick beside it are strong enough, and shares it among them. */
static inline void pick(State *s, Thing *food, const Action a[], hr_outcome out[]) {
    int32_t strength = 0;
    for (int32_t i = 0; i < AGENTS; i++)
        if (a[i].move == 0 && is_beside(&s->agent[i], food)) strength += s->agent[i].level;
    if (food->level == 0 || strength < food->level) return;
    float worth = (float)(AGENTS * food->level) / (float)(strength * s->total);
    for (int32_t i = 0; i < AGENTS; i++)
        if (a[i].move == 0 && is_beside(&s->agent[i], food))
            out[i].reward += worth * (float)s->agent[i].level;
    s->picked += food->level;
    food->level = 0;
}

static inline void foraging_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                 hr_rng *rng) {
    (void)p;
    (void)rng;
    for (int32_t i = 0; i < AGENTS; i++)
        if (s->agent[i].level > 0 && a[i].move != 0) move(s, i, a[i].move);
    for (int32_t k = 0; k < FOODS; k++) pick(s, &s->food[k], a, out);
    bool done = s->picked == s->total;
    for (int32_t i = 0; i < AGENTS; i++) {
        if (s->agent[i].level == 0) continue;
        s->left[i] -= 1;
        out[i].terminated = done || s->left[i] <= 0;
        if (s->left[i] <= 0) s->agent[i].level = 0;
    }
}

/* Where a thing is, seen from an agent, and its level. */
static inline void look(const Thing *from, const Thing *thing, int32_t top, float seen[3]) {
    bool there = thing->level > 0;
    float scale = 1.0f / (float)(SIZE - 1);
    seen[0] = there ? (float)(thing->row - from->row) * scale : 0.0f;
    seen[1] = there ? (float)(thing->column - from->column) * scale : 0.0f;
    seen[2] = (float)thing->level / (float)top;
}

static inline void foraging_observe(const Params *p, const State *s, Obs o[]) {
    for (int32_t i = 0; i < AGENTS; i++) {
        const Thing *self = &s->agent[i];
        o[i].row = (float)self->row / (float)(SIZE - 1);
        o[i].column = (float)self->column / (float)(SIZE - 1);
        o[i].level = (float)self->level / (float)MAX_LEVEL;
        o[i].time = hr_clamp((float)s->left[i] / (float)p->stamina, 0.0f, 1.0f);
        for (int32_t k = 1; k < AGENTS; k++)
            look(self, &s->agent[(i + k) % AGENTS], MAX_LEVEL, o[i].others[k - 1]);
        for (int32_t k = 0; k < FOODS; k++) look(self, &s->food[k], 2 * MAX_LEVEL, o[i].food[k]);
    }
}

static inline void foraging_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    for (int32_t i = 0; i < AGENTS; i++) present[i] = s->agent[i].level > 0;
}

static inline void foraging_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->picked = (float)s->picked / (float)s->total;
}

static inline void foraging_draw(const Params *p, const State *s, hr_frame *frame) {
    float width = (float)frame->width, height = (float)frame->height;
    float cell = hr_min(width, height) / ((float)SIZE + 0.5f);
    float left = 0.5f * (width - cell * (float)SIZE), top = 0.5f * (height - cell * (float)SIZE);
    hr_color ink = hr_rgb(255, 255, 255);
    char level[2] = {0, 0};
    hr_fill(frame, hr_rgb(52, 62, 44));
    for (int32_t row = 0; row < SIZE; row++)
        for (int32_t column = 0; column < SIZE; column++)
            hr_rect(frame, left + (float)column * cell, top + (float)row * cell, 0.95f * cell,
                    0.95f * cell, hr_rgb(92, 112, 72));
    for (int32_t k = 0; k < AGENTS + FOODS; k++) {
        const Thing *thing = k < AGENTS ? &s->agent[k] : &s->food[k - AGENTS];
        if (thing->level == 0) continue;
        float x = left + ((float)thing->column + 0.475f) * cell;
        float y = top + ((float)thing->row + 0.475f) * cell;
        if (k < AGENTS) { /* a bar below: how long it still stays */
            hr_rect(frame, x - 0.35f * cell, y - 0.4f * cell, 0.7f * cell, 0.7f * cell,
                    hr_rgb(58, 98, 168));
            hr_rect(frame, x - 0.35f * cell, y + 0.33f * cell,
                    0.7f * cell * (float)s->left[k] / (float)p->stamina, 0.1f * cell,
                    hr_rgb(236, 214, 120));
        } else
            hr_disc(frame, x, y - 0.03f * cell, 0.38f * cell, hr_rgb(196, 70, 62));
        level[0] = (char)('0' + thing->level);
        hr_text(frame, x - 0.15f * cell, y - 0.24f * cell, 0.06f * cell, ink, level);
    }
}

HR_ENV(foraging,
       HR_OBS(HR_FIELD(Obs, row, 0.0f, 1.0f), HR_FIELD(Obs, column, 0.0f, 1.0f),
              HR_FIELD(Obs, level, 0.0f, 1.0f), HR_FIELD(Obs, time, 0.0f, 1.0f),
              HR_FIELD(Obs, others, -1.0f, 1.0f), HR_FIELD(Obs, food, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 5)), HR_PARAMS(HR_PARAM(stamina, 60)), .agents = AGENTS,
       .present = foraging_present, .metrics = foraging_metrics, HR_METRICS(picked),
       .draw = foraging_draw)
