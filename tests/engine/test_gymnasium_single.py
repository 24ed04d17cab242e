"""The single environment and Gymnasium's registry: make, make_vec, check_env."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from batches import KART, MODES, PAIR, WALK, assert_same, sync_vec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import headrace
from headrace.engine import registration
from headrace.engine.errors import ArgumentError, ArgumentTypeError, CallOrderError, ClosedError
from headrace.engine.registration import registered
from headrace.engine.resolve import resolve
from headrace.engine.single import SingleEnv
from headrace.engine.vector import VecEnv

ID = "headrace/CartPole-v1"


def checked(env: gymnasium.Env, **kwargs: Any) -> set[str]:
    """What check_env warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, **kwargs)
    return {str(warning.message) for warning in caught}


def test_check_env_finds_no_more_than_in_gymnasiums_cartpole() -> None:
    pygame_is_not_needed = {"skip_render_check": True}
    theirs = checked(gymnasium.make("CartPole-v1").unwrapped, **pygame_is_not_needed)
    assert checked(gymnasium.make(ID).unwrapped) <= theirs  # rendering included


@pytest.mark.parametrize("path", [WALK, KART])
def test_check_env_of_files(path: str) -> None:
    notes = checked(SingleEnv(path))
    assert not [note for note in notes if "spec" not in note and "normalized" not in note]


def test_spaces_are_those_of_gymnasiums_cartpole() -> None:
    ours, theirs = gymnasium.make(ID), gymnasium.make("CartPole-v1")
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps == 500


def test_registered_time_limit_is_the_environments_own() -> None:
    for entry in registered().values():
        if entry.gymnasium_id and entry.shipped:
            limit = gymnasium.spec(entry.gymnasium_id).max_episode_steps
            assert (limit or 0) == resolve(entry.name).spec.max_steps


@pytest.mark.parametrize("limit", [None, 3, 700])
def test_make_reports_the_time_limit_once_as_truncation(limit: int | None) -> None:
    # the pole never falls far enough: only the limit ends the episode
    env = gymnasium.make(ID, max_episode_steps=limit, theta_threshold_radians=1e9, x_threshold=1e9)
    env.reset(seed=0)
    flags = [env.step(t % 2)[2:4] for t in range(limit or 500)]
    assert flags == [(False, False)] * (len(flags) - 1) + [(False, True)]


@pytest.mark.parametrize("limit", [None, 3, 700])
def test_make_vec_takes_the_time_limit(limit: int | None) -> None:
    kwargs = {} if limit is None else {"max_episode_steps": limit}
    vec = gymnasium.make_vec(ID, 2, theta_threshold_radians=1e9, x_threshold=1e9, **kwargs)
    assert isinstance(vec, VecEnv)
    vec.reset(seed=0)
    length = limit or 500
    flags = [vec.step([t % 2] * 2)[2:4] for t in range(length + 1)]
    assert [truncated.tolist() for _, truncated in flags] == [
        [t == length - 1] * 2 for t in range(length + 1)
    ]
    assert not any(terminated.any() for terminated, _ in flags)


@pytest.mark.parametrize("mode", MODES)
def test_make_vec_is_ours_and_equals_sync(mode: str) -> None:
    ours = gymnasium.make_vec(ID, num_envs=3, autoreset_mode=mode)
    theirs = gymnasium.make_vec(
        ID, num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    assert isinstance(ours, VecEnv)
    assert isinstance(theirs, gymnasium.vector.SyncVectorEnv)
    assert ours.metadata["autoreset_mode"] is AutoresetMode(mode)
    assert ours.spec.id == ID
    assert_same(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ours.action_space.seed(1)
    ends = 0
    for _ in range(100):
        actions = ours.action_space.sample()
        obs, *rest, infos = ours.step(actions)
        expected, *others, expected_infos = theirs.step(actions)
        assert_same(obs, expected)
        for a, b in zip(rest, others, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        assert set(infos) == set(expected_infos)
        over = rest[1] | rest[2]
        ends += over.sum()
        if "final_obs" in infos:
            for i in np.flatnonzero(over):
                assert_same(infos["final_obs"][i], expected_infos["final_obs"][i], ())
            assert infos["final_obs"][~over].tolist() == [None] * (~over).sum()
        if mode == "Disabled" and over.any():
            for vec in (ours, theirs):
                vec.reset(options={"reset_mask": over})
    assert ends > 5


def test_make_with_parameters_and_recreating_from_spec() -> None:
    env = gymnasium.make(ID, gravity=3.5)
    assert env.unwrapped.params["gravity"] == 3.5
    again = env.unwrapped.spec.make()
    assert again.unwrapped.params["gravity"] == 3.5
    with pytest.raises(ValueError, match="did you mean 'gravity'"):
        gymnasium.make(ID, gravty=3.5)


def test_single_equals_its_world_in_a_batch() -> None:
    single, vec = SingleEnv("cartpole"), headrace.make_vec("cartpole", 4)
    obs, info = single.reset(seed=13)
    np.testing.assert_array_equal(obs, vec.reset(seed=10)[0][3])
    assert info == {}
    for action in (1, 1, np.int64(0), np.array(1)):
        obs, reward, terminated, truncated, info = single.step(action)
        np.testing.assert_array_equal(obs, vec.step([0, 0, 0, int(action)])[0][3])
        assert (type(reward), reward, terminated, truncated, info) == (float, 1.0, False, False, {})


def test_single_info_holds_masks_and_metrics() -> None:
    env = SingleEnv(WALK, slip=0.0)
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"].shape == (5,)
    steps, over = 0, False
    while not over:
        assert "metrics" not in info
        obs, _, terminated, truncated, info = env.step([0, 0])
        steps, over = steps + 1, terminated or truncated
    assert info == {"metrics": {"steps": float(steps), "place": float(obs["place"])}}
    with pytest.raises(CallOrderError, match="has ended"):
        env.step([0, 0])


def test_single_renders() -> None:
    env = gymnasium.make(ID, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert (frame.dtype, frame.shape) == (np.uint8, (400, 600, 3))
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 2
    assert env.metadata["render_modes"] == ["rgb_array"]
    with pytest.raises(ArgumentError, match="render_mode is 'human'"):
        SingleEnv("cartpole", render_mode="human")
    with pytest.raises(ArgumentError, match="does not draw"):
        SingleEnv(WALK, render_mode="rgb_array")


def test_single_errors() -> None:
    with pytest.raises(ArgumentError, match="2 agents"):
        SingleEnv(PAIR)
    env = SingleEnv("cartpole")
    with pytest.raises(CallOrderError, match=r"step\(\) before reset\(\)"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ArgumentError, match=r"actions\[0\] is 2"):
        env.step(2)
    with pytest.raises(ArgumentTypeError, match="float64"):
        env.step(0.5)
    with pytest.raises(ArgumentError, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([True])})
    env.close()
    env.close()
    with pytest.raises(ClosedError, match="close"):
        env.step(0)


def test_metrics_where_gymnasiums_time_limit_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_registry", dict(registration._registry))
    headrace.register("walk", WALK, gymnasium_id="tests/Walk-v0", max_episode_steps=12)
    single = gymnasium.make("tests/Walk-v0")
    single.reset(seed=0)
    for _ in range(12):
        *_, truncated, info = single.step([2, 0])
    assert truncated and info["metrics"]["steps"] == 12.0


@pytest.mark.parametrize("mode", MODES)
def test_masks_are_shown_where_gymnasium_shows_them(mode: str) -> None:
    ours = headrace.make_vec("tetris", 3, autoreset_mode=mode, final_obs="object")
    theirs = sync_vec("tetris", 3, mode)
    rng = np.random.default_rng(0)
    ends = 0
    compare_masks(ours.reset(seed=4)[1], theirs.reset(seed=4)[1])
    for step in range(120):
        actions = rng.integers(0, ours.single_action_space.n, 3)
        a, b = ours.step(actions), theirs.step(actions)
        compare_masks(a[4], b[4])
        ended = a[2] | a[3]
        ends += int(ended.sum())
        if mode == "Disabled" and ended.any():
            chosen = ended
        elif mode != "Disabled" and step % 10 == 9:
            chosen = np.array([True, False, step % 20 == 9])
        else:
            continue
        mask = {"reset_mask": chosen}
        compare_masks(ours.reset(options=dict(mask))[1], theirs.reset(options=dict(mask))[1])
    assert ends > 3


def compare_masks(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    shape = ours["action_mask"].shape
    none = {"action_mask": np.zeros(shape, np.int8), "_action_mask": np.zeros(shape[0], np.bool_)}
    for key, absent in none.items():
        np.testing.assert_array_equal(ours[key], theirs.get(key, absent), err_msg=key)
