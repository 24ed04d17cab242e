/* Connect four: two players drop discs into a grid of 7 columns and 6 rows, by turns; four in
 * a row, column or diagonal win.
 *
 * Whose turn it is is the one present. Both are told the result with the last move.
 *
 * observation  the grid from the player's own side, the lowest row first: 1 its own disc, -1
 *              the other's, 0 none
 * action       the column; the mask leaves out the full ones (dropping into one loses)
 * reward       1 to the winner, -1 to the loser, 0 at a draw and before the end
 * start        an empty grid; a random player begins
 * end          terminated, for both players at once
 */
#include <headrace.h>

#define WIDTH  7
#define HEIGHT 6
#define PITCH  (HEIGHT + 1) /* bits per column: its cells from the bottom, and one always empty */

typedef hr_none Params;

/* Bit column * PITCH + row: that cell is taken. */
typedef struct {
    uint64_t discs[2]; /* of each player */
    int64_t turn;      /* who is to move */
} State;

enum { RUNNING, LOST, DRAWN, WON };

typedef struct {
    int32_t column;
} Action;

typedef struct {
    int8_t cell[HEIGHT][WIDTH];
} Obs;

static inline void connect4_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->turn = hr_randint(rng, 2);
}

/* Whether four discs lie in a line (Pascal Pons' formulation of John Tromp's test). */
static inline bool has_four(uint64_t discs) {
    const int32_t directions[4] = {1, PITCH, PITCH - 1, PITCH + 1};
    bool found = false;
    for (int32_t k = 0; k < 4; k++) {
        uint64_t pairs = discs & (discs >> directions[k]);
        found |= (pairs & (pairs >> (2 * directions[k]))) != 0u;
    }
    return found;
}

static inline uint64_t column_bits(int32_t column) {
    return ((1ull << HEIGHT) - 1ull) << (column * PITCH);
}

static inline bool is_full(uint64_t discs, int32_t column) {
    return (discs >> (column * PITCH + HEIGHT - 1) & 1u) != 0u;
}

/* Drops a disc of the player; how the game then stands for it. */
static inline int32_t drop(State *s, int32_t player, int32_t column) {
    uint64_t taken = s->discs[0] | s->discs[1];
    if (is_full(taken, column)) return LOST;
    uint64_t above = taken + (1ull << (column * PITCH)); /* carries into the lowest empty cell */
    s->discs[player] |= above & ~taken & column_bits(column);
    if (has_four(s->discs[player])) return WON;
    taken = s->discs[0] | s->discs[1];
    for (int32_t k = 0; k < WIDTH; k++)
        if (!is_full(taken, k)) return RUNNING;
    return DRAWN;
}

static inline void connect4_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                 hr_rng *rng) {
    (void)p;
    (void)rng;
    int32_t player = (int32_t)s->turn, other = 1 - player;
    int32_t result = drop(s, player, a[player].column);
    out[player].reward = result == WON ? 1.0f : result == LOST ? -1.0f : 0.0f;
    out[other].reward = -out[player].reward;
    out[player].terminated = out[other].terminated = result != RUNNING;
    s->turn = other;
}

/* A row's cells, one in each byte, from their columns, one in each byte: 1 where there is a disc.
 */
static inline uint64_t row_of(uint64_t columns, int32_t row) {
    return columns >> row & 0x0101010101010101ull;
}

/* The columns of a player's discs, one in each byte, the lowest cell in its lowest bit. */
static inline uint64_t columns_of(uint64_t discs) {
    uint64_t columns = 0;
    for (int32_t k = 0; k < WIDTH; k++)
        columns |= (discs >> (k * PITCH) & ((1ull << HEIGHT) - 1ull)) << (8 * k);
    return columns;
}

/* What a player sees of a row: 1 in the byte of each own disc, 255 (-1) in each of the other's. */
static inline void show_row(int8_t cell[WIDTH], uint64_t own, uint64_t others) {
    uint64_t seen = own | others * 255u;
    __builtin_memcpy(cell, &seen, WIDTH); /* little-endian: the lowest byte comes first */
}

static inline void connect4_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    uint64_t columns[2] = {columns_of(s->discs[0]), columns_of(s->discs[1])};
    for (int32_t row = 0; row < HEIGHT; row++) {
        uint64_t first = row_of(columns[0], row), second = row_of(columns[1], row);
        show_row(o[0].cell[row], first, second);
        show_row(o[1].cell[row], second, first);
    }
}

static inline void connect4_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    present[s->turn] = true;
}

static inline void connect4_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    uint64_t taken = s->discs[0] | s->discs[1];
    for (int32_t player = 0; player < 2; player++)
        for (int32_t column = 0; column < WIDTH; column++)
            allowed[player * WIDTH + column] = !is_full(taken, column);
}

static inline void connect4_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float cell = hr_min(width / 7.4f, height / 6.4f);
    float left = 0.5f * (width - 7.0f * cell), bottom = 0.5f * (height + 6.0f * cell);
    const hr_color colors[3] = {hr_rgb(226, 192, 72), hr_rgb(208, 74, 66), hr_rgb(22, 36, 72)};
    hr_fill(frame, hr_rgb(16, 26, 54));
    hr_rect(frame, left - 0.1f * cell, bottom - 6.1f * cell, 7.2f * cell, 6.2f * cell,
            hr_rgb(44, 84, 168));
    for (int32_t row = 0; row < HEIGHT; row++)
        for (int32_t column = 0; column < WIDTH; column++) {
            int32_t bit = column * PITCH + row;
            int32_t owner = s->discs[0] >> bit & 1u ? 0 : s->discs[1] >> bit & 1u ? 1 : 2;
            hr_disc(frame, left + ((float)column + 0.5f) * cell,
                    bottom - ((float)row + 0.5f) * cell, 0.41f * cell, colors[owner]);
        }
}

HR_ENV(connect4, HR_OBS(HR_FIELD(Obs, cell, -1, 1)), HR_ACTION(HR_DISCRETE(Action, column, WIDTH)),
       HR_PARAMS(), .agents = 2, .present = connect4_present, .mask = connect4_mask,
       .draw = connect4_draw)
