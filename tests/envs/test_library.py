"""What holds for every environment that ships: languages, random play, frames, preset."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import headrace
import headrace.engine
from headrace.engine.resolve import resolve
from headrace.envs import SHIPPED
from headrace.trainers.config import read_preset

NAMES = [each.name for each in SHIPPED]
C_SOURCES = [each.path for each in SHIPPED if each.path.suffix == ".c"]
INCLUDE = Path(headrace.engine.__file__).parent / "include"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{INCLUDE}"]
LANGUAGES = {
    "C11": ["gcc", "-std=c11"],
    # the header leaves out options of HR_ENV that are not given: zero in both languages
    "C++20": ["g++", "-std=c++20", "-Wno-missing-field-initializers", "-x", "c++"],
}


def make(name: str, worlds: int, **kwargs):
    agents = resolve(name).spec.agents
    env = headrace.make_vec(name, worlds * agents, autoreset_mode="SameStep", **kwargs)
    env.action_space.seed(3)
    env.reset(seed=5)
    return env


def leaves(obs) -> list[tuple[str, np.ndarray]]:
    return list(obs.items()) if isinstance(obs, dict) else [("", obs)]


def assert_inside(env, obs) -> None:
    for key, array in leaves(obs):
        space = env.observation_space[key] if key else env.observation_space
        if hasattr(space, "low"):
            assert (array >= space.low).all() and (array <= space.high).all(), key
        else:
            assert (array >= 0).all() and (array < space.nvec).all(), key


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("source", C_SOURCES, ids=lambda path: path.stem)
def test_compiles_in_both_languages_without_a_warning(source: Path, language: str) -> None:
    command = LANGUAGES[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    done = subprocess.run(
        [*command, *WARNINGS, str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_random_play_stays_inside_the_space_with_finite_rewards(name: str) -> None:
    env = make(name, 70)
    ended = 0
    for _ in range(600):
        obs, rewards, terminated, truncated, _ = env.step(env.action_space.sample())
        assert_inside(env, obs)
        assert np.isfinite(rewards).all()
        ended += int((terminated | truncated).sum())
    assert ended > 0 or env.max_steps > 600


@pytest.mark.parametrize("name", NAMES)
def test_extreme_actions_do_no_harm(name: str) -> None:
    env = make(name, 8)
    space = env.action_space
    if not hasattr(space, "low"):
        lasting = [np.zeros(space.shape, np.int32), np.array(space.nvec - 1)]
    else:
        lasting = [np.full(space.shape, value, np.float32) for value in (-3e38, 3e38, np.inf)]
    for actions in lasting:
        for _ in range(300):
            obs, rewards, _, _, _ = env.step(actions)
            assert_inside(env, obs)
            assert np.isfinite(rewards).all()


@pytest.mark.parametrize("size", [(1, 1), (33, 90), (256, 256), (120, 40)])
@pytest.mark.parametrize("name", NAMES)
def test_draws_into_a_frame_of_any_size(name: str, size: tuple[int, int]) -> None:
    env = make(name, 2)
    for _ in range(20):
        env.step(env.action_space.sample())
    frames = [np.full((*size, 3), fill, np.uint8) for fill in (0, 255)]
    for frame in frames:
        env.core.draw(1, frame)
    np.testing.assert_array_equal(*frames)  # every pixel is painted
    if min(size) > 1:
        assert len(np.unique(frames[0].reshape(-1, 3), axis=0)) >= 3


@pytest.mark.parametrize("shipped", SHIPPED, ids=NAMES)
def test_preset_is_valid(shipped) -> None:
    preset = read_preset(shipped.path.with_suffix(".toml"))
    assert preset["steps"] > 0
    assert "target" in preset or shipped.name == "connect4"


@pytest.mark.parametrize("source", C_SOURCES, ids=lambda path: path.stem)
def test_header_comment_says_what_one_must_know(source: Path) -> None:
    comment = source.read_text().split("*/")[0]
    for word in ("observation", "action", "reward", "start", "end"):
        assert f"\n * {word} " in comment, word
