"""What a batch of Python environments counts, and what reads its actions, beside plain twins."""

from __future__ import annotations

import functools
import math
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from process_envs import Counter, Duel

import headrace
from headrace.engine.processes._board import EpisodeTally, WholeNumbers, talking


class NaiveTally:
    """Episodes of rows, kept as lists of rewards."""

    def __init__(self, rows: int, next_step: bool) -> None:
        self.next_step = next_step
        self.rewards: list[list[float]] = [[] for _ in range(rows)]
        self.resetting = [False] * rows
        self.episodes: list[tuple[float, int]] = []

    def step(self, row: int, reward: float, over: bool) -> None:
        if self.resetting[row]:
            self.resetting[row] = False
            return
        self.rewards[row].append(reward)
        if over:
            self.episodes.append((sum(self.rewards[row]), len(self.rewards[row])))
            self.rewards[row] = []
            self.resetting[row] = self.next_step


@pytest.mark.parametrize("next_step", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_episodes_are_counted_as_by_hand(next_step: bool, some: bool) -> None:
    rows, rng = 7, np.random.default_rng(5)
    rewards, ends, cuts = np.zeros(rows), np.zeros(rows, bool), np.zeros(rows, bool)
    tally = EpisodeTally(rewards, ends, cuts, np.ones(rows, bool), next_step)
    naive = NaiveTally(rows, next_step)
    tally.begin(np.ones(rows, bool))
    for _ in range(300):
        which = np.flatnonzero(rng.random(rows) < 0.6) if some else np.arange(rows)
        counted = 0
        for row in which:
            idle = naive.resetting[row]
            rewards[row] = 0.0 if idle else rng.normal()
            ends[row], cuts[row] = (False, False) if idle else rng.random(2) < 0.05
            counted += int(ends[row] or cuts[row])
            naive.step(row, rewards[row], bool(ends[row] or cuts[row]))
        assert tally.count(which if some else None) == counted
    returns, lengths = np.array(naive.episodes).T
    expected = [len(returns), returns.sum(), lengths.sum(), returns.min(), returns.max(), 0]
    np.testing.assert_allclose(tally.values, expected)
    tally.clear()
    assert tally.values.tolist() == [0, 0, 0, math.inf, -math.inf, 0]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_statistics_of_a_batch(mode: str, executor: str) -> None:
    """Episodes of three steps, whose returns are three times the action."""
    workers = {"workers": 2, "start_method": "fork"} if executor == "processes" else {}
    lengths = [functools.partial(Counter, 3)] * 2 + [functools.partial(Counter, 5)]
    vec = headrace.make_vec(lengths, 3, autoreset_mode=mode, executor=executor, **workers)
    with closing(vec):
        vec.reset(seed=0)
        nothing = vec.statistics()
        assert nothing["episodes"] == 0
        assert math.isnan(nothing["return_mean"])
        vec.step([3, 3, 3])
        vec.reset(seed=0)  # what was begun is forgotten
        ended = np.zeros(3, bool)
        while vec.statistics()["episodes"] < 3:
            _, _, terminated, truncated, _ = vec.step([1, 2, 3])
            ended = terminated | truncated
            if mode == "Disabled" and ended.any():
                vec.reset(options={"reset_mask": ended})
        told = vec.statistics(clear=True)
        assert told == {
            "episodes": 3, "return_mean": (3 + 6 + 15) / 3, "return_min": 3.0,
            "return_max": 15.0, "length_mean": 11 / 3,
        }  # fmt: skip
        assert list(told) == list(headrace.make_vec("cartpole", 2).statistics())
        assert vec.buffers.arrays["last_return"].tolist() == [3, 6, 15]
        assert vec.buffers.arrays["last_length"].tolist() == [3, 3, 5]
        assert vec.statistics()["episodes"] == 0
    with pytest.raises(RuntimeError, match=r"statistics\(\) after close"):
        vec.statistics()


def test_agents_that_left_are_not_counted_on() -> None:
    with closing(headrace.make_vec(Duel, 2, executor="serial", autoreset_mode="SameStep")) as vec:
        vec.reset(seed=0)
        for _ in range(5):
            vec.step([1, 2])
        assert vec.statistics()["episodes"] == 2
        assert vec.buffers.arrays["last_return"].tolist() == [3, 10]
        assert vec.buffers.arrays["last_length"].tolist() == [3, 5]


def test_received_rows_are_counted() -> None:
    vec = headrace.make_vec(functools.partial(Counter, 2), 4, executor="serial", batch_size=2)
    with closing(vec):
        vec.reset(seed=0)
        vec.send([1] * 4)
        for _ in range(2):
            vec.recv()
        vec.send([1] * 4, env_ids=range(4))
        vec.recv()
        assert vec.statistics()["episodes"] == 2
        vec.recv()
        assert vec.statistics()["episodes"] == 4


TAKEN: list[tuple[Any, bool]] = [
    (np.array([3, 5, 4]), True),
    (np.array([3, 6, 4]), False),  # out of range
    (np.array([2, 3, 4]), False),
    (np.array([3, 5]), False),  # too few
    (np.array([[3, 5, 4]]), False),
    (np.array([3, 5, 4], np.int32), False),
    (np.array([3, 0, 5, 0, 4, 0])[::2], False),  # not contiguous
    ([3, 5, 4], False),
]


@pytest.mark.parametrize(("actions", "taken"), TAKEN)
@pytest.mark.parametrize("rows", [None, [2, 0, 1]])
def test_whole_numbers_are_taken_as_they_are(actions: Any, taken: bool, rows: Any) -> None:
    slots = np.full(3, -1)
    which = None if rows is None else np.array(rows)
    assert WholeNumbers(slots, 3, 5).take(actions, which) is taken
    expected = np.full(3, -1)
    if taken:
        expected[slice(None) if rows is None else rows] = actions
    assert slots.tolist() == expected.tolist()


def test_who_talks() -> None:
    lengths = np.array([0, 7, -1, 0, 2])
    assert talking(lengths, None) == [1, 2, 4]
    assert talking(lengths, np.array([4, 3, 1])) == [4, 1]
