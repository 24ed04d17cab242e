#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <math.h>

#include "clock.h"
#include "units.h"

/* SplitMix64 of key + number: shuffles need few, independent numbers. */
static uint64_t random_bits(uint64_t key, uint64_t number) {
    uint64_t z = key + (number + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Fisher and Yates over the units. */
static void shuffle(hr_learner *l, int64_t units) {
    const uint64_t key = random_bits(l->key, l->shuffles++);
    for (int64_t k = 0; k < units; k++) l->order[k] = (int32_t)k;
    for (int64_t k = units - 1; k > 0; k--) {
        const int64_t pick =
            (int64_t)((random_bits(key, (uint64_t)k) >> 32) * (uint64_t)(k + 1) >> 32);
        const int32_t kept = l->order[k];
        l->order[k] = l->order[pick];
        l->order[pick] = kept;
    }
}

/* Deals the units out to `parts` minibatches at random: order[part * units / parts ..] are those
 * of a part, from the first of the rollout to the last. */
static void deal(hr_learner *l, int64_t units, int64_t parts) {
    shuffle(l, units);
    for (int64_t part = 0; part < parts; part++) {
        const int64_t lo = part * units / parts, hi = (part + 1) * units / parts;
        l->filled[part] = (int32_t)lo;
        for (int64_t k = lo; k < hi; k++) l->part[l->order[k]] = (int32_t)part;
    }
    for (int64_t unit = 0; unit < units; unit++)
        l->order[l->filled[l->part[unit]]++] = (int32_t)unit;
}

static hr_moments total_moments(const hr_rollout *rollout) {
    hr_moments all = {0};
    for (int b = 0; b < rollout->blocks; b++) {
        const hr_moments *m = &rollout->moments[b];
        all.count += m->count;
        all.advantage += m->advantage;
        all.advantage2 += m->advantage2;
        all.ret += m->ret;
        all.ret2 += m->ret2;
        all.error += m->error;
        all.error2 += m->error2;
    }
    return all;
}

static double variance(double count, double sum, double square) {
    const double v = count > 0 ? (square - sum * sum / count) / count : 0.0;
    return v > 0.0 ? v : 0.0;
}

static hr_loss_options loss_options(const hr_learn_options *o, const hr_moments *m) {
    hr_loss_options loss = {o->clip, o->value_clip, o->value_coef, o->entropy_coef,
                            0.0f,    1.0f,          0.0f,          o->weight_max};
    if (o->correction == HR_VTRACE) loss.weight_max = o->gae.rho_max;
    if (o->normalize_advantage && m->count > 1) {
        const double v = variance(m->count, m->advantage, m->advantage2);
        loss.advantage_mean = (float)(m->advantage / m->count);
        loss.advantage_scale = (float)(1.0 / (sqrt(v * m->count / (m->count - 1)) + 1e-8));
    }
    return loss;
}

/* Norm of the gradient, and a fault where it or the loss is not finite. */
static hr_fault check(const hr_learner *l, int minibatch, double norm) {
    for (int k = 0; k < HR_SUMS; k++)
        if (!isfinite(l->sums[k]))
            return (hr_fault){HR_FAULT_LOSS, minibatch, k, 0, (float)l->sums[k]};
    if (!isfinite(norm))
        for (int64_t k = 0; k < l->net->params; k++)
            if (!isfinite(l->grads[k]))
                return (hr_fault){HR_FAULT_GRADIENT, minibatch, k, 0, l->grads[k]};
    return (hr_fault){0};
}

static void optimize(hr_learner *l, const hr_learn_options *o, double norm) {
    const double steps = (double)++l->steps;
    hr_adam_options adam = {o->lr, o->beta1, o->beta2, o->eps, 0.0f, 0.0f, 1.0f};
    adam.correction1 = (float)(1.0 - pow(o->beta1, steps));
    adam.correction2 = (float)(1.0 - pow(o->beta2, steps));
    if (o->max_grad_norm > 0.0f && norm + 1e-6 > o->max_grad_norm)
        adam.scale = (float)(o->max_grad_norm / (norm + 1e-6));
    l->kernels->adam(l->net->params, l->grads, &adam, l->params, l->m, l->v);
}

/* ---- correction for lag ------------------------------------------------------------------ */

/* To what the rows are compared in this update; V-trace's advantages where these are asked for. */
static hr_reference correct(hr_learner *l, const hr_rollout *rollout, const hr_learn_options *o,
                            const hr_pool_api *api, hr_pool *pool, double *ess) {
    hr_reference reference = {rollout->logp, NULL};
    *ess = 1.0;
    if (!o->lagged) return reference;
    const int64_t stride = o->correction == HR_CLIP ? HR_SAMPLED : 1;
    hr_current(l, rollout, stride, api, pool);
    *ess = hr_effective_share(l, rollout, stride);
    if (o->correction == HR_NONE) reference.logp = l->current;
    if (o->correction == HR_VTRACE || o->correction == HR_DECOUPLED)
        reference.proximal = l->current;
    if (o->correction == HR_VTRACE) hr_vtrace(l, rollout, &o->gae, api, pool);
    return reference;
}

hr_fault hr_learn(hr_learner *l, const hr_rollout *rollout, const hr_learn_options *o,
                  const hr_pool_api *api, hr_pool *pool, hr_learn_stats *stats) {
    hr_recall(l, rollout, api, pool);
    const hr_reference reference = correct(l, rollout, o, api, pool, &stats->ess);
    const hr_moments m = total_moments(rollout);
    hr_loss_options loss = loss_options(o, &m);
    double sums[HR_SUMS] = {0}, rows_seen = 0.0, norms = 0.0;
    const int64_t units = hr_units(l->net, rollout);
    const int64_t parts = o->minibatches < units ? o->minibatches : units;
    int updates = 0;
    for (int epoch = 0; epoch < o->epochs; epoch++) {
        const double kl_before = sums[HR_SUM_KL], seen_before = rows_seen;
        deal(l, units, parts);
        for (int64_t part = 0; part < parts; part++) {
            const int64_t lo = part * units / parts, hi = (part + 1) * units / parts;
            int64_t rows = 0;
            for (int64_t k = lo; k < hi; k++) rows += hr_unit_rows(l->net, rollout, l->order[k]);
            if (rows == 0) continue;
            loss.scale = (float)(1.0 / (double)rows);
            hr_gradient(l, rollout, reference, l->order + lo, hi - lo, &loss, api, pool);
            double mark = hr_start(l->seconds);
            if (hr_stopped(l->stop)) return (hr_fault){.kind = HR_FAULT_STOPPED};
            const double norm = sqrt(l->kernels->square(l->grads, l->net->params));
            hr_fault fault = check(l, updates, norm);
            if (fault.kind) return fault;
            optimize(l, o, norm);
            for (int k = 0; k < HR_SUMS; k++) sums[k] += l->sums[k];
            rows_seen += (double)rows;
            norms += norm;
            updates++;
            hr_lap(l->seconds, HR_TIME_OPTIMIZER, &mark);
        }
        const double kl = sums[HR_SUM_KL] - kl_before;
        if (o->target_kl > 0.0f && kl > o->target_kl * (rows_seen - seen_before)) break;
    }
    const double all = rows_seen > 0 ? rows_seen : 1.0;
    stats->policy_loss = sums[HR_SUM_POLICY] / all;
    stats->value_loss = sums[HR_SUM_VALUE] / all;
    stats->entropy = sums[HR_SUM_ENTROPY] / all;
    stats->kl = sums[HR_SUM_KL] / all;
    stats->clip_fraction = sums[HR_SUM_CLIPPED] / all;
    stats->grad_norm = updates ? norms / updates : 0.0;
    const double spread = variance(m.count, m.ret, m.ret2);
    const double unexplained = variance(m.count, m.error, m.error2);
    stats->explained_variance = spread > 0.0 ? 1.0 - unexplained / spread : (double)NAN;
    return (hr_fault){0};
}
