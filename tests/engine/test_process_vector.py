"""Python environments in worker processes against Gymnasium's SyncVectorEnv."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv
from process_envs import Chatty, Counter, Duel, Napper, Structured

import headrace
import headrace.engine.errors
from headrace.engine.processes.vector import ProcessVecEnv

MODES = ("NextStep", "SameStep", "Disabled")


def make(env: Any, num_envs: int, **kwargs: Any) -> ProcessVecEnv:
    kwargs.setdefault("workers", 1 if kwargs.get("executor") == "serial" else 2)
    if kwargs.get("executor") == "serial":
        del kwargs["workers"]
    vec = headrace.make_vec(env, num_envs, **kwargs)
    assert isinstance(vec, ProcessVecEnv)
    return vec


@pytest.fixture
def made() -> Iterator[Callable[..., ProcessVecEnv]]:
    """`make`, whose batches are closed after the test."""
    batches: list[ProcessVecEnv] = []

    def remember(*args: Any, **kwargs: Any) -> ProcessVecEnv:
        batches.append(make(*args, **kwargs))
        return batches[-1]

    yield remember
    for batch in batches:
        batch.close()


def assert_same_lives(ours: Any, theirs: Any, steps: int, disabled: bool, seed: int) -> None:
    """Both batches give the same bytes, and equal infos, under the same actions."""
    one, other = ours.reset(seed=seed), theirs.reset(seed=seed)
    assert data_equivalence(one[0], other[0])
    assert data_equivalence(one[1], other[1])
    theirs.action_space.seed(seed)
    for _ in range(steps):
        actions = theirs.action_space.sample()
        one, other = ours.step(actions), theirs.step(actions)
        for got, expected in zip(one[:4], other[:4], strict=True):
            assert data_equivalence(got, expected)
        assert list(one[4]) == list(other[4])
        assert data_equivalence(one[4], other[4])
        ended = other[2] | other[3]
        if disabled and ended.any():
            masks = [{"reset_mask": ended.copy()} for _ in range(2)]
            one, other = ours.reset(options=masks[0]), theirs.reset(options=masks[1])
            assert data_equivalence(one[0], other[0])
            assert data_equivalence(one[1], other[1])


@pytest.mark.parametrize("executor", ["processes", "serial"])
@pytest.mark.parametrize("mode", MODES)
def test_cartpole_lives_as_in_gymnasium(made: Any, mode: str, executor: str) -> None:
    ours = made(
        "gymnasium:CartPole-v1", 5, autoreset_mode=mode, final_obs="object", executor=executor
    )
    make_one = functools.partial(gymnasium.make, "CartPole-v1")
    theirs = SyncVectorEnv([make_one] * 5, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata == theirs.metadata
    assert_same_lives(ours, theirs, 400, mode == "Disabled", seed=7)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [functools.partial(Counter, 3, True), Structured, Chatty])
def test_infos_and_nested_spaces_are_gymnasiums(made: Any, kind: Any, mode: str) -> None:
    ours = made(kind, 3, autoreset_mode=mode, final_obs="object")
    theirs = SyncVectorEnv([kind] * 3, autoreset_mode=mode)
    assert_same_lives(ours, theirs, 12, mode == "Disabled", seed=3)


def test_dense_final_observations(made: Any) -> None:
    vec = made(functools.partial(Counter, 2), 3, autoreset_mode="SameStep")
    vec.reset(seed=0)
    vec.step([1, 1, 1])
    obs, rewards, terminated, _, infos = vec.step([1, 2, 3])
    assert obs.tolist() == [[0, 2]] * 3  # the second episode
    assert rewards.tolist() == [1, 2, 3]
    assert terminated.all()
    assert infos["final_obs"].tolist() == [[2, 1]] * 3
    assert infos["_final_obs"].all()


def test_nested_spaces_keep_their_structure(made: Any) -> None:
    vec = made(Structured, 4)
    obs, _ = vec.reset(seed=0)
    assert obs in vec.observation_space
    assert obs["where"][0].dtype == np.int64
    assert obs["picture"].shape == (4, 4, 3)
    actions = vec.action_space.sample()
    obs = vec.step(actions)[0]
    assert data_equivalence(obs, actions)


def test_what_cannot_be_put_into_memory_is_said(made: Any) -> None:
    class Wordy(Counter):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Dict({"word": spaces.Text(5)})

    with pytest.raises(TypeError, match=r"part \['word'\] of the observation space is a Text"):
        made(Wordy, 2)


def test_a_wrong_observation_is_named(made: Any) -> None:
    class Wide(Counter):
        def observe(self) -> np.ndarray:
            return np.zeros(3 if self.count else 2, np.float32)

    vec = made(Wide, 2, executor="serial")
    vec.reset()
    with pytest.raises(ValueError, match=r"the observation has shape \(3,\): its space has \(2,\)"):
        vec.step([0, 0])
    vec.reset()  # a serial batch goes on


ACTIONS: list[tuple[Any, type[Exception], str]] = [
    ([0, 4, 0], ValueError, r"actions\[1\] is 4: allowed are the integers 0 to 3"),
    ([0, 1], ValueError, r"actions has shape \(2,\): expected \(3,\)"),
    ([0, 1, 0.5], TypeError, "actions has dtype float64"),
    (1, TypeError, "actions is a single int"),
]


@pytest.mark.parametrize(("actions", "error", "message"), ACTIONS)
def test_wrong_actions(made: Any, actions: Any, error: type[Exception], message: str) -> None:
    vec = made(Counter, 3, executor="serial")
    vec.reset()
    with pytest.raises(error, match=message):
        vec.step(actions)
    assert vec.step([3, 0, 1])[1].tolist() == [3, 0, 1]


def test_nested_actions_are_named(made: Any) -> None:
    vec = made(Structured, 2, executor="serial")
    vec.reset(seed=0)
    actions = vec.action_space.sample()
    actions["where"][0][1] = 4
    with pytest.raises(ValueError, match=r"actions\['where'\]\[0\]\[1\] is 4: .* -3 to 3"):
        vec.step(actions)
    actions["where"][0][1] = 3
    actions["speed"][0] = np.nan
    with pytest.raises(ValueError, match=r"actions\['speed'\]\[0\] is NaN"):
        vec.step(actions)


def test_calls_out_of_order(made: Any) -> None:
    vec = made(Counter, 2)
    with pytest.raises(RuntimeError, match=r"step\(\) before reset\(\)"):
        vec.step([0, 0])
    with pytest.raises(RuntimeError, match="leaves out environment 1"):
        vec.reset(options={"reset_mask": np.array([True, False])})
    vec.reset()
    vec.send([0, 0])
    with pytest.raises(RuntimeError, match="2 environments are in flight"):
        vec.step([0, 0])
    with pytest.raises(RuntimeError, match="environment 0, which is still in flight"):
        vec.send([0], env_ids=[0])
    vec.recv()
    vec.close()
    vec.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        vec.reset()


def test_attributes_and_calls(made: Any) -> None:
    vec = made(Counter, 4)
    vec.set_attr("length", [5, 6, 7, 8])
    assert vec.get_attr("length") == (5, 6, 7, 8)
    vec.set_attr("length", 2)
    assert vec.call("length") == (2, 2, 2, 2)
    vec.reset(seed=10)
    assert vec.np_random_seed == (10, 11, 12, 13)
    assert [o.tolist() for o in vec.call("observe")] == [[0, 1]] * 4
    with pytest.raises(ValueError, match="values has 2 entries: expected 4"):
        vec.set_attr("length", [1, 2])


def test_first_ready_first_served(made: Any) -> None:
    """Quick environments come back while a slow one, of another worker, is under way."""
    vec = made(Napper, 4, workers=4, batch_size=1)
    vec.reset()
    vec.send(np.array([0.8, 0.0, 0.0, 0.0]))
    seen = []
    for _ in range(9):
        obs, rewards, _, _, infos = vec.recv()
        seen += infos["env_id"].tolist()
        assert obs.tolist() == rewards.tolist()
        if seen[-1] != 0:
            vec.send(np.array([0.01]))
    assert set(seen[:3]) == {1, 2, 3}
    assert 0 not in seen[:6]
    assert {1, 2, 3} <= set(seen)


@pytest.mark.parametrize(("workers", "batch_size"), [(1, 3), (1, 8), (2, 4), (3, 4), (0, 5)])
def test_no_environment_starves(made: Any, workers: int, batch_size: int) -> None:
    """Those of one worker take turns, in whatever order the caller names them; workers 0: all in
    the calling process."""
    executor = {"workers": workers} if workers else {"executor": "serial"}
    vec = made(Counter, 12, batch_size=batch_size, **executor)
    vec.reset()
    steps = np.zeros(12, int)
    vec.send(np.zeros(12, int))
    for _ in range(300):
        rows = vec.recv()[4]["env_id"]
        steps[rows] += 1
        vec.send(np.zeros(batch_size, int))
    assert steps.sum() == 300 * batch_size
    for share in np.split(steps, max(1, workers)):
        assert np.ptp(share) <= 2
    assert steps.min() >= 0.5 * steps.mean()


@pytest.mark.parametrize("mode", MODES[:2])
def test_sending_gives_the_same_lives_as_stepping(made: Any, mode: str) -> None:
    kind = functools.partial(Counter, 3, True)
    apart = made(kind, 6, batch_size=2, autoreset_mode=mode, final_obs="object", workers=3)
    together = made(kind, 6, autoreset_mode=mode, final_obs="object", executor="serial")
    apart.reset(seed=1)
    together.reset(seed=1)
    lives: list[list[Any]] = [[] for _ in range(6)]
    apart.send(np.zeros(6, int))
    count = np.zeros(6, int)
    while count.min() < 9:
        obs, rewards, terminated, truncated, infos = apart.recv()
        rows = infos["env_id"]
        for at, row in enumerate(rows):
            count[row] += 1
            double = int(infos["double"][at]) if infos.get("_double", [False] * 2)[at] else None
            lives[row].append(
                (*obs[at], rewards[at], bool(terminated[at]), bool(truncated[at]), double)
            )
        apart.send((rows + count[rows]) % 4)
    taken = np.zeros(6, int)
    for step in range(9):
        obs, rewards, terminated, truncated, infos = together.step(taken)
        for row in range(6):
            double = int(infos["double"][row]) if infos.get("_double", [False] * 6)[row] else None
            expected = (
                *obs[row],
                rewards[row],
                bool(terminated[row]),
                bool(truncated[row]),
                double,
            )
            assert lives[row][step] == expected
        taken = (np.arange(6) + step + 1) % 4


def test_views_without_copying(made: Any) -> None:
    vec = made(Counter, 4, copy=False, batch_size=2)
    obs, _ = vec.reset()
    assert obs is vec.buffers.obs
    vec.send(np.zeros(4, int))
    obs, rewards, _, _, infos = vec.recv()
    rows = infos["env_id"]
    if rows[1] == rows[0] + 1:
        assert np.shares_memory(obs, vec.buffers.obs)
        assert np.shares_memory(rewards, vec.buffers.arrays["rewards"])


def test_wrappers_and_keywords(made: Any) -> None:
    vec = made(
        "gymnasium:CartPole-v1",
        2,
        max_steps=4,
        wrappers=[
            gymnasium.wrappers.RecordEpisodeStatistics,
            functools.partial(gymnasium.wrappers.FrameStackObservation, stack_size=2),
        ],
        autoreset_mode="SameStep",
    )
    assert vec.single_observation_space.shape == (2, 4)
    vec.reset(seed=0)
    for _ in range(4):
        _, _, _, truncated, infos = vec.step([0, 1])
    assert truncated.all()
    assert infos["final_info"]["episode"]["l"].tolist() == [4, 4]


@pytest.mark.parametrize("mode", MODES)
def test_gymnasiums_wrapper_counts_episodes(made: Any, mode: str) -> None:
    if mode == "Disabled":
        pytest.skip("RecordEpisodeStatistics does not know partial resets")
    ours = made(functools.partial(Counter, 4), 2, autoreset_mode=mode)
    vec = gymnasium.wrappers.vector.RecordEpisodeStatistics(ours)
    vec.reset(seed=0)
    lengths = []
    for _ in range(10):
        infos = vec.step(np.array([1, 2]))[4]
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
            assert infos["episode"]["r"].tolist() == [4, 8]
    assert lengths == [4] * 4


def test_rows_of_several_agents(made: Any) -> None:
    vec = made(Duel, 4, autoreset_mode="SameStep")
    assert (vec.agents, vec.worlds) == (2, 2)
    obs, infos = vec.reset(seed=0)
    assert obs[:, 0].tolist() == [3, 5, 3, 5]
    assert infos["present"].all()
    for _ in range(2):
        vec.step([1, 2, 1, 2])
    obs, rewards, terminated, _, infos = vec.step([1, 2, 1, 2])
    assert rewards.tolist() == [1, 2, 1, 2]
    assert terminated.tolist() == [True, False, True, False]  # ann leaves
    assert infos["present"].tolist() == [False, True, False, True]
    assert infos["_final_obs"].tolist() == [True, False, True, False]
    obs, rewards, terminated, _, infos = vec.step([1, 2, 1, 2])
    assert obs[:, 0].tolist() == [0, 1, 0, 1]
    assert rewards.tolist() == [0, 2, 0, 2]  # nobody is there to be rewarded
    obs, _, terminated, _, infos = vec.step([1, 2, 1, 2])
    assert terminated.tolist() == [False, True, False, True]
    assert obs[:, 0].tolist() == [3, 5, 3, 5]  # a new episode
    assert infos["present"].all()
    with pytest.raises(ValueError, match="num_envs is 3, but this environment has 2 agents"):
        made(Duel, 3)


def test_lists_of_functions(made: Any) -> None:
    vec = made([functools.partial(Counter, length) for length in (2, 3, 4)], 3)
    assert vec.get_attr("length") == (2, 3, 4)
    with pytest.raises(ValueError, match="env has 3 functions, but num_envs 2 is 2"):
        made([Counter] * 3, 2)
    with pytest.raises(RuntimeError, match="environment 1 has the action space"):
        made([Counter, Napper], 2)
    with pytest.raises(TypeError, match="returned an int"):
        made(lambda: 3, 1, executor="serial")


NAMES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"env": "gymnasium:CartPol-v1"}, ValueError, "'gymnasium:CartPol-v1' cannot be found"),
    ({"env": "gymnasium:CartPole-v1", "threads": 2}, ValueError, "threads is 2.*use workers"),
    ({"env": Counter, "workers": 0}, ValueError, "workers is 0: it must be at least 1"),
    ({"env": Counter, "start_method": "boot"}, ValueError, "start_method is 'boot'"),
    ({"env": Counter, "timeout": 0}, ValueError, "timeout is 0"),
    ({"env": Counter, "timeout": True}, ValueError, "timeout is True: expected seconds"),
    ({"env": Counter, "restarts": -1}, ValueError, "restarts is -1"),
    ({"env": Counter, "final_obs": "x"}, ValueError, "final_obs is 'x'"),
    ({"env": Counter, "batch_size": 9}, ValueError, "batch_size is 9"),
    ({"env": Counter, "seed": "x"}, TypeError, "seed is 'x'"),
    ({"env": []}, ValueError, "env is an empty list"),
    ({"env": [3]}, TypeError, r"env\[0\] is an int"),
    ({"env": Counter, "wrappers": [3]}, TypeError, r"wrappers\[0\] is 3"),
]


@pytest.mark.parametrize(("kwargs", "error", "message"), NAMES)
def test_wrong_arguments(
    made: Any, kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        headrace.make_vec(**{"num_envs": 2, **kwargs})
    assert isinstance(raised.value, headrace.HeadraceError)


class Sized(Counter):
    def __init__(self, size: int, colour: str = "red") -> None:
        super().__init__(length=100)
        self.size, self.colour = size, colour


class OwnLimit(Counter):
    def __init__(self, max_steps: int = 9) -> None:
        super().__init__(length=max_steps)


class PassesOn(OwnLimit):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)


@pytest.mark.parametrize(
    ("env", "given", "message"),
    [
        (
            Sized,
            {"sized": 9},
            "^environment 'Sized' has no parameter sized: its parameters are size, colour; "
            "did you mean size[?]$",
        ),
        (Sized, {}, "^environment 'Sized': missing a required argument: 'size'; .* size, colour$"),
        (
            "gymnasium:CartPole-v1",
            {"gravity": 5},
            "^environment 'gymnasium:CartPole-v1' has no parameter gravity: its parameters are "
            "sutton_barto_reward, render_mode$",
        ),
        (lambda: Counter(), {"x": 1}, "has no parameter x: it takes none$"),
        (Counter, {"max_steps": -1}, "max_steps is -1: it must be at least 0"),
    ],
)
def test_arguments_that_the_constructor_does_not_take(env: Any, given: Any, message: str) -> None:
    with pytest.raises(headrace.engine.errors.ArgumentError, match=message):
        headrace.make_vec(env, 2, executor="serial", **given)


@pytest.mark.parametrize(
    ("env", "given", "ends"),
    [
        (functools.partial(Counter, 100), {"max_steps": 3}, 3),
        (Counter, {"length": 100, "max_steps": 5}, 5),
        (Counter, {"length": 4, "max_steps": 0}, 4),
        (OwnLimit, {"max_steps": 6}, 6),
        (PassesOn, {"max_steps": 7}, 7),
        ([Counter, functools.partial(Counter, infos=True)], {"length": 100, "max_steps": 2}, 2),
    ],
)
def test_a_time_limit_of_python_environments(env: Any, given: Any, ends: int) -> None:
    with contextlib.closing(headrace.make_vec(env, 2, executor="serial", **given)) as vec:
        vec.reset(seed=0)
        for step in range(1, ends + 1):
            _, _, terminated, truncated, _ = vec.step([0, 0])
            assert (terminated | truncated).tolist() == [step == ends] * 2


def test_no_time_limit_for_a_gymnasium_id() -> None:
    with contextlib.closing(
        headrace.make_vec("gymnasium:MountainCar-v0", 1, executor="serial", max_steps=0)
    ) as vec:
        vec.reset(seed=0)
        assert not any(vec.step([1])[3].any() for _ in range(250))
