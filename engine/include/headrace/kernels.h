/* HR_ENV: turns the author's structs and functions into the range kernels of abi.h.
 *
 * The kernels exist twice for Params: shared by all worlds (copied to the stack, so that the
 * compiler keeps the members in registers), and one per world. One agent and a small State
 * are worked on in local copies, which the compiler turns into registers: that is what lets
 * it vectorise across worlds.
 */
#ifndef HEADRACE_KERNELS_H
#define HEADRACE_KERNELS_H

#include "abi.h"
#include "check.h"
#include "describe.h"

#define HR__LOCAL_BYTES 256 /* States up to this size are worked on in a local copy */
#define HR__SEAT_BYTES  64  /* States up to this size are reset in a local copy */
#define HR__KERNEL      static __attribute__((flatten)) void

#ifdef __cplusplus
#define HR__EXPORT extern "C" __attribute__((visibility("default")))
template <typename hr__A, typename hr__B> struct hr__same {
    static constexpr bool value = false;
};
template <typename hr__A> struct hr__same<hr__A, hr__A> {
    static constexpr bool value = true;
};
#define HR__SAME(hr__x, hr__type) (hr__same<decltype(hr__x), hr__type>::value)
#define HR__ASSERT                static_assert
#else
#define HR__EXPORT                __attribute__((visibility("default")))
#define HR__SAME(hr__x, hr__type) __builtin_types_compatible_p(__typeof__(hr__x), hr__type)
#define HR__ASSERT                _Static_assert
#endif

/* Before a loop over worlds: no world touches another's slots. */
#if defined(__clang__)
#define HR__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HR__INDEPENDENT _Pragma("GCC ivdep")
#endif

#ifdef HR_SOURCE_HASH
#define HR__SOURCE_HASH HR_SOURCE_HASH
#else
#define HR__SOURCE_HASH ""
#endif

/* A metric: its name and where it lies in struct Metrics. */
typedef struct hr__metric {
    const char *name;
    int64_t offset; /* bytes */
} hr__metric;

/* The three signatures that every environment has. */
#define HR__CHECK_SIGNATURES(hr__name)                                                             \
    HR__ASSERT(HR__SAME(hr__name##_reset, void(const Params *, State *, hr_rng *)),                \
               #hr__name "_reset must be declared as: static inline void " #hr__name               \
                         "_reset(const Params *, State *, hr_rng *)");                             \
    HR__ASSERT(HR__SAME(hr__name##_step,                                                           \
                        void(const Params *, State *, const Action *, hr_outcome *, hr_rng *)),    \
               #hr__name                                                                           \
               "_step must be declared as: static inline void " #hr__name                          \
               "_step(const Params *, State *, const Action[], hr_outcome[], hr_rng *)");          \
    HR__ASSERT(HR__SAME(hr__name##_observe, void(const Params *, const State *, Obs *)),           \
               #hr__name "_observe must be declared as: static inline void " #hr__name             \
                         "_observe(const Params *, const State *, Obs[])")

/* The options that follow the three lists of HR_ENV, in this order. */
#define HR__OPTIONS                                                                                \
    typedef struct hr__options {                                                                   \
        int32_t max_steps;                                                                         \
        int32_t agents;                                                                            \
        void (*present)(const Params *, const State *, bool *);                                    \
        void (*mask)(const Params *, const State *, bool *);                                       \
        void (*metrics)(const Params *, const State *, struct Metrics *);                          \
        hr__metric hr__metrics[HR__MAX_METRICS];                                                   \
        int64_t hr__metrics_count;                                                                 \
        void (*draw)(const Params *, const State *, hr_frame *);                                   \
    } hr__options

/* Params of world w: the shared ones where stride is 0. */
#define HR__PARAMS_AT(hr__w)                                                                       \
    ((const Params *)(const void *)((const char *)hr__params + hr__stride * (hr__w)))

#define HR__AGENTS (hr__given.agents > 1 ? hr__given.agents : 1)

/* Steps world `w` on the spot, whatever its size and the number of its agents. */
#define HR__STEP_IN_PLACE(hr__name)                                                                \
    HR__INLINE void hr__step_in_place(const hr_batch *hr__batch, int64_t hr__lo, int64_t hr__hi) { \
        const Params *hr__params = (const Params *)hr__batch->params;                              \
        const int64_t hr__stride = hr__batch->params_stride, hr__agents = HR__AGENTS;              \
        const size_t hr__bytes = (size_t)hr__agents * sizeof(hr_outcome);                          \
        hr_outcome *hr__outcomes = (hr_outcome *)__builtin_alloca(hr__bytes);                      \
        for (int64_t hr__w = hr__lo; hr__w < hr__hi; hr__w++) {                                    \
            const int64_t hr__row = hr__w * hr__agents;                                            \
            HR__AT_WORLD(hr__w);                                                                   \
            __builtin_memset(hr__outcomes, 0, hr__bytes);                                          \
            hr__name##_step(HR__PARAMS_AT(hr__w), (State *)hr__batch->state + hr__w,               \
                            (const Action *)hr__batch->actions + hr__row, hr__outcomes,            \
                            hr__batch->rng + hr__w);                                               \
            for (int64_t hr__k = 0; hr__k < hr__agents; hr__k++) {                                 \
                hr__batch->rewards[hr__row + hr__k] = hr__outcomes[hr__k].reward;                  \
                hr__batch->terminated[hr__row + hr__k] = hr__outcomes[hr__k].terminated;           \
                hr__batch->truncated[hr__row + hr__k] = hr__outcomes[hr__k].truncated;             \
            }                                                                                      \
        }                                                                                          \
        HR__AT_WORLD(-1);                                                                          \
    }                                                                                              \
    __attribute__((cold, noinline)) static void hr__step_some(const hr_batch *hr__batch,           \
                                                              int64_t hr__lo, int64_t hr__hi) {    \
        hr__step_in_place(hr__batch, hr__lo, hr__hi);                                              \
    }

/* Compilers step worlds side by side only if their States lie a power of two of bytes apart: where
 * they do not and are small, they are copied into slots of such a size. */
#define HR__SLOTTED_BYTES 64 /* States up to this size */
#define HR__IN_SLOTS                                                                               \
    (sizeof(State) < HR__SLOTTED_BYTES && (sizeof(State) & (sizeof(State) - 1)) != 0)
#define HR__SLOT_BYTES                                                                             \
    (!HR__IN_SLOTS        ? 1                                                                      \
     : sizeof(State) < 8  ? 8                                                                      \
     : sizeof(State) < 16 ? 16                                                                     \
     : sizeof(State) < 32 ? 32                                                                     \
                          : 64)

/* Steps one block of worlds, whose States are hr__own, with one agent in local copies: the loop
 * that vectorises. */
#define HR__STEP_LOOP(hr__name, hr__own)                                                           \
    HR__INDEPENDENT                                                                                \
    for (int32_t hr__w = 0; hr__w < HR_BLOCK; hr__w++) {                                           \
        State hr__state = hr__own;                                                                 \
        hr_outcome hr__outcome = {0.0f, false, false};                                             \
        hr__name##_step(HR__PARAMS_AT(hr__w), &hr__state, hr__actions + hr__w, &hr__outcome,       \
                        hr__rngs + hr__w);                                                         \
        hr__own = hr__state;                                                                       \
        hr__rewards[hr__w] = hr__outcome.reward;                                                   \
        hr__terminated[hr__w] = hr__outcome.terminated;                                            \
        hr__truncated[hr__w] = hr__outcome.truncated;                                              \
    }

#define HR__STEP_BLOCK(hr__name)                                                                   \
    typedef union hr__slot {                                                                       \
        State state;                                                                               \
        char bytes[HR__SLOT_BYTES];                                                                \
    } hr__slot;                                                                                    \
    HR__INLINE void hr__step_block(                                                                \
        const Params *__restrict hr__params, int64_t hr__stride, State *__restrict hr__states,     \
        hr_rng *__restrict hr__rngs, const Action *__restrict hr__actions,                         \
        float *__restrict hr__rewards, uint8_t *__restrict hr__terminated,                         \
        uint8_t *__restrict hr__truncated) {                                                       \
        if (HR__IN_SLOTS) {                                                                        \
            __attribute__((aligned(64))) hr__slot hr__slots[HR_BLOCK];                             \
            for (int32_t hr__w = 0; hr__w < HR_BLOCK; hr__w++)                                     \
                hr__slots[hr__w].state = hr__states[hr__w];                                        \
            HR__STEP_LOOP(hr__name, hr__slots[hr__w].state)                                        \
            for (int32_t hr__w = 0; hr__w < HR_BLOCK; hr__w++)                                     \
                hr__states[hr__w] = hr__slots[hr__w].state;                                        \
        } else {                                                                                   \
            HR__STEP_LOOP(hr__name, hr__states[hr__w])                                             \
        }                                                                                          \
    }

#define HR__STEP_KERNEL(hr__name)                                                                  \
    HR__STEP_IN_PLACE(hr__name)                                                                    \
    HR__STEP_BLOCK(hr__name)                                                                       \
    HR__KERNEL hr__step(const hr_batch *hr__batch, int64_t hr__lo, int64_t hr__hi) {               \
        if (HR__CHECKED_BUILD || HR__AGENTS > 1 || sizeof(State) > HR__LOCAL_BYTES) {              \
            hr__step_in_place(hr__batch, hr__lo, hr__hi);                                          \
            return;                                                                                \
        }                                                                                          \
        for (; hr__lo + HR_BLOCK <= hr__hi; hr__lo += HR_BLOCK)                                    \
            HR__WITH_PARAMS(hr__lo, hr__step_block, (State *)hr__batch->state + hr__lo,            \
                            hr__batch->rng + hr__lo, (const Action *)hr__batch->actions + hr__lo,  \
                            hr__batch->rewards + hr__lo, hr__batch->terminated + hr__lo,           \
                            hr__batch->truncated + hr__lo);                                        \
        if (hr__lo < hr__hi) hr__step_some(hr__batch, hr__lo, hr__hi);                             \
    }

/* Whether Obs is so small and so regular that several worlds may be observed at once: numbers of
 * four bytes only. Over arrays of bytes gcc's vectoriser takes minutes and gains nothing. (A struct
 * of 64 bytes with more than 16 fields has smaller ones among the first 16.) */
#define HR__PLAIN_OBS                                                                              \
    (sizeof(Obs) <= 64 && HR__WIDE4(1) && HR__WIDE4(5) && HR__WIDE4(9) && HR__WIDE4(13))
#define HR__WIDE4(hr__k)                                                                           \
    (HR__WIDE(hr__k) && HR__WIDE((hr__k) + 1) && HR__WIDE((hr__k) + 2) && HR__WIDE((hr__k) + 3))
#define HR__WIDE(hr__k)                                                                            \
    (hr__obs_fields[(hr__k) <= HR__LISTED(hr__obs_fields) ? (hr__k) : 0].dtype == HR_FLOAT32 ||    \
     hr__obs_fields[(hr__k) <= HR__LISTED(hr__obs_fields) ? (hr__k) : 0].dtype == HR_INT32)

/* In a loop over worlds: keeps the compiler from working on several of them at once. */
#define HR__ONE_BY_ONE __asm__ volatile("")

#define HR__OBSERVE_KERNEL(hr__name)                                                               \
    HR__INLINE void hr__observe_worlds(const Params *__restrict hr__params, int64_t hr__stride,    \
                                       const State *__restrict hr__states,                         \
                                       Obs *__restrict hr__obs, int64_t hr__first,                 \
                                       int64_t hr__count) {                                        \
        const int64_t hr__agents = HR__AGENTS;                                                     \
        (void)hr__first; /* checked builds name the world */                                       \
        HR__INDEPENDENT                                                                            \
        for (int64_t hr__w = 0; hr__w < hr__count; hr__w++) {                                      \
            HR__AT_WORLD(hr__first + hr__w);                                                       \
            hr__name##_observe(HR__PARAMS_AT(hr__w), hr__states + hr__w,                           \
                               hr__obs + hr__w * hr__agents);                                      \
            if (!HR__PLAIN_OBS) HR__ONE_BY_ONE;                                                    \
        }                                                                                          \
        HR__AT_WORLD(-1);                                                                          \
    }                                                                                              \
    HR__KERNEL hr__observe(const hr_batch *hr__batch, int64_t hr__lo, int64_t hr__hi) {            \
        HR__WITH_PARAMS(hr__lo, hr__observe_worlds, (const State *)hr__batch->state + hr__lo,      \
                        (Obs *)hr__batch->obs + hr__lo * HR__AGENTS, hr__lo, hr__hi - hr__lo);     \
    }

/* Calls `function(params, stride, ...)` with shared Params or with those of worlds from lo on. */
#define HR__WITH_PARAMS(hr__lo, hr__function, ...)                                                 \
    if (hr__batch->params_stride == 0) {                                                           \
        Params hr__shared = *(const Params *)hr__batch->params;                                    \
        hr__function(&hr__shared, 0, __VA_ARGS__);                                                 \
    } else                                                                                         \
        hr__function((const Params *)(const void *)((const char *)hr__batch->params +              \
                                                    hr__batch->params_stride * hr__lo),            \
                     hr__batch->params_stride, __VA_ARGS__)

#define HR__SEATS 64 /* worlds that are reset side by side */

/* Resets up to HR__SEATS worlds, which lie apart, side by side in local copies, so that the
 * compiler may start several of them in one instruction. */
#define HR__RESET_SEATS(hr__name)                                                                  \
    HR__INLINE void hr__reset_seats(const Params *__restrict hr__params, int64_t hr__stride,       \
                                    State *__restrict hr__states, hr_rng *__restrict hr__rngs,     \
                                    const int32_t *__restrict hr__worlds, int64_t hr__count) {     \
        uint64_t hr__keys[HR__SEATS], hr__counters[HR__SEATS];                                     \
        State hr__fresh[HR__SEATS];                                                                \
        for (int64_t hr__k = 0; hr__k < hr__count; hr__k++) {                                      \
            hr__keys[hr__k] = hr__rngs[hr__worlds[hr__k]].key;                                     \
            hr__counters[hr__k] = hr__rngs[hr__worlds[hr__k]].counter;                             \
        }                                                                                          \
        HR__INDEPENDENT                                                                            \
        for (int64_t hr__k = 0; hr__k < hr__count; hr__k++) {                                      \
            hr_rng hr__rng = {hr__keys[hr__k], hr__counters[hr__k]};                               \
            State hr__state;                                                                       \
            __builtin_memset((void *)&hr__state, 0, sizeof hr__state);                             \
            hr__name##_reset(HR__PARAMS_AT(hr__worlds[hr__k]), &hr__state, &hr__rng);              \
            hr__fresh[hr__k] = hr__state;                                                          \
            hr__counters[hr__k] = hr__rng.counter;                                                 \
        }                                                                                          \
        for (int64_t hr__k = 0; hr__k < hr__count; hr__k++) {                                      \
            hr__states[hr__worlds[hr__k]] = hr__fresh[hr__k];                                      \
            hr__rngs[hr__worlds[hr__k]].counter = hr__counters[hr__k];                             \
        }                                                                                          \
    }

/* Resets worlds on the spot, whatever their size. */
#define HR__RESET_IN_PLACE(hr__name)                                                               \
    HR__INLINE void hr__reset_in_place(const hr_batch *hr__batch, const int32_t *hr__worlds,       \
                                       int64_t hr__count) {                                        \
        const Params *hr__params = (const Params *)hr__batch->params;                              \
        const int64_t hr__stride = hr__batch->params_stride;                                       \
        for (int64_t hr__k = 0; hr__k < hr__count; hr__k++) {                                      \
            const int64_t hr__w = hr__worlds[hr__k];                                               \
            State *hr__state = (State *)hr__batch->state + hr__w;                                  \
            HR__AT_WORLD(hr__w);                                                                   \
            __builtin_memset((void *)hr__state, 0, sizeof(State));                                 \
            hr__name##_reset(HR__PARAMS_AT(hr__w), hr__state, hr__batch->rng + hr__w);             \
        }                                                                                          \
        HR__AT_WORLD(-1);                                                                          \
    }

#define HR__RESET_KERNEL(hr__name)                                                                 \
    HR__RESET_SEATS(hr__name)                                                                      \
    HR__RESET_IN_PLACE(hr__name)                                                                   \
    static void hr__reset(const hr_batch *hr__batch, const int32_t *hr__worlds,                    \
                          int64_t hr__count) {                                                     \
        if (HR__CHECKED_BUILD || sizeof(State) > HR__SEAT_BYTES) {                                 \
            hr__reset_in_place(hr__batch, hr__worlds, hr__count);                                  \
            return;                                                                                \
        }                                                                                          \
        for (; hr__count > 0; hr__count -= HR__SEATS, hr__worlds += HR__SEATS)                     \
            HR__WITH_PARAMS(0, hr__reset_seats, (State *)hr__batch->state, hr__batch->rng,         \
                            hr__worlds, hr__count < HR__SEATS ? hr__count : HR__SEATS);            \
    }

/* present and mask: `width` flags per agent, all false before the author's function. */
#define HR__FLAGS_KERNEL(hr__kernel, hr__function, hr__width)                                      \
    static void hr__kernel(const hr_batch *hr__batch, int64_t hr__lo, int64_t hr__hi,              \
                           uint8_t *hr__flags) {                                                   \
        const Params *hr__params = (const Params *)hr__batch->params;                              \
        const int64_t hr__stride = hr__batch->params_stride;                                       \
        const int64_t hr__count = HR__AGENTS * (int64_t)(hr__width);                               \
        const State *hr__states = (const State *)hr__batch->state;                                 \
        __builtin_memset(hr__flags + hr__lo * hr__count, 0,                                        \
                         (size_t)((hr__hi - hr__lo) * hr__count));                                 \
        for (int64_t hr__w = hr__lo; hr__w < hr__hi; hr__w++) {                                    \
            HR__AT_WORLD(hr__w);                                                                   \
            hr__function(HR__PARAMS_AT(hr__w), hr__states + hr__w,                                 \
                         (bool *)(hr__flags + hr__w * hr__count));                                 \
        }                                                                                          \
        HR__AT_WORLD(-1);                                                                          \
    }

#define HR__METRICS_KERNEL                                                                         \
    static void hr__metrics(const hr_batch *hr__batch, int64_t hr__w, float *hr__out) {            \
        const Params *hr__params = (const Params *)hr__batch->params;                              \
        const int64_t hr__stride = hr__batch->params_stride;                                       \
        float hr__values[HR__MAX_METRICS] = {0.0f};                                                \
        HR__AT_WORLD(hr__w);                                                                       \
        hr__given.metrics(HR__PARAMS_AT(hr__w), (const State *)hr__batch->state + hr__w,           \
                          (struct Metrics *)(void *)hr__values);                                   \
        HR__AT_WORLD(-1);                                                                          \
        for (int32_t hr__k = 0; hr__k < hr__given.hr__metrics_count; hr__k++)                      \
            __builtin_memcpy(hr__out + hr__k,                                                      \
                             (const char *)hr__values + hr__given.hr__metrics[hr__k].offset,       \
                             sizeof(float));                                                       \
    }

#define HR__DRAW_KERNEL                                                                            \
    __attribute__((cold)) static void hr__draw(const hr_batch *hr__batch, int64_t hr__w,           \
                                               hr_frame *hr__frame) {                              \
        const Params *hr__params = (const Params *)hr__batch->params;                              \
        const int64_t hr__stride = hr__batch->params_stride;                                       \
        HR__AT_WORLD(hr__w);                                                                       \
        hr__given.draw(HR__PARAMS_AT(hr__w), (const State *)hr__batch->state + hr__w, hr__frame);  \
        HR__AT_WORLD(-1);                                                                          \
    }

/* Bytes of one row's mask: the sum of all choices. */
HR__INLINE int32_t hr__mask_bytes(const hr_field *hr__fields, int32_t hr__count) {
    int32_t hr__sum = 0;
    for (int32_t hr__f = 0; hr__f < hr__count; hr__f++) {
        int32_t hr__items = hr__fields[hr__f].choices;
        for (int32_t hr__d = 0; hr__d < hr__fields[hr__f].rank; hr__d++)
            hr__items *= hr__fields[hr__f].shape[hr__d];
        hr__sum += hr__items;
    }
    return hr__sum;
}

/* Entries of a list whose first entry is a placeholder (C has no empty arrays). */
#define HR__LISTED(hr__list) ((int32_t)(sizeof(hr__list) / sizeof((hr__list)[0])) - 1)

/* Fills the descriptor when the library is loaded, before anybody can ask for it. */
#define HR__DESCRIPTOR(hr__name)                                                                   \
    static hr_env hr__env;                                                                         \
    static const char *hr__metric_names[HR__MAX_METRICS];                                          \
    __attribute__((constructor)) static void hr__describe(void) {                                  \
        hr__env.abi_version = HR_ABI_VERSION;                                                      \
        hr__env.agents = hr__given.agents == 0 ? 1 : hr__given.agents;                             \
        hr__env.name = #hr__name;                                                                  \
        hr__env.source_hash = HR__SOURCE_HASH;                                                     \
        hr__env.max_steps = hr__given.max_steps;                                                   \
        hr__env.state_size = (int32_t)sizeof(State);                                               \
        hr__env.params_size = (int32_t)sizeof(Params);                                             \
        hr__env.action_size = (int32_t)sizeof(Action);                                             \
        hr__env.obs_size = (int32_t)sizeof(Obs);                                                   \
        hr__env.obs_fields_count = HR__LISTED(hr__obs_fields);                                     \
        hr__env.action_fields_count = HR__LISTED(hr__action_fields);                               \
        hr__env.params_count = HR__LISTED(hr__param_list);                                         \
        hr__env.obs_fields = hr__obs_fields + 1;                                                   \
        hr__env.action_fields = hr__action_fields + 1;                                             \
        hr__env.param_list = hr__param_list + 1;                                                   \
        hr__env.step = hr__step;                                                                   \
        hr__env.observe = hr__observe;                                                             \
        hr__env.reset = hr__reset;                                                                 \
        hr__env.failure = HR__FAILURE;                                                             \
        if (hr__given.present) hr__env.present = hr__present;                                      \
        if (hr__given.mask) {                                                                      \
            hr__env.mask = hr__mask;                                                               \
            hr__env.mask_size = HR__MASK_BYTES;                                                    \
        }                                                                                          \
        if (hr__given.metrics) hr__env.metrics = hr__metrics;                                      \
        if (hr__given.hr__metrics_count > 0) hr__env.metric_names = hr__metric_names;              \
        for (; hr__env.metrics_size < hr__given.hr__metrics_count; hr__env.metrics_size++)         \
            hr__metric_names[hr__env.metrics_size] =                                               \
                hr__given.hr__metrics[hr__env.metrics_size].name;                                  \
        if (hr__given.draw) hr__env.draw = hr__draw;                                               \
    }                                                                                              \
    HR__EXPORT const hr_env *headrace_env(void) { return &hr__env; }

#define HR__MASK_BYTES hr__mask_bytes(hr__action_fields + 1, HR__LISTED(hr__action_fields))

/* Lists of HR_ENV: the fields of Obs, the fields of Action, the members of Params. */
#define HR_OBS(...)    {{0, 0, 0, 0, 0, {0, 0, 0, 0}, 0.0, 0.0, 0, 0}, __VA_ARGS__}
#define HR_ACTION(...) {{0, 0, 0, 0, 0, {0, 0, 0, 0}, 0.0, 0.0, 0, 0}, __VA_ARGS__}
#define HR_PARAMS(...) {{0, 0, 0, 0, 0, 0.0}, __VA_ARGS__}

#endif /* HEADRACE_KERNELS_H */
