"""Wrappers by name, and environments in Python files."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import headrace
from headrace.engine.processes.wrappers import NamedWrapper, parse_wrapper

SOURCE = """
import gymnasium
import numpy as np


class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, start=0.0):
        self.start = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.start
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x += 2.0 * action - 1.0
        return np.array([self.x], np.float32), 1.0, abs(self.x) > 8, False, {}


class Doubled(gymnasium.ObservationWrapper):
    def observation(self, obs):
        return 2 * obs


def further(start=0.0):
    return Line(start + 1)


limit = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "line.py"
    path.write_text(SOURCE)
    return path


def first(env: Any, executor: str = "serial", **kwargs: Any) -> float:
    """The first observation of the second of two environments."""
    vec = headrace.make_vec(env, 2, executor=executor, **kwargs)
    obs, _ = vec.reset(seed=0)
    vec.close()
    return float(obs[1, 0])


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_a_class_a_function_or_the_only_class_of_a_file(file: Path, executor: str) -> None:
    assert first(f"{file}:Line", executor, start=2) == 2
    assert first(f"{file}:further", executor, start=2) == 3
    assert first(str(file), executor) == 0
    assert first(file, executor) == 0


def test_what_a_file_has_not(file: Path) -> None:
    for name, said in {
        "Lime": "line.py has no environment Lime: it has Line",
        "limit": "line.py has no environment limit: it has Line",
    }.items():
        with pytest.raises(ValueError, match=said):
            headrace.make_vec(f"{file}:{name}", 2)
    file.write_text(SOURCE + "\nclass Other(Line):\n    pass\n")
    with pytest.raises(ValueError, match=r"defines 2 environments \(Line, Other\): say which"):
        headrace.make_vec(str(file), 2)
    file.write_text("def nothing(): pass\n")
    with pytest.raises(ValueError, match=r"derive one from gymnasium\.Env"):
        headrace.make_vec(str(file), 2)
    file.write_text("1 / 0\n")
    with pytest.raises(ValueError, match=r"line\.py:1: ZeroDivisionError"):
        headrace.make_vec(f"{file}:Line", 2)


def test_a_plain_environment_is_not_checked_as_a_native_one(file: Path) -> None:
    with pytest.raises(ValueError, match=r"'line\.py:Line' is written in Python"):
        headrace.check(f"{file}:Line")


def test_wrappers_of_a_file_of_a_module_and_of_gymnasium(file: Path) -> None:
    wraps = [f"{file}:Doubled", "gymnasium.wrappers:RescaleObservation(-1, 1)"]
    assert first(f"{file}:Line", "processes", start=3, wrappers=wraps[:1]) == 6
    assert first(f"{file}:Line", start=3, wrappers=wraps) == np.float32(6 / 9)


def test_names_make_what_functions_make() -> None:
    named = ["TimeLimit(5)", "ClipReward(min_reward=0, max_reward=0.5)", "FrameStackObservation(3)"]
    called = [
        functools.partial(gymnasium.wrappers.TimeLimit, max_episode_steps=5),
        functools.partial(gymnasium.wrappers.ClipReward, min_reward=0, max_reward=0.5),
        functools.partial(gymnasium.wrappers.FrameStackObservation, stack_size=3),
    ]
    lives = []
    for wrappers in (named, called):
        vec = headrace.make_vec("gymnasium:CartPole-v1", 2, executor="serial", wrappers=wrappers)
        lives.append([vec.reset(seed=1)[0]])
        for _ in range(8):
            lives[-1] += vec.step(np.array([0, 1]))[:4]
        vec.close()
    assert all(np.array_equal(a, b) for a, b in zip(*lives, strict=True))
    assert lives[0][-15].tolist() == [0.5, 0.5]
    assert lives[0][0].shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("text", "wrapper"),
    [
        ("TimeLimit", NamedWrapper("TimeLimit")),
        (" a.b:C( 1, 'x,y' , z=(2, None)) ", NamedWrapper("a.b:C", (1, "x,y"), {"z": (2, None)})),
        ("my_env.py:C()", NamedWrapper("my_env.py:C")),
    ],
)
def test_texts_are_read(text: str, wrapper: NamedWrapper) -> None:
    assert parse_wrapper(text) == wrapper


@pytest.mark.parametrize(
    ("wrapper", "said"),
    [
        ("TimeLimt(5)", "'TimeLimt' is none of gymnasium.wrappers: did you mean 'TimeLimit'"),
        ("TimeLimit(5", "'TimeLimit\\(5' cannot be read"),
        ("TimeLimit(open('x'))", "cannot be read: expected a name, or one with plain values"),
        ("TimeLimit(**{})", "cannot be read"),
        ("TimeLimit({[]: 1})", "cannot be read"),
        ("TimeLimit(x={1, {}})", "cannot be read"),
        ("TimeLimit(1)(2)", "cannot be read"),
        ("TimeLimit(1).x(2)", "cannot be read"),
        ("(5)", "cannot be read"),
        ("TimeLimit", "missing a required argument: 'max_episode_steps'"),
        ("TimeLimit(steps=5)", "'TimeLimit': "),
        ("vector", "none of gymnasium.wrappers"),
        ("no_such_module:Class", "needs the module no_such_module, which is not installed"),
        ("gymnasium.wrappers:Nothing", "gymnasium.wrappers has no class Nothing"),
        ("nothing.py:Class", "there is no file nothing.py"),
        (3, "expected a function of an environment, or the name of a wrapper"),
    ],
)
def test_wrong_wrappers_are_one_sentence(wrapper: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        headrace.make_vec("gymnasium:CartPole-v1", 2, wrappers=[wrapper])


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_a_wrapper_that_refuses_the_environment_says_so(executor: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as caught:
        headrace.make_vec(
            "gymnasium:CartPole-v1", 2, executor=executor, wrappers=["RecordVideo(0)"]
        )
    assert "wrapper 'RecordVideo' cannot go around <" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_one_text_is_no_list() -> None:
    with pytest.raises(TypeError, match=r"such as \['TimeLimit\(5\)'\]"):
        headrace.make_vec("gymnasium:CartPole-v1", 2, wrappers="TimeLimit(5)")


def test_wrappers_are_for_python_environments() -> None:
    with pytest.raises(ValueError, match=r"wrappers is .*: wrappers is for Python ones"):
        headrace.make_vec("cartpole", 2, wrappers=["TimeLimit(5)"])


def test_a_wrapper_that_a_file_lacks_is_named_with_the_file(file: Path) -> None:
    message = rf"'{file}:Doubed': {file} has no class Doubed; did you mean Doubled[?]$"
    with pytest.raises(ValueError, match=message):
        first(f"{file}:Line", wrappers=[f"{file}:Doubed"])
