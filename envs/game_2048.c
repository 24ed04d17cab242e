/* 2048: slide the tiles of a 4 x 4 board; equal ones that meet merge into their sum.
 *
 * observation  the exponent of each cell's tile, 0 where there is none (2048 is 11): sixteen
 *              discrete values, row by row
 * action       0 slides up, 1 right, 2 down, 3 left; the mask leaves out what would move
 *              nothing (if it is chosen all the same, nothing happens)
 * reward       the sum of the merged tiles, in hundreds: a game's return is its score / 100
 * start        two tiles; as after each slide, a tile is 2 (90 %) or 4, in a random empty cell
 * end          terminated when no slide moves anything; truncated after 10,000 steps
 */
#include <headrace.h>

#define SIDE      4
#define CELLS     (SIDE * SIDE)
#define EXPONENTS 18 /* 2^17 is the largest tile that the rules allow */

typedef hr_none Params;

typedef struct {
    uint8_t cell[CELLS]; /* exponents, row by row; 0: empty */
    int32_t score;
} State;

typedef struct {
    int32_t slide;
} Action;

typedef struct {
    int32_t cell[CELLS];
} Obs;

struct Metrics {
    float score;
    float largest; /* tile */
};

/* Puts a new tile into a random empty cell; there must be one. */
static inline void add_tile(State *s, hr_rng *rng) {
    int32_t empty = 0, place = 0;
    for (int32_t i = 0; i < CELLS; i++) empty += s->cell[i] == 0 ? 1 : 0;
    int32_t skip = hr_randint(rng, empty);
    while (s->cell[place] != 0 || skip > 0) {
        skip -= s->cell[place] == 0 ? 1 : 0;
        place++;
    }
    s->cell[place] = hr_bernoulli(rng, 0.9f) ? 1 : 2;
}

static inline void game_2048_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    add_tile(s, rng);
    add_tile(s, rng);
}

/* Index of the n-th cell of a line, counted from the side to which it slides. */
static inline int32_t place_of(int32_t slide, int32_t line, int32_t n) {
    int32_t along = slide == 0 || slide == 3 ? n : SIDE - 1 - n;
    return slide == 0 || slide == 2 ? along * SIDE + line : line * SIDE + along;
}

/* Slides one line; a tile merges once at most. Returns the sum of the merged tiles. */
static inline int32_t slide_line(uint8_t line[SIDE]) {
    uint8_t packed[SIDE + 1] = {0};
    int32_t count = 0, score = 0;
    for (int32_t n = 0; n < SIDE; n++) {
        packed[count] = line[n];
        count += line[n] != 0 ? 1 : 0;
    }
    packed[count] = 0;
    int32_t from = 0;
    for (int32_t n = 0; n < SIDE; n++) {
        uint8_t tile = from < count ? packed[from] : 0;
        bool merges = tile != 0 && packed[from + 1] == tile;
        line[n] = (uint8_t)(tile + (merges ? 1 : 0));
        score += merges ? 1 << line[n] : 0;
        from += merges ? 2 : 1;
    }
    return score;
}

/* Slides the whole board; returns the sum of the merged tiles. */
static inline int32_t slide_board(uint8_t cell[CELLS], int32_t slide) {
    int32_t score = 0;
    for (int32_t k = 0; k < SIDE; k++) {
        uint8_t line[SIDE];
        for (int32_t n = 0; n < SIDE; n++) line[n] = cell[place_of(slide, k, n)];
        score += slide_line(line);
        for (int32_t n = 0; n < SIDE; n++) cell[place_of(slide, k, n)] = line[n];
    }
    return score;
}

/* Whether a slide would move or merge anything: a tile lies behind a gap or its equal. */
static inline bool moves(const State *s, int32_t slide) {
    bool any = false;
    for (int32_t k = 0; k < SIDE; k++)
        for (int32_t n = 1; n < SIDE; n++) {
            uint8_t here = s->cell[place_of(slide, k, n)];
            uint8_t before = s->cell[place_of(slide, k, n - 1)];
            any |= (here != 0) & ((before == 0) | (before == here));
        }
    return any;
}

static inline void game_2048_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                  hr_rng *rng) {
    (void)p;
    if (moves(s, a->slide)) {
        int32_t points = slide_board(s->cell, a->slide);
        s->score += points;
        out->reward = 0.01f * (float)points;
        add_tile(s, rng);
    }
    out->terminated = !(moves(s, 0) || moves(s, 1) || moves(s, 2) || moves(s, 3));
}

static inline void game_2048_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t i = 0; i < CELLS; i++) o->cell[i] = s->cell[i];
}

static inline void game_2048_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    for (int32_t slide = 0; slide < 4; slide++) allowed[slide] = moves(s, slide);
}

static inline void game_2048_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    int32_t largest = 0;
    for (int32_t i = 0; i < CELLS; i++) largest = s->cell[i] > largest ? s->cell[i] : largest;
    metrics->score = (float)s->score;
    metrics->largest = (float)(1 << largest);
}

/* From pale sand to red, then to dark green. */
static inline hr_color tile_color(int32_t exponent) {
    const uint8_t rgb[12][3] = {{205, 193, 180}, {238, 228, 218}, {236, 221, 193}, {240, 178, 124},
                                {240, 150, 104}, {240, 125, 98},  {236, 96, 66},   {234, 206, 120},
                                {232, 198, 96},  {228, 190, 76},  {224, 182, 58},  {220, 174, 42}};
    if (exponent > 11) return hr_rgb(60, 110, 90);
    return hr_rgb(rgb[exponent][0], rgb[exponent][1], rgb[exponent][2]);
}

/* The tile's number, centred at (x, y), at most `width` wide. */
static inline void draw_number(hr_frame *frame, int32_t number, float x, float y, float width,
                               hr_color ink) {
    char text[8] = {0};
    int32_t digits = 0;
    for (int32_t rest = number; rest > 0; rest /= 10) digits++;
    for (int32_t i = digits - 1, rest = number; i >= 0; i--, rest /= 10)
        text[i] = (char)('0' + rest % 10);
    float scale = width / (digits < 3 ? 17.0f : 6.0f * (float)digits - 1.0f);
    hr_text(frame, x - 0.5f * scale * (6.0f * (float)digits - 1.0f), y - 3.5f * scale, scale, ink,
            text);
}

static inline void game_2048_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float cell = hr_min(width, height) / 4.3f;
    float left = 0.5f * (width - 4.0f * cell), top = 0.5f * (height - 4.0f * cell);
    hr_fill(frame, hr_rgb(187, 173, 160));
    for (int32_t i = 0; i < CELLS; i++) {
        float x = left + (float)(i % SIDE) * cell, y = top + (float)(i / SIDE) * cell;
        int32_t exponent = s->cell[i];
        hr_rect(frame, x + 0.05f * cell, y + 0.05f * cell, 0.9f * cell, 0.9f * cell,
                tile_color(exponent));
        if (exponent > 0)
            draw_number(frame, 1 << exponent, x + 0.5f * cell, y + 0.5f * cell, 0.66f * cell,
                        exponent < 3 ? hr_rgb(119, 110, 101) : hr_rgb(249, 246, 242));
    }
}

HR_ENV(game_2048, HR_OBS(HR_DISCRETE(Obs, cell, EXPONENTS)),
       HR_ACTION(HR_DISCRETE(Action, slide, 4)), HR_PARAMS(), .max_steps = 10000,
       .mask = game_2048_mask, .metrics = game_2048_metrics, HR_METRICS(score, largest),
       .draw = game_2048_draw)
