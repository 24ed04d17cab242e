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
    uint32_t row[SIDE]; /* from the top; its cells from the left, lowest byte first: exponents */
    uint32_t score;
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

/* A lane is a row or a column as four bytes, which are worked on at once. They are below 128, so
 * that none carries over into the next. Tiles slide from lane to lane, towards the first: all four
 * lines in one go. No branches: the compiler then plays several games side by side. */
#define EACH 0x01010101u

/* 255 in each byte that is not 0. */
static inline uint32_t taken(uint32_t cells) {
    uint32_t ones = (cells + 127u * EACH) >> 7 & EACH;
    return (ones << 8) - ones;
}

/* 255 in each byte where both have the same tile. */
static inline uint32_t match(uint32_t a, uint32_t b) { return taken(a) & ~taken(a ^ b); }

/* Puts a new tile into a random empty cell, if it is time to; there must be one then. */
static inline void add_tile(uint32_t row[SIDE], hr_rng *rng, bool now) {
    uint32_t empty[SIDE], seen[SIDE]; /* of each cell: 1 if it is empty; empty ones so far */
    uint32_t count = 0;
    for (int32_t n = 0; n < SIDE; n++) {
        empty[n] = ~taken(row[n]) & EACH;
        seen[n] = (empty[n] + count) * EACH; /* adds each byte to all above it */
        count = seen[n] >> 24;
    }
    hr_rng drawn = *rng;
    uint32_t wanted = 1u + (uint32_t)hr_randint(&drawn, now ? (int32_t)count : 1);
    uint32_t tile = hr_bernoulli(&drawn, 0.9f) ? 1u : 2u;
    rng->counter = now ? drawn.counter : rng->counter;
    tile = now ? tile : 0u;
    for (int32_t n = 0; n < SIDE; n++)
        row[n] += (empty[n] & ~taken(seen[n] ^ wanted * EACH)) * tile;
}

static inline void game_2048_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    add_tile(s->row, rng, true);
    add_tile(s->row, rng, true);
}

/* Swaps the bits of *b that the mask covers with those that lie `shift` higher in *a. */
static inline void swap(uint32_t *a, uint32_t *b, int32_t shift, uint32_t mask) {
    uint32_t differ = (*a >> shift ^ *b) & mask;
    *b ^= differ;
    *a ^= differ << shift;
}

/* From rows to columns, and back, where `on` is all ones; nothing where it is 0. */
static inline void transpose(uint32_t lane[SIDE], uint32_t on) {
    swap(&lane[0], &lane[1], 8, on & 0x00ff00ffu);
    swap(&lane[2], &lane[3], 8, on & 0x00ff00ffu);
    swap(&lane[0], &lane[2], 16, on & 0xffffu);
    swap(&lane[1], &lane[3], 16, on & 0xffffu);
}

/* The last lane becomes the first, likewise. */
static inline void reverse(uint32_t lane[SIDE], uint32_t on) {
    swap(&lane[0], &lane[3], 0, on);
    swap(&lane[1], &lane[2], 0, on);
}

/* Tiles of a lane move on into the empty cells of the lane before. */
static inline void move_up(uint32_t *before, uint32_t *lane) {
    uint32_t moving = *lane & ~taken(*before);
    *before |= moving;
    *lane ^= moving;
}

/* Tiles of a lane merge with equal ones in the lane before; returns what they become. */
static inline uint32_t merge(uint32_t *before, uint32_t *lane) {
    uint32_t equal = match(*before, *lane);
    *before += equal & EACH;
    *lane &= ~equal;
    return *before & equal;
}

/* The sum of tiles given by their exponents, four bytes; 0 stands for none. */
static inline int32_t sum_of(uint32_t tiles) {
    int32_t sum = 0;
    for (int32_t k = 0; k < 4; k++) sum += 1 << (tiles >> (8 * k) & 255u) & ~1;
    return sum;
}

/* Slides all lines; a tile merges once at most. Returns the sum of the merged tiles. */
static inline int32_t slide_lanes(uint32_t lane[SIDE]) {
    move_up(&lane[0], &lane[1]); /* closes all gaps: the longest way is three lanes */
    move_up(&lane[1], &lane[2]);
    move_up(&lane[2], &lane[3]);
    move_up(&lane[0], &lane[1]);
    move_up(&lane[1], &lane[2]);
    move_up(&lane[0], &lane[1]);

    uint32_t merged = merge(&lane[0], &lane[1]);
    uint32_t later = merge(&lane[1], &lane[2]);
    later |= merge(&lane[2], &lane[3]); /* no line does both of these two */

    move_up(&lane[1], &lane[2]); /* at most one new gap before any tile */
    move_up(&lane[2], &lane[3]);
    return sum_of(merged) + sum_of(later);
}

/* Slides the whole board; returns the sum of the merged tiles. */
static inline int32_t slide_board(uint32_t row[SIDE], int32_t slide) {
    uint32_t sideways = slide == 1 || slide == 3 ? ~0u : 0u;
    uint32_t backwards = slide == 1 || slide == 2 ? ~0u : 0u;
    transpose(row, sideways);
    reverse(row, backwards);
    int32_t score = slide_lanes(row);
    reverse(row, backwards);
    transpose(row, sideways);
    return score;
}

/* Not 0 if a slide towards the first lane, or back towards the last, moves or merges anything: a
 * tile lies behind a gap or its equal. */
typedef struct {
    uint32_t forth, back;
} Moves;

static inline Moves find_moves(const uint32_t lane[SIDE]) {
    Moves moves = {0u, 0u};
    for (int32_t n = 1; n < SIDE; n++) {
        uint32_t equal = match(lane[n - 1], lane[n]);
        moves.forth |= equal | (taken(lane[n]) & ~taken(lane[n - 1]));
        moves.back |= equal | (taken(lane[n - 1]) & ~taken(lane[n]));
    }
    return moves;
}

static inline void game_2048_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                  hr_rng *rng) {
    (void)p;
    uint32_t row[SIDE], changes = 0;
    for (int32_t n = 0; n < SIDE; n++) row[n] = s->row[n];
    int32_t points = slide_board(row, a->slide);
    for (int32_t n = 0; n < SIDE; n++) changes |= row[n] ^ s->row[n];
    add_tile(row, rng, changes != 0u);
    for (int32_t n = 0; n < SIDE; n++) s->row[n] = row[n];
    s->score += (uint32_t)points;

    Moves vertical = find_moves(row);
    transpose(row, ~0u);
    Moves across = find_moves(row);
    out->reward = 0.01f * (float)points;
    out->terminated = (vertical.forth | vertical.back | across.forth | across.back) == 0u;
}

/* Exponent of the tile in a cell, counted row by row. */
static inline int32_t tile_in(const State *s, int32_t cell) {
    return (int32_t)(s->row[cell / SIDE] >> (8 * (cell % SIDE)) & 255u);
}

static inline void game_2048_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t i = 0; i < CELLS; i++) o->cell[i] = tile_in(s, i);
}

static inline void game_2048_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    uint32_t lane[SIDE];
    for (int32_t n = 0; n < SIDE; n++) lane[n] = s->row[n];
    Moves vertical = find_moves(lane);
    transpose(lane, ~0u);
    Moves across = find_moves(lane);
    allowed[0] = vertical.forth != 0u;
    allowed[1] = across.back != 0u;
    allowed[2] = vertical.back != 0u;
    allowed[3] = across.forth != 0u;
}

static inline void game_2048_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    int32_t largest = 0;
    for (int32_t i = 0; i < CELLS; i++) largest = tile_in(s, i) > largest ? tile_in(s, i) : largest;
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
        int32_t exponent = tile_in(s, i);
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
