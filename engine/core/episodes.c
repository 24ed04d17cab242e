#include "episodes.h"

#include <string.h>

static void add_row(const hr_vec *vec, int64_t row, double *totals) {
    const double value = (double)vec->last_return[row];
    totals[HR_EPISODES] += 1.0;
    totals[HR_RETURN_SUM] += value;
    totals[HR_LENGTH_SUM] += (double)vec->last_length[row];
    totals[HR_RETURN_MIN] = value < totals[HR_RETURN_MIN] ? value : totals[HR_RETURN_MIN];
    totals[HR_RETURN_MAX] = value > totals[HR_RETURN_MAX] ? value : totals[HR_RETURN_MAX];
}

static void add_world(const hr_vec *vec, int64_t world, double *totals) {
    const int32_t metrics = vec->env->metrics_size;
    totals[HR_METRIC_EPISODES] += 1.0;
    for (int32_t m = 0; m < metrics; m++)
        totals[HR_EPISODE_TOTALS + m] += (double)vec->last_metrics[world * metrics + m];
}

/* Flags of eight rows, their lowest bits, of which `rows` exist; the first row's is the lowest
 * byte. */
static uint64_t flags_of(const uint8_t *flags, int64_t rows) {
    uint64_t word = 0;
    memcpy(&word, flags, rows < 8 ? (size_t)rows : 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word & 0x0101010101010101u;
}

/* One bit for each of up to 64 rows that ended. Which rows end is not to be foreseen, so that
 * one loop over the bits of many rows beats a branch for every few of them. */
static uint64_t ended_of(const uint8_t *terminated, const uint8_t *truncated, int64_t rows) {
    uint64_t bits = 0;
    for (int64_t at = 0; at < rows; at += 8) {
        const uint64_t word =
            flags_of(terminated + at, rows - at) | flags_of(truncated + at, rows - at);
        bits |= word * 0x0102040810204080u >> 56 << at; /* gathers the eight low bits */
    }
    return bits;
}

int64_t hr_count_episodes(const hr_vec *vec, int64_t lo, int64_t hi, double *totals) {
    const uint8_t *terminated = vec->batch.terminated, *truncated = vec->batch.truncated;
    const int64_t end = hi * vec->env->agents;
    int64_t ended = 0;
    for (int64_t row = lo * vec->env->agents; row < end; row += 64) {
        const int64_t rows = end - row < 64 ? end - row : 64;
        uint64_t bits = ended_of(terminated + row, truncated + row, rows);
        ended += __builtin_popcountll(bits);
        for (; bits != 0; bits &= bits - 1) add_row(vec, row + __builtin_ctzll(bits), totals);
    }
    if (vec->env->metrics_size > 0)
        for (int64_t world = lo; world < hi; world++)
            if (vec->world_over[world] != 0) add_world(vec, world, totals);
    return ended;
}
