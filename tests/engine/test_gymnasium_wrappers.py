"""Gymnasium's vector wrappers around VecEnv, against the same around SyncVectorEnv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from batches import MODES, SLIDE, SLOPE, WALK, assert_same, sync_vec
from gymnasium import spaces
from gymnasium.wrappers import vector as wrappers

from headrace import make_vec

HALF = spaces.Box(-1.0, 1.0, (4,), np.float32)
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "NormalizeObservation": wrappers.NormalizeObservation,
    "NormalizeReward": wrappers.NormalizeReward,
    "ClipReward": lambda env: wrappers.ClipReward(env, 0.25, 0.75),
    "TransformReward": lambda env: wrappers.TransformReward(env, lambda reward: 2 * reward),
    "TransformObservation": lambda env: wrappers.TransformObservation(
        env, lambda obs: 0.5 * obs, single_observation_space=HALF
    ),
    "ReshapeObservation": lambda env: wrappers.ReshapeObservation(env, (2, 2)),
    "FlattenObservation": wrappers.FlattenObservation,
    "DtypeObservation": lambda env: wrappers.DtypeObservation(env, np.float64),
    "RescaleObservation": lambda env: wrappers.RescaleObservation(
        env, np.float32(-1.0), np.float32(1.0)
    ),
}


def compare(ours: Any, theirs: Any, steps: int = 60) -> None:
    assert_same(ours.reset(seed=2)[0], theirs.reset(seed=2)[0])
    assert ours.observation_space == theirs.observation_space
    ours.action_space.seed(8)
    for _ in range(steps):
        actions = ours.action_space.sample()
        obs, rewards, terminated, truncated, _ = ours.step(actions)
        expected, *others, _ = theirs.step(actions)
        assert_same(obs, expected)
        for a, b in zip((rewards, terminated, truncated), others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper_sees_what_it_sees_around_sync(name: str) -> None:
    wrap = WRAPPERS[name]
    if name == "RescaleObservation":  # bounds must be finite
        kwargs: dict[str, Any] = {"slope": SLOPE}
        ours = make_vec(SLIDE, 3, final_obs="object", **kwargs)
        compare(wrap(ours), wrap(sync_vec(SLIDE, 3, "NextStep", **kwargs)))
    else:
        ours = make_vec("cartpole", 3, final_obs="object")
        compare(wrap(ours), wrap(sync_vec("cartpole", 3, "NextStep")))


@pytest.mark.parametrize("name", ["ClipAction", "RescaleAction"])
def test_wrappers_of_continuous_actions(name: str) -> None:
    def wrap(env: Any) -> Any:
        return (
            wrappers.ClipAction(env)
            if name == "ClipAction"
            else wrappers.RescaleAction(env, np.float32(-2.0), np.float32(2.0))
        )

    ours, theirs = (
        wrap(make_vec(SLIDE, 3, slope=SLOPE, final_obs="object")),
        wrap(sync_vec(SLIDE, 3, "NextStep", slope=SLOPE)),
    )
    assert_same(ours.reset(seed=2)[0], theirs.reset(seed=2)[0])
    rng = np.random.default_rng(0)
    for _ in range(30):
        actions = rng.uniform(-2, 2, (3, 2)).astype(np.float32)
        assert_same(ours.step(actions)[0], theirs.step(actions)[0])


@pytest.mark.parametrize("final_obs", ["dense", "object"])
@pytest.mark.parametrize("mode", MODES)
def test_record_episode_statistics(mode: str, final_obs: str) -> None:
    n = 4
    ours = wrappers.RecordEpisodeStatistics(
        make_vec(WALK, n, autoreset_mode=mode, final_obs=final_obs)
    )
    theirs = wrappers.RecordEpisodeStatistics(sync_vec(WALK, n, mode))
    ours.reset(seed=3)
    theirs.reset(seed=3)
    ours.action_space.seed(1)
    ends = 0
    for _ in range(100):
        actions = ours.action_space.sample()
        *_, terminated, truncated, infos = ours.step(actions)
        *_, expected = theirs.step(actions)
        over = terminated | truncated
        assert ("episode" in infos) == over.any()
        if over.any():
            ends += over.sum()
            np.testing.assert_array_equal(infos["_episode"], over)
            np.testing.assert_array_equal(infos["episode"]["l"], expected["episode"]["l"])
            np.testing.assert_allclose(
                infos["episode"]["r"], expected["episode"]["r"], rtol=1e-12, atol=0
            )
        if mode == "Disabled" and over.any():
            # SyncVectorEnv takes the mask out of the options, and the wrapper then forgets all
            # its statistics: so that both do the same, every environment is reset here
            everyone = np.ones(n, np.bool_)
            ours.reset(options={"reset_mask": everyone})
            theirs.reset(options={"reset_mask": everyone})
    assert ends > 20
    assert ours.episode_count == theirs.episode_count == ends
    assert ours.unwrapped.statistics()["episodes"] == ends
    assert ours.unwrapped.statistics()["return_mean"] < 10


def test_statistics_agree_with_the_wrapper() -> None:
    vec = wrappers.RecordEpisodeStatistics(make_vec("cartpole", 64), buffer_length=10_000)
    vec.reset(seed=0)
    vec.action_space.seed(0)
    for _ in range(100):
        vec.step(vec.action_space.sample())
    stats = vec.unwrapped.statistics()
    assert stats["episodes"] == len(vec.return_queue) > 100
    assert stats["return_mean"] == np.mean(vec.return_queue)
    assert stats["length_mean"] == np.mean(vec.length_queue)
    assert stats["return_min"] == min(vec.return_queue)
    assert stats["return_max"] == max(vec.return_queue)


def test_dict_info_to_list() -> None:
    ours = wrappers.DictInfoToList(make_vec(WALK, 3, autoreset_mode="SameStep"))
    theirs = wrappers.DictInfoToList(sync_vec(WALK, 3, "SameStep"))
    ours.reset(seed=1)
    theirs.reset(seed=1)
    ours.action_space.seed(1)
    for _ in range(60):
        actions = ours.action_space.sample()
        for mine, other in zip(ours.step(actions)[-1], theirs.step(actions)[-1], strict=True):
            assert set(mine) == set(other)
            np.testing.assert_array_equal(mine["action_mask"], other["action_mask"])
            assert mine.get("final_info", {}) == other.get("final_info", {})


def test_numpy_to_torch() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    vec = wrappers.NumpyToTorch(make_vec("cartpole", 3))
    obs, _ = vec.reset(seed=0)
    assert isinstance(obs, torch.Tensor)
    _, rewards, *_ = vec.step(torch.tensor([0, 1, 0]))
    assert rewards.tolist() == [1.0, 1.0, 1.0]
