/* Kernels that stream over rows or parameters: encoding, normalisation, advantages, Adam. */
#include "../../../engine/include/headrace/abi.h"
#include "../kernels.h"
#include "simd.h"

/* x[r] = number at base + r*stride for r < rows, scaled where it is an integer */
#define GATHER(type, scaled)                                                                       \
    for (int r = 0; r < rows; r++)                                                                 \
        x[r] = (float)*(const type *)(base + (int64_t)r * stride) scaled;                          \
    break

INLINE void gather(const hr_input *input, const uint8_t *base, int64_t stride, int rows, float *x) {
    const float scale = input->scale;
    switch (input->dtype) {
    case HR_FLOAT32:
        GATHER(float, );
    case HR_UINT8:
        GATHER(uint8_t, *scale);
    case HR_INT8:
        GATHER(int8_t, *scale);
    case HR_INT16:
        GATHER(int16_t, *scale);
    default:
        GATHER(int32_t, *scale);
    }
}

INLINE int32_t integer(int dtype, const uint8_t *at) {
    switch (dtype) {
    case HR_UINT8:
        return *at;
    case HR_INT8:
        return *(const int8_t *)at;
    case HR_INT16:
        return *(const int16_t *)at;
    default:
        return *(const int32_t *)at;
    }
}

static void one_hot(const hr_input *input, const uint8_t *base, int64_t stride, int rows,
                    float *x) {
    memset(x, 0, sizeof(float) * HR_TILE * (size_t)input->choices);
    for (int r = 0; r < rows; r++) {
        int32_t value = integer(input->dtype, base + (int64_t)r * stride);
        if (value >= 0 && value < input->choices) x[value * HR_TILE + r] = 1.0f;
    }
}

static int element_size(int dtype) {
    return dtype == HR_UINT8 || dtype == HR_INT8 ? 1 : dtype == HR_INT16 ? 2 : 4;
}

/* Four consecutive floats of 64 structs of 16 bytes: the stride being known, this vectorises. */
static void transpose4(const float *restrict rows, float *restrict x) {
    for (int r = 0; r < HR_TILE; r++) {
        x[r] = rows[4 * r];
        x[HR_TILE + r] = rows[4 * r + 1];
        x[2 * HR_TILE + r] = rows[4 * r + 2];
        x[3 * HR_TILE + r] = rows[4 * r + 3];
    }
}

void HR_SYM(hr_encode)(const hr_net *net, const void *obs, int rows, const uint8_t *present,
                       float *x) {
    const int64_t stride = net->obs_size;
    if (net->plain && net->features == 4 && rows == HR_TILE) {
        transpose4(obs, x);
    } else {
        if (rows < HR_TILE) memset(x, 0, sizeof(float) * HR_TILE * (size_t)net->features);
        for (int k = 0; k < net->inputs; k++) {
            const hr_input *input = &net->input[k];
            const int size = element_size(input->dtype), per = input->choices ? input->choices : 1;
            for (int e = 0; e < input->count; e++) {
                const uint8_t *base = (const uint8_t *)obs + input->offset + e * size;
                float *feature = x + (int64_t)(input->feature + e * per) * HR_TILE;
                if (input->choices)
                    one_hot(input, base, stride, rows, feature);
                else
                    gather(input, base, stride, rows, feature);
            }
        }
    }
    for (int r = 0; present && r < rows; r++)
        if (!present[r])
            for (int f = 0; f < net->features; f++) x[f * HR_TILE + r] = 0.0f;
}

void HR_SYM(hr_observe)(int features, const float *x, const float *mean, const float *valid,
                        double *sum, double *square) {
    for (int f = 0; f < features; f++) {
        vf s = splat(0.0f), q = splat(0.0f), centre = splat(mean[f]);
        for (int r = 0; r < HR_TILE; r += LANES) {
            vf d = pick(load(valid + r) > 0.0f, load(x + f * HR_TILE + r) - centre, splat(0.0f));
            s += d;
            q += d * d;
        }
        sum[f] += (double)vsum(s);
        square[f] += (double)vsum(q);
    }
}

void HR_SYM(hr_normalize)(int features, const float *mean, const float *scale, float clip,
                          float *x) {
    for (int f = 0; f < features; f++)
        for (int r = 0; r < HR_TILE; r += LANES) {
            vf y = (load(x + f * HR_TILE + r) - mean[f]) * scale[f];
            store(x + f * HR_TILE + r, vmax(splat(-clip), vmin(splat(clip), y)));
        }
}

int HR_SYM(hr_finite)(const float *x, int64_t n) {
    vf zero = splat(0.0f);
    for (int64_t k = 0; k < n; k += LANES)
        zero += load(x + k) - load(x + k); /* 0, or NaN where x is infinite or NaN */
    return vsum(zero) == 0.0f;
}

/* One group of lanes, from the last step to the first. vtrace is a constant at each call. */
INLINE void advantages(const int vtrace, int steps, int rows, int row, const hr_gae_rows *from,
                       const hr_gae_options *o, float *advantage, float *ret) {
    const float gamma = o->gamma, decay = o->gamma * o->lambda;
    const vf zero = splat(0.0f);
    vf next_value = load(from->last + row), next = zero; /* next: ret - V of the step after */
    vf late = zero;                                      /* rewards since, of rows not valid */
    for (int t = steps - 1; t >= 0; t--) {
        const int64_t at = (int64_t)t * rows + row;
        vi over = load(from->done + at) > 0.0f, live = load(from->valid + at) > 0.0f;
        vf v = load(from->value + at);
        vf after = pick(over, load(from->bootstrap + at), next_value);
        vf carried = pick(over, zero, next);
        vf reward = load(from->reward + at) + pick(over, zero, late);
        vf delta = reward + gamma * after - v;
        vf later = decay * carried;
        vf a = delta + later, target = a;
        if (vtrace) {
            vf ratio = vexp(load(from->current + at) - load(from->logp + at));
            target = vmin(splat(o->rho_max), ratio) * delta + vmin(splat(o->c_max), ratio) * later;
        }
        next = pick(live, target, carried);
        next_value = pick(live, v, after);
        late = pick(live, zero, reward);
        store(advantage + at, pick(live, a, zero));
        store(ret + at, pick(live, target + v, zero));
    }
}

/* Sums of a tile of x into total[0], of its squares into total[1]. */
INLINE void add_moments(vf x[HR_TILE / LANES], double *total) {
    vf one = splat(0.0f), two = one;
    for (int r = 0; r < HR_TILE / LANES; r++) {
        one += x[r];
        two += x[r] * x[r];
    }
    total[0] += (double)vsum(one);
    total[1] += (double)vsum(two);
}

void HR_SYM(hr_gae)(int steps, int rows, const hr_gae_rows *from, const hr_gae_options *options,
                    float *advantage, float *ret, hr_moments *moments) {
    const hr_moments before = *moments;
    for (int row = 0; row < rows; row += LANES) {
        if (from->current)
            advantages(1, steps, rows, row, from, options, advantage, ret);
        else
            advantages(0, steps, rows, row, from, options, advantage, ret);
    }
    for (int64_t at = 0; at < (int64_t)steps * rows; at += HR_TILE) {
        vf a[HR_TILE / LANES], target[HR_TILE / LANES], error[HR_TILE / LANES], n = splat(0.0f);
        for (int r = 0; r < HR_TILE / LANES; r++) {
            vf live = load(from->valid + at + r * LANES);
            n += live;
            a[r] = load(advantage + at + r * LANES);
            target[r] = load(ret + at + r * LANES);
            error[r] =
                pick(live > 0.0f, target[r] - load(from->value + at + r * LANES), splat(0.0f));
        }
        moments->count += (double)vsum(n);
        add_moments(a, &moments->advantage);
        add_moments(target, &moments->ret);
        if (from->current) add_moments(error, &moments->error);
    }
    if (!from->current) { /* GAE's error is its advantage */
        moments->error = before.error + (moments->advantage - before.advantage);
        moments->error2 = before.error2 + (moments->advantage2 - before.advantage2);
    }
}

double HR_SYM(hr_square)(const float *x, int64_t n) {
    double total = 0.0;
    for (int64_t k = 0; k < n; k += 1024) {
        const int64_t end = n < k + 1024 ? n : k + 1024, whole = k + (end - k) / LANES * LANES;
        vf sum = splat(0.0f);
        for (int64_t j = k; j < whole; j += LANES) sum += load_any(x + j) * load_any(x + j);
        float rest = 0.0f;
        for (int64_t j = whole; j < end; j++) rest += x[j] * x[j];
        total += (double)vsum(sum) + (double)rest;
    }
    return total;
}

/* m, v and the parameter of n <= LANES entries. */
INLINE void adam_step(vf g, const hr_adam_options *o, vf *p, vf *m, vf *v) {
    g = g * o->scale;
    *m = *m * o->beta1 + g * (1.0f - o->beta1);
    *v = *v * o->beta2 + g * g * (1.0f - o->beta2);
    vf root = vsqrt(*v) * (1.0f / __builtin_sqrtf(o->correction2)) + o->eps;
    *p -= (o->lr / o->correction1) * *m / root;
}

void HR_SYM(hr_adam)(int64_t n, const float *grad, const hr_adam_options *options, float *params,
                     float *m, float *v) {
    const int64_t whole = n / LANES * LANES;
    for (int64_t k = 0; k < whole; k += LANES) {
        vf p = load_any(params + k), a = load_any(m + k), b = load_any(v + k);
        adam_step(load_any(grad + k), options, &p, &a, &b);
        store_any(params + k, p);
        store_any(m + k, a);
        store_any(v + k, b);
    }
    if (whole < n) {
        const size_t bytes = sizeof(float) * (size_t)(n - whole);
        vf g = splat(0.0f), p = g, a = g, b = g;
        memcpy(&g, grad + whole, bytes);
        memcpy(&p, params + whole, bytes);
        memcpy(&a, m + whole, bytes);
        memcpy(&b, v + whole, bytes);
        adam_step(g, options, &p, &a, &b);
        memcpy(params + whole, &p, bytes);
        memcpy(m + whole, &a, bytes);
        memcpy(v + whole, &b, bytes);
    }
}

int HR_SYM(hr_record)(int rows, const float *rewards, const uint8_t *terminated,
                      const uint8_t *truncated, float *reward, float *done, int *ends) {
    const vf zero = splat(0.0f), one = splat(1.0f);
    float raw[HR_TILE] __attribute__((aligned(64))) = {0};
    uint8_t over[HR_TILE] = {0};
    if (rows == HR_TILE) {
        for (int r = 0; r < HR_TILE; r++) over[r] = terminated[r] | truncated[r];
    } else {
        for (int r = 0; r < rows; r++) over[r] = terminated[r] | truncated[r];
        memcpy(raw, rewards, sizeof(float) * (size_t)rows);
        rewards = raw;
    }
    vf count = zero;
    for (int r = 0; r < HR_TILE; r += LANES) {
        vi end = __builtin_convertvector(*(const vb *)(over + r), vi) != 0;
        vf gone = pick(end, one, zero);
        store(done + r, gone);
        store(reward + r, load_any(rewards + r));
        count += gone;
    }
    *ends = (int)vsum(count);
    return HR_SYM(hr_finite)(reward, HR_TILE);
}
