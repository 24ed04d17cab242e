/* Chooses among the instruction-set levels that arch/ was compiled for. */
#include "kernels.h"

#include <string.h>

#include "../../engine/core/isa.h"

#define DECLARE(level)                                                                             \
    void hr_layer_##level(int, int, int, const float *, const float *, const float *, float *);    \
    void hr_layer_back_##level(int, int, int, int, const float *, const float *, const float *,    \
                               float *);                                                           \
    void hr_layer_grad_##level(int, int, int, int, const float *const *, const float *const *,     \
                               float *, float *);                                                  \
    void hr_mingru_##level(int, const float *, const float *, const float *, float *, float *);    \
    void hr_mingru_back_##level(int, const float *, const float *, const float *, const float *,   \
                                const float *, float *, float *);                                  \
    void hr_sample_##level(const hr_net *, const float *, const float *, const uint8_t *,          \
                           const hr_draw *, int32_t *, float *, float *);                          \
    void hr_loss_##level(const hr_net *, const float *, const hr_loss_options *,                   \
                         const hr_loss_rows *, const float *, float *, float *, float *,           \
                         double *);                                                                \
    void hr_logp_##level(const hr_net *, const float *, const hr_loss_rows *, const float *,       \
                         float *, float *, float *, double *);                                     \
    void hr_encode_##level(const hr_net *, const void *, int, const uint8_t *, float *);           \
    void hr_observe_##level(int, const float *, const float *, const float *, double *, double *); \
    void hr_normalize_##level(int, const float *, const float *, float, float *);                  \
    int hr_finite_##level(const float *, int64_t);                                                 \
    int hr_record_##level(int, const float *, const uint8_t *, const uint8_t *, float *, float *,  \
                          int *);                                                                  \
    void hr_gae_##level(int, int, const hr_gae_rows *, const hr_gae_options *, float *, float *,   \
                        hr_moments *);                                                             \
    double hr_square_##level(const float *, int64_t);                                              \
    void hr_adam_##level(int64_t, const float *, const hr_adam_options *, float *, float *,        \
                         float *);                                                                 \
    static const hr_kernels kernels_##level = {                                                    \
        #level,                                                                                    \
        hr_layer_##level,                                                                          \
        hr_layer_back_##level,                                                                     \
        hr_layer_grad_##level,                                                                     \
        hr_mingru_##level,                                                                         \
        hr_mingru_back_##level,                                                                    \
        hr_sample_##level,                                                                         \
        hr_loss_##level,                                                                           \
        hr_logp_##level,                                                                           \
        hr_encode_##level,                                                                         \
        hr_observe_##level,                                                                        \
        hr_normalize_##level,                                                                      \
        hr_finite_##level,                                                                         \
        hr_record_##level,                                                                         \
        hr_gae_##level,                                                                            \
        hr_square_##level,                                                                         \
        hr_adam_##level,                                                                           \
    };

DECLARE(base)
#ifdef HR_HAVE_V3
DECLARE(v3)
#endif
#ifdef HR_HAVE_V4
DECLARE(v4)
#endif

const hr_kernels *hr_kernels_named(const char *name) {
    if (strcmp(name, "base") == 0) return &kernels_base;
#ifdef HR_HAVE_V3
    if (strcmp(name, "v3") == 0 && __builtin_cpu_supports("x86-64-v3")) return &kernels_v3;
#endif
#ifdef HR_HAVE_V4
    if (strcmp(name, "v4") == 0 && __builtin_cpu_supports("x86-64-v4")) return &kernels_v4;
#endif
    return NULL;
}

const hr_kernels *hr_kernels_get(void) {
    static const char *const best_first[] = {"v4", "v3", "base"};
    const hr_kernels *found = NULL;
    for (int k = 0; found == NULL; k++)
        if (hr_isa_allows(best_first[k])) found = hr_kernels_named(best_first[k]);
    return found;
}
