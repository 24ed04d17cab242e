/* Snake: eat, grow, and run into neither the walls nor yourself.
 *
 * observation  what lies in the VIEW x VIEW cells around the head, turned so that the snake
 *              looks up: 1 food, -1 a wall, a part of the body between -1 (just behind the
 *              head) and 0 (about to move away); then where the food is (ahead, to the right;
 *              in grid lengths), and two shares: cells filled, time until it starves
 * action       0 goes straight on, 1 turns left, 2 turns right
 * reward       1 for food, -1 for dying
 * start        length 3, in the middle, looking in a random direction; food in a random cell
 * end          terminated when the snake hits a wall or itself, starves (2 SIZE^2 steps
 *              without food), or fills the grid
 */
#include <headrace.h>

#ifndef SIZE
#define SIZE 10 /* cells in a row, 5 to 180 */
#endif
#ifndef VIEW
#define VIEW 7 /* cells in a row of what the snake sees, odd */
#endif

#define CELLS        (SIZE * SIZE)
#define HUNGER       (2 * CELLS)
#define START_LENGTH 3

typedef struct {
    /* for how many more steps the body lies in a cell, 0: not at all; even, to avoid padding */
    uint16_t life[CELLS + CELLS % 2];
    int32_t row, column; /* of the head; row 0 is at the top */
    int32_t heading;     /* 0 up, 1 right, 2 down, 3 left */
    int32_t length;      /* of the body, the head included */
    int32_t food;        /* row * SIZE + column */
    int32_t hungry;      /* steps since the last food */
} State;

typedef hr_none Params;

typedef struct {
    int32_t turn;
} Action;

typedef struct {
    float view[VIEW][VIEW];
    float food_ahead, food_right;
    float filled, patience;
} Obs;

struct Metrics {
    float length; /* cells */
};

/* Change of row and of column by one step in a direction. */
static inline int32_t row_step(int32_t heading) {
    return (heading == 2 ? 1 : 0) - (heading == 0 ? 1 : 0);
}
static inline int32_t column_step(int32_t heading) {
    return (heading == 1 ? 1 : 0) - (heading == 3 ? 1 : 0);
}

static inline bool is_inside(int32_t row, int32_t column) {
    return (row >= 0) & (row < SIZE) & (column >= 0) & (column < SIZE);
}

/* Puts the food into a random empty cell; there must be one. */
static inline void place_food(State *s, hr_rng *rng) {
    int32_t skip = hr_randint(rng, CELLS - s->length);
    int32_t cell = 0;
    while (s->life[cell] > 0 || skip > 0) {
        skip -= s->life[cell] > 0 ? 0 : 1;
        cell++;
    }
    s->food = cell;
}

static inline void snake_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->row = s->column = SIZE / 2;
    s->heading = hr_randint(rng, 4);
    s->length = START_LENGTH;
    for (int32_t part = 0; part < START_LENGTH; part++) {
        int32_t row = s->row - part * row_step(s->heading);
        int32_t column = s->column - part * column_step(s->heading);
        s->life[row * SIZE + column] = (uint16_t)(START_LENGTH - part);
    }
    place_food(s, rng);
}

/* Moves the head into a cell that is inside the grid; false when the body is there. */
static inline bool advance(State *s, int32_t row, int32_t column, hr_rng *rng) {
    int32_t cell = row * SIZE + column;
    bool eats = cell == s->food;
    if (eats)
        s->length += 1;
    else /* the body follows: every part is one step older */
        for (int32_t i = 0; i < CELLS; i++) s->life[i] -= s->life[i] > 0 ? 1 : 0;
    if (s->life[cell] > 0) return false;

    s->life[cell] = (uint16_t)s->length;
    s->row = row;
    s->column = column;
    s->hungry = eats ? 0 : s->hungry + 1;
    if (eats && s->length < CELLS) place_food(s, rng);
    return true;
}

static inline void snake_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)p;
    int32_t before = s->length;
    s->heading = (s->heading + (a->turn == 1 ? 3 : a->turn == 2 ? 1 : 0)) % 4;
    int32_t row = s->row + row_step(s->heading), column = s->column + column_step(s->heading);
    bool alive = is_inside(row, column) && advance(s, row, column, rng) && s->hungry < HUNGER;
    out->reward = alive ? (float)(s->length - before) : -1.0f;
    out->terminated = !alive || s->length == CELLS;
}

/* What the snake sees in a cell; `share` is 1 / length. */
static inline float seen(const State *s, int32_t row, int32_t column, float share) {
    bool inside = is_inside(row, column);
    int32_t cell = inside ? row * SIZE + column : 0;
    float body = -(float)s->life[cell] * share;
    float value = cell == s->food ? 1.0f : body;
    return inside ? value : -1.0f;
}

static inline void snake_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    int32_t ahead_row = row_step(s->heading), ahead_column = column_step(s->heading);
    int32_t right_row = ahead_column, right_column = -ahead_row;
    float share = 1.0f / (float)s->length;
    for (int32_t i = 0; i < VIEW; i++)
        for (int32_t j = 0; j < VIEW; j++) {
            int32_t ahead = VIEW / 2 - i, right = j - VIEW / 2;
            o->view[i][j] = seen(s, s->row + ahead * ahead_row + right * right_row,
                                 s->column + ahead * ahead_column + right * right_column, share);
        }
    int32_t down = s->food / SIZE - s->row, across = s->food % SIZE - s->column;
    o->food_ahead = (float)(down * ahead_row + across * ahead_column) / (float)SIZE;
    o->food_right = (float)(down * right_row + across * right_column) / (float)SIZE;
    o->filled = (float)s->length / (float)CELLS;
    o->patience = 1.0f - (float)s->hungry / (float)HUNGER;
}

static inline void snake_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->length = (float)s->length;
}

static inline void snake_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float cell = hr_min(width, height) / ((float)SIZE + 0.8f);
    float left = 0.5f * (width - cell * (float)SIZE), top = 0.5f * (height - cell * (float)SIZE);
    hr_fill(frame, hr_rgb(58, 66, 58));
    hr_rect(frame, left, top, cell * (float)SIZE, cell * (float)SIZE, hr_rgb(25, 30, 26));
    for (int32_t i = 0; i < CELLS; i++) {
        float x = left + (float)(i % SIZE) * cell, y = top + (float)(i / SIZE) * cell;
        float fresh = (float)s->life[i] / (float)s->length; /* 1 at the head, 0 behind the tail */
        if (s->life[i] > 0)
            hr_rect(frame, x + 0.05f * cell, y + 0.05f * cell, 0.9f * cell, 0.9f * cell,
                    hr_rgb(50, (uint8_t)(90.0f + 110.0f * fresh), 80));
        else if (i == s->food)
            hr_disc(frame, x + 0.5f * cell, y + 0.5f * cell, 0.38f * cell, hr_rgb(221, 82, 76));
    }
    float x = left + ((float)s->column + 0.5f) * cell, y = top + ((float)s->row + 0.5f) * cell;
    float forward_x = 0.2f * cell * (float)column_step(s->heading);
    float forward_y = 0.2f * cell * (float)row_step(s->heading);
    for (float side = -1.0f; side <= 1.0f; side += 2.0f) /* the eyes */
        hr_disc(frame, x + forward_x - side * forward_y, y + forward_y + side * forward_x,
                0.09f * cell, hr_rgb(250, 250, 250));
}

HR_ENV(snake,
       HR_OBS(HR_FIELD(Obs, view, -1.0f, 1.0f), HR_FIELD(Obs, food_ahead, -1.0f, 1.0f),
              HR_FIELD(Obs, food_right, -1.0f, 1.0f), HR_FIELD(Obs, filled, 0.0f, 1.0f),
              HR_FIELD(Obs, patience, 0.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, turn, 3)), HR_PARAMS(), .metrics = snake_metrics,
       HR_METRICS(length), .draw = snake_draw)
