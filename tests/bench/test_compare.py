"""`headrace bench compare`: what counts as moved."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.bench import compare, results
from headrace.bench.ranks import chance_above
from headrace.bench.results import Result
from headrace.bench.spread import Spread
from headrace.cli import main

MACHINE = {"cpu": "any", "cores": 2, "load": 0.1, "command": "headrace bench env --out a.json"}


def document(samples: dict[str, list[float]], unit: str = "steps/s", **machine: Any) -> Any:
    found = [
        Result.measured(name, "headrace", "cartpole", 1, Spread.of(values), unit)
        for name, values in samples.items()
    ]
    return json.loads(json.dumps(results.document({**MACHINE, **machine}, found)))


def verdict(before: list[float], after: list[float], unit: str = "steps/s") -> tuple[str, Any]:
    (each,) = compare.compare(
        document({"a": before}, unit), document({"a": after}, unit)
    ).comparisons
    return each.verdict, each.better


@pytest.mark.parametrize(
    ("before", "after", "unit", "expected"),
    [
        ([100, 101, 102, 103, 104], [103, 104, 105, 106, 107], "steps/s", ("same", None)),
        ([100, 101, 102, 103, 104], [103, 107, 108, 109, 110], "steps/s", ("unclear", None)),
        ([100, 101, 102, 103, 104], [110, 111, 112, 113, 114], "steps/s", ("moved", True)),
        ([111, 112, 113, 114, 115], [100, 101, 102, 103, 104], "steps/s", ("moved", False)),
        ([100, 101, 102, 103, 104], [111, 112, 113, 114, 115], "us/call", ("moved", False)),
        # a repeat that something held up changes nothing
        ([40, 101, 102, 103, 104], [111, 112, 113, 114, 115], "steps/s", ("moved", True)),
        ([1.2, 1.2, 1.2, 1.2, 1.2], [1.0, 1.0, 1.0, 1.0, 1.0], "s", ("moved", True)),
        ([100.0] * 5, [104.9] * 5, "steps/s", ("same", None)),  # 5 % is the least
        ([100.0] * 5, [105.1] * 5, "steps/s", ("moved", True)),
        ([100.0] * 5, [200.0] * 5, "steps", ("moved", None)),
        # fewer repeats than the test needs: ranges must lie apart
        ([100.0, 102.0], [107.0, 108.0], "steps/s", ("moved", True)),
        ([100.0, 105.0], [108.0, 112.0], "steps/s", ("moved", True)),
        ([100.0, 105.0], [105.0, 112.0], "steps/s", ("unclear", None)),
        ([10.0, 11.0, 12.0], [13.0, 14.0, 15.0], "s", ("moved", False)),
        ([13.0, 14.0, 15.0], [10.0, 11.0, 12.0], "s", ("moved", True)),
        ([10.0, 11.0, 13.5], [13.0, 14.0, 15.0], "s", ("unclear", None)),
        # one repeat has no range
        ([10.0], [11.0], "s", ("unclear", None)),
        ([10.0] * 5, [20.0], "s", ("unclear", None)),
        ([10.0], [10.0], "s", ("same", None)),
        ([1.0] * 5, [2.0] * 5, "core-s/M", ("moved", False)),
        ([1.0] * 5, [2.0] * 5, "GPU-s/M", ("moved", False)),
        ([1.0] * 5, [2.0] * 5, "environments", ("moved", False)),
        ([0.0] * 5, [2.0] * 5, "environments", ("moved", False)),
        ([0.1] * 5, [0.2] * 5, "share off", ("moved", False)),
        ([0.1] * 5, [0.2] * 5, "share", ("moved", True)),
        ([1.0] * 5, [2.0] * 5, "cores", ("moved", None)),
        ([-85.0] * 5, [-80.0] * 5, "return", ("moved", True)),
        ([0.0] * 5, [0.0] * 5, "return", ("same", None)),
    ],
)
def test_what_moved(before: Any, after: Any, unit: str, expected: Any) -> None:
    assert verdict(before, after, unit) == expected


def test_figures_in_other_units_are_other_figures(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = compare.compare(document({"a": [1.0] * 5}, "s"), document({"a": [9.0] * 5}, "share"))
    assert outcome.comparisons == []
    compare.print_outcome(outcome)
    told = capsys.readouterr().err
    assert "only before: a (headrace, cartpole, 1 thread, s)" in told
    assert "only after: a (headrace, cartpole, 1 thread, share)" in told


def runs(
    rng: np.random.Generator, *, repeat: float, run: float, held_up: float, changed: float
) -> Any:
    """One run of 100 figures of 7 repeats with normal noise, in per cent: `repeat` among repeats,
    `run` from one run to the next. held_up: share of repeats that something slows by a quarter;
    changed: every tenth figure is so much faster."""
    level = 100 * (1 + rng.normal(0, run / 100, (100, 1)))
    level[::10] *= 1 + changed
    samples = level * (1 + rng.normal(0, repeat / 100, (100, 7)))
    samples = np.where(rng.random((100, 7)) < held_up, 0.75 * samples, samples)
    return document({f"f{k}": list(each) for k, each in enumerate(samples)})


def found(changed: float, **noise: float) -> tuple[float, float]:
    """Share of 30 pairs of runs, of the figures that changed and of the others, called moved."""
    rng = np.random.default_rng(0)
    moved = []
    for _ in range(30):
        before = runs(rng, changed=0.0, **noise)
        outcome = compare.compare(before, runs(rng, changed=changed, **noise))
        moved.append([each.verdict == "moved" for each in outcome.comparisons])
    verdicts = np.array(moved)
    others = np.delete(verdicts, np.s_[::10], 1)
    return float(verdicts[:, ::10].mean()), float(others.mean())


@pytest.mark.parametrize(
    ("noise", "power", "false"),
    [
        ({"repeat": 1.0, "run": 1.0, "held_up": 0.0}, 0.95, 0.001),
        ({"repeat": 1.0, "run": 1.0, "held_up": 0.1}, 0.75, 0.001),
        ({"repeat": 2.0, "run": 1.0, "held_up": 0.0}, 0.75, 0.001),
        ({"repeat": 3.0, "run": 3.0, "held_up": 0.1}, 0.0, 0.01),  # a machine that is not quiet
    ],
)
def test_two_runs_of_the_same_are_equal_and_ten_per_cent_are_seen(
    noise: dict[str, float], power: float, false: float
) -> None:
    """Of noise that is known: the share that is called moved of the figures that are 10 % faster,
    and of those that are not."""
    seen, wrong = found(0.1, **noise)
    assert wrong <= false
    assert seen >= power


def test_all_figures_slower_by_ten_per_cent_are_seen() -> None:
    rng = np.random.default_rng(1)
    noise = {"repeat": 1.0, "run": 1.0, "held_up": 0.0, "changed": 0.0}
    before, after = runs(rng, **noise), runs(rng, **noise)
    for each in after["results"]:
        for key in ("median", "min", "max"):
            each[key] *= 0.9
        each["samples"] = [0.9 * sample for sample in each["samples"]]
    assert compare.compare(before, after).count("moved") >= 95


def test_other_work_makes_the_margin_as_wide_as_what_it_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = document({"a": [100.0] * 5, "b": [100.0] * 5})
    after = document({"a": [130.0] * 5, "b": [180.0] * 5}, other_work=0.8, disturbed=True)
    outcome = compare.compare(before, after)
    assert outcome.margin == pytest.approx(0.4)
    assert [each.verdict for each in outcome.comparisons] == ["same", "moved"]
    assert outcome.differences == {}
    compare.print_outcome(outcome)
    assert "after: other work disturbed these figures" in capsys.readouterr().err
    quiet = document({"a": [130.0] * 5}, other_work=0.05, disturbed=False)
    assert compare.compare(before, quiet).count("moved") == 1


def test_a_figure_of_a_phase_has_what_was_missing_as_its_margin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two figures of a run in which the CPUs gave 1.2 of 2 cores during repeats of one."""
    before = document({"a": [100.0] * 5, "b": [100.0] * 5})
    after = document(
        {"a": [65.0] * 5, "b": [65.0] * 5}, cores_given={"least": 1.2, "median": 1.9}, short=2
    )
    after["results"][0]["short"] = 2
    outcome = compare.compare(before, after)
    assert [each.verdict for each in outcome.comparisons] == ["same", "moved"]
    assert outcome.short == {"before": 0, "after": 1}
    assert outcome.differences == {}
    compare.print_outcome(outcome)
    told = capsys.readouterr().err
    assert "after: the CPUs gave less than they have while 1 figures were measured" in told
    assert "2 figures: 1 within 5.0 % (up to 40.0 % where the CPUs gave less), 0 unclear" in told
    assert compare.compare(after, after).document()["short"] == {"before": 1, "after": 1}


def trips(median: float, most: float, least: float = 100.0) -> dict[str, float]:
    return {"least": least, "median": median, "most": most}


def test_a_figure_disturbed_while_cores_lay_apart_is_not_proven_to_have_moved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = document({"a": [100.0] * 5, "b": [100.0] * 5, "c": [100.0] * 5})
    after = document(
        {"a": [65.0] * 5, "b": [65.0] * 5, "c": [104.0] * 5},
        cores_given={"least": 1.96, "median": 1.97}, round_trip_ns=trips(110.0, 400.0),
    )  # fmt: skip
    for at in (0, 2):
        after["results"][at]["short"] = 2
    outcome = compare.compare(before, after)
    assert [each.verdict for each in outcome.comparisons] == ["unclear", "moved", "same"]
    assert (outcome.hidden, outcome.unlike) == ({"before": 0, "after": 2}, None)
    assert outcome.differences == {}
    compare.print_outcome(outcome)
    told = capsys.readouterr().err
    assert "after: 2 figures were disturbed, and the cores lay apart at times" in told
    assert "gave less" not in told
    assert compare.compare(after, before).count("unclear") == 1
    after["machine"]["round_trip_ns"] = trips(110.0, 150.0)
    assert compare.compare(before, after).count("moved") == 2


def test_figures_of_several_threads_are_not_compared_where_cores_lie_unlike(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = document(
        {"a": [100.0] * 5, "b": [100.0] * 5, "c": [100.0] * 5}, round_trip_ns=trips(105.0, 130.0)
    )
    after = document(
        {"a": [65.0] * 5, "b": [65.0] * 5, "c": [100.0] * 5}, round_trip_ns=trips(400.0, 410.0)
    )
    for each in (before, after):
        each["results"][0]["threads"] = each["results"][2]["threads"] = 2
    outcome = compare.compare(before, after)
    assert [each.verdict for each in outcome.comparisons] == ["unclear", "moved", "same"]
    assert outcome.unlike == (105.0, 400.0)
    assert outcome.document()["unlike"] == [105.0, 400.0]
    assert outcome.differences == {}
    compare.print_outcome(outcome)
    told = capsys.readouterr().err
    assert told.count("105 ns | 400 ns") == 1
    assert "measure again when the cores lie alike" in told
    assert compare.compare(after, before).count("unclear") == 1


@pytest.mark.parametrize("told", [None, trips(160.0, 170.0)])
def test_cores_that_lie_alike_or_nobody_knows_where(told: Any) -> None:
    """Older documents do not tell."""
    before = document({"a": [100.0] * 5}, round_trip_ns=trips(105.0, 400.0))
    after = document({"a": [65.0] * 5}, round_trip_ns=told)
    older = document({"a": [65.0] * 5})
    for each in (before, after, older):
        each["results"][0]["threads"] = 2
    assert compare.compare(before, after).count("moved") == 1
    assert compare.compare(older, before).count("moved") == 1


def reversed_pairs(low: Any, high: Any) -> int:
    return sum(a > b for a in low for b in high)


def test_chances_are_those_of_all_orders() -> None:
    """Counted one by one: which of 9 ranks the first 4 values may have."""
    ranks = set(range(9))
    orders = [
        reversed_pairs(own, ranks - set(own)) for own in itertools.combinations(sorted(ranks), 4)
    ]
    rng = np.random.default_rng(2)
    for _ in range(20):
        values = list(rng.normal(size=9))
        low, high = values[:4], values[4:]
        seen = reversed_pairs(low, high)
        expected = sum(each <= seen for each in orders) / len(orders)
        assert chance_above(low, high) == pytest.approx(expected)
    assert chance_above([1.0] * 4, [1.0] * 5) == pytest.approx(sum(u <= 10 for u in orders) / 126)


def test_chances_of_many_repeats_go_on_where_counting_ends() -> None:
    values = np.random.default_rng(3).normal(size=60)
    low, high = list(values[:20] - 0.3), list(values[20:40])
    exact = chance_above(low, high)
    assert chance_above([*low, 0.0], [*high, 0.0]) == pytest.approx(exact, abs=0.02)


def test_other_machines_and_commands_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    before = document({"a": [1.0], "b": [1.0]})
    after = document(
        {"a": [1.0], "c": [1.0]}, cpu="other", command="headrace bench env --quick", load=3.0
    )
    outcome = compare.compare(before, after)
    assert outcome.differences == {
        "cpu": ("any", "other"),
        "command": ("headrace bench env", "headrace bench env --quick"),
    }
    compare.print_outcome(outcome)
    told = capsys.readouterr().err
    for part in ("cpu differs: any | other", "command differs", "only before: b", "only after: c"):
        assert part in told
    same = compare.compare(before, document({}, load=2.0, command="headrace bench env --json"))
    assert same.differences == {}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for number, samples in enumerate(([100.0, 101.0, 102.0], [150.0, 151.0, 152.0])):
        paths.append(str(tmp_path / f"{number}.json"))
        results.save(Path(paths[-1]), document({"fast": samples, "missing": [1.0]}))
    assert main(["bench", "compare", *paths, "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["equal"] is False
    assert [each["verdict"] for each in told["results"]] == ["moved", "same"]
    assert "better" in captured.err
    assert "2 figures: 1 within 5.0 %, 0 unclear, 1 moved" in captured.err
    assert main(["bench", "compare", paths[0], paths[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is True


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [(None, "cannot be read"), ("{", "is not JSON"), ("[1]", "holds no results")],
)
def test_files_that_hold_no_results(
    contents: str | None, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    if contents is not None:
        path.write_text(contents)
    assert main(["bench", "compare", str(path), str(path)]) == 1
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert main(["bench", "compare", str(path)]) == 2
