#include "level.h"

#include "isa.h"

#define DECLARE(level)                                                                             \
    void hr_step_plain_##level(hr_vec *, int64_t, int64_t);                                        \
    void hr_step_agents_##level(hr_vec *, int64_t, int64_t);                                       \
    int64_t hr_take_##level(const hr_taking *, int64_t, int64_t);                                  \
    int64_t hr_check_##level(const hr_taking *, int64_t, int64_t);                                 \
    int64_t hr_count_episodes_##level(const hr_vec *, int64_t, int64_t, double *);                 \
    static const hr_level level_##level = {                                                        \
        hr_step_plain_##level, hr_step_agents_##level,    hr_take_##level,                         \
        hr_check_##level,      hr_count_episodes_##level,                                          \
    };

DECLARE(base)
#ifdef HR_HAVE_V3
DECLARE(v3)
#endif
#ifdef HR_HAVE_V4
DECLARE(v4)
#endif

const hr_level *hr_level_get(void) {
#ifdef HR_HAVE_V4
    if (hr_isa_allows("v4") && __builtin_cpu_supports("x86-64-v4")) return &level_v4;
#endif
#ifdef HR_HAVE_V3
    if (hr_isa_allows("v3") && __builtin_cpu_supports("x86-64-v3")) return &level_v3;
#endif
    return &level_base;
}
