/* Checks actions that come from Python and writes them into the batch's action slots.
 *
 * `values` holds rows * members numbers, C order. Member m of value row r goes to
 *     (char *)slots + target(r) * stride + m * sizeof(slot element)
 * where target(r) is targets[r], or r itself when `targets` is NULL. Returns -1, or the flat
 * index (r * members + m) of the first number that is not allowed; slots may then hold some
 * of the numbers already. Nothing checks `targets`: the caller has.
 */
#ifndef HEADRACE_ACTIONS_H
#define HEADRACE_ACTIONS_H

#include <stdint.h>

/* Discrete members from int64: allowed are 0 .. choices[m]-1. Slots are int32. */
int64_t hr_take_int64(const int64_t *values, int64_t rows, int32_t members, const int32_t *choices,
                      void *slots, int64_t stride, const int64_t *targets);
/* The same from int32. */
int64_t hr_take_int32(const int32_t *values, int64_t rows, int32_t members, const int32_t *choices,
                      void *slots, int64_t stride, const int64_t *targets);
/* Continuous members: everything but NaN is allowed. Slots are float32. */
int64_t hr_take_float32(const float *values, int64_t rows, int32_t members, void *slots,
                        int64_t stride, const int64_t *targets);

#endif /* HEADRACE_ACTIONS_H */
