/* Checks actions that come from Python and writes them into the batch's action slots. */
#ifndef HEADRACE_ACTIONS_H
#define HEADRACE_ACTIONS_H

#include <stdint.h>

/* What `values` holds: int64 and int32 for discrete members, whose slots are int32, and float32
 * for continuous ones, whose slots are float32. */
typedef enum hr_number { HR_FROM_INT64, HR_FROM_INT32, HR_FROM_FLOAT32 } hr_number;

/* Value rows and where they go: member m of value row r to
 *     (char *)slots + target(r) * stride + m * 4
 * where target(r) is targets[r], or r itself when `targets` is NULL. Nothing checks `targets`: the
 * caller has. */
typedef struct hr_taking {
    const void *values; /* [rows][members] */
    int32_t from;       /* hr_number */
    int32_t members;
    const int32_t *choices; /* [members] allowed are 0 .. choices[m]-1; continuous: all but NaN */
    void *slots;
    int64_t stride; /* bytes from one row's slot to the next */
    const int64_t *targets;
} hr_taking;

#endif /* HEADRACE_ACTIONS_H */
