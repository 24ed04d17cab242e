"""What agents that are absent are told: ends, rewards, results, in every autoreset mode."""

from __future__ import annotations

import numpy as np
import pytest
from batches import MODES, WORLDS

import headrace

RELAY = str(WORLDS / "relay.c")
HAND, PAY, OTHER_ENDS, OTHER_CUT, END, LEAVE = 1, 2, 4, 8, 16, 32


class Relay:
    """One world; rows are (reward, terminated, truncated, acted) of each runner."""

    def __init__(self, mode: str = "SameStep", max_steps: int = 0) -> None:
        self.vec = headrace.make_vec(RELAY, 2, autoreset_mode=mode, max_steps=max_steps)
        self.vec.reset(seed=0)

    def step(self, order: int) -> list[tuple[float, bool, bool, bool]]:
        _, rewards, terminated, truncated, self.infos = self.vec.step([order, order])
        acted = self.vec.buffers.arrays["acted"]
        rows = zip(rewards, terminated, truncated, acted, strict=True)
        return [(float(r), bool(a), bool(b), bool(c)) for r, a, b, c in rows]

    def results(self) -> list[tuple[float, int]]:
        """(return, length) of each row's latest episode."""
        arrays = self.vec.buffers.arrays
        pairs = zip(arrays["last_return"], arrays["last_length"], strict=True)
        return [(float(r), int(n)) for r, n in pairs]


IDLE = (0.0, False, False, False)
RUN = (1.0, False, False, True)


@pytest.mark.parametrize("mode", MODES)
def test_the_other_players_move_decides_the_game(mode: str) -> None:
    relay = Relay(mode)
    assert relay.step(HAND) == [RUN, IDLE]
    lost, won = relay.step(PAY | OTHER_ENDS | END)
    assert lost == (-1.0, True, False, False) and won == (1.0, True, False, True)
    assert relay.results() == [(0.0, 1), (1.0, 1)]
    assert relay.vec.statistics()["episodes"] == 2
    assert relay.vec.statistics()["return_mean"] == 0.5
    assert relay.vec.buffers.final_obs.tolist() == [[2], [2]]


def test_a_reward_waits_for_the_next_transition() -> None:
    relay = Relay()
    relay.step(HAND)
    assert relay.step(PAY) == [IDLE, RUN]
    assert relay.step(PAY | HAND) == [IDLE, RUN]
    assert relay.step(0) == [(1.0 - 2.0, False, False, True), IDLE]
    assert relay.step(0) == [RUN, IDLE]
    assert relay.vec.buffers.arrays["episode_return"].tolist() == [1.0, 2.0]


def test_a_reward_comes_with_the_end() -> None:
    relay = Relay()
    relay.step(HAND)
    relay.step(PAY)
    assert relay.step(PAY | OTHER_CUT) == [(-2.0, False, True, False), RUN]
    assert relay.results()[0] == (-1.0, 1)
    assert relay.step(PAY | OTHER_ENDS) == [IDLE, RUN]  # who has ended is told nothing more
    assert relay.step(END) == [IDLE, (1.0, True, False, True)]
    assert relay.results() == [(-1.0, 1), (4.0, 4)]
    assert relay.vec.statistics()["episodes"] == 2


@pytest.mark.parametrize("mode", MODES)
def test_the_worlds_end_cuts_who_is_away(mode: str) -> None:
    relay = Relay(mode)
    relay.step(HAND)
    relay.step(PAY)
    assert relay.step(LEAVE) == [(-1.0, False, True, False), (1.0, False, True, True)]
    assert relay.results() == [(0.0, 1), (2.0, 2)]
    assert relay.vec.statistics()["episodes"] == 2


def test_the_time_limit_cuts_who_is_away_and_has_begun() -> None:
    relay = Relay(max_steps=3)
    for _ in range(2):
        relay.step(0)
    assert relay.step(0) == [(1.0, False, True, True), IDLE]  # the other one never ran
    relay.step(HAND)
    relay.step(PAY)
    assert relay.step(OTHER_ENDS) == [(-1.0, True, True, False), (1.0, False, True, True)]
    assert relay.vec.statistics()["episodes"] == 3


def test_nothing_is_left_for_the_next_episode() -> None:
    relay = Relay("NextStep", max_steps=2)
    relay.step(PAY)
    assert relay.step(0) == [(1.0, False, True, True), (-1.0, False, True, False)]
    assert relay.step(PAY) == [IDLE, IDLE]  # the reset
    assert relay.step(HAND) == [RUN, IDLE]
    assert relay.step(0)[1] == (1.0, False, True, True)
    assert not relay.vec.buffers.arrays["carried"].any()


def test_the_authors_flag_counts_before_the_first_action() -> None:
    relay = Relay()
    assert relay.step(OTHER_ENDS | END) == [(1.0, True, False, True), (0.0, True, False, False)]
    assert relay.results() == [(1.0, 1), (0.0, 0)]


def test_a_snapshot_carries_rewards_that_wait() -> None:
    relay, other = Relay(), Relay()
    relay.step(HAND)
    relay.step(PAY)
    other.vec.restore(relay.vec.snapshot())
    assert relay.step(LEAVE) == other.step(LEAVE)
    assert np.array_equal(relay.results(), other.results())
