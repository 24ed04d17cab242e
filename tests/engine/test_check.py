"""`check`: what its report says, and the parts from which it is made."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.engine.check import Finding, Report, check
from headrace.engine.check.batch import Memory, Source, Trace
from headrace.engine.check.experiments import first_difference
from headrace.engine.check.members import obs_struct, state_struct
from headrace.engine.check.plan import HABITS, Plan
from headrace.engine.check.report import FAIL, PASS, RULES, SKIP, WARN, in_order
from headrace.engine.check.rules import judge_ends, judge_numbers
from headrace.engine.errors import ArgumentError, CompileError
from headrace.engine.resolve import resolve

BROKEN = Path(__file__).parent / "broken"
SNAKE = Path(headrace.__file__).parent.parent / "envs" / "snake.c"


def source_of(env, **sizes) -> Source:
    found = resolve(env, defines=sizes)
    return Source(found.library, found.spec, {}, 7)


# ---- the report -------------------------------------------------------------------------


def test_a_report_is_a_checklist_and_a_document():
    report = check("cartpole", sanitize=False, seed=3)
    assert report.passed
    assert [each.rule for each in report.findings] == list(RULES)
    lines = report.text().splitlines()
    assert lines[0].startswith("cartpole  (c, ")
    marked = [line for line in lines if line.startswith("  ✓ ")]
    assert [line.split()[1] for line in marked] == list(RULES)
    assert lines[-1].startswith("passed: 17 rules kept, 0 broken (")
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    assert document["passed"] is True
    assert document["seed"] == 3
    assert [rule["status"] for rule in document["rules"]] == ["pass"] * len(RULES)


def test_parameters_and_sizes_reach_the_workers():
    report = check(BROKEN.parent.parent.parent / "envs" / "squared.c", SIZE=5, limit=3,
                   sanitize=False)  # fmt: skip
    assert report.passed
    assert report["ends"].message.endswith("episodes, 2 to 3 steps")


def test_arrays_reach_the_workers(tmp_path):
    text = (BROKEN / "late_termination.c").read_text()
    text = text.replace("typedef hr_none Params;", "typedef struct {\n    const float *pushes;\n"
                        "    int32_t count;\n    int32_t unused;\n} Params;")  # fmt: skip
    text = text.replace("s->steps == 40", "s->steps == p->count").replace(
        "HR_PARAMS()", "HR_PARAMS(HR_ARRAY(pushes, count))"
    )
    path = tmp_path / "late_termination.c"
    path.write_text(text)
    report = check(path, pushes=np.ones(23, np.float32), sanitize=False)
    assert "after exactly 23 steps" in report["ends"].message
    with pytest.raises(ArgumentError, match=r"'pushes'.* is an array and has no default"):
        check(path)


def test_registered_names_and_classes_are_found_by_the_workers(tmp_path):
    path = tmp_path / "my_env.c"
    path.write_text((BROKEN / "late_termination.c").read_text())
    headrace.register("my_registered_env", path)
    report = check("my_registered_env", sanitize=False)
    assert report.passed
    assert report.file == str(path)

    from headrace.engine.numba.loading import classes_in

    wild = classes_in(BROKEN / "wild_nan.py", {})["WildNan"]
    assert [each.rule for each in check(wild).failures] == ["numbers"]

    @headrace.numba_env
    class Local:
        state = wild.state
        action, obs = wild.action, wild.obs
        reset, step, observe = wild.reset, wild.step, wild.observe

    with pytest.raises(ArgumentError, match="class Local is not at the top level"):
        check(Local)


def test_what_cannot_be_built_is_an_error_not_a_finding(tmp_path):
    with pytest.raises(ArgumentError, match="no such file"):
        check(tmp_path / "none.c")
    path = tmp_path / "bad.c"
    path.write_text("#include <headrace.h>\nint x = ;\n")
    with pytest.raises(CompileError, match=r"bad\.c:2"):
        check(path)


def test_the_worst_finding_about_a_rule_is_kept():
    found = [Finding("space", PASS), Finding("space", FAIL, "out"), Finding("space", WARN)]
    missing = {rule: Finding(rule, SKIP, "later") for rule in RULES}
    ordered = in_order(found, missing)
    assert [each.rule for each in ordered] == list(RULES)
    report = Report("e", "e.c", "c", 0, "none", 1.0, ordered)
    assert report["space"].message == "out"
    assert not report.passed
    assert "- draw        not judged: later" in report.text()
    assert report.text().endswith("failed: 0 rules kept, 1 broken, 16 not judged (1.0 s)")


# ---- plans ------------------------------------------------------------------------------


def test_actions_of_a_world_depend_on_it_alone():
    spec = resolve("mountain_car_continuous").spec
    plan, fewer = Plan(spec, 8, 20, 3), Plan(spec, 2, 20, 3)
    for step in range(20):
        assert (plan.at(step, None, slice(0, 2)) == fewer.at(step, None, slice(0, 2))).all()
    force = np.stack([plan.at(step, None, slice(0, 8))["force"] for step in range(20)])
    by = dict(zip(HABITS, force.T, strict=False))
    assert (by["low"] == -1).all()
    assert (by["high"] == 1).all()
    assert set(by["ends"]) == {-1, 1}
    assert (by["held"][:10] == by["held"][0]).all()
    assert len(set(force[:, 0])) == 20
    assert force.min() >= -1
    assert force.max() <= 1


def test_masked_actions_are_allowed_ones():
    spec = resolve("connect4").spec
    plan = Plan(spec, 8, 5, 0)
    mask = np.zeros((8 * spec.agents, spec.mask_size), bool)
    mask[:, 4] = True
    taken = plan.at(0, mask, slice(0, 8)).view(np.int32).reshape(8, spec.agents)
    heeding = [w for w in range(8) if HABITS[w] != "forbidden"]
    assert (taken[heeding] == 4).all()
    mask[:] = False  # nothing is allowed: anything within the space
    taken = plan.at(1, mask, slice(0, 8)).view(np.int32)
    assert ((taken >= 0) & (taken < spec.mask_size)).all()


# ---- traces -----------------------------------------------------------------------------


def trace_of(source: Source, steps: int = 4, worlds: int = 3) -> Trace:
    trace = Trace(source.spec, worlds, steps)
    trace.parts["present"][:] = 1
    return trace


def test_the_first_difference_is_that_of_the_earliest_step():
    source = source_of("cartpole")
    one, other = trace_of(source), trace_of(source)
    assert first_difference(one, other) is None
    other.parts["obs"][3, 0, 1] = 1
    other.parts["rewards"][2, 1, 2] = 1
    assert first_difference(one, other) == (2, 1, "rewards", 2)
    other.parts["state"][2, 2, 5] = 1
    assert first_difference(one, other) == (2, 2, "state", 5)


def test_numbers_and_spaces_are_judged_at_their_bounds():
    source = source_of("cartpole")
    trace = trace_of(source)
    obs = trace.parts["obs"].view(np.float32)  # [steps + 1, worlds, 4]
    obs[2, 1, 0] = np.float32(4.8)
    obs[:, :, 1] = np.inf
    assert [each.status for each in judge_numbers(source, trace)] == [PASS, PASS]
    obs[2, 1, 0] = np.nextafter(np.float32(4.8), np.float32(5))
    obs[3, 0, 3] = np.nan
    trace.parts["rewards"].view(np.float32)[1, 2] = -np.inf
    found = {each.message: each for each in judge_numbers(source, trace, 100)}
    space = found["Obs.x is 4.8000006675720215: its space is -4.8 to 4.8"]
    assert (space.rule, space.world, space.step, space.seed) == ("space", 1, 102, 8)
    assert found["Obs.theta_dot is nan"].member == "Obs.theta_dot"
    assert found["the reward is -inf"].step == 101


@pytest.mark.parametrize(
    ("lengths", "status", "said"),
    [
        ([], WARN, "no random episode ended"),
        ([(40, True)] * 8, WARN, "exactly 40 steps"),
        ([(40, True)] * 7, PASS, "7 random episodes"),
        ([(40, True)] * 8 + [(40, False)], PASS, "40 to 40"),
        ([(40, True)] * 8 + [(39, True)], PASS, "39 to 40"),
        ([(1, True)] * 9, WARN, "with its first step"),
    ],
)
def test_how_ends_are_judged(lengths, status, said):
    finding = judge_ends(source_of(BROKEN / "late_termination.c"), lengths, 500)
    assert finding.status == status
    assert said in finding.message


def test_no_end_within_the_drive_is_fine_below_the_time_limit():
    assert judge_ends(source_of("pong"), [], 500).status == PASS


def test_memory_tells_who_was_touched():
    spec = resolve("cartpole").spec
    memory = Memory(spec, 4, exact=False)
    memory.fill(0xA5)
    assert (memory.arrays["state"] == 0xA5).all()
    assert (memory.arrays["elapsed"] == 0).all()
    memory.remember()
    memory.arrays["state"][2] = 0
    assert memory.touched(2) is None
    assert memory.touched(1) == ("state", 2)
    memory.remember()
    beyond = np.lib.stride_tricks.as_strided(
        memory.arrays["rewards"].view(np.uint8), (memory.arrays["rewards"].nbytes + 1,), (1,)
    )
    beyond[-1] ^= 1
    assert memory.touched(0) == ("rewards", None)


# ---- members ----------------------------------------------------------------------------


def test_members_of_a_c_state_are_named():
    spec = resolve(SNAKE).spec
    struct = state_struct(spec, SNAKE, {}, None)
    assert struct.at(0) == ("State.life[0]", 0, np.dtype(np.uint16))
    assert struct.at(199)[:2] == ("State.life[99]", 198)
    assert struct.at(spec.state_size - 1)[0] == "State.hungry"
    data = np.zeros(spec.state_size, np.uint8)
    data[200:204] = np.array([5], np.int32).view(np.uint8)
    assert struct.value(data, 201) == "5"


def test_members_follow_compile_time_sizes():
    spec = resolve(SNAKE, defines={"SIZE": 7}).spec
    assert state_struct(spec, SNAKE, {"SIZE": 7}, None).at(100)[0] == "State.row"


def test_members_of_nested_structs_enums_and_pointers_are_named(tmp_path):
    path = tmp_path / "deep.c"
    path.write_text(
        "#include <stdint.h>\nenum { LEFT = 2, RIGHT, COUNT };\n#define ROWS (COUNT - 1)\n"
        "typedef float real;\n"
        "typedef struct { real x, y[2]; } Body;\nstruct Cell { uint8_t kind[4]; };\n"
        "typedef struct {\n  const float *next;\n  Body bodies[ROWS];\n  struct Cell cell;\n"
        "  int16_t grid[2][COUNT];\n  double time;\n} State;\n"
    )
    size = 8 + 36 + 4 + 16 + 8

    class Spec:
        state_size = size

    struct = state_struct(Spec, path, {}, None)
    names = [struct.at(byte)[0] for byte in (0, 8, 12, 8 + 12 + 8, 47, 48, 48 + 2 * 5, size - 1)]
    assert names == [
        "State.next", "State.bodies[0].x", "State.bodies[0].y[0]", "State.bodies[1].y[1]",
        "State.cell.kind[3]", "State.grid[0][0]", "State.grid[1][1]", "State.time",
    ]  # fmt: skip
    assert struct.is_pointer(3)
    assert struct.value(np.arange(size, dtype=np.uint8), 5) == "0x0706050403020100"
    Spec.state_size = size + 8
    assert state_struct(Spec, path, {}, None).at(9)[0] == "byte 9 of State"


def test_members_of_cython_and_numba_states_are_named():
    found = resolve("inventory")
    struct = state_struct(found.spec, found.source, {}, None)
    assert [struct.at(byte)[0] for byte in (0, 4, 16)] == [
        "State.stock", "State.pipeline[0]", "State.pipeline[3]",
    ]  # fmt: skip

    class Nested:
        state = np.dtype([("at", [("x", "f4"), ("y", "f4", 2)], 2), ("n", "i4")], align=True)

    class Spec:
        state_size = Nested.state.itemsize

    struct = state_struct(Spec, Path("nested.py"), {}, Nested)
    assert [struct.at(byte)[0] for byte in (0, 8, 16, 24)] == [
        "State.at[0].x", "State.at[0].y[1]", "State.at[1].y[0]", "State.n",
    ]  # fmt: skip


def test_members_of_an_observation_are_named():
    spec = resolve(SNAKE).spec
    struct = obs_struct(spec)
    assert struct.at(4 * 8)[0] == "Obs.view[1][1]"
    assert struct.at(spec.obs_dtype.itemsize - 1)[0] == "Obs.patience"
    assert math.isclose(
        float(struct.value(np.full(struct.size, 63, np.uint8), 0)), 0.747, rel_tol=1e-3
    )
