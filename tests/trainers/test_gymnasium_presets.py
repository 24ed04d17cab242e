"""Presets of Gymnasium ids, and what they put around the environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.trainers.begin import PRESETS, preset_of
from headrace.trainers.config import TrainConfig, configure
from headrace.trainers.environments import environments


@pytest.mark.parametrize(
    ("env", "preset"),
    [
        ("gymnasium:LunarLander-v3", "LunarLander.toml"),
        ("gymnasium:ALE/Pong-v5", "ALE.toml"),
        ("gymnasium:MiniGrid-Empty-5x5-v0", "MiniGrid.toml"),
        ("gymnasium:BabyAI-GoToRedBall-v0", "BabyAI.toml"),
        ("gymnasium:CartPole-v1", None),
        ("gymnasium:../begin-v1", None),
    ],
)
def test_ids_find_their_preset(env: str, preset: str | None) -> None:
    assert preset_of(env) == (PRESETS / preset if preset else None)


@pytest.mark.parametrize("preset", sorted(PRESETS.glob("*.toml")), ids=lambda path: path.stem)
def test_presets_are_settings(preset: Path) -> None:
    assert configure("gymnasium:Some-v0", preset, {}).steps > 0


def test_parameters_given_stand_beside_the_presets() -> None:
    preset = PRESETS / "ALE.toml"
    config = configure("gymnasium:ALE/Pong-v5", preset, {"params": {"difficulty": 1}})
    assert config.params == (("difficulty", 1), ("frameskip", 1))
    config = configure("gymnasium:ALE/Pong-v5", preset, {"params": {"frameskip": 2}})
    assert config.params == (("frameskip", 2),)


def made(config: TrainConfig) -> tuple[int, ...] | None:
    vec = environments(config, 2, 1, 0, 0)
    vec.close()
    return vec.single_observation_space.shape


def test_pong_is_four_grey_pictures() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    env = "gymnasium:ALE/Pong-v5"
    assert made(configure(env, preset_of(env), {})) == (4, 84, 84)
    assert made(configure(env, preset_of(env), {"wrappers": []})) == (210, 160, 3)


def test_a_minigrid_is_its_picture() -> None:
    pytest.importorskip("minigrid")
    env = "gymnasium:MiniGrid-Empty-5x5-v0"
    assert made(configure(env, preset_of(env), {})) == (7, 7, 3)
