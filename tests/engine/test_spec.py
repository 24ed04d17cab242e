"""EnvSpec: from declared fields to Gymnasium spaces and views of the memory."""

from __future__ import annotations

import numpy as np
import pytest
from drifting import library
from gymnasium import spaces

from headrace.engine.errors import EnvDefinitionError
from headrace.engine.spec import EnvSpec, ParamSpec

SIZES = {"float32": 4, "uint8": 1, "int8": 1, "int16": 2, "int32": 4}


class Told:
    """Stands for a Library: answers describe() with these fields, laid side by side."""

    def __init__(self, obs, actions, **other):
        obs_fields, obs_size = self.place(obs)
        action_fields, action_size = self.place(actions)
        self.told = {
            "name": "told",
            "source_hash": "ab12",
            "agents": 1,
            "max_steps": 0,
            "state_size": 4,
            "params_size": 0,
            "action_size": action_size,
            "obs_size": obs_size,
            "mask_size": 0,
            "metrics_size": 0,
            "obs_fields": obs_fields,
            "action_fields": action_fields,
            "params": [],
            "metric_names": [],
            "has_present": False,
            "has_draw": False,
            "checked": False,
            **other,
        }

    @staticmethod
    def place(fields):
        placed, offset = [], 0
        for given in fields:
            field = {"kind": "box", "dtype": "float32", "shape": (), "low": -1.0, "high": 1.0}
            field.update({"choices": 0, "offset": offset}, **given)
            placed.append(field)
            offset = field["offset"] + int(np.prod(field["shape"])) * SIZES[field["dtype"]]
        return placed, offset

    def describe(self):
        return self.told


def box(name, shape=(), dtype="float32", low=-1.0, high=1.0, **other):
    return {"name": name, "shape": shape, "dtype": dtype, "low": low, "high": high, **other}


def discrete(name, choices, shape=()):
    return {
        "name": name,
        "kind": "discrete",
        "dtype": "int32",
        "choices": choices,
        "shape": shape,
        "low": 0.0,
        "high": choices - 1.0,
    }


PUSH = [discrete("push", 2)]


def spec_of(obs, actions=None, **other):
    return EnvSpec.from_library(Told(obs, PUSH if actions is None else actions, **other))


def test_scalars_make_a_vector():
    spec = spec_of([box("x"), box("v", low=-np.inf, high=np.inf), box("a", low=0.0, high=2.0)])
    low, high = np.array([-1, -np.inf, 0], np.float32), np.array([1, np.inf, 2], np.float32)
    assert spec.single_observation_space == spaces.Box(low, high, dtype=np.float32)


@pytest.mark.parametrize("dtype", list(SIZES))
def test_one_field_keeps_its_shape(dtype):
    spec = spec_of([box("board", (3, 4), dtype, 0.0, 9.0)])
    assert spec.single_observation_space == spaces.Box(0, 9, (3, 4), np.dtype(dtype).type)
    array = np.zeros(5, spec.obs_dtype)
    view = spec.view_observations(array)
    assert view.shape == (5, 3, 4)
    view[2, 1, 3] = 7
    assert array["board"][2, 1, 3] == 7


def test_one_scalar_is_a_vector_of_one():
    spec = spec_of([box("x")])
    assert spec.single_observation_space.shape == (1,)
    assert spec.view_observations(np.zeros(3, spec.obs_dtype)).shape == (3, 1)


def test_fields_of_one_dtype_are_flattened_in_order():
    spec = spec_of([box("m", (2, 2), low=0.0), box("x", high=5.0)])
    space = spec.single_observation_space
    assert space.shape == (5,)
    assert space.low.tolist() == [0, 0, 0, 0, -1]
    assert space.high.tolist() == [1, 1, 1, 1, 5]
    array = np.zeros(2, spec.obs_dtype)
    array["m"] = np.arange(8).reshape(2, 2, 2)
    array["x"] = [10, 11]
    assert spec.view_observations(array).tolist() == [[0, 1, 2, 3, 10], [4, 5, 6, 7, 11]]


def test_mixed_fields_make_a_dict_of_views():
    obs = [box("pixels", (2, 3), "uint8", 0, 255), box("speed", (), "int16", -9, 9)]
    spec = spec_of([*obs, discrete("level", 4), discrete("cards", 52, (2,))])
    space = spec.single_observation_space
    assert space == spaces.Dict(
        {
            "pixels": spaces.Box(0, 255, (2, 3), np.uint8),
            "speed": spaces.Box(-9, 9, (1,), np.int16),
            "level": spaces.Discrete(4, dtype=np.int32),
            "cards": spaces.MultiDiscrete([52, 52], dtype=np.int32),
        }
    )
    array = np.zeros(4, spec.obs_dtype)
    views = spec.view_observations(array)
    assert {name: view.shape for name, view in views.items()} == {
        "pixels": (4, 2, 3),
        "speed": (4, 1),
        "level": (4,),
        "cards": (4, 2),
    }
    views["cards"][3] = [50, 51]
    views["speed"][1] = -7
    assert array["cards"][3].tolist() == [50, 51]
    assert array["speed"].tolist() == [0, -7, 0, 0]
    sample = {name: view[1] for name, view in views.items()}
    assert space.contains({**sample, "level": np.int32(3)})


@pytest.mark.parametrize(
    ("fields", "space"),
    [
        ([discrete("a", 3)], spaces.Discrete(3)),
        ([discrete("a", 3), discrete("b", 2)], spaces.MultiDiscrete([3, 2])),
        ([discrete("a", 3, (2, 2))], spaces.MultiDiscrete(np.full((2, 2), 3))),
        ([discrete("a", 3, (2,)), discrete("b", 5)], spaces.MultiDiscrete([3, 3, 5])),
        ([box("f", (2,), low=-2.0, high=2.0)], spaces.Box(-2, 2, (2,), np.float32)),
        (
            [box("f"), discrete("a", 3)],
            spaces.Dict({"f": spaces.Box(-1, 1, (1,), np.float32), "a": spaces.Discrete(3)}),
        ),
    ],
)
def test_action_spaces(fields, space):
    spec = spec_of([box("x")], fields)
    assert spec.single_action_space == space
    assert spec.single_action_space.contains(spec.single_action_space.sample())


def test_integer_bounds_are_cut_to_the_dtype():
    spec = spec_of([box("x", (), "int8", -np.inf, np.inf), box("y", (), "int8", 0, 1000)])
    assert spec.single_observation_space.low.tolist() == [-128, 0]
    assert spec.single_observation_space.high.tolist() == [127, 127]


@pytest.mark.parametrize(
    ("obs", "actions", "message"),
    [
        ([box("x"), box("x")], PUSH, "declares a field twice"),
        ([box("x", low=2.0)], PUSH, "'x' has bounds 2.0 to 1.0"),
        ([box("x", low=np.nan)], PUSH, "'x' has bounds nan"),
        ([box("x", offset=4), box("y", offset=0)], PUSH, "'y' is declared out of order"),
        ([box("x"), box("y", offset=8)], PUSH, "'y' is declared out of order"),
        ([box("x")], [box("f", (), "uint8", 0, 1)], "action 'f' is uint8: box actions are float32"),
    ],
)
def test_fields_that_make_no_space(obs, actions, message):
    with pytest.raises(EnvDefinitionError, match=message) as caught:
        spec_of(obs, actions)
    assert "'told'" in str(caught.value)


def test_everything_else_comes_across():
    params = [
        {"name": "g", "dtype": "float32", "default": 9.5, "is_array": False, "offset": 8,
         "length_offset": -1},
        {"name": "map", "dtype": "int16", "default": None, "is_array": True, "offset": 0,
         "length_offset": 12},
    ]  # fmt: skip
    spec = spec_of([box("x")], params=params, params_size=16, agents=3, max_steps=7)
    assert spec.params == (
        ParamSpec("g", "float32", 9.5, False, 8, -1),
        ParamSpec("map", "int16", None, True, 0, 12),
    )
    assert (spec.name, spec.language, spec.source_hash) == ("told", "c", "ab12")
    assert (spec.agents, spec.max_steps, spec.params_size) == (3, 7, 16)


def test_from_a_compiled_library():
    spec = EnvSpec.from_library(library(AGENTS=2, LEAVING=1))
    assert spec.agents == 2
    assert spec.has_present
    assert not spec.has_draw
    assert spec.mask_size == 3
    assert spec.metric_names == ("clock", "low_byte")
    assert spec.single_action_space == spaces.Discrete(3)
    assert spec.obs_dtype.itemsize == 8
