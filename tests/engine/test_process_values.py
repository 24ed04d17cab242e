"""What Python environments return must fit their spaces: nothing wraps around or is guessed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from process_envs import Duel

import headrace
from headrace.engine.errors import WorkerError

BOX = spaces.Box(0, 255, (2,), np.uint8)
NARROW = spaces.Box(-9, 9, (2,), np.int32)
FLOATS = spaces.Box(-1.0, 1.0, (2,), np.float32)
CHOICE = spaces.Discrete(3, start=1)
CHOICES = spaces.MultiDiscrete([3, 4])
SMALL_CHOICES = spaces.MultiDiscrete([3, 4], dtype=np.int32)
LAMPS = spaces.MultiBinary(2)


class Given(gymnasium.Env):
    """Gives a fitting observation at first, and what it was given in its first step."""

    action_space = spaces.Discrete(2)

    def __init__(
        self, space: spaces.Space, obs: Any, reward: Any = 0.0, flags: Any = (False, False)
    ) -> None:
        self.observation_space, self.obs, self.reward, self.flags = space, obs, reward, flags
        space.seed(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self.obs, self.reward, *self.flags, {}


def live(
    space: spaces.Space,
    obs: Any,
    reward: Any = 0.0,
    executor: str = "serial",
    flags: Any = (False, False),
) -> Any:
    """Observation, rewards, ... of one step of two environments."""
    vec = headrace.make_vec(lambda: Given(space, obs, reward, flags), 2, executor=executor)
    try:
        vec.reset(seed=0)
        return vec.step([0, 0])
    finally:
        vec.close()


FITTING: list[tuple[spaces.Space, Any, Any]] = [
    (BOX, np.array([3, 255], np.uint16), [3, 255]),
    (BOX, [0, 255], [0, 255]),
    (BOX, (np.float64(7), True), [7, 1]),
    (BOX, np.array([True, False]), [1, 0]),
    (NARROW, np.array([-5, 2**31 - 1]), [-5, 2**31 - 1]),
    (FLOATS, np.array([0.1, 1e300]), [np.float32(0.1), np.inf]),
    (FLOATS, [1, 2**24 + 1], [1.0, 2.0**24]),
    (FLOATS, np.array([np.nan, 0]), [np.nan, 0.0]),
    (FLOATS, np.array([0.1, 2], object), [np.float32(0.1), 2.0]),
    (CHOICE, 3, 3),
    (CHOICE, np.int32(1), 1),
    (CHOICE, np.array(2), 2),
    (CHOICE, 2.0, 2),
    (CHOICES, np.array([2, 3]), [2, 3]),
    (CHOICES, [0, 3], [0, 3]),
    (SMALL_CHOICES, np.array([2, 3], np.int32), [2, 3]),
    (LAMPS, np.array([1, 0], np.int8), [1, 0]),
    (LAMPS, np.array([True, False]), [1, 0]),
]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize(("space", "obs", "expected"), FITTING)
def test_numbers_that_fit_are_kept_whatever_their_dtype(
    space: spaces.Space, obs: Any, expected: Any
) -> None:
    got = live(space, obs)[0]
    assert got.dtype == space.dtype
    np.testing.assert_array_equal(got, np.array([expected, expected], space.dtype))


UNFIT: list[tuple[spaces.Space, Any, str]] = [
    (BOX, np.array([1, 300], np.uint16),
     r"observation\[1\] is 300 \(of dtype uint16\): its space has uint8, which cannot hold it"),
    (BOX, [-1, 0], r"observation\[0\] is -1 \(of dtype int64\): its space has uint8"),
    (BOX, [0.5, 0], r"observation\[0\] is 0.5 \(of dtype float64\): its space has uint8"),
    (BOX, [0, np.nan], r"observation\[1\] is nan \(of dtype float64\): its space has uint8"),
    (BOX, [0, np.inf], r"observation\[1\] is inf"),
    (BOX, [2**70, 0], r"observation is \[1180591620717411303424, 0\]: its space has uint8"),
    (NARROW, np.array([0, 2**31]), r"observation\[1\] is 2147483648 \(of dtype int64\).* int32"),
    (NARROW, np.array([0, 1e300]), r"observation\[1\] is 1e\+300"),
    (NARROW, [None, 1], r"observation is \[None, 1\]: its space has int32"),
    (FLOATS, [1j, 0], "observation has dtype complex128: its space has float32"),
    (FLOATS, ["1", "2"], "observation has dtype <U1: its space has float32"),
    (FLOATS, [[1], [1, 2]], "observation is a ragged list"),
    (FLOATS, None, r"observation has shape \(\): its space has \(2,\)"),
    (CHOICE, 0, "observation is 0: its space has 1 to 3"),
    (CHOICE, np.int64(4), "observation is 4: its space has 1 to 3"),
    (CHOICE, np.array(4), "observation is 4: its space has 1 to 3"),
    (CHOICE, 1.5, r"observation is 1.5 \(of dtype float64\): its space has int64"),
    (CHOICE, None, "observation is None: its space has int64"),
    (CHOICES, np.array([0, 4]), r"observation\[1\] is 4: its space has 0 to 3"),
    (CHOICES, np.array([-1, 0]), r"observation\[0\] is -1: its space has 0 to 2"),
    (SMALL_CHOICES, np.array([0, 4], np.int32), r"observation\[1\] is 4: its space has 0 to 3"),
    (LAMPS, np.array([2, 0], np.int8), r"observation\[0\] is 2: its space has 0 to 1"),
    (spaces.Dict(a=BOX), {"a": [1, 256]}, r"observation\['a'\]\[1\] is 256"),
    (spaces.Dict(a=BOX), {"b": 1}, r"observation has 'b': its space has 'a'"),
    (spaces.Dict(a=BOX), [1], r"observation is no dict: its space has 'a'"),
    (spaces.Tuple((CHOICE,)), (9,), r"observation\[0\] is 9: its space has 1 to 3"),
    (spaces.Tuple((CHOICE,)), 9, "observation is an int: its space is a Tuple"),
    (spaces.Tuple((CHOICE,)), (1, 2), "observation has 2 parts: its space has 1"),
]  # fmt: skip


@pytest.mark.parametrize(("space", "obs", "message"), UNFIT)
def test_numbers_that_do_not_fit_are_refused(space: spaces.Space, obs: Any, message: str) -> None:
    with pytest.raises(headrace.HeadraceError, match=message) as raised:
        live(space, obs)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("reward", [1.5, np.float64(1.5), np.float32(1.5), np.array(1.5)])
def test_one_number_is_a_reward(reward: Any) -> None:
    assert live(BOX, np.zeros(2, np.uint8), reward)[1].tolist() == [1.5, 1.5]


@pytest.mark.parametrize(("reward", "gained"), [(3, 3.0), (True, 1.0), (np.int64(2), 2.0)])
def test_a_whole_reward_is_one_too(reward: Any, gained: float) -> None:
    assert live(BOX, np.zeros(2, np.uint8), reward)[1].tolist() == [gained, gained]


REWARDS = [
    (None, "the reward is None: expected one number"),
    ("1", "the reward is '1': expected one number"),
    (1j, "the reward is 1j: expected one number"),
    (np.complex128(1), "the reward is .*1.*: expected one number"),
    (np.ones(1), r"the reward is an array of shape \(1,\): expected one number"),
    (np.ones((2, 2)), r"the reward is an array of shape \(2, 2\): expected one number"),
    ([1.0], r"the reward is \[1.0\]: expected one number"),
    ([1.0, [2.0]], r"the reward is \[1.0, \[2.0\]\]: expected one number"),
]


@pytest.mark.parametrize(("reward", "message"), REWARDS)
def test_other_rewards_are_refused(reward: Any, message: str) -> None:
    with pytest.raises(headrace.HeadraceError, match=message):
        live(BOX, np.zeros(2, np.uint8), reward)


@pytest.mark.parametrize("said", [True, np.True_, 1, 1.0, np.int8(1), np.array(True)])
def test_a_truth_is_a_flag(said: Any) -> None:
    *_, terminated, truncated, _ = live(BOX, np.zeros(2, np.uint8), flags=(False, said))
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [True, True])


FLAGS = [
    (None, "terminated is None: expected True or False"),
    ("no", "terminated is 'no': expected True or False"),
    (2, "terminated is 2: expected True or False"),
    (np.nan, "terminated is nan: expected True or False"),
    ([True], r"terminated is \[True\]: expected True or False"),
    (np.array([True, False]), r"terminated is an array of shape \(2,\): expected True or False"),
]


@pytest.mark.parametrize(("said", "message"), FLAGS)
def test_other_flags_are_refused(said: Any, message: str) -> None:
    with pytest.raises(headrace.HeadraceError, match=message):
        live(BOX, np.zeros(2, np.uint8), flags=(said, False))


def test_a_worker_names_the_environment_in_one_sentence() -> None:
    message = r"^environment [01] \(worker \d\): the observation\[1\] is 300 \(of dtype uint16\)"
    with pytest.raises(WorkerError, match=message) as raised:
        live(BOX, np.array([1, 300], np.uint16), executor="processes")
    assert "\n" not in str(raised.value)


def test_of_several_agents_it_is_named_whose_reward_it_was() -> None:
    class Unpaid(Duel):
        def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
            obs, rewards, *rest = super().step(actions)
            return obs, {**rewards, "bob": None}, *rest

    vec = headrace.make_vec(Unpaid, 2, executor="serial")
    vec.reset(seed=0)
    with pytest.raises(TypeError, match="the reward of agent 'bob' is None: expected one number"):
        vec.step([0, 0])
    vec.close()
