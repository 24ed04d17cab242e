"""VecEnv against Gymnasium's SyncVectorEnv over our own single environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from batches import MODES, SLIDE, SLOPE, WALK, assert_same, assert_same_infos, leaves, sync_vec
from gymnasium.vector import AutoresetMode

from headrace import make_vec

ENVS = {"cartpole": {}, WALK: {}, SLIDE: {"slope": SLOPE, "friction": 0.1, "max_steps": 17}}


@pytest.mark.parametrize("final_obs", ["dense", "object"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env", ENVS)
def test_every_step_equals_sync(env: str, mode: str, final_obs: str) -> None:
    n = 5
    ours = make_vec(env, n, autoreset_mode=mode, final_obs=final_obs, **ENVS[env])
    theirs = sync_vec(env, n, mode, **ENVS[env])
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    obs, infos = ours.reset(seed=11)
    expected, expected_infos = theirs.reset(seed=11)
    assert_same(obs, expected)
    assert_same_infos(infos, expected_infos, n)
    ours.action_space.seed(3)
    ends = 0
    for _ in range(150):
        actions = ours.action_space.sample()
        obs, rewards, terminated, truncated, infos = ours.step(actions)
        expected, *others, expected_infos = theirs.step(actions)
        assert_same(obs, expected)
        for a, b in zip((rewards, terminated, truncated), others, strict=True):
            np.testing.assert_array_equal(a, b)
        assert rewards.dtype == (np.float64 if final_obs == "object" else np.float32)
        assert terminated.dtype == truncated.dtype == np.bool_
        assert_same_infos(infos, expected_infos, n)
        over = terminated | truncated
        ends += over.sum()
        if mode == "Disabled" and over.any():
            obs, infos = ours.reset(options={"reset_mask": over})
            expected, expected_infos = theirs.reset(options={"reset_mask": over})
            assert_same(obs, expected)
    assert ends > 10


def transitions(env: str, mode: str, steps: int, **kwargs: Any) -> list[list[tuple[Any, ...]]]:
    """What each of four environments lived through, whichever step it happened in; action k of
    environment i is the same in every mode."""
    n = 4
    vec = make_vec(env, n, autoreset_mode=mode, **kwargs)
    script = [np.random.default_rng(i) for i in range(n)]
    obs, _ = vec.reset(seed=5)
    lived: list[list[tuple[Any, ...]]] = [[] for _ in range(n)]
    resting = np.zeros(n, np.bool_)
    choices = getattr(vec.single_action_space, "nvec", 2)
    for _ in range(steps):
        actions = np.zeros(vec.action_space.shape, np.int64)
        for i in np.flatnonzero(~resting):
            actions[i] = script[i].integers(choices)
        new, rewards, terminated, truncated, infos = vec.step(actions)
        over = terminated | truncated
        after = {name: array.copy() for name, array in leaves(new)}
        if mode == "SameStep" and over.any():
            for name, array in leaves(infos["final_obs"]):
                after[name][over] = array[over]
        before = dict(leaves(obs))
        for i in np.flatnonzero(~resting):
            values = [before[name][i].tobytes() + after[name][i].tobytes() for name in after]
            lived[i].append((*values, actions[i].tolist(), rewards[i], terminated[i], truncated[i]))
        obs = new
        if mode == "NextStep":
            resting = over
        elif mode == "Disabled" and over.any():
            obs, _ = vec.reset(options={"reset_mask": over})
    return lived


@pytest.mark.parametrize("env", ["cartpole", WALK])
def test_three_modes_give_the_same_transitions(env: str) -> None:
    reference, *others = (transitions(env, mode, 120) for mode in MODES)
    for other in others:
        for i in range(4):
            shared = min(len(reference[i]), len(other[i]))
            assert shared > 60
            assert reference[i][:shared] == other[i][:shared]


@pytest.mark.parametrize("mode", MODES)
def test_time_limit_is_reported_once_and_as_truncation(mode: str) -> None:
    vec = make_vec("cartpole", 3, autoreset_mode=mode, max_steps=4)
    vec.reset(seed=0)
    flags = []
    for _ in range(9):
        _, _, terminated, truncated, _ = vec.step([0, 1, 0])
        flags.append((terminated.any(), truncated.tolist()))
        if mode == "Disabled" and truncated.any():
            vec.reset(options={"reset_mask": truncated})
    expected = [False] * 9
    for t in (3, 8) if mode == "NextStep" else (3, 7):
        expected[t] = True
    assert flags == [(False, [end] * 3) for end in expected]


@pytest.mark.parametrize(
    "seed", [3, np.int64(3), [5, 9, 5], [None, 4, None], np.array([1, 2, 3]), 2**63]
)
def test_seeds_as_gymnasium_gives_them(seed: Any) -> None:
    ours, theirs = make_vec("cartpole", 3), sync_vec("cartpole", 3, "NextStep")
    ours.reset(seed=[1, 2, 3])
    theirs.reset(seed=[1, 2, 3])
    given = int(seed) if isinstance(seed, np.int64) else seed  # SyncVectorEnv takes no np.int64
    given = given.tolist() if isinstance(given, np.ndarray) else given
    assert_same(ours.reset(seed=seed)[0], theirs.reset(seed=given)[0])
    assert_same(ours.reset()[0], theirs.reset()[0])  # streams go on


def test_reset_mask_seeds_and_resets_only_its_rows() -> None:
    ours, theirs = make_vec("cartpole", 4), sync_vec("cartpole", 4, "NextStep")
    for vec in (ours, theirs):
        vec.reset(seed=1)
        vec.step(np.array([0, 1, 1, 0]))
    mask = np.array([True, False, True, False])
    options = {"reset_mask": mask}
    obs, _ = ours.reset(seed=20, options=options)
    assert_same(obs, theirs.reset(seed=20, options={"reset_mask": mask})[0])
    assert options == {"reset_mask": mask}  # left as it was, for wrappers to read
    for _ in range(40):
        assert_same(ours.step(np.ones(4, int))[0], theirs.step(np.ones(4, int))[0])


@pytest.mark.parametrize(
    "mask",
    [[True, False], np.ones(3, np.bool_), np.ones(2, np.int8), np.zeros(2, np.bool_)],
)
def test_bad_reset_masks_raise_what_gymnasium_raises(mask: Any) -> None:
    theirs = sync_vec("cartpole", 2, "NextStep")
    theirs.reset(seed=0)
    with pytest.raises((TypeError, ValueError)) as expected:
        theirs.reset(options={"reset_mask": mask})
    ours = make_vec("cartpole", 2)
    ours.reset(seed=0)
    with pytest.raises(expected.type, match="reset_mask"):
        ours.reset(options={"reset_mask": mask})


def test_without_seeds_streams_differ() -> None:
    first, second = make_vec("cartpole", 2), make_vec("cartpole", 2)
    a, b = first.reset()[0], second.reset()[0]
    assert len(np.unique(np.concatenate([a, b])[:, 0])) == 4


def test_seed_argument_serves_the_first_reset_only() -> None:
    a, b = make_vec("cartpole", 2, seed=6), make_vec("cartpole", 2)
    first = a.reset()[0]
    assert_same(first, b.reset(seed=6)[0])
    assert_same(a.reset()[0], b.reset()[0])
    assert (a.reset()[0] != first).all()


def test_is_a_vector_env() -> None:
    vec = make_vec("cartpole", 3)
    assert isinstance(vec, gymnasium.vector.VectorEnv)
    assert vec.unwrapped is vec
    vec.reset(seed=4)
    assert vec.np_random_seed == 4
    assert vec.np_random.random() == np.random.default_rng(4).random()
    assert vec.get_attr("np_random_seed") == (4, 5, 6)
    assert vec.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert repr(vec) == "VecEnv(num_envs=3)"
    assert make_vec("cartpole", 1, autoreset_mode=AutoresetMode.DISABLED).autoreset_mode is (
        AutoresetMode.DISABLED
    )
