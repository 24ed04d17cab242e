"""Presets of Gymnasium ids, and what is put around Atari games."""

from __future__ import annotations

import importlib.util

import pytest

from headrace.trainers.begin import PRESETS, preset_of
from headrace.trainers.config import configure
from headrace.trainers.environments import environments
from headrace.trainers.preparation import FRAMES, SIZE, preparation


@pytest.mark.parametrize(
    ("env", "preset"),
    [
        ("gymnasium:LunarLander-v3", "LunarLander.toml"),
        ("gymnasium:ALE/Pong-v5", "ALE.toml"),
        ("gymnasium:CartPole-v1", None),
        ("gymnasium:../begin-v1", None),
    ],
)
def test_ids_find_their_preset(env: str, preset: str | None) -> None:
    assert preset_of(env) == (PRESETS / preset if preset else None)


@pytest.mark.parametrize("preset", sorted(PRESETS.glob("*.toml")), ids=lambda path: path.stem)
def test_presets_are_settings(preset: object) -> None:
    assert configure("gymnasium:Some-v0", preset, {}).steps > 0  # type: ignore[arg-type]


def test_only_atari_games_are_prepared() -> None:
    assert preparation("gymnasium:CartPole-v1", {}) == {}
    assert preparation(lambda: None, {}) == {}
    assert preparation("gymnasium:ALE/Pong-v5", {"frameskip": 4}) == {}
    assert preparation("gymnasium:ALE/Pong-v5", {})["frameskip"] == 1


def test_pong_is_four_grey_pictures() -> None:
    for package in ("ale_py", "cv2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    env = "gymnasium:ALE/Pong-v5"
    vec = environments(configure(env, preset_of(env), {}), 2, 1, 0, 0)
    assert vec.single_observation_space.shape == (FRAMES, SIZE, SIZE)
    vec.close()


def test_a_minigrid_is_its_picture() -> None:
    pytest.importorskip("minigrid")
    vec = environments(configure("gymnasium:MiniGrid-Empty-5x5-v0", None, {}), 2, 1, 0, 0)
    assert vec.single_observation_space.shape == (7, 7, 3)
    vec.close()
