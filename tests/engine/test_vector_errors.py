"""Every mistake is one sentence that names the argument, its value and the way out."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from batches import KART, PAIR, SLIDE, SLOPE, WALK, rollout

from headrace import make_vec
from headrace.engine.errors import (
    ArgumentError,
    ArgumentTypeError,
    AttributeNameError,
    CallOrderError,
    ClosedError,
    HeadraceError,
)
from headrace.engine.vector import VecEnv


def ready(env: str = "cartpole", num_envs: int = 3, **kwargs: Any) -> VecEnv:
    vec = make_vec(env, num_envs, **kwargs)
    vec.reset(seed=0)
    return vec


MAKING: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_envs": 0}, ValueError, "num_envs is 0: it must be at least 1"),
    ({"num_envs": -1}, ValueError, "num_envs is -1"),
    ({"num_envs": 10**9}, ValueError, "1,000,000,000 environments"),
    ({"num_envs": 2.0}, TypeError, "num_envs is 2.0: expected an integer"),
    ({"env": PAIR, "num_envs": 3}, ValueError, "num_envs is 3, but this environment has 2 agents"),
    ({"env": PAIR, "batch_size": 1}, ValueError, "batch_size is 1, but this environment has 2"),
    ({"batch_size": 5}, ValueError, "batch_size is 5: there are only 4 environments"),
    ({"batch_size": 0}, ValueError, "batch_size is 0"),
    ({"env": "cartpol"}, ValueError, "'cartpol' is unknown: did you mean 'cartpole'"),
    ({"env": "CartPole"}, ValueError, "did you mean 'cartpole'"),
    ({"env": "headrace/cartpole"}, ValueError, "did you mean 'cartpole'"),
    ({"env": "zzz"}, ValueError, "'zzz' is unknown: give a source file or one of the registered"),
    ({"env": "nowhere.c"}, ValueError, "'nowhere.c': there is no such file"),
    ({"env": 7}, TypeError, "env is an int"),
    ({"env": "gymnasium:X", "executor": "threads"}, ValueError, "'processes' or 'serial'"),
    ({"env": "snake.pyx"}, ValueError, "no such file"),
    ({"env": "snake.py:Snake"}, ValueError, "no such file"),
    ({"executor": "thread"}, ValueError, "executor is 'thread': expected one of threads, serial"),
    ({"executor": "processes"}, ValueError, "executor is 'processes', which is for Python"),
    ({"workers": 2}, ValueError, "workers is 2, but env is a native environment"),
    ({"threads": 0}, ValueError, "threads is 0: it must be at least 1"),
    ({"threads": 10**6}, ValueError, "threads is 1000000: at most 1024"),
    ({"threads": "2"}, TypeError, "threads is '2': expected an integer"),
    ({"executor": "serial", "threads": 2}, ValueError, "threads is 2: the serial executor has one"),
    (
        {"autoreset_mode": "next"},
        ValueError,
        "autoreset_mode is 'next': expected one of 'NextStep'",
    ),
    ({"final_obs": "sparse"}, ValueError, "final_obs is 'sparse': expected 'dense' or 'object'"),
    ({"seed": "a"}, TypeError, "seed is 'a': expected an integer"),
    ({"seed": -1}, ValueError, "seed is -1: seeds lie between 0 and"),
    ({"seed": [1, 2]}, ValueError, "seed has 2 entries: expected 4"),
    ({"render_mode": "human"}, ValueError, "render_mode is 'human': expected 'rgb_array'"),
    ({"env": WALK, "render_mode": "rgb_array"}, ValueError, "'walk' does not draw"),
    ({"max_steps": -1}, ValueError, "max_steps is -1"),
    ({"max_steps": 1.5}, TypeError, "max_steps is 1.5"),
    ({"max_steps": 2**31}, ValueError, "max_steps is 2147483648: at most"),
    ({"batchsize": 1}, ValueError, "'batchsize' is no argument of make_vec.* 'batch_size'"),
    ({"gravty": 1}, ValueError, "'gravty' is no parameter .* did you mean 'gravity'"),
    ({"gravity": "heavy"}, TypeError, "'gravity' is 'heavy': give numbers"),
    ({"gravity": [1, 2]}, ValueError, r"'gravity' has shape \(2,\): give one number, or one per"),
    ({"env": SLIDE}, ValueError, "'slope' of 'slide' is an array and has no default"),
    ({"env": SLIDE, "slope": SLOPE, "seats": 0.5}, ValueError, "'seats' is 0.5: it takes integers"),
    ({"env": WALK, "SIZE": 4}, HeadraceError, "SIZE"),
    ({"env": WALK, "LENGTH": "a"}, TypeError, "LENGTH is 'a'"),
]


@pytest.mark.parametrize(("arguments", "kind", "words"), MAKING)
def test_making(arguments: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        make_vec(**{"env": "cartpole", "num_envs": 4, **arguments})
    assert isinstance(caught.value, HeadraceError)
    assert "\n" not in str(caught.value)


CARTPOLE, CONTINUOUS, MIXED = ("cartpole", {}), (SLIDE, {"slope": SLOPE}), (KART, {})
GEARS, THROTTLE = np.array([0, 1, 2]), np.zeros((3, 2), np.float32)
ACTIONS: list[tuple[tuple[str, dict[str, Any]], Any, type[Exception], str]] = [
    (CARTPOLE, [0, 1], ValueError, r"actions has shape \(2,\): expected \(3,\)"),
    (CARTPOLE, np.zeros((3, 1), int), ValueError, r"shape \(3, 1\)"),
    (CARTPOLE, 0, ValueError, r"shape \(\)"),
    (CARTPOLE, [[0], [1, 0], [1]], ValueError, "actions is ragged"),
    (CARTPOLE, np.zeros(3), TypeError, "actions has dtype float64: .* pass integers"),
    (CARTPOLE, [True, False, True], TypeError, "dtype bool"),
    (CARTPOLE, ["a", "b", "c"], TypeError, "dtype <U1"),
    (CARTPOLE, [0, 2, 1], ValueError, r"actions\[1\] is 2: allowed are the integers 0 to 1"),
    (CARTPOLE, np.array([0, 1, -1], np.int32), ValueError, r"actions\[2\] is -1"),
    (CARTPOLE, [0, 1, 2**32], ValueError, r"actions\[2\] is 4294967296"),
    (CARTPOLE, np.array([0, 1, 200], np.uint8), ValueError, r"actions\[2\] is 200"),
    (
        CARTPOLE,
        np.array([0, 2**63, 1], np.uint64),
        ValueError,
        r"actions\[1\] is 9223372036854775808",
    ),
    (CARTPOLE, np.array([0, 1, 5], ">i8"), ValueError, r"actions\[2\] is 5"),
    (CARTPOLE, None, HeadraceError, "actions"),
    (MIXED, None, TypeError, "actions is None"),
    ((WALK, {}), [[0, 0], [2, 2], [0, 0]], ValueError, r"actions\[1, 1\] is 2: .* 0 to 1"),
    ((WALK, {}), [0, 0, 0], ValueError, r"expected \(3, 2\)"),
    (CONTINUOUS, [[0, 0], [0, np.nan], [0, 0]], ValueError, r"actions\[1, 1\] is NaN"),
    (CONTINUOUS, np.full((3, 2), np.nan, np.float32), ValueError, r"actions\[0, 0\] is NaN"),
    (CONTINUOUS, np.zeros((3, 2), complex), TypeError, "dtype complex128"),
    (CONTINUOUS, np.zeros((3, 2), bool), TypeError, "dtype bool"),
    (MIXED, [0, 1, 2], TypeError, "actions is a list: .* keys 'gear', 'throttle'"),
    (MIXED, {"gear": GEARS}, ValueError, r"actions has the keys \['gear'\]"),
    (MIXED, {"gear": GEARS + 2, "throttle": THROTTLE}, ValueError, r"actions\['gear'\]\[2\] is 4"),
    (MIXED, {"gear": GEARS, "throttle": THROTTLE[:2]}, ValueError, r"actions\['throttle'\] has sh"),
]


@pytest.mark.parametrize(("env", "actions", "kind", "words"), ACTIONS)
def test_actions(
    env: tuple[str, dict[str, Any]], actions: Any, kind: type[Exception], words: str
) -> None:
    vec = ready(env[0], **env[1])
    before = vec.snapshot()
    for call in (vec.step, vec.send):
        with pytest.raises(kind, match=words) as caught:
            call(actions)
        assert isinstance(caught.value, HeadraceError)
    after = vec.snapshot()
    for name, array in before.arrays.items():  # nothing has happened
        np.testing.assert_array_equal(array, after.arrays[name], err_msg=name)


@pytest.mark.parametrize(
    "actions",
    [
        [1, 0, 1],
        (1, 0, 1),
        np.array([1, 0, 1], np.int8),
        np.array([1, 0, 1], np.uint64),
        np.array([1, 9, 0, 9, 1, 9])[::2],
        np.array([1, 0, 1], ">i4"),
        np.array([1, 0, 1], np.int32),
    ],
)
def test_any_integers_of_the_right_shape_are_actions(actions: Any) -> None:
    expected = ready().step(np.array([1, 0, 1]))[0]
    np.testing.assert_array_equal(ready().step(actions)[0], expected)


def test_continuous_actions_beyond_their_bounds_pass() -> None:
    vec = ready(SLIDE, slope=[0.0])
    place = vec.state.view(np.float32).copy()
    obs = vec.step([[7, 0], [0, -9.5], [0, 0]])[0]
    np.testing.assert_allclose(obs - place, [[7, 0], [0, -9.5], [0, 0]], atol=1e-6)


def test_dict_actions_reach_their_members() -> None:
    vec = ready(KART)
    obs, rewards, *_ = vec.step({"gear": [3, 0, 1], "throttle": [[1, 0.5], [0, 0], [0.25, 1]]})
    assert rewards.tolist() == [0.5, 0.0, -0.75]
    assert obs[:, 0, 0].tolist() == [30, 0, 10]
    assert obs.shape == (3, 4, 3)


ORDER: list[tuple[Callable[[VecEnv], Any], str]] = [
    (lambda vec: vec.step([0, 0, 0]), "step"),
    (lambda vec: vec.send([0, 0, 0]), "send"),
    (lambda vec: vec.recv(), "recv"),
    (lambda vec: vec.render(), "render"),
    (lambda vec: vec.snapshot(), "snapshot"),
    (lambda vec: vec.draw(0), "draw"),
    (lambda vec: vec.state, "state"),
    (lambda vec: vec.get_attr("np_random_seed"), "get_attr"),
]


@pytest.mark.parametrize(("call", "name"), ORDER)
def test_calls_before_reset_and_after_close(call: Callable[[VecEnv], Any], name: str) -> None:
    vec = make_vec("cartpole", 3, render_mode="rgb_array")
    with pytest.raises(CallOrderError, match=rf"{name}\(\) before reset\(\): call reset"):
        call(vec)
    vec.reset()
    vec.close()
    assert vec.closed
    with pytest.raises(ClosedError, match=rf"{name}\(\) after close\(\)"):
        call(vec)


@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_close_twice_and_what_is_refused_afterwards(executor: str) -> None:
    vec = ready(executor=executor)
    obs = vec.reset(seed=1)[0]
    vec.send([0, 0, 0])  # in flight: close waits for it
    vec.close()
    vec.close()
    for call in (
        vec.reset,
        vec.statistics,
        lambda: vec.state,
        lambda: vec.set_params(gravity=1),
        lambda: vec.params,
        lambda: vec.get_attr("gravity"),
    ):
        with pytest.raises(ClosedError, match="after close"):
            call()
    assert vec.core.closed
    np.testing.assert_array_equal(obs, make_vec("cartpole", 3).reset(seed=1)[0])


def test_views_outlive_close() -> None:
    vec = ready(copy=False)
    obs = vec.reset(seed=1)[0]
    expected = obs.copy()
    vec.close()
    del vec
    np.testing.assert_array_equal(obs, expected)


def test_disabled_mode_refuses_to_step_what_has_ended() -> None:
    vec = ready(autoreset_mode="Disabled", max_steps=3)
    vec.reset(options={"reset_mask": np.ones(3, np.bool_)})
    vec.step([0, 0, 0])
    vec.reset(options={"reset_mask": np.array([False, True, False])})
    vec.step([0, 0, 0])
    *_, truncated, _ = vec.step([0, 0, 0])
    assert truncated.tolist() == [True, False, True]
    with pytest.raises(
        CallOrderError, match=r"step.* while the episode of environment 0 has ended"
    ):
        vec.step([0, 0, 0])
    with pytest.raises(CallOrderError, match=r"send.* to environment 2, whose episode has ended"):
        vec.send([0], [2])
    vec.send([0], [1])  # its episode goes on
    vec.recv()
    vec.reset(options={"reset_mask": np.ones(3, np.bool_)})
    vec.step([0, 0, 0])


def test_reset_mistakes() -> None:
    vec = make_vec("cartpole", 3)
    with pytest.raises(CallOrderError, match="leaves out environment 1, which was never reset"):
        vec.reset(options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(ArgumentError, match="options has the key 'low'"):
        vec.reset(options={"low": -1})
    with pytest.raises(ArgumentTypeError, match=r"seed\[1\] is 0.5"):
        vec.reset(seed=[1, 0.5, 2])
    with pytest.raises(ArgumentError, match="seed is 18446744073709551614: seeds lie between"):
        vec.reset(seed=2**64 - 2)
    assert vec.reset(seed=2**64 - 3)[0].shape == (3, 4)


def test_attributes_that_do_not_exist() -> None:
    vec = ready()
    with pytest.raises(AttributeNameError, match=r"'gravty' .*: did you mean 'gravity'"):
        vec.get_attr("gravty")
    with pytest.raises(ArgumentError, match="did you mean 'gravity'"):
        vec.set_attr("gravty", 1.0)
    with pytest.raises(ArgumentError, match="values has 2 entries: expected 3"):
        vec.set_attr("gravity", [1.0, 2.0])
    with pytest.raises(CallOrderError, match="render_mode='rgb_array'"):
        vec.call("render")


@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_batch_is_not_copied(function: Callable[[VecEnv], Any]) -> None:
    with pytest.raises(ArgumentTypeError, match=r"restore\(\) a snapshot\(\)"):
        function(ready())


def test_a_mistake_leaves_the_future_unchanged() -> None:
    actions = np.random.default_rng(0).integers(0, 2, (20, 3))
    expected = rollout(make_vec("cartpole", 3), actions, seed=4)
    vec = make_vec("cartpole", 3)
    vec.reset(seed=4)
    for mistake in (lambda: vec.step([0, 7, 0]), lambda: vec.reset(seed="x"), vec.recv):
        with pytest.raises(HeadraceError):
            mistake()
    seen = [vec.step(batch)[0].tobytes() for batch in actions]
    assert all(whole.startswith(part) for whole, part in zip(expected[1:], seen, strict=True))
