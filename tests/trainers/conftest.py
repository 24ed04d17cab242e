"""Environments in C that the training tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

# Keep a point near 0 by pushing it left, not at all, or right. `poison` is a step of each
# episode at which the named number becomes NaN; -1 for never.
POINT = r"""
#include <headrace.h>

#define POISON (HR_INFINITY - HR_INFINITY)

typedef struct { float speed; float poison_obs; float poison_reward; } Params;
typedef struct { float position; int32_t steps; } State;
typedef struct { int32_t push; } Action;
typedef struct { float position, unused; } Obs;
struct Metrics { float steps_taken; };

static inline void point_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->position = hr_uniform(rng, -1.0f, 1.0f);
    s->steps = 0;
}

static inline void point_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)rng;
    s->steps += 1;
    s->position += p->speed * (float)(a->push - 1);
    out->reward = s->steps == (int32_t)p->poison_reward ? POISON : 1.0f - hr_fabs(s->position);
    out->terminated = hr_fabs(s->position) > 2.0f;
}

static inline void point_observe(const Params *p, const State *s, Obs o[]) {
    o->position = s->steps == (int32_t)p->poison_obs ? POISON : s->position;
    o->unused = 0.0f;
}

static inline void point_metrics(const Params *p, const State *s, struct Metrics *m) {
    (void)p;
    m->steps_taken = (float)s->steps;
}

HR_ENV(point, HR_OBS(HR_FIELD(Obs, position, -3.0f, 3.0f), HR_FIELD(Obs, unused, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, push, 3)),
       HR_PARAMS(HR_PARAM(speed, 0.1f),
                 HR_PARAM(poison_obs, -1.0f), HR_PARAM(poison_reward, -1.0f)),
       .max_steps = 50, .metrics = point_metrics, HR_METRICS(steps_taken))
"""


@pytest.fixture(scope="session")
def point(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an environment of a user's own, in a folder with a space in its name."""
    path = tmp_path_factory.mktemp("a user's own") / "point.c"
    path.write_text(POINT)
    return path
