"""One environment in C, Cython and Numba: the same values, whatever executes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace

LANGUAGES = Path(__file__).parent / "languages"
C_FILES = Path(__file__).parent / "c"
SQUARED = {
    "c": "squared",
    "cython": str(LANGUAGES / "squared.pyx"),
    "numba": str(LANGUAGES / "squared.py"),
}
PRICES = np.array([5.0, 0.25], np.float32)


def trajectory(env: str, steps: int, worlds: int = 150, **options: Any) -> list[np.ndarray]:
    """Everything that comes out of `steps` steps with random actions, and the states."""
    vec = headrace.make_vec(env, worlds, **options)
    random = np.random.default_rng(7)
    found = [vec.reset(seed=11)[0]]
    for _ in range(steps):
        found += vec.step(random.integers(0, 5, worlds))[:4]
    found.append(vec.state.copy())
    vec.close()
    return found


def assert_equal(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("language", ["cython", "numba"])
@pytest.mark.parametrize(
    "options",
    [
        {"executor": "serial"},
        {"threads": 3},
        {"SIZE": 5, "limit": 4},
        {"autoreset_mode": "SameStep"},
    ],
    ids=["serial", "threads", "sizes", "same step"],
)
def test_trajectories_are_those_of_c(language: str, options: dict[str, Any]) -> None:
    assert_equal(
        trajectory(SQUARED[language], 1000, **options), trajectory(SQUARED["c"], 1000, **options)
    )


@pytest.mark.parametrize("language", list(SQUARED))
def test_language_is_told(language: str) -> None:
    vec = headrace.make_vec(SQUARED[language], 1)
    assert (vec.spec_.language, vec.spec_.name) == (language, "squared")


@pytest.mark.parametrize("language", ["cython", "numba"])
def test_snapshot_resumes_exactly(language: str) -> None:
    vec = headrace.make_vec(SQUARED[language], 70)
    vec.reset(seed=3)
    actions = np.random.default_rng(1).integers(0, 5, (400, 70))
    for action in actions[:100]:
        vec.step(action)
    snapshot = vec.snapshot()
    first = [vec.step(action)[:4] for action in actions[100:]]
    vec.restore(snapshot)
    again = [vec.step(action)[:4] for action in actions[100:]]
    for one, other in zip(first, again, strict=True):
        assert_equal(list(one), list(other))


@pytest.mark.parametrize("language", ["cython", "numba"])
def test_values_do_not_depend_on_neighbours(language: str) -> None:
    many = headrace.make_vec(SQUARED[language], 130, executor="serial")
    few = headrace.make_vec(SQUARED[language], 3, executor="serial")
    many.reset(seed=list(range(130)))
    few.reset(seed=[5, 63, 129])
    random = np.random.default_rng(2)
    for _ in range(200):
        actions = random.integers(0, 5, 130)
        all_of_them, some = many.step(actions), few.step(actions[[5, 63, 129]])
        assert_equal([each[[5, 63, 129]] for each in all_of_them[:4]], list(some[:4]))


def numbers(values: np.ndarray) -> np.ndarray:
    """Bits, with one kind of NaN and one kind of zero."""
    return np.where(np.isnan(values), np.float32(np.nan), values + np.float32(0)).view(np.uint32)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0, 1e4, 1e30])
def test_maths_and_random_numbers_are_the_header_s(scale: float) -> None:
    worlds = 4096
    inputs = (np.random.default_rng(0).standard_normal((worlds, 2)) * scale).astype(np.float32)
    inputs[:8, 0] = [0, -0.0, np.inf, -np.inf, 1e-42, -1e-42, 8388608, 88.8]
    both = []
    for name in ("functions.c", "functions.py"):
        vec = headrace.make_vec(str(LANGUAGES / name), worlds, executor="serial")
        vec.reset(seed=4)
        both.append(vec.step(inputs)[0])
    for name in ("values", "draws"):
        np.testing.assert_array_equal(numbers(both[0][name]), numbers(both[1][name]))
    np.testing.assert_array_equal(both[0]["order"], both[1]["order"])
    assert (np.sort(both[1]["order"], axis=1) == np.arange(8)).all()


def test_frames_are_drawn_as_the_header_draws() -> None:
    frames = []
    for name in ("functions.c", "functions.py"):
        vec = headrace.make_vec(str(LANGUAGES / name), 5, executor="serial")
        vec.reset(seed=9)
        vec.step(np.zeros((5, 2), np.float32))
        frames.append([vec.draw(world) for world in range(5)])
    for c, numba in zip(*frames, strict=True):
        assert len(np.unique(c.reshape(-1, 3), axis=0)) > 20
        assert (c != numba).any(axis=2).mean() < 1e-4  # double for some of the coordinates


def everything(env: Path, mode: str) -> Any:
    return headrace.make_vec(
        str(env), 256, prices=PRICES, autoreset_mode=mode, render_mode="rgb_array"
    )


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_all_that_an_environment_may_have(mode: str) -> None:
    """Agents, presence, masks, metrics, array parameters, mixed observations, drawing."""
    numba = everything(LANGUAGES / "everything.py", mode)
    c = everything(C_FILES / "everything.c", mode)
    assert numba.single_observation_space == c.single_observation_space
    assert numba.single_action_space == c.single_action_space
    assert numba.params.keys() == c.params.keys()
    for name, value in c.params.items():
        np.testing.assert_array_equal(numba.params[name], value)
    numba.reset(seed=1)
    c.reset(seed=1)
    numba.action_space.seed(0)
    for step in range(60):
        actions = numba.action_space.sample()
        if step % 5:
            actions["turn"][:] = 0
        ours, theirs = numba.step(actions), c.step(actions)
        assert_equal(
            [*ours[0].values(), *ours[1:4]], [*(theirs[0][name] for name in ours[0]), *theirs[1:4]]
        )
        np.testing.assert_array_equal(numba.buffers.arrays["mask"], c.buffers.arrays["mask"])
        np.testing.assert_array_equal(numba.buffers.arrays["present"], c.buffers.arrays["present"])
    assert numba.statistics() == c.statistics()
    np.testing.assert_array_equal(numba.draw(3), c.draw(3))


def test_parameters_per_world() -> None:
    limits = np.arange(1, 65)
    results = []
    for env in SQUARED.values():
        vec = headrace.make_vec(env, 64, autoreset_mode="Disabled", limit=limits)
        vec.reset(seed=0)
        truncated = np.zeros(64, np.int64)
        for step in range(1, 65):
            ended = vec.step(np.zeros(64, np.int64))[3]
            truncated[ended] = step
            if ended.any():
                vec.reset(options={"reset_mask": ended})
        results.append(truncated)
    for each in results:
        np.testing.assert_array_equal(each, results[0])
    assert results[0][40] == 41
