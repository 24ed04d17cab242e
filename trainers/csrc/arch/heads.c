/* Action heads over tiles of 64 rows: sampling, log-probabilities, the PPO loss and its gradient. */
#include "../kernels.h"
#include "simd.h"

#define HALF_LOG_2PI 0.91893853320467274f
#define TINY 1e-30f
#define GAUSSIAN_DRAWS 0x8000u /* Gaussian words are drawn apart from categorical ones */

INLINE vi allowed(const uint8_t *mask, int column, int lane)
{
    vb bytes = *(const vb *)(mask + column * HR_TILE + lane);
    return __builtin_convertvector(bytes, vi) != 0;
}

/* Softmax of n logits [n][64] at one lane group: e[j][64] = exp(logit - max) (0 where masked).
 * Returns the sum of e; *most is the largest allowed logit. */
INLINE vf softmax(int n, const float *logits, const uint8_t *mask, int column, int lane, float *e,
                  vf *most)
{
    vf top = splat(-3.0e38f), sum = splat(TINY);
    for (int j = 0; j < n; j++) {
        vf l = load(logits + j * HR_TILE + lane);
        top = mask ? pick(allowed(mask, column + j, lane), vmax(top, l), top) : vmax(top, l);
    }
    for (int j = 0; j < n; j++) {
        vf p = vexp(load(logits + j * HR_TILE + lane) - top);
        if (mask)
            p = pick(allowed(mask, column + j, lane), p, splat(0.0f));
        store(e + j * HR_TILE + lane, p);
        sum += p;
    }
    *most = top;
    return sum;
}

/* The random words of one lane group for one pair of draws. */
INLINE void words(const hr_draw *draw, int lane, uint32_t pair, vu *w0, vu *w1)
{
    vu row;
    for (int k = 0; k < LANES; k++)
        row[k] = draw->row + (uint32_t)(lane + k);
    *w0 = splat_u((uint32_t)draw->step);
    *w1 = splat_u((uint32_t)(draw->step >> 32) << 16 | pair);
    vthreefry(splat_u((uint32_t)draw->key), splat_u((uint32_t)(draw->key >> 32)) ^ row, w0, w1);
}

/* Uniform in [0, 1): a multiple of 2^-24. */
INLINE vf unit(vu w)
{
    return __builtin_convertvector((vi)(w >> 8), vf) * 5.9604644775390625e-8f;
}

INLINE vf normal(vu w0, vu w1, int odd)
{
    vf sine, cosine;
    vf radius = vsqrt(-2.0f * vlog(unit(w0) + 5.9604644775390625e-8f));
    vsincos_turn(unit(w1), &sine, &cosine);
    return radius * (odd ? sine : cosine);
}

/* The last j whose e is not 0 and below which lies at most the threshold. */
INLINE vi inverse_cdf(int n, const float *e, int lane, vf threshold)
{
    vf below = splat(0.0f);
    vi choice = splat_i(0);
    for (int j = 0; j < n; j++) {
        vf p = load(e + j * HR_TILE + lane);
        choice = pick_i((threshold >= below) & (p > 0.0f), splat_i(j), choice);
        below += p;
    }
    return choice;
}

INLINE vi most_likely(int n, const float *e, int lane)
{
    vf best = splat(0.0f);
    vi choice = splat_i(0);
    for (int j = 0; j < n; j++) {
        vf p = load(e + j * HR_TILE + lane);
        choice = pick_i(p > best, splat_i(j), choice);
        best = vmax(best, p);
    }
    return choice;
}

INLINE vf sample_choice(const hr_head *head, const float *out, const uint8_t *mask,
                        const hr_draw *draw, int lane, int32_t *action, float *e)
{
    vf most;
    vf sum = softmax(head->size, out, mask, head->mask, lane, e, &most);
    vi choice;
    if (draw->greedy) {
        choice = most_likely(head->size, e, lane);
    } else {
        vu w0, w1;
        words(draw, lane, (uint32_t)head->draw >> 1, &w0, &w1);
        choice = inverse_cdf(head->size, e, lane, unit(head->draw & 1 ? w1 : w0) * sum);
    }
    *(vi *)(action + lane) = choice;
    vf chosen = splat(0.0f);
    for (int j = 0; j < head->size; j++)
        chosen = pick(choice == j, load(out + j * HR_TILE + lane), chosen);
    return chosen - most - vlog(sum);
}

INLINE vf sample_number(const hr_head *head, float log_std, const float *out,
                        const hr_draw *draw, int lane, int32_t *action)
{
    vf mean = load(out + lane), deviation = vexp(splat(log_std)), noise = splat(0.0f);
    if (!draw->greedy) {
        vu w0, w1;
        words(draw, lane, GAUSSIAN_DRAWS + ((uint32_t)head->draw >> 1), &w0, &w1);
        noise = normal(w0, w1, head->draw & 1);
    }
    store((float *)action + lane, mean + deviation * noise);
    return -0.5f * noise * noise - (log_std + HALF_LOG_2PI);
}

void HR_SYM(hr_sample)(const hr_net *net, const float *params, const float *out,
                       const uint8_t *mask, const hr_draw *draw, int32_t *actions, float *logp,
                       float *scratch)
{
    for (int lane = 0; lane < HR_TILE; lane += LANES) {
        vf total = splat(0.0f);
        for (int k = 0; k < net->heads; k++) {
            const hr_head *head = &net->head[k];
            const float *o = out + head->output * HR_TILE;
            int32_t *a = actions + k * HR_TILE;
            if (head->kind == HR_CATEGORICAL)
                total += sample_choice(head, o, head->mask >= 0 ? mask : NULL, draw, lane, a,
                                       scratch);
            else
                total += sample_number(head, params[head->log_std], o, draw, lane, a);
        }
        store(logp + lane, total);
    }
}

/* What the second pass over a categorical head needs of the first, for one lane group. */
typedef struct choice_sums {
    vf shift;   /* logit - shift is the log-probability */
    vf entropy;
} choice_sums;

/* First pass over a categorical head: probabilities into p[n][64]; adds to logp and entropy. */
INLINE void choice_forward(const hr_head *head, const float *out, const uint8_t *mask,
                           const int32_t *action, int lane, float *p, choice_sums *own, vf *logp,
                           vf *entropy)
{
    vf most;
    vf sum = softmax(head->size, out, mask, head->mask, lane, p, &most);
    vf scale = 1.0f / sum, shift = most + vlog(sum), h = splat(0.0f), chosen = splat(0.0f);
    vi a = *(const vi *)(action + lane);
    for (int j = 0; j < head->size; j++) {
        vf l = load(out + j * HR_TILE + lane) - shift, q = load(p + j * HR_TILE + lane) * scale;
        store(p + j * HR_TILE + lane, q);
        h -= pick(q > 0.0f, q * l, splat(0.0f));
        chosen = pick(a == j, l, chosen);
    }
    *own = (choice_sums){shift, h};
    *logp += chosen;
    *entropy += h;
}

/* Second pass: p[n][64] becomes the gradient by the logits. */
INLINE void choice_backward(const hr_head *head, const float *out, const int32_t *action, int lane,
                            vf by_logp, vf entropy_coef, const choice_sums *own, float *p)
{
    vi a = *(const vi *)(action + lane);
    for (int j = 0; j < head->size; j++) {
        vf q = load(p + j * HR_TILE + lane);
        vf l = load(out + j * HR_TILE + lane) - own->shift;
        vf hit = pick(a == j, splat(1.0f), splat(0.0f));
        vf by_entropy = pick(q > 0.0f, entropy_coef * q * (l + own->entropy), splat(0.0f));
        vf d = by_logp * (hit - q) + by_entropy;
        store(p + j * HR_TILE + lane, d);
    }
}

/* The clipped surrogate: loss of each row; *by_logp its derivative by the log-probability. */
INLINE vf surrogate(const hr_loss_options *o, vf ratio, vf advantage, vf *by_logp)
{
    vf bounded = vmax(splat(1.0f - o->clip), vmin(splat(1.0f + o->clip), ratio));
    vf plain = ratio * advantage, cut = bounded * advantage;
    *by_logp = pick(plain <= cut, -plain, splat(0.0f));
    return pick(plain <= cut, -plain, -cut);
}

INLINE vf value_loss(const hr_loss_options *o, vf value, vf old, vf ret, vf *by_value)
{
    vf error = value - ret;
    *by_value = error;
    if (o->value_clip <= 0.0f)
        return 0.5f * error * error;
    vf step = value - old;
    vf bounded = vmax(splat(-o->value_clip), vmin(splat(o->value_clip), step));
    vf other = old + bounded - ret;
    vi cut = other * other > error * error;
    *by_value = pick(cut, pick(bounded == step, other, splat(0.0f)), error);
    return 0.5f * pick(cut, other * other, error * error);
}

/* Gradient of a Gaussian head by its mean; *by_log_std likewise for each row. */
INLINE vf number_backward(vf mean, float log_std, vf action, vf by_logp, vf *by_log_std)
{
    vf inverse = vexp(splat(-log_std)), z = (action - mean) * inverse;
    *by_log_std = by_logp * (z * z - 1.0f);
    return by_logp * z * inverse;
}

void HR_SYM(hr_loss)(const hr_net *net, const float *params, const hr_loss_options *o,
                     const hr_loss_rows *rows, const float *out, float *dout, float *grad,
                     double *sums)
{
    const int value_at = (net->outputs - 1) * HR_TILE;
    choice_sums own[net->heads];
    vf total[HR_SUMS];
    for (int k = 0; k < HR_SUMS; k++)
        total[k] = splat(0.0f);
    for (int lane = 0; lane < HR_TILE; lane += LANES) {
        vf logp = splat(0.0f), entropy = splat(0.0f);
        for (int k = 0; k < net->heads; k++) {
            const hr_head *head = &net->head[k];
            const float *y = out + head->output * HR_TILE;
            const int32_t *a = rows->actions + k * HR_TILE;
            if (head->kind == HR_CATEGORICAL) {
                choice_forward(head, y, head->mask >= 0 ? rows->mask : NULL, a, lane,
                               dout + head->output * HR_TILE, &own[k], &logp, &entropy);
            } else {
                float log_std = params[head->log_std];
                vf z = (load((const float *)a + lane) - load(y + lane)) * vexp(splat(-log_std));
                logp += -0.5f * z * z - (log_std + HALF_LOG_2PI);
                entropy += log_std + (HALF_LOG_2PI + 0.5f);
            }
        }
        vi valid = load(rows->valid + lane) > 0.0f;
        vf zero = splat(0.0f), scale = pick(valid, splat(o->scale), zero);
        vf log_ratio = pick(valid, logp - load(rows->logp + lane), zero), ratio = vexp(log_ratio);
        vf advantage = (load(rows->advantage + lane) - o->advantage_mean) * o->advantage_scale;
        vf by_logp, by_value;
        vf policy = surrogate(o, ratio, advantage, &by_logp);
        vf value = value_loss(o, load(out + value_at + lane), load(rows->value + lane),
                              load(rows->ret + lane), &by_value);
        by_logp = pick(valid, by_logp * o->scale, zero);
        store(dout + value_at + lane,
              pick(valid, by_value * (o->value_coef * o->scale), zero));
        for (int k = 0; k < net->heads; k++) {
            const hr_head *head = &net->head[k];
            const int32_t *a = rows->actions + k * HR_TILE;
            float *d = dout + head->output * HR_TILE;
            if (head->kind == HR_CATEGORICAL) {
                choice_backward(head, out + head->output * HR_TILE, a, lane, by_logp,
                                scale * o->entropy_coef, &own[k], d);
            } else {
                vf by_std;
                vf y = load(out + head->output * HR_TILE + lane);
                store(d + lane, number_backward(y, params[head->log_std],
                                                load((const float *)a + lane), by_logp, &by_std));
                grad[head->log_std] += vsum(pick(valid, by_std, zero) - scale * o->entropy_coef);
            }
        }
        vi clipped = (ratio > 1.0f + o->clip) | (ratio < 1.0f - o->clip);
        total[HR_SUM_POLICY] += pick(valid, policy, zero);
        total[HR_SUM_VALUE] += pick(valid, value, zero);
        total[HR_SUM_ENTROPY] += pick(valid, entropy, zero);
        total[HR_SUM_KL] += (ratio - 1.0f) - log_ratio;
        total[HR_SUM_CLIPPED] += pick(clipped, splat(1.0f), zero);
    }
    for (int k = 0; k < HR_SUMS; k++)
        sums[k] += (double)vsum(total[k]);
}
