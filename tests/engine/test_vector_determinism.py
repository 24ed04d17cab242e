"""The same bits: whatever the executor, the threads, the neighbours, the build."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import MODES, PAIR, SLIDE, SLOPE, WALK, assert_same, leaves, rollout

from headrace import make_vec
from headrace.engine import compile

STEPS = 60
ENVS: dict[str, dict[str, Any]] = {"cartpole": {}, WALK: {}, PAIR: {}, SLIDE: {"slope": SLOPE}}


def actions_for(env: str, num_envs: int) -> np.ndarray:
    """Actions [STEPS, num_envs, ...]; those of the first environments do not depend on
    num_envs."""
    space = make_vec(env, 2, **ENVS[env]).single_action_space
    shape = (STEPS, *space.shape)
    per_env = []
    for i in range(num_envs):
        rng = np.random.default_rng(i)
        if space.dtype == np.float32:
            per_env.append(rng.uniform(-1, 1, shape).astype(np.float32))
        else:
            per_env.append(
                rng.integers(getattr(space, "nvec", getattr(space, "n", None)), size=shape)
            )
    return np.stack(per_env, axis=1)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("env", ENVS)
def test_executors_and_thread_counts(env: str, mode: str) -> None:
    n = 4000
    actions = np.concatenate([actions_for(env, 40)] * (n // 40), axis=1)

    def run(**kwargs: Any) -> list[bytes]:
        vec = make_vec(env, n, autoreset_mode=mode, **ENVS[env], **kwargs)
        return rollout(vec, actions, seed=9)

    expected = run(executor="serial")
    for threads in (1, 2, 3, 5):
        assert run(threads=threads) == expected


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("env", ["cartpole", WALK, SLIDE])
def test_neighbours(env: str, mode: str) -> None:
    largest = 1000
    actions = actions_for(env, largest)

    def run(num_envs: int) -> list[dict[str, np.ndarray]]:
        vec = make_vec(env, num_envs, autoreset_mode=mode, threads=2, **ENVS[env])
        vec.reset(seed=21)
        results = []
        for batch in actions[:, :num_envs]:
            obs, *rest, _ = vec.step(batch)
            results.append({**dict(leaves(obs)), **{str(i): a for i, a in enumerate(rest)}})
        return results

    reference = run(largest)
    for num_envs in (1, 7, 64, 65):
        for ours, all_of_them in zip(run(num_envs), reference, strict=True):
            for name, array in ours.items():
                assert array.tobytes() == all_of_them[name][:num_envs].tobytes()


def test_prebuilt_equals_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    if compile.find_compiler() is None:
        pytest.skip("no compiler")
    actions = actions_for("cartpole", 130)
    monkeypatch.delenv("HEADRACE_PREBUILT", raising=False)
    prebuilt = make_vec("cartpole", 130)
    assert "_prebuilt" in prebuilt.core.library.path
    expected = rollout(prebuilt, actions, seed=2)
    monkeypatch.setenv("HEADRACE_PREBUILT", "0")
    compiled = make_vec("cartpole", 130)
    assert "_prebuilt" not in compiled.core.library.path
    assert rollout(compiled, actions, seed=2) == expected
    assert compiled.spec_.source_hash == prebuilt.spec_.source_hash != ""


@pytest.mark.parametrize("mode", MODES)
def test_copies_and_views_hold_the_same(mode: str) -> None:
    copies = make_vec("cartpole", 5, autoreset_mode=mode)
    views = make_vec("cartpole", 5, autoreset_mode=mode, copy=False)
    kept = [copies.reset(seed=1)[0]]
    view = views.reset(seed=1)[0]
    first = view.copy()
    for t in range(30):
        actions = np.full(5, t % 2)
        obs, rewards, terminated, truncated, _ = views.step(actions)
        assert obs is view
        assert np.shares_memory(rewards, views.buffers.arrays["rewards"])
        kept.append(copies.step(actions)[0])
        np.testing.assert_array_equal(obs, kept[-1])
        over = terminated | truncated
        if mode == "Disabled" and over.any():
            views.reset(options={"reset_mask": over.copy()})
            copies.reset(options={"reset_mask": over.copy()})
    np.testing.assert_array_equal(kept[0], first)  # a copy stays as it was


@pytest.mark.parametrize("env", ["cartpole", "foraging", PAIR])
def test_threads_copy_all_of_what_they_step(env: str) -> None:
    made = [make_vec(env, 9000, threads=threads, copy=threads > 1) for threads in (3, 1)]
    for vec in made:
        vec.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(12):
        made[0].action_space.seed(int(rng.integers(1 << 30)))
        actions = made[0].action_space.sample()
        copied, viewed = (vec.step(actions)[:4] for vec in made)
        for mine, theirs in zip(copied, viewed, strict=True):
            assert_same(mine, theirs)
        assert not np.shares_memory(copied[1], made[0].buffers.arrays["rewards"])


def test_where_nothing_ended_the_same_views_come_back() -> None:
    vec = make_vec("cartpole", 3, copy=False)
    vec.reset(seed=0)
    first, second = vec.step([0, 1, 0]), vec.step([1, 0, 1])
    assert all(a is b for a, b in zip(first[:4], second[:4], strict=True))
    assert first[4] == second[4] == {}
