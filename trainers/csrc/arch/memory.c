/* Minimal gated recurrent units over tiles of 64 rows: one step, and its way back.
 *
 * Gates and candidates depend on the step's input alone, so that their products are those of any
 * layer; only what is here goes from step to step. */
#include "../kernels.h"
#include "simd.h"

/* Lanes of a flag column that are not 0; NULL: all of them or none. */
INLINE vi flagged(const float *column, int r, int all) {
    if (column == NULL) return splat_i(-all);
    return (vi)(load(column + r) != 0.0f);
}

/* sigmoid(gate), and what a candidate becomes; both to a few ulp, from one division. */
INLINE void gates(vf gate, vf candidate, vf *z, vf *n) {
    const vf one = splat(1.0f);
    vi open = gate >= 0.0f, linear = candidate >= 0.0f;
    vf a = vexp((vf)((vi)gate | INT32_MIN)), b = vexp((vf)((vi)candidate | INT32_MIN));
    vf share = one / ((1.0f + a) * (1.0f + b));
    *z = pick(open, one, a) * (1.0f + b) * share;
    *n = pick(linear, candidate + 0.5f, b * (1.0f + a) * share);
}

void HR_SYM(hr_mingru)(int size, const float *before, const float *began, const float *live,
                       float *given, float *after) {
    const vf zero = splat(0.0f);
    for (int r = 0; r < HR_TILE; r += LANES) {
        vi fresh = flagged(began, r, 0), lives = flagged(live, r, 1);
        for (int u = 0; u < size; u++) {
            float *gate = given + u * HR_TILE + r, *candidate = gate + (int64_t)size * HR_TILE;
            vf z, n, b = pick(fresh, zero, load(before + u * HR_TILE + r));
            gates(load(gate), load(candidate), &z, &n);
            store(gate, z);
            store(candidate, n);
            store(after + u * HR_TILE + r, pick(lives, b + z * (n - b), b));
        }
    }
}

void HR_SYM(hr_mingru_back)(int size, const float *before, const float *began, const float *live,
                            const float *given, const float *dafter, float *carry, float *dgiven) {
    const vf zero = splat(0.0f), one = splat(1.0f);
    for (int r = 0; r < HR_TILE; r += LANES) {
        vi fresh = flagged(began, r, 0), lives = flagged(live, r, 1);
        for (int u = 0; u < size; u++) {
            const int64_t gate = u * HR_TILE + r, candidate = gate + (int64_t)size * HR_TILE;
            vf z = load(given + gate), n = load(given + candidate);
            vf b = pick(fresh, zero, load(before + gate));
            vf d = load(dafter + gate) + load(carry + gate);
            vf slope = pick(n >= 0.5f, one, n * (1.0f - n));
            store(dgiven + gate, pick(lives, d * (n - b) * z * (1.0f - z), zero));
            store(dgiven + candidate, pick(lives, d * z * slope, zero));
            store(carry + gate, pick(fresh, zero, pick(lives, d * (1.0f - z), d)));
        }
    }
}
