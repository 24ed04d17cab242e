#include "actions.h"

#include <stdbool.h>
#include <string.h>

/* One bound for all members, and slots without gaps: the batch is one flat array. */
static bool is_flat(int32_t members, const int32_t *choices, int64_t stride,
                    const int64_t *targets) {
    if (targets != NULL || stride != (int64_t)members * 4) return false;
    for (int32_t m = 1; choices != NULL && m < members; m++)
        if (choices[m] != choices[0]) return false;
    return true;
}

static char *slot_of(void *slots, int64_t stride, const int64_t *targets, int64_t row) {
    return (char *)slots + (targets != NULL ? targets[row] : row) * stride;
}

/* No early exit, so that the loop vectorises; the offender is looked up afterwards. */
static bool flat_int64(const int64_t *restrict values, int64_t n, int32_t choices,
                       int32_t *restrict slots) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t low = (int32_t)(uint64_t)values[i];
        const uint32_t high = (uint32_t)((uint64_t)values[i] >> 32);
        bad |= high | (uint32_t)(low < 0) | (uint32_t)(low >= choices);
        slots[i] = low;
    }
    return bad == 0;
}

static bool flat_int32(const int32_t *restrict values, int64_t n, int32_t choices,
                       int32_t *restrict slots) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= (uint32_t)(values[i] < 0) | (uint32_t)(values[i] >= choices);
        slots[i] = values[i];
    }
    return bad == 0;
}

int64_t hr_take_int64(const int64_t *values, int64_t rows, int32_t members, const int32_t *choices,
                      void *slots, int64_t stride, const int64_t *targets) {
    if (is_flat(members, choices, stride, targets) &&
        flat_int64(values, rows * members, choices[0], slots))
        return -1;
    for (int64_t r = 0; r < rows; r++) {
        int32_t *slot = (int32_t *)slot_of(slots, stride, targets, r);
        for (int32_t m = 0; m < members; m++) {
            const int64_t value = values[r * members + m];
            if (value < 0 || value >= choices[m]) return r * members + m;
            slot[m] = (int32_t)value;
        }
    }
    return -1;
}

int64_t hr_take_int32(const int32_t *values, int64_t rows, int32_t members, const int32_t *choices,
                      void *slots, int64_t stride, const int64_t *targets) {
    if (is_flat(members, choices, stride, targets) &&
        flat_int32(values, rows * members, choices[0], slots))
        return -1;
    for (int64_t r = 0; r < rows; r++) {
        int32_t *slot = (int32_t *)slot_of(slots, stride, targets, r);
        for (int32_t m = 0; m < members; m++) {
            const int32_t value = values[r * members + m];
            if (value < 0 || value >= choices[m]) return r * members + m;
            slot[m] = value;
        }
    }
    return -1;
}

int64_t hr_take_float32(const float *values, int64_t rows, int32_t members, void *slots,
                        int64_t stride, const int64_t *targets) {
    for (int64_t r = 0; r < rows; r++) {
        const float *value = values + r * members;
        uint32_t bad = 0;
        for (int32_t m = 0; m < members; m++) bad |= (uint32_t)(value[m] != value[m]);
        if (bad != 0) {
            int32_t m = 0;
            while (value[m] == value[m]) m++;
            return r * members + m;
        }
        memcpy(slot_of(slots, stride, targets, r), value, (size_t)members * sizeof(float));
    }
    return -1;
}
