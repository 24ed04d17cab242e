/* Tetris: drop pieces onto a board of 10 x 20, full lines go.
 *
 * An action places a whole piece: how it is turned and where it falls, straight down.
 *
 * observation  for each action: the height at which the piece comes to rest (1: 20), empty
 *              cells that it covers (1: 4 or more), lines that go (1: 4), or 1, 1 and 0 where
 *              the piece would reach beyond the right wall; then the height of each column
 *              (1: 20), its difference to the next (1: 4 or more), empty cells under its top
 *              (1: 4 or more); then one-hot (I O T S Z J L) this piece and the next one
 * action       10 * quarter turns clockwise + column of the piece's left edge; beyond the
 *              right wall it is pushed back (the mask leaves these out, and turns that look
 *              like another)
 * reward       1 for each line; -1 when a piece ends up above the top
 * start        an empty board; the seven pieces come in a random order, then in another
 * end          terminated when a piece ends up above the top; truncated after 500 pieces
 */
#include <headrace.h>

#define WIDTH  10
#define HEIGHT 20
#define PIECES 7
#define TURNS  4
#define PLACES (TURNS * WIDTH)
#define FULL   ((1 << WIDTH) - 1)

typedef hr_none Params;

typedef struct {
    uint16_t rows[HEIGHT]; /* bit c of row r: the cell in column c is taken; row 0 is the lowest */
    int32_t piece, next;   /* I O T S Z J L */
    int32_t bag;           /* bit k: piece k is still to come in this round */
    int32_t lines;         /* so far */
} State;

typedef struct {
    int32_t place;
} Action;

typedef struct {
    float rest[PLACES], covers[PLACES], clears[PLACES];
    float height[WIDTH];
    float step[WIDTH - 1];
    float holes[WIDTH];
    float piece[PIECES], next[PIECES];
} Obs;

struct Metrics {
    float lines;
};

/* A piece turned so far: four rows of bits, the lowest first, at the left edge. */
typedef struct {
    int32_t rows[4];
    int32_t bottom[4]; /* the lowest cell of each column */
    int32_t width;
    int32_t looks_new; /* 0 when fewer turns give the same shape */
} Shape;

static const Shape SHAPES[PIECES][TURNS] = {
    // clang-format off
    {{{15, 0, 0, 0}, {0, 0, 0, 0}, 4, 1}, {{1, 1, 1, 1}, {0, 0, 0, 0}, 1, 1},
     {{15, 0, 0, 0}, {0, 0, 0, 0}, 4, 0}, {{1, 1, 1, 1}, {0, 0, 0, 0}, 1, 0}},
    {{{3, 3, 0, 0}, {0, 0, 0, 0}, 2, 1}, {{3, 3, 0, 0}, {0, 0, 0, 0}, 2, 0},
     {{3, 3, 0, 0}, {0, 0, 0, 0}, 2, 0}, {{3, 3, 0, 0}, {0, 0, 0, 0}, 2, 0}},
    {{{7, 2, 0, 0}, {0, 0, 0, 0}, 3, 1}, {{1, 3, 1, 0}, {0, 1, 0, 0}, 2, 1},
     {{2, 7, 0, 0}, {1, 0, 1, 0}, 3, 1}, {{2, 3, 2, 0}, {1, 0, 0, 0}, 2, 1}},
    {{{3, 6, 0, 0}, {0, 0, 1, 0}, 3, 1}, {{2, 3, 1, 0}, {1, 0, 0, 0}, 2, 1},
     {{3, 6, 0, 0}, {0, 0, 1, 0}, 3, 0}, {{2, 3, 1, 0}, {1, 0, 0, 0}, 2, 0}},
    {{{6, 3, 0, 0}, {1, 0, 0, 0}, 3, 1}, {{1, 3, 2, 0}, {0, 1, 0, 0}, 2, 1},
     {{6, 3, 0, 0}, {1, 0, 0, 0}, 3, 0}, {{1, 3, 2, 0}, {0, 1, 0, 0}, 2, 0}},
    {{{7, 1, 0, 0}, {0, 0, 0, 0}, 3, 1}, {{1, 1, 3, 0}, {0, 2, 0, 0}, 2, 1},
     {{4, 7, 0, 0}, {1, 1, 0, 0}, 3, 1}, {{3, 2, 2, 0}, {0, 0, 0, 0}, 2, 1}},
    {{{7, 4, 0, 0}, {0, 0, 0, 0}, 3, 1}, {{3, 1, 1, 0}, {0, 0, 0, 0}, 2, 1},
     {{1, 7, 0, 0}, {0, 1, 1, 0}, 3, 1}, {{2, 2, 3, 0}, {2, 0, 0, 0}, 2, 1}},
    // clang-format on
};

/* Column of the shape's left edge, when asked for this one. */
static inline int32_t leftmost(const Shape *shape, int32_t column) {
    int32_t rightmost = WIDTH - shape->width;
    return column > rightmost ? rightmost : column;
}

/* Takes a random piece out of the bag, which is filled up when it is empty. */
static inline int32_t draw_piece(State *s, hr_rng *rng) {
    if (s->bag == 0) s->bag = (1 << PIECES) - 1;
    int32_t count = 0, piece = 0;
    for (int32_t k = 0; k < PIECES; k++) count += s->bag >> k & 1;
    int32_t skip = hr_randint(rng, count);
    while ((s->bag >> piece & 1) == 0 || skip > 0) {
        skip -= s->bag >> piece & 1;
        piece++;
    }
    s->bag &= ~(1 << piece);
    return piece;
}

static inline void tetris_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->piece = draw_piece(s, rng);
    s->next = draw_piece(s, rng);
}

/* Whether the shape overlaps the board or the floor with its lowest row at y. */
static inline bool collides(const State *s, const Shape *shape, int32_t column, int32_t y) {
    if (y < 0) return true;
    uint32_t overlap = 0;
    for (int32_t r = 0; r < 4; r++) {
        uint32_t taken = y + r < HEIGHT ? s->rows[y + r] : 0u;
        overlap |= taken & ((uint32_t)shape->rows[r] << column);
    }
    return overlap != 0u;
}

/* Removes full lines, lets the rest sink; returns how many there were. */
static inline int32_t clear_lines(State *s) {
    int32_t kept = 0;
    for (int32_t r = 0; r < HEIGHT; r++) {
        uint16_t row = s->rows[r];
        s->rows[kept] = row;
        kept += row == FULL ? 0 : 1;
    }
    for (int32_t r = kept; r < HEIGHT; r++) s->rows[r] = 0;
    return HEIGHT - kept;
}

static inline void tetris_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                               hr_rng *rng) {
    (void)p;
    const Shape *shape = &SHAPES[s->piece][a->place / WIDTH];
    int32_t column = leftmost(shape, a->place % WIDTH);
    int32_t y = HEIGHT;
    while (!collides(s, shape, column, y - 1)) y--;

    bool above = false;
    for (int32_t r = 0; r < 4; r++) above |= y + r >= HEIGHT && shape->rows[r] != 0;
    if (above) {
        out->reward = -1.0f;
        out->terminated = true;
        return;
    }
    for (int32_t r = 0; r < 4 && y + r < HEIGHT; r++)
        s->rows[y + r] |= (uint16_t)((uint32_t)shape->rows[r] << column);
    int32_t lines = clear_lines(s);
    s->lines += lines;
    s->piece = s->next;
    s->next = draw_piece(s, rng);
    out->reward = (float)lines;
}

/* What the actions with this many turns would do. Three columns of height 0 and four empty rows
 * beyond the board spare the loops branches. */
static inline void foresee(const Shape *shape, const int32_t height[], const int32_t rows[],
                           int32_t first, Obs *o) {
    for (int32_t column = 0; column < WIDTH; column++) {
        int32_t y = 0, under = 0, clears = 0;
        for (int32_t k = 0; k < 4; k++) {
            int32_t lowest = k < shape->width ? height[column + k] - shape->bottom[k] : 0;
            y = lowest > y ? lowest : y;
            under += lowest;
        }
        for (int32_t r = 0; r < 4; r++)
            clears += (rows[y + r] | (shape->rows[r] << column)) == FULL ? 1 : 0;
        bool fits = column + shape->width <= WIDTH;
        o->rest[first + column] = fits ? (float)y * (1.0f / (float)HEIGHT) : 1.0f;
        o->covers[first + column] =
            fits ? hr_min(0.25f * (float)(shape->width * y - under), 1.0f) : 1.0f;
        o->clears[first + column] = fits ? 0.25f * (float)clears : 0.0f;
    }
}

static inline void tetris_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    int32_t height[WIDTH + 3] = {0}, taken[WIDTH] = {0}, rows[HEIGHT + 4] = {0};
    for (int32_t r = 0; r < HEIGHT; r++) rows[r] = s->rows[r];
    for (int32_t r = 0; r < HEIGHT; r++)
        for (int32_t c = 0; c < WIDTH; c++) {
            int32_t cell = rows[r] >> c & 1;
            height[c] = cell != 0 ? r + 1 : height[c];
            taken[c] += cell;
        }
    for (int32_t turn = 0; turn < TURNS; turn++)
        foresee(&SHAPES[s->piece][turn], height, rows, turn * WIDTH, o);
    for (int32_t c = 0; c < WIDTH; c++) {
        o->height[c] = (float)height[c] / (float)HEIGHT;
        o->holes[c] = hr_min(0.25f * (float)(height[c] - taken[c]), 1.0f);
    }
    for (int32_t c = 0; c < WIDTH - 1; c++)
        o->step[c] = hr_clamp(0.25f * (float)(height[c] - height[c + 1]), -1.0f, 1.0f);
    for (int32_t k = 0; k < PIECES; k++) {
        o->piece[k] = k == s->piece ? 1.0f : 0.0f;
        o->next[k] = k == s->next ? 1.0f : 0.0f;
    }
}

static inline void tetris_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    for (int32_t turn = 0; turn < TURNS; turn++) {
        const Shape *shape = &SHAPES[s->piece][turn];
        for (int32_t column = 0; column < WIDTH; column++)
            allowed[turn * WIDTH + column] =
                shape->looks_new != 0 && column + shape->width <= WIDTH;
    }
}

static inline void tetris_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->lines = (float)s->lines;
}

static inline hr_color piece_color(int32_t piece) {
    const uint8_t rgb[PIECES][3] = {{92, 182, 196},  {224, 190, 84}, {160, 108, 190},
                                    {110, 176, 100}, {208, 86, 82},  {82, 116, 190},
                                    {222, 142, 72}};
    return hr_rgb(rgb[piece][0], rgb[piece][1], rgb[piece][2]);
}

/* A piece as it comes, its lower left corner at (x, y). */
static inline void draw_shape(hr_frame *frame, int32_t piece, float x, float y, float cell) {
    for (int32_t r = 0; r < 4; r++)
        for (int32_t c = 0; c < 4; c++)
            if (SHAPES[piece][0].rows[r] >> c & 1)
                hr_rect(frame, x + (float)c * cell, y - (float)(r + 1) * cell, 0.92f * cell,
                        0.92f * cell, piece_color(piece));
}

static inline void tetris_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float cell = hr_min(height / 21.0f, width / 18.0f);
    float left = 0.5f * (width - 17.0f * cell), bottom = 0.5f * (height + 20.0f * cell);
    float side = left + 11.5f * cell, top = bottom - 20.0f * cell;
    hr_fill(frame, hr_rgb(42, 46, 56));
    hr_rect(frame, left, top, 10.0f * cell, 20.0f * cell, hr_rgb(22, 24, 30));
    for (int32_t r = 0; r < HEIGHT; r++)
        for (int32_t c = 0; c < WIDTH; c++)
            hr_rect(frame, left + (float)c * cell, bottom - (float)(r + 1) * cell, 0.92f * cell,
                    0.92f * cell,
                    (s->rows[r] >> c & 1) != 0 ? hr_rgb(138, 152, 178) : hr_rgb(32, 35, 43));
    hr_color ink = hr_rgb(190, 194, 204);
    hr_text(frame, side, top, 0.17f * cell, ink, "NOW");
    draw_shape(frame, s->piece, side, top + 4.0f * cell, cell);
    hr_text(frame, side, top + 6.0f * cell, 0.17f * cell, ink, "NEXT");
    draw_shape(frame, s->next, side, top + 10.0f * cell, cell);
    char digits[4] = {(char)('0' + s->lines / 100 % 10), (char)('0' + s->lines / 10 % 10),
                      (char)('0' + s->lines % 10), '\0'};
    hr_text(frame, side, top + 12.0f * cell, 0.17f * cell, ink, "LINES");
    hr_text(frame, side, top + 14.0f * cell, 0.17f * cell, ink, digits);
}

HR_ENV(tetris,
       HR_OBS(HR_FIELD(Obs, rest, 0.0f, 1.0f), HR_FIELD(Obs, covers, 0.0f, 1.0f),
              HR_FIELD(Obs, clears, 0.0f, 1.0f), HR_FIELD(Obs, height, 0.0f, 1.0f),
              HR_FIELD(Obs, step, -1.0f, 1.0f), HR_FIELD(Obs, holes, 0.0f, 1.0f),
              HR_FIELD(Obs, piece, 0.0f, 1.0f), HR_FIELD(Obs, next, 0.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, place, PLACES)), HR_PARAMS(), .max_steps = 500,
       .mask = tetris_mask, .metrics = tetris_metrics, HR_METRICS(lines), .draw = tetris_draw)
