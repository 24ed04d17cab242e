"""environment.json: what policies need to know of an environment, kept with a run."""

import json
import re
from collections import OrderedDict
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

import headrace
from headrace.engine.errors import ArgumentError
from headrace.trainers import interface
from headrace.trainers.codec import Codec
from headrace.trainers.inference import load_policy
from headrace.trainers.run import RunError


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trained(env):
    """The folder of a run that has learned nothing much."""
    return headrace.train(env, run_dir="r", steps=1, horizon=4, target=None).run


def pythonic(observation, action=None):
    return Codec.of_spaces("any", observation, action or spaces.Discrete(2), agents=1)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (3,), np.float64),
        spaces.Box(np.float32([-1.1, 0, -np.inf]), np.float32([1, 0.3, np.inf])),
        spaces.Box(0, 255, (4, 6, 3), np.uint8),
        spaces.Box(-3, 9, (), np.int64),
        spaces.Discrete(7, start=-3),
        spaces.MultiDiscrete([[3, 4], [2, 9]], start=[[1, 2], [-3, 0]]),
        spaces.MultiBinary((2, 3)),
        spaces.MultiBinary(4),
        spaces.Dict(OrderedDict(z=spaces.Discrete(2), a=spaces.Tuple([spaces.MultiBinary(2)] * 2))),
    ],
    ids=str,
)
def test_spaces_are_kept_as_they_are(space):
    read = interface.from_json(interface.to_json(pythonic(space)))
    found = read.spec.single_observation_space
    assert found == space
    assert found.dtype == space.dtype
    if isinstance(space, spaces.Dict):
        assert list(found.spaces) == list(space.spaces)
    acting = interface.from_json(interface.to_json(pythonic(spaces.Discrete(2), space)))
    assert acting.spec.action_fields == pythonic(spaces.Discrete(2), space).spec.action_fields


@pytest.mark.parametrize("env", ["cartpole", "game_2048", "foraging", "inventory", "lander"])
def test_native_layouts_are_kept_as_they_are(env):
    with closing(headrace.make_vec(env, 64 * 6)) as vec:
        codec = Codec.of(vec)
    read = interface.from_json(interface.to_json(codec)).spec
    names = "name agents obs_fields obs_dtype action_fields action_dtype mask_size has_present"
    for name in [*names.split(), "single_observation_space", "single_action_space"]:
        assert getattr(read, name) == getattr(codec.spec, name), name


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.pop("obs_fields"),
        lambda told: told["obs_fields"][0].update(offset=4096),
        lambda told: told["obs_fields"][0].update(offset=-8),
        lambda told: told["obs_fields"][0].update(shape=[1000]),
        lambda told: told["obs_fields"][0].update(shape=[-1]),
        lambda told: told["obs_fields"][0].update(dtype="O"),
        lambda told: told["obs_fields"][0].update(kind="discrete", choices=0),
        lambda told: told["action_fields"][0].update(choices=-4),
        lambda told: told["action_fields"][0].update(dtype="uint8"),
        lambda told: told.update(obs_size=1 << 20),
        lambda told: told.update(mask_size=3),
        lambda told: told.update(obs_fields=7),
    ],
)
def test_a_layout_that_is_wrong_is_refused(change):
    run = trained("game_2048")
    file = Path(run, "environment.json")
    told = json.loads(file.read_text())
    change(told)
    file.write_text(json.dumps(told))
    with pytest.raises(RunError, match=f"{re.escape(str(file))} is damaged: "):
        load_policy(run)


def test_a_file_that_is_cut_short_is_refused():
    run = trained("cartpole")
    file = Path(run, "environment.json")
    file.write_text(file.read_text()[:100])
    with pytest.raises(RunError, match=r"environment\.json is damaged: "):
        load_policy(run)


def test_whole_numbers_that_a_narrower_dtype_loses_are_refused():
    unsigned = pythonic(spaces.Box(0, 1000, (1,), np.uint32))
    with pytest.raises(ArgumentError, match=r"is 4000000000, outside of its space Box\(0, 1000"):
        unsigned.pack(np.array([[4_000_000_000]], np.uint32), np.array([0]))
    codec = pythonic(spaces.Dict(far=spaces.Box(0, 1000, (2,), np.int64)))
    rows = np.array([1])
    kept = codec.pack({"far": np.array([[0, 2**40], [7, 1000]])}, rows)
    assert kept.view(np.int32).tolist() == [[7, 1000]]
    with pytest.raises(
        ArgumentError, match=r"far is 5000000000, outside of its space Box\(0, 1000"
    ):
        codec.pack({"far": np.array([[0, 0], [5_000_000_000, 1]])}, rows)
