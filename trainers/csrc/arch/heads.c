/* Action heads over tiles of 64 rows: sampling, log-probabilities, the PPO loss and its gradient.
 *
 * Every step is a loop over the lane groups of the whole tile, with its results in small arrays:
 * the groups do not depend on each other, so that their latencies overlap. */
#include "../kernels.h"
#include "simd.h"

#define HALF_LOG_2PI   0.91893853320467274f
#define TINY           1e-30f
#define GAUSSIAN_DRAWS 0x8000u /* Gaussian words are drawn apart from categorical ones */

#define EACH_GROUP _Pragma("GCC unroll 4") for (int r = 0; r < HR_TILE; r += LANES)

/* One number per row. */
typedef struct column {
    float at[HR_TILE] __attribute__((aligned(64)));
} column;

INLINE vi allowed(const uint8_t *mask, int r) {
    vb bytes = *(const vb *)(mask + r);
    return __builtin_convertvector(bytes, vi) != 0;
}

/* e[j] = exp(logit[j] - most) for the n logits of a head, 0 where masked; their sum, and the
 * largest allowed logit. mask: the head's columns, or NULL. */
INLINE void softmax(int n, const float *logits, const uint8_t *mask, float *e, column *most,
                    column *sum) {
    EACH_GROUP {
        vf top = splat(-3.0e38f);
        for (int j = 0; j < n; j++) {
            vf l = load(logits + j * HR_TILE + r);
            top = mask ? pick(allowed(mask + j * HR_TILE, r), vmax(top, l), top) : vmax(top, l);
        }
        store(most->at + r, top);
        store(sum->at + r, splat(TINY));
    }
    for (int j = 0; j < n; j++) EACH_GROUP {
            vf p = vexp(load(logits + j * HR_TILE + r) - load(most->at + r));
            if (mask) p = pick(allowed(mask + j * HR_TILE, r), p, splat(0.0f));
            store(e + j * HR_TILE + r, p);
            store(sum->at + r, load(sum->at + r) + p);
        }
}

/* ---- sampling ---------------------------------------------------------------------------- */

/* Two random words for each row, where lanes have rows and steps of their own. */
static void draw_scattered(const hr_draw *draw, uint32_t pair, uint32_t *w0, uint32_t *w1) {
    const vu key0 = splat_u((uint32_t)draw->key), key1 = splat_u((uint32_t)(draw->key >> 32));
    EACH_GROUP {
        vu row, a, b;
        for (int k = 0; k < LANES; k++) {
            row[k] = draw->rows[r + k];
            a[k] = (uint32_t)draw->steps[r + k];
            b[k] = (uint32_t)(draw->steps[r + k] >> 32) << 16 | pair;
        }
        vthreefry(key0, key1 ^ row, &a, &b);
        *(vu *)(w0 + r) = a;
        *(vu *)(w1 + r) = b;
    }
}

/* Two random words for each row. */
static void draw_words(const hr_draw *draw, uint32_t pair, uint32_t *w0, uint32_t *w1) {
    if (draw->rows) {
        draw_scattered(draw, pair, w0, w1);
        return;
    }
    const vu key0 = splat_u((uint32_t)draw->key), key1 = splat_u((uint32_t)(draw->key >> 32));
    vu row;
    for (int k = 0; k < LANES; k++) row[k] = draw->row + (uint32_t)k;
    EACH_GROUP {
        vu a = splat_u((uint32_t)draw->step);
        vu b = splat_u((uint32_t)(draw->step >> 32) << 16 | pair);
        vthreefry(key0, key1 ^ (row + (uint32_t)r), &a, &b);
        *(vu *)(w0 + r) = a;
        *(vu *)(w1 + r) = b;
    }
}

/* Uniform in [0, 1): a multiple of 2^-24. */
INLINE vf unit(const uint32_t *w) {
    return __builtin_convertvector((vi)(*(const vu *)w >> 8), vf) * 5.9604644775390625e-8f;
}

/* The last j whose e is not 0 and below which lies at most u * sum: never a masked one. */
static void inverse_cdf(int n, const float *e, const uint32_t *w, const column *sum,
                        int32_t *choice) {
    EACH_GROUP {
        vf below = splat(0.0f), threshold = unit(w + r) * load(sum->at + r);
        vi chosen = splat_i(0);
        for (int j = 0; j < n; j++) {
            vf p = load(e + j * HR_TILE + r);
            chosen = pick_i((threshold >= below) & (p > 0.0f), splat_i(j), chosen);
            below += p;
        }
        *(vi *)(choice + r) = chosen;
    }
}

static void most_likely(int n, const float *e, int32_t *choice) {
    EACH_GROUP {
        vf best = splat(0.0f);
        vi chosen = splat_i(0);
        for (int j = 0; j < n; j++) {
            vf p = load(e + j * HR_TILE + r);
            chosen = pick_i(p > best, splat_i(j), chosen);
            best = vmax(best, p);
        }
        *(vi *)(choice + r) = chosen;
    }
}

static void sample_choice(const hr_head *head, const float *out, const uint8_t *mask,
                          const hr_draw *draw, int32_t *action, float *logp, float *e) {
    uint32_t w[2][HR_TILE] __attribute__((aligned(64)));
    column most, sum;
    softmax(head->size, out, mask, e, &most, &sum);
    if (draw->greedy) {
        most_likely(head->size, e, action);
    } else {
        draw_words(draw, (uint32_t)head->draw >> 1, w[0], w[1]);
        inverse_cdf(head->size, e, w[head->draw & 1], &sum, action);
    }
    EACH_GROUP {
        vi choice = *(const vi *)(action + r);
        vf chosen = splat(0.0f);
        for (int j = 0; j < head->size; j++)
            chosen = pick(choice == j, load(out + j * HR_TILE + r), chosen);
        vf own = chosen - load(most.at + r) - vlog(load(sum.at + r));
        store(logp + r, load(logp + r) + own);
    }
}

static void sample_number(const hr_head *head, float log_std, const float *out, const hr_draw *draw,
                          int32_t *action, float *logp) {
    uint32_t w[2][HR_TILE] __attribute__((aligned(64)));
    const vf deviation = vexp(splat(log_std));
    draw_words(draw, GAUSSIAN_DRAWS + ((uint32_t)head->draw >> 1), w[0], w[1]);
    EACH_GROUP {
        vf noise = splat(0.0f);
        if (!draw->greedy) { /* Box and Muller: the pair's first number, or its second */
            vf sine, cosine;
            vf radius = vsqrt(-2.0f * vlog(unit(w[0] + r) + 5.9604644775390625e-8f));
            vsincos_turn(unit(w[1] + r), &sine, &cosine);
            noise = radius * (head->draw & 1 ? sine : cosine);
        }
        store((float *)action + r, load(out + r) + deviation * noise);
        store(logp + r, load(logp + r) - 0.5f * noise * noise - (log_std + HALF_LOG_2PI));
    }
}

void HR_SYM(hr_sample)(const hr_net *net, const float *params, const float *out,
                       const uint8_t *mask, const hr_draw *draw, int32_t *actions, float *logp,
                       float *scratch) {
    EACH_GROUP store(logp + r, splat(0.0f));
    for (int k = 0; k < net->heads; k++) {
        const hr_head *head = &net->head[k];
        const float *y = out + head->output * HR_TILE;
        const uint8_t *own = mask && head->mask >= 0 ? mask + head->mask * HR_TILE : NULL;
        int32_t *action = actions + k * HR_TILE;
        if (head->kind == HR_CATEGORICAL)
            sample_choice(head, y, own, draw, action, logp, scratch);
        else
            sample_number(head, params[head->log_std], y, draw, action, logp);
    }
}

/* ---- the loss ---------------------------------------------------------------------------- */

/* Sums over the heads, and what follows from them, for the rows of one tile. */
typedef struct joint {
    column logp, entropy;
    column by_logp; /* derivative of the loss */
    column scale;   /* of a row's loss: 0 where it is not valid */
} joint;

/* What the second pass over a categorical head needs of the first. */
typedef struct own {
    column shift; /* logit - shift is the log-probability */
    column entropy;
} own;
_Static_assert(sizeof(own) == sizeof(float) * HR_HEAD_WORK * HR_TILE, "room for one head");

/* First pass: probabilities into p[size][64]; adds to the joint log-probability and entropy. */
static void choice_forward(const hr_head *head, const float *out, const uint8_t *mask,
                           const int32_t *action, float *p, own *head_own, joint *all) {
    column most, sum;
    softmax(head->size, out, mask, p, &most, &sum);
    EACH_GROUP {
        vf s = load(sum.at + r), scale = 1.0f / s, shift = load(most.at + r) + vlog(s);
        vf entropy = splat(0.0f), chosen = splat(0.0f);
        vi a = *(const vi *)(action + r);
        for (int j = 0; j < head->size; j++) {
            vf l = load(out + j * HR_TILE + r) - shift, q = load(p + j * HR_TILE + r) * scale;
            store(p + j * HR_TILE + r, q);
            entropy -= pick(q > 0.0f, q * l, splat(0.0f)); /* a masked l may be large */
            chosen = pick(a == j, l, chosen);
        }
        store(head_own->shift.at + r, shift);
        store(head_own->entropy.at + r, entropy);
        store(all->logp.at + r, load(all->logp.at + r) + chosen);
        store(all->entropy.at + r, load(all->entropy.at + r) + entropy);
    }
}

/* Second pass: p[size][64] becomes the gradient by the logits. */
static void choice_backward(const hr_head *head, const float *out, const int32_t *action,
                            float entropy_coef, const own *head_own, const joint *all, float *p) {
    EACH_GROUP {
        vi a = *(const vi *)(action + r);
        vf by_logp = load(all->by_logp.at + r), shift = load(head_own->shift.at + r);
        vf entropy = load(head_own->entropy.at + r);
        vf coef = load(all->scale.at + r) * entropy_coef;
        for (int j = 0; j < head->size; j++) {
            vf q = load(p + j * HR_TILE + r), l = load(out + j * HR_TILE + r) - shift;
            vf by_entropy = pick(q > 0.0f, coef * q * (l + entropy), splat(0.0f));
            vf d = by_entropy - by_logp * q;
            store(p + j * HR_TILE + r, pick(a == j, d + by_logp, d));
        }
    }
}

static void number_forward(float log_std, const float *mean, const float *action, joint *all) {
    const vf inverse = vexp(splat(-log_std));
    EACH_GROUP {
        vf z = (load(action + r) - load(mean + r)) * inverse;
        store(all->logp.at + r, load(all->logp.at + r) - 0.5f * z * z - (log_std + HALF_LOG_2PI));
        store(all->entropy.at + r, load(all->entropy.at + r) + (log_std + HALF_LOG_2PI + 0.5f));
    }
}

/* Writes the gradient by the mean; returns that by the log standard deviation. */
static float number_backward(float log_std, const float *mean, const float *action,
                             float entropy_coef, const joint *all, float *d) {
    const vf inverse = vexp(splat(-log_std)), zero = splat(0.0f);
    vf by_log_std = zero;
    EACH_GROUP {
        vf z = (load(action + r) - load(mean + r)) * inverse, by_logp = load(all->by_logp.at + r);
        vf scale = load(all->scale.at + r);
        vi valid = scale > 0.0f;
        store(d + r, pick(valid, by_logp * z * inverse, zero));
        by_log_std += pick(valid, by_logp * (z * z - 1.0f) - scale * entropy_coef, zero);
    }
    return vsum(by_log_std);
}

/* The clipped surrogate: a row's loss, and its derivative by the log-probability. */
INLINE vf surrogate(const hr_loss_options *o, vf ratio, vf advantage, vf *by_logp) {
    vf bounded = vmax(splat(1.0f - o->clip), vmin(splat(1.0f + o->clip), ratio));
    vf plain = ratio * advantage, cut = bounded * advantage;
    *by_logp = pick(plain <= cut, -plain, splat(0.0f));
    return pick(plain > cut, -cut, -plain);
}

/* Half the squared error of the value, the worse of plain and clipped, and its derivative. */
INLINE vf value_loss(const hr_loss_options *o, vf value, vf old, vf ret, vf *by_value) {
    vf error = value - ret;
    *by_value = error;
    if (o->value_clip <= 0.0f) return 0.5f * error * error;
    vf step = value - old;
    vf bounded = vmax(splat(-o->value_clip), vmin(splat(o->value_clip), step));
    vf other = old + bounded - ret;
    vi cut = other * other > error * error;
    *by_value = pick(cut, pick(bounded == step, other, splat(0.0f)), error);
    return 0.5f * pick(cut, other * other, error * error);
}

/* From the joint log-probability and entropy to the loss, its sums and its derivatives. */
static void row_losses(const hr_loss_options *o, const hr_loss_rows *rows, const float *value,
                       joint *all, float *dvalue, double *sums) {
    const vf zero = splat(0.0f);
    vf total[HR_SUMS];
    for (int k = 0; k < HR_SUMS; k++) total[k] = zero;
    EACH_GROUP {
        vi valid = load(rows->valid + r) > 0.0f;
        vf scale = pick(valid, splat(o->scale), zero);
        const float *base = rows->proximal ? rows->proximal : rows->logp;
        vf log_ratio = pick(valid, load(all->logp.at + r) - load(base + r), zero);
        vf ratio = vexp(log_ratio), by_logp, by_value;
        vf advantage = (load(rows->advantage + r) - o->advantage_mean) * o->advantage_scale;
        vf policy = surrogate(o, ratio, advantage, &by_logp);
        if (rows->proximal) {
            vf weight = vexp(load(rows->proximal + r) - load(rows->logp + r));
            weight = vmin(splat(o->weight_max), weight);
            policy *= weight;
            by_logp *= weight;
        }
        vf error =
            value_loss(o, load(value + r), load(rows->value + r), load(rows->ret + r), &by_value);
        store(all->scale.at + r, scale);
        store(all->by_logp.at + r, pick(valid, by_logp * o->scale, zero));
        store(dvalue + r, pick(valid, by_value * (o->value_coef * o->scale), zero));
        vi clipped = (ratio > 1.0f + o->clip) | (ratio < 1.0f - o->clip);
        total[HR_SUM_POLICY] += pick(valid, policy, zero);
        total[HR_SUM_VALUE] += pick(valid, error, zero);
        total[HR_SUM_ENTROPY] += pick(valid, load(all->entropy.at + r), zero);
        total[HR_SUM_KL] += (ratio - 1.0f) - log_ratio;
        total[HR_SUM_CLIPPED] += pick(clipped, splat(1.0f), zero);
    }
    for (int k = 0; k < HR_SUMS; k++) sums[k] += (double)vsum(total[k]);
}

/* Joint log-probability and entropy of every row; probabilities of categorical heads, or of
 * nothing else, into p[outputs][64]. */
INLINE void joint_forward(const hr_net *net, const float *params, const hr_loss_rows *rows,
                          const float *out, float *p, own *head_own, joint *all) {
    EACH_GROUP {
        store(all->logp.at + r, splat(0.0f));
        store(all->entropy.at + r, splat(0.0f));
    }
    for (int k = 0; k < net->heads; k++) {
        const hr_head *head = &net->head[k];
        const float *y = out + head->output * HR_TILE;
        const uint8_t *mask =
            head->mask >= 0 && rows->mask ? rows->mask + head->mask * HR_TILE : NULL;
        const int32_t *a = rows->actions + k * HR_TILE;
        if (head->kind == HR_CATEGORICAL)
            choice_forward(head, y, mask, a, p + head->output * HR_TILE, &head_own[k], all);
        else
            number_forward(params[head->log_std], y, (const float *)a, all);
    }
}

void HR_SYM(hr_loss)(const hr_net *net, const float *params, const hr_loss_options *o,
                     const hr_loss_rows *rows, const float *out, float *dout, float *work,
                     float *grad, double *sums) {
    own *head_own = (own *)work;
    joint all;
    joint_forward(net, params, rows, out, dout, head_own, &all);
    const int value_at = (net->outputs - 1) * HR_TILE;
    row_losses(o, rows, out + value_at, &all, dout + value_at, sums);
    for (int k = 0; k < net->heads; k++) {
        const hr_head *head = &net->head[k];
        const float *y = out + head->output * HR_TILE;
        const int32_t *a = rows->actions + k * HR_TILE;
        float *d = dout + head->output * HR_TILE;
        if (head->kind == HR_CATEGORICAL)
            choice_backward(head, y, a, o->entropy_coef, &head_own[k], &all, d);
        else
            grad[head->log_std] += number_backward(params[head->log_std], y, (const float *)a,
                                                   o->entropy_coef, &all, d);
    }
}

void HR_SYM(hr_logp)(const hr_net *net, const float *params, const hr_loss_rows *rows,
                     const float *out, float *logp, float *scratch, float *work, double *sums) {
    own *head_own = (own *)work;
    joint all;
    joint_forward(net, params, rows, out, scratch, head_own, &all);
    vf one = splat(0.0f), two = one;
    EACH_GROUP {
        vf own = load(all.logp.at + r);
        vf weight = vexp(own - load(rows->logp + r));
        weight = pick(load(rows->valid + r) > 0.0f, weight, splat(0.0f));
        store(logp + r, own);
        one += weight;
        two += weight * weight;
    }
    sums[0] += (double)vsum(one);
    sums[1] += (double)vsum(two);
}
