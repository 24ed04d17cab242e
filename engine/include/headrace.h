/* headrace.h: write an environment in C, in one file.
 *
 *     #include <headrace.h>
 *
 *     typedef struct { float target; } Params;         constants, set by name from Python
 *     typedef struct { float place; } State;           one per world: plain data
 *     typedef struct { int32_t push; } Action;         one per agent
 *     typedef struct { float place; } Obs;             one per agent
 *
 *     static inline void walk_reset(const Params *p, State *s, hr_rng *rng) { ... }
 *     static inline void walk_step(const Params *p, State *s, const Action a[],
 *                                  hr_outcome out[], hr_rng *rng) { ... }
 *     static inline void walk_observe(const Params *p, const State *s, Obs o[]) { ... }
 *
 *     HR_ENV(walk, HR_OBS(HR_FIELD(Obs, place, -1.0f, 1.0f)),
 *            HR_ACTION(HR_DISCRETE(Action, push, 2)),
 *            HR_PARAMS(HR_PARAM(target, 0.5f)), .max_steps = 100)
 *
 * The four type names are fixed, and the functions begin with the name given to HR_ENV:
 *
 * reset    starts an episode: writes *s, which is all zero before it.
 * step     reads a[0 .. agents-1], updates *s, writes out[0 .. agents-1], all zero before it.
 *          Neither resets nor observes; the engine adds the time limit to out->truncated.
 * observe  writes every member of o[0 .. agents-1] from *s alone.
 *
 * No function allocates, keeps pointers or touches anything else. The structs contain no
 * padding: a compiler error says so, and at which member. Write the common subset of C11 and
 * C++20: no compound literals, no variable-length arrays, explicit casts.
 *
 * Speed: while the State is at most 64 (or 128 or 256) bytes, one agent acts, step has neither
 * loops with an unknown count nor branches that choose() by ?: cannot replace, the compiler steps
 * several worlds in one instruction. The functions of headrace/math.h and headrace/random.h
 * fit into such a step; libm's sinf does not. HR_UNROLL before a short loop writes it out. Let
 * the members of the State have one type, and the last one be read by step: gaps cost speed.
 *
 * A size that Python may set when it compiles the file: #ifndef SIZE / #define SIZE 11 / #endif.
 *
 * Public names start with hr_ or HR_; whatever starts with hr__ or HR__ is internal. Macros of
 * the author's own may be any other single letter or upper-case word.
 */
#ifndef HEADRACE_H
#define HEADRACE_H

#include "headrace/abi.h"
#include "headrace/check.h"
#include "headrace/describe.h"
#include "headrace/draw.h"
#include "headrace/kernels.h"
#include "headrace/math.h"
#include "headrace/random.h"

/* For `typedef hr_none Params;` with HR_PARAMS(), and for a State or Obs without content. */
typedef struct hr_none {
    int32_t hr__unused;
} hr_none;

/* The author's struct of floats, if there is one: `struct Metrics { float won; };`. */
struct Metrics;

/* Defines and exports the environment; stands once, at the end of the file.
 *
 *     HR_ENV(name, HR_OBS(fields), HR_ACTION(fields), HR_PARAMS(params), options)
 *
 * fields   HR_FIELD(struct, member, low, high) or HR_DISCRETE(struct, member, choices)
 * params   HR_PARAM(member, default) or HR_ARRAY(member, length member); may be empty
 * options  any of these, in this order:
 *   .max_steps = n        the time limit in steps (default: none)
 *   .agents = n           agents per world: a[], out[] and o[] have n entries (default 1)
 *   .present = function   void f(const Params *, const State *, bool present[agents])
 *                         which agents act at the next step; all false before the call.
 *                         step may write out[] of absent agents too (a player's loss by the
 *                         other's move): terminated or truncated ends the agent's episode at
 *                         once; a reward waits for its next step, or comes with its end. Who
 *                         has ended stays away, whatever is written, until the world, in which
 *                         nobody is left, starts anew; who has not ended then is truncated
 *   .mask = function      void f(const Params *, const State *, bool allowed[])
 *                         which actions are allowed at the next step; all false before the
 *                         call; one entry per choice, discrete members one after the other,
 *                         agent after agent
 *   .metrics = function   void f(const Params *, const State *, struct Metrics *)
 *                         called where an episode ends; averaged over finished episodes
 *   HR_METRICS(members)   the members of struct Metrics
 *   .draw = function      void f(const Params *, const State *, hr_frame *)
 *                         paints all of the frame, whatever its size */
#define HR_ENV(hr__name, hr__obs, hr__action, hr__params, ...)                                     \
    HR__CHECK_SIGNATURES(hr__name);                                                                \
    HR__OPTIONS;                                                                                   \
    static const hr__options hr__given = {__VA_ARGS__};                                            \
    static const hr_field hr__obs_fields[] = hr__obs;                                              \
    static const hr_field hr__action_fields[] = hr__action;                                        \
    static const hr_param hr__param_list[] = hr__params;                                           \
    HR__STEP_KERNEL(hr__name)                                                                      \
    HR__OBSERVE_KERNEL(hr__name)                                                                   \
    HR__RESET_KERNEL(hr__name)                                                                     \
    HR__FLAGS_KERNEL(hr__present, hr__given.present, 1)                                            \
    HR__FLAGS_KERNEL(hr__mask, hr__given.mask, HR__MASK_BYTES)                                     \
    HR__METRICS_KERNEL                                                                             \
    HR__DRAW_KERNEL                                                                                \
    HR__DESCRIPTOR(hr__name)

/* From here on, a struct with padding is an error at its line. */
#pragma GCC diagnostic error "-Wpadded"

#endif /* HEADRACE_H */
