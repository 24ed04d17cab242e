"""Presets of Gymnasium ids, and what they put around the environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace import make_vec, train
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


def skip_of(wrappers: list[str], **params: Any) -> int | None:
    vec = make_vec("gymnasium:ALE/Pong-v5", 2, executor="serial", wrappers=wrappers, **params)
    vec.close()
    return vec.frame_skip


def test_frames_are_told_from_steps(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    assert skip_of([]) == 4  # ALE's own
    assert skip_of(["MaxAndSkipObservation(3)"], frameskip=2) == 6
    assert skip_of(["AtariPreprocessing(frame_skip=5)"], frameskip=1) == 5
    assert skip_of([], frameskip=(2, 5)) is None
    few = {"steps": 64, "num_envs": 2, "horizon": 16, "threads": 1, "minibatches": 1}
    result = train("gymnasium:ALE/Pong-v5", run_dir=str(tmp_path / "run"), **few)
    assert result.steps >= 64
    assert result.frames == 4 * result.steps
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert (last["steps"], last["frames"]) == (result.steps, result.frames)
