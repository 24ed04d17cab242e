/* Matrix products of one layer over tiles of 64 rows: forward, input gradient, weight gradient. */
#include "../kernels.h"
#include "simd.h"
#include "tanh.h"

/* Accumulators held in registers: UNITS output units x VECS vectors of rows. */
#define UNITS 4
#if LANES == 16
#define VECS       4 /* 64 rows at once */
#define GRAD_UNITS 4 /* weight gradient: GRAD_UNITS x 4 accumulators */
#else
#define VECS       2
#define GRAD_UNITS 2
#endif
#define GROUP (VECS * LANES) /* rows done together */

INLINE void activate(int activation, int n, float *y) {
    if (activation == HR_TANH)
        for (int k = 0; k < n; k += LANES) store(y + k, vtanh(load(y + k)));
    else if (activation == HR_RELU)
        for (int k = 0; k < n; k += LANES) store(y + k, vmax(splat(0.0f), load(y + k)));
}

/* acc[u] += sum_i w[u*row + i*column] x[i] for u < units, rows [0, GROUP) of x. */
INLINE void product(const int units, int in, int row, int column, const float *w, const float *x,
                    vf acc[UNITS][VECS]) {
    for (int i = 0; i < in; i++) {
        vf in_rows[VECS];
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++) in_rows[v] = load(x + i * HR_TILE + v * LANES);
#pragma GCC unroll 4
        for (int u = 0; u < units; u++) {
            vf weight = splat(w[u * row + i * column]);
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++) acc[u][v] += weight * in_rows[v];
        }
    }
}

INLINE void forward_block(const int units, int in, const float *w, const float *b, const float *x,
                          float *y) {
    for (int group = 0; group < HR_TILE; group += GROUP) {
        vf acc[UNITS][VECS];
#pragma GCC unroll 4
        for (int u = 0; u < units; u++)
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++) acc[u][v] = splat(b[u]);
        product(units, in, in, 1, w, x + group, acc);
#pragma GCC unroll 4
        for (int u = 0; u < units; u++)
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++) store(y + u * HR_TILE + group + v * LANES, acc[u][v]);
    }
}

void HR_SYM(hr_layer)(int out, int in, int activation, const float *w, const float *b,
                      const float *x, float *y) {
    for (int o = 0; o < out; o += UNITS, w += UNITS * in, b += UNITS, y += UNITS * HR_TILE) {
        const int units = out - o < UNITS ? out - o : UNITS;
        switch (units) {
        case 1:
            forward_block(1, in, w, b, x, y);
            break;
        case 2:
            forward_block(2, in, w, b, x, y);
            break;
        case 3:
            forward_block(3, in, w, b, x, y);
            break;
        default:
            forward_block(4, in, w, b, x, y);
            break;
        }
        activate(activation, units * HR_TILE, y);
    }
}

/* The derivative of the activation, from what it gave. */
INLINE vf slope(int activation, vf h) {
    if (activation == HR_TANH) return 1.0f - h * h;
    if (activation == HR_RELU) return pick(h > 0.0f, splat(1.0f), splat(0.0f));
    return splat(1.0f);
}

INLINE void back_block(const int units, int out, int ld, int activation, const float *w,
                       const float *dy, const float *h, float *dx) {
    for (int group = 0; group < HR_TILE; group += GROUP) {
        vf acc[UNITS][VECS];
#pragma GCC unroll 4
        for (int u = 0; u < units; u++)
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++) acc[u][v] = splat(0.0f);
        product(units, out, 1, ld, w, dy + group, acc);
#pragma GCC unroll 4
        for (int u = 0; u < units; u++)
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++) {
                const int at = u * HR_TILE + group + v * LANES;
                store(dx + at, acc[u][v] * slope(activation, load(h + at)));
            }
    }
}

INLINE void back_layer(const int activation, int out, int in, int ld, const float *w,
                       const float *dy, const float *h, float *dx) {
    for (int i = 0; i < in; i += UNITS, w += UNITS, h += UNITS * HR_TILE, dx += UNITS * HR_TILE)
        switch (in - i < UNITS ? in - i : UNITS) {
        case 1:
            back_block(1, out, ld, activation, w, dy, h, dx);
            break;
        case 2:
            back_block(2, out, ld, activation, w, dy, h, dx);
            break;
        case 3:
            back_block(3, out, ld, activation, w, dy, h, dx);
            break;
        default:
            back_block(4, out, ld, activation, w, dy, h, dx);
            break;
        }
}

void HR_SYM(hr_layer_back)(int out, int in, int ld, int activation, const float *w, const float *dy,
                           const float *h, float *dx) {
    if (activation == HR_TANH)
        back_layer(HR_TANH, out, in, ld, w, dy, h, dx);
    else if (activation == HR_RELU)
        back_layer(HR_RELU, out, in, ld, w, dy, h, dx);
    else
        back_layer(HR_IDENTITY, out, in, ld, w, dy, h, dx);
}

/* [a0+a1, a2+a3, .., b0+b1, ..]: LANES vectors end as one vector of their sums. */
INLINE vf fold(vf a, vf b) {
#if LANES == 16
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                   30) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif LANES == 8
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

#define GRADS (GRAD_UNITS * 4)

/* into[4] += from[4]; neither need be aligned. */
INLINE void add_four(float *into, const float *from) {
    typedef float four __attribute__((vector_size(16)));
    four a, b;
    memcpy(&a, into, sizeof a);
    memcpy(&b, from, sizeof b);
    a += b;
    memcpy(into, &a, sizeof a);
}

/* dw[u][i] += sum over rows of dy[u] x[i], u < units, i < inputs; db likewise with x = 1. */
INLINE void grad_block(const int units, const int inputs, const int bias, int ld, int tiles,
                       const float *const *dy, int dy_at, const float *const *x, int x_at,
                       float *dw, float *db) {
    vf sum[GRADS], bias_sum[GRAD_UNITS];
#pragma GCC unroll 16
    for (int k = 0; k < GRADS; k++) sum[k] = splat(0.0f);
#pragma GCC unroll 4
    for (int u = 0; u < GRAD_UNITS; u++) bias_sum[u] = splat(0.0f);
    for (int t = 0; t < tiles; t++) {
        const float *a = dy[t] + dy_at, *c = x[t] + x_at;
        for (int r = 0; r < HR_TILE; r += LANES) {
            vf in_rows[4];
#pragma GCC unroll 4
            for (int i = 0; i < inputs; i++) in_rows[i] = load(c + i * HR_TILE + r);
#pragma GCC unroll 4
            for (int u = 0; u < units; u++) {
                vf d = load(a + u * HR_TILE + r);
                if (bias) bias_sum[u] += d;
#pragma GCC unroll 4
                for (int i = 0; i < inputs; i++) sum[u * 4 + i] += d * in_rows[i];
            }
        }
    }
#pragma GCC unroll 4
    for (int width = LANES; width > 1; width /= 2)
#pragma GCC unroll 8
        for (int k = 0; k < GRADS * width / LANES / 2; k++)
            sum[k] = fold(sum[2 * k], sum[2 * k + 1]);
    float total[GRADS];
    memcpy(total, sum, sizeof total);
#pragma GCC unroll 4
    for (int u = 0; u < units; u++) {
        if (inputs == 4)
            add_four(dw + u * ld, total + u * 4);
        else
            for (int i = 0; i < inputs; i++) dw[u * ld + i] += total[u * 4 + i];
        if (bias) db[u] += vsum(bias_sum[u]);
    }
}

INLINE void grad_inputs(const int units, int inputs, int ld, int tiles, const float *const *dy,
                        int dy_at, const float *const *x, int x_at, float *dw, float *db) {
#define BLOCK(n, bias) grad_block(units, n, bias, ld, tiles, dy, dy_at, x, x_at, dw, db)
    if (db) switch (inputs) {
        case 1:
            BLOCK(1, 1);
            break;
        case 2:
            BLOCK(2, 1);
            break;
        case 3:
            BLOCK(3, 1);
            break;
        default:
            BLOCK(4, 1);
            break;
        }
    else
        switch (inputs) {
        case 1:
            BLOCK(1, 0);
            break;
        case 2:
            BLOCK(2, 0);
            break;
        case 3:
            BLOCK(3, 0);
            break;
        default:
            BLOCK(4, 0);
            break;
        }
#undef BLOCK
}

void HR_SYM(hr_layer_grad)(int out, int in, int ld, int tiles, const float *const *dy,
                           const float *const *x, float *dw, float *db) {
    for (int o = 0; o < out; o += GRAD_UNITS)
        for (int i = 0; i < in; i += 4) {
            int units = out - o < GRAD_UNITS ? out - o : GRAD_UNITS;
            int inputs = in - i < 4 ? in - i : 4;
            float *w = dw + (int64_t)o * ld + i, *b = i == 0 && db ? db + o : NULL;
            switch (units) {
            case 1:
                grad_inputs(1, inputs, ld, tiles, dy, o * HR_TILE, x, i * HR_TILE, w, b);
                break;
            case 2:
                grad_inputs(2, inputs, ld, tiles, dy, o * HR_TILE, x, i * HR_TILE, w, b);
                break;
#if GRAD_UNITS == 4
            case 3:
                grad_inputs(3, inputs, ld, tiles, dy, o * HR_TILE, x, i * HR_TILE, w, b);
                break;
            default:
                grad_inputs(4, inputs, ld, tiles, dy, o * HR_TILE, x, i * HR_TILE, w, b);
                break;
#endif
            }
        }
}
