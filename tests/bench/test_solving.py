"""Times to a target over seeds, of which some missed it."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from headrace.bench import compare, results
from headrace.bench.results import Result
from headrace.bench.rounds import Repeats
from headrace.bench.solving import middle, solution

Times = list[float | None]


@pytest.mark.parametrize(
    ("times", "value", "reached"),
    [
        ([3.0, 1.0, 2.0], 2.0, 3),
        ([None, 1.0, 2.0], 2.0, 2),
        ([None, 1.0, 2.0, 4.0], 3.0, 3),
        ([None, None, 2.0], None, 1),
        ([None, 2.0], None, 1),  # half of them: the median lies between it and never
        ([None], None, 0),
    ],
)
def test_seeds_that_miss_the_target_count_as_longer_than_all(
    times: Times, value: float | None, reached: int
) -> None:
    taken = Repeats(times, retaken=4, short={0})
    found = solution("solve", "headrace", "pong", 2, taken, "s", "return 9, {solved}")
    assert found.value == found.median == middle(times) == value
    assert found.note.startswith(f"return 9, {reached} of {len(times)} seeds solved")
    assert found.note.endswith("longer)") == (None in times)
    assert (found.missed, found.threads) == (len(times) - reached, 2)
    if value is not None:
        assert (found.retaken, found.short) == (4, 1)
        assert found.max == max(time for time in times if time is not None)


def solved(times: Times) -> Result:
    return solution("solve", "headrace", "pong", 2, Repeats(times), "s", "{solved}")


def test_ratios_count_what_was_missed_as_infinite() -> None:
    some, all_ = solved([2.0, None, 2.0]), solved([1.0, 1.0, 1.0])
    assert some.over(all_).samples == (2.0,) * 6 + (math.inf,) * 3
    assert all_.over(some).median == 0.5
    assert all_.over(some).min == 0.0
    assert some.over(some).samples == (1.0, 1.0, 0.0, 1.0, 1.0, 0.0, math.inf, math.inf)


def test_compare_ranks_what_was_missed_behind_everything() -> None:
    """Of the seeds that were solved all have the same time, but half as many were."""
    before, after = solved([1.0] * 9), solved([1.0, 1.1, 1.2, 1.3, 1.4] + [None] * 4)
    documents = [
        json.loads(json.dumps(results.document({"cores": 2}, [each]))) for each in (before, after)
    ]
    assert "missed" not in documents[0]["results"][0]
    (each,) = compare.compare(*documents).comparisons
    assert (each.verdict, each.better) == ("moved", False)
    shortened = dataclasses.replace(after, missed=0)
    documents[1] = json.loads(json.dumps(results.document({"cores": 2}, [shortened])))
    assert compare.compare(*documents).comparisons[0].chance > each.chance
