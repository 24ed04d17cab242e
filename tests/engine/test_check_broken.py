"""Each deliberately broken environment is caught by the rule that it breaks, and by no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.engine.check import check, conduct
from headrace.engine.check.process import sanitizer_runtime

BROKEN = Path(__file__).parent / "broken"

sanitized = pytest.mark.skipif(
    sanitizer_runtime()[0] == "", reason=f"AddressSanitizer: {sanitizer_runtime()[1]}"
)


def broken(name: str, rule: str, message: str, **where):
    """One row: file, broken rule, part of the message, and where it is said to happen.

    `at` is text in the author's line that is named.
    """
    marks = [sanitized] if where.pop("sanitized", False) else []
    return pytest.param(name, rule, message, where, id=name, marks=marks)


CASES = [
    broken("past_observation.c", "memory", "writes 4 bytes outside of its slot",
           world=0, step=6, seed=40, at="[i] = s->place", sanitized=True),
    broken("past_member.c", "memory", "index 4 out of bounds for type 'float [4]'",
           world=0, step=5, seed=40, at="s->trail[s->steps % 5]", sanitized=True),
    broken("null.c", "memory", "null pointer", world=0, step=6, seed=40, at="*nowhere",
           sanitized=True),
    broken("unset_variable.c", "written", "differs between two builds of the same file",
           step=1, member="State.place", sanitized=True),
    broken("unset_observation.c", "written", "differs where memory held something else before",
           world=0, step=7, seed=40, member="Obs.place[1]"),
    broken("global_state.c", "state", "reward differs when it ran a second time",
           world=0, step=1, seed=40, member="reward"),
    broken("not_a_number.c", "numbers", "the reward is nan", step=9),
    broken("observed_nan.c", "numbers", "Obs.place[1] is nan", step=12, member="Obs.place[1]"),
    broken("out_of_space.c", "space", "Obs.place[1] is 1.0", step=21, member="Obs.place[1]"),
    broken("order_of_calls.c", "order", "reward differs when its worlds were stepped in another",
           step=1, member="reward"),
    broken("kept_pointer.c", "addresses", "State.home differs elsewhere in memory",
           world=0, step=0, seed=40, member="State.home"),
    broken("static_pointer.c", "addresses", "it holds an address",
           world=0, step=0, seed=40, member="State.home"),
    broken("no_action.c", "actions", "the mask allows no value of Action.move",
           step=7, member="Action.move"),
    broken("hidden_episode.c", "snapshot", "reward differs after a snapshot was restored",
           member="reward"),
    broken("false_condition.c", "conditions", "the walk is short",
           world=0, step=8, seed=40, at="HR_CHECK"),
    broken("endless.c", "runs", "had not returned after 2 seconds", world=0, step=6, seed=40),
    broken("past_pyx.pyx", "memory", "outside of its slot (heap-buffer-overflow) in past_pyx_obs",
           world=0, step=6, seed=40, at="(&o.place[0])[i] = s.place", sanitized=True),
    broken("pointer.pyx", "addresses", "State.home differs elsewhere in memory",
           world=0, step=0, seed=40, member="State.home"),
    broken("past_end.py", "memory", "observe: IndexError: index is out of bounds",
           world=0, step=6, seed=40, at="def observe(p, s, o)"),
    broken("wild_nan.py", "numbers", "the reward is nan", world=0, step=7, seed=40),
    broken("half_drawn.c", "draw", "pixel (300, 0) of a 600 x 400 frame is not painted",
           world=0, step=0, seed=40),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rule", "message", "where"), CASES)
def test_the_broken_rule_is_named(name, rule, message, where):
    source = BROKEN / name
    # only what never returns is not waited for: a busy machine may take seconds over one call
    report = check(source, seed=40, patience=2.0 if name == "endless.c" else 60.0)
    assert not report.passed
    assert [each.rule for each in report.failures] == [rule], report.text()
    finding = report[rule]
    assert message in finding.message
    assert finding.seed == 40 + finding.world
    assert finding.step is not None
    if at := where.pop("at", None):
        assert finding.file == str(source)
        assert at in source.read_text().splitlines()[finding.line - 1]
    for name_, value in where.items():
        assert getattr(finding, name_) == value, name_
    text = report.text()
    assert f"  ✗ {rule} " in text
    assert f"world {finding.world}, step {finding.step}, seed {finding.seed}" in text


@pytest.mark.parametrize(
    ("name", "rule", "variable"),
    [("global_state", "state", "total"), ("order_of_calls", "order", "before")],
)
def test_static_variables_are_pointed_out(name, rule, variable):
    source = BROKEN / f"{name}.c"
    report = check(source, sanitize=False)
    found = re.fullmatch(rf"static variables: {variable} \(line (\d+)\)", report[rule].details)
    assert source.read_text().splitlines()[int(found[1]) - 1].startswith("static ")
    assert report[rule].details in report.text()


def test_a_time_limit_that_is_called_termination_is_warned_about():
    report = check(BROKEN / "late_termination.c")
    assert report.passed
    assert [each.rule for each in report.warnings] == ["ends"]
    assert "ended terminated after exactly 40 steps" in report["ends"].message
    assert ".max_steps = 40" in report["ends"].message
    assert "  ! ends " in report.text()


@sanitized
def test_a_world_that_reads_its_neighbour_is_caught_twice():
    report = check(BROKEN / "neighbour.c")
    assert {each.rule for each in report.failures} == {"memory", "order"}
    assert "reads 4 bytes outside of its slot" in report["memory"].message
    assert report["order"].member == "reward"


def test_without_sanitizers_guard_bytes_still_catch_a_write():
    report = check(BROKEN / "past_observation.c", sanitize=False)
    assert [each.rule for each in report.failures] == ["memory"]
    assert "changed 'obs' of another slot" in report["memory"].message
    assert (report["memory"].world, report["memory"].step) == (0, 6)
    assert report.sanitizers == "none (switched off)"


def test_rules_that_build_on_a_broken_one_are_not_judged():
    report = check(BROKEN / "global_state.c", sanitize=False)
    assert report["order"].status == "skip"
    assert report["order"].message == "state is broken"
    assert re.search(r"- order +not judged: state is broken", report.text())


@sanitized
def test_a_nan_with_other_bits_is_no_second_fault(tmp_path, monkeypatch):
    text = (BROKEN / "not_a_number.c").read_text()
    head = "#include <headrace.h>\n"
    body = '#ifdef HR_CHECKED\n#define BITS "1"\n#else\n#define BITS "2"\n#endif\n'
    source = tmp_path / "nan.c"
    source.write_text(
        text.replace(head, head + body).replace("hr_sqrt(-1.0f)", "__builtin_nanf(BITS)")
    )
    report = check(source, seed=40)
    assert [each.rule for each in report.failures] == ["numbers"]
    monkeypatch.setattr(conduct, "_only_nan", lambda _: False)
    report = check(source, seed=40)
    assert [each.rule for each in report.failures] == ["numbers", "written"]
