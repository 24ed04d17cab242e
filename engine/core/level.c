#include "level.h"

#include <stdlib.h>
#include <string.h>

#define DECLARE(level)                                                                             \
    void hr_step_plain_##level(hr_vec *, int64_t, int64_t);                                        \
    void hr_step_agents_##level(hr_vec *, int64_t, int64_t);                                       \
    int64_t hr_take_##level(const hr_taking *, int64_t, int64_t);                                  \
    int64_t hr_count_episodes_##level(const hr_vec *, int64_t, int64_t, double *);                 \
    static const hr_level level_##level = {                                                        \
        hr_step_plain_##level,                                                                     \
        hr_step_agents_##level,                                                                    \
        hr_take_##level,                                                                           \
        hr_count_episodes_##level,                                                                 \
    };

DECLARE(base)
#ifdef HR_HAVE_V3
DECLARE(v3)
#endif
#ifdef HR_HAVE_V4
DECLARE(v4)
#endif

const hr_level *hr_level_get(void) {
    const char *highest = getenv("HEADRACE_ISA");
    if (highest == NULL) highest = "v4";
#ifdef HR_HAVE_V4
    if (strcmp(highest, "v4") == 0 && __builtin_cpu_supports("x86-64-v4")) return &level_v4;
#endif
#ifdef HR_HAVE_V3
    if (strcmp(highest, "base") != 0 && __builtin_cpu_supports("x86-64-v3")) return &level_v3;
#endif
    return &level_base;
}
