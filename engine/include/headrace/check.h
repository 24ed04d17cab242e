/* HR_CHECK: conditions that the author relies on, tested in checked builds only. */
#ifndef HEADRACE_CHECK_H
#define HEADRACE_CHECK_H

#include "abi.h"

#ifdef HR_CHECKED

static hr_failure hr__failure = {0, 0, 0, 0, -1};
static __thread int64_t hr__world = -1; /* the world that this thread is working on */

/* Records the first failure since the engine last looked; later ones are dropped. */
static inline void hr__fail(const char *hr__message, const char *hr__file, int32_t hr__line) {
    const char *hr__none = 0;
    if (__atomic_compare_exchange_n(&hr__failure.message, &hr__none, hr__message, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        hr__failure.file = hr__file;
        hr__failure.line = hr__line;
        hr__failure.world = hr__world;
    }
}

#define HR__AT_WORLD(hr__index) (hr__world = (hr__index))
#define HR__FAILURE             (&hr__failure)
#define HR__CHECKED_BUILD       1
#define HR_CHECK(hr__condition, hr__message)                                                       \
    ((hr__condition) ? (void)0 : hr__fail((hr__message), __FILE__, __LINE__))

#else

#define HR__AT_WORLD(hr__index)              ((void)0)
#define HR__FAILURE                          0
#define HR__CHECKED_BUILD                    0

/* States that `condition` holds here. In a checked build (`headrace check`, checked=True) a
 * false one is reported with `message` (a string literal), this line, the world, the step and
 * the seed, and the function goes on; otherwise the condition is compiled but never run. */
#define HR_CHECK(hr__condition, hr__message) ((void)sizeof((hr__condition) ? 1 : 0))

#endif

#endif /* HEADRACE_CHECK_H */
