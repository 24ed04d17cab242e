#include "actions.h"

#include "passes.h"

/* One bound for all members, and slots without gaps: the batch is one flat array. */
static bool is_flat(const hr_taking *t) {
    if (t->targets != NULL || t->stride != (int64_t)t->members * 4) return false;
    for (int32_t m = 1; m < t->members; m++)
        if (t->choices[m] != t->choices[0]) return false;
    return true;
}

static void *slot_of(const hr_taking *t, int64_t row) {
    return (char *)t->slots + (t->targets != NULL ? t->targets[row] : row) * t->stride;
}

/* Whether all n are allowed. No early exit, so that the loop vectorises; the offender is looked
 * up afterwards. slots: where they go, or NULL. */
static inline __attribute__((always_inline)) bool
flat_int64(const int64_t *restrict values, int64_t n, int32_t choices, int32_t *restrict slots) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t low = (int32_t)(uint64_t)values[i];
        const uint32_t high = (uint32_t)((uint64_t)values[i] >> 32);
        bad |= high | (uint32_t)(low < 0) | (uint32_t)(low >= choices);
        if (slots) slots[i] = low;
    }
    return bad == 0;
}

static inline __attribute__((always_inline)) bool
flat_int32(const int32_t *restrict values, int64_t n, int32_t choices, int32_t *restrict slots) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= (uint32_t)(values[i] < 0) | (uint32_t)(values[i] >= choices);
        if (slots) slots[i] = values[i];
    }
    return bad == 0;
}

static bool flat_is_allowed(const hr_taking *t, int64_t at, int64_t n, bool write) {
    int32_t *slots = (int32_t *)t->slots + at;
    if (t->from == HR_FROM_INT64) {
        const int64_t *values = (const int64_t *)t->values + at;
        return write ? flat_int64(values, n, t->choices[0], slots)
                     : flat_int64(values, n, t->choices[0], NULL);
    }
    const int32_t *values = (const int32_t *)t->values + at;
    return write ? flat_int32(values, n, t->choices[0], slots)
                 : flat_int32(values, n, t->choices[0], NULL);
}

static int64_t pass_discrete(const hr_taking *t, int64_t lo, int64_t hi, bool write) {
    if (is_flat(t) && flat_is_allowed(t, lo * t->members, (hi - lo) * t->members, write)) return -1;
    for (int64_t r = lo; r < hi; r++) {
        int32_t *slot = slot_of(t, r);
        for (int32_t m = 0; m < t->members; m++) {
            const int64_t at = r * t->members + m;
            const int64_t value = t->from == HR_FROM_INT64 ? ((const int64_t *)t->values)[at]
                                                           : ((const int32_t *)t->values)[at];
            if (value < 0 || value >= t->choices[m]) return at;
            if (write) slot[m] = (int32_t)value;
        }
    }
    return -1;
}

static int64_t pass_float32(const hr_taking *t, int64_t lo, int64_t hi, bool write) {
    for (int64_t r = lo; r < hi; r++) {
        const float *value = (const float *)t->values + r * t->members;
        uint32_t bad = 0;
        for (int32_t m = 0; m < t->members; m++) bad |= (uint32_t)(value[m] != value[m]);
        if (bad != 0) {
            int32_t m = 0;
            while (value[m] == value[m]) m++;
            return r * t->members + m;
        }
        if (write) memcpy(slot_of(t, r), value, (size_t)t->members * sizeof(float));
    }
    return -1;
}

int64_t HR_SYM(hr_take)(const hr_taking *t, int64_t lo, int64_t hi) {
    return t->from == HR_FROM_FLOAT32 ? pass_float32(t, lo, hi, true)
                                      : pass_discrete(t, lo, hi, true);
}

int64_t HR_SYM(hr_check)(const hr_taking *t, int64_t lo, int64_t hi) {
    return t->from == HR_FROM_FLOAT32 ? pass_float32(t, lo, hi, false)
                                      : pass_discrete(t, lo, hi, false);
}
