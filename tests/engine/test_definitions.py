"""Definitions of environments that cannot work: each is refused in a sentence of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.engine.errors import CompileError, EnvDefinitionError

FILE = """#include <headrace.h>
typedef hr_none Params;
typedef struct {{ int32_t n; }} State;
typedef struct {{ {act} }} Action;
typedef struct {{ {obs} }} Obs;
{metrics}
static inline void e_reset(const Params *p, State *s, hr_rng *r) {{ (void)p; (void)s; (void)r; }}
static inline void e_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                          hr_rng *r) {{
    (void)p; (void)a; (void)r; s->n++; out->reward = 1.0f;
}}
static inline void e_observe(const Params *p, const State *s, Obs o[]) {{
    (void)p; o->x = (float)s->n;
}}
static inline void e_metrics(const Params *p, const State *s, struct Metrics *m) {{
    (void)p; (void)s; (void)m;
}}
static inline void e_mask(const Params *p, const State *s, bool m[]) {{
    (void)p; (void)s; (void)m;
}}
HR_ENV(e, HR_OBS(HR_FIELD(Obs, x, 0.0f, 9.0f)), HR_ACTION({action}), HR_PARAMS(), {options})
"""
PUSH = "HR_DISCRETE(Action, push, 2)"
SEVENTEEN = [f"m{k}" for k in range(17)]


def make(folder: Path, **parts: str) -> headrace.VecEnv:
    words = {"act": "int32_t push;", "obs": "float x;", "metrics": "", "action": PUSH,
             "options": ".max_steps = 3", **parts}  # fmt: skip
    path = folder / "e.c"
    path.write_text(FILE.format(**words))
    return headrace.make_vec(str(path), 2)


@pytest.mark.parametrize(
    ("metrics", "options"),
    [
        ("float v[4096]; float a;", ".metrics = e_metrics, HR_METRICS(a)"),
        ("float a, b;", ".metrics = e_metrics, HR_METRICS(a)"),
        ("float a;", ".metrics = e_metrics, HR_METRICS(a, a)"),
    ],
)
def test_metrics_that_are_not_named(tmp_path: Path, metrics: str, options: str) -> None:
    with pytest.raises(CompileError, match="must name every member of struct Metrics"):
        make(tmp_path, metrics=f"struct Metrics {{ {metrics} }};", options=options)


@pytest.mark.parametrize("count", [17, 40])
def test_too_many_metrics(tmp_path: Path, count: int) -> None:
    names = ", ".join(f"m{k}" for k in range(count))
    with pytest.raises(CompileError) as caught:
        make(
            tmp_path,
            metrics=f"struct Metrics {{ float {names}; }};",
            options=f".metrics = e_metrics, HR_METRICS({names})",
        )
    assert str(caught.value).count("error: ") == 1
    assert "HR_METRICS takes at most 16 names" in str(caught.value)


def test_sixteen_metrics(tmp_path: Path) -> None:
    names = ", ".join(SEVENTEEN[:16])
    vec = make(
        tmp_path,
        metrics=f"struct Metrics {{ float {names}; }};",
        options=f".max_steps = 3, .metrics = e_metrics, HR_METRICS({names})",
    )
    assert vec.spec_.metric_names == tuple(SEVENTEEN[:16])


METRICS = "struct Metrics { float a; };"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"metrics": METRICS, "options": "HR_METRICS(a)"}, r"no function fills them: add .metrics"),
        ({"metrics": METRICS, "options": ".metrics = e_metrics"}, r"add HR_METRICS\("),
        (
            {"act": "float f;", "action": "HR_FIELD(Action, f, -1.0f, 1.0f)",
             "options": ".mask = e_mask"},
            "no discrete action to be masked",
        ),
        ({"options": ".agents = 4097"}, "4097 agents: 1 to 4096 are possible"),
        ({"options": ".agents = -1"}, "-1 agents: 1 to 4096 are possible"),
        ({"obs": "float x, y;"}, r"bytes 4 to 7 of Obs \(after 'x'\) are declared by no field"),
        ({"obs": "int32_t w; float x;"}, "bytes 0 to 3 of Obs are declared by no field"),
        ({"act": "int32_t push, pull;"}, r"bytes 4 to 7 of Action \(after 'push'\)"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(tmp_path: Path, parts: dict[str, str], words: str) -> None:
    with pytest.raises(EnvDefinitionError, match=words):
        make(tmp_path, **parts)


CHECKED = """#include <headrace.h>
typedef hr_none Params;
typedef struct { int32_t n; } State;
typedef struct { int32_t push; } Action;
typedef struct { int32_t n; } Obs;
static inline void e_reset(const Params *p, State *s, hr_rng *r) { (void)p; (void)s; (void)r; }
static inline void e_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                          hr_rng *r) {
    (void)p; (void)out; (void)r; s->n += a->push;
}
static inline void e_observe(const Params *p, const State *s, Obs o[]) {
    (void)p; HR_CHECK(s->n < 2, "too many"); o->n = s->n;
}
HR_ENV(e, HR_OBS(HR_FIELD(Obs, n, 0, 9)), HR_ACTION(HR_DISCRETE(Action, push, 2)), HR_PARAMS())
"""


def checked(folder: Path, num_envs: int) -> headrace.VecEnv:
    (folder / "e.c").write_text(CHECKED)
    vec = headrace.make_vec(str(folder / "e.c"), num_envs, checked=True)
    vec.reset(seed=5)
    return vec


def test_a_check_in_observe_names_its_environment(tmp_path: Path) -> None:
    vec = checked(tmp_path, 70)
    actions = np.zeros(70, int)
    actions[67] = 1
    vec.step(actions)
    with pytest.raises(headrace.HeadraceError, match=r"environment 67 of 'e', step 2 since .* 72"):
        vec.step(actions)


def test_nobody_is_blamed_for_another_batch(tmp_path: Path) -> None:
    big, small = checked(tmp_path, 70), checked(tmp_path, 1)
    big.buffers.actions[:] = 1
    for _ in range(3):
        big.core.step(None)  # fails, and nobody asks
    small.step([0])
    assert small.core.take_failure() is None
