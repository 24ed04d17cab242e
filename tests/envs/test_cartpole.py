"""CartPole against Gymnasium's: a step from injected states, spaces, parameters, start."""

from __future__ import annotations

import ctypes

import gymnasium
import numpy as np
import pytest
from driven import Driven, params_bytes
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from headrace.envs import SHIPPED

COUNT = 10_000


def injected(count: int = COUNT) -> np.ndarray:
    """States of all kinds: [count, 4] float32, some of them close to the ends and fast."""
    rng = np.random.default_rng(0)
    scale = np.array([2.4, 2.0, 0.21, 2.5], np.float32)
    states = rng.uniform(-1, 1, (count, 4)).astype(np.float32) * scale
    states[::5] *= 2  # beyond the ends, and fast
    states[1::5] *= np.float32(0.02)  # as after a reset
    return states


def stepped(states: np.ndarray, pushes: np.ndarray) -> Driven:
    env = Driven("cartpole_driven", len(states))
    env.state.view(np.float32)[:] = states
    env.actions.view(np.int32)[:, 0] = pushes
    env.call("step")
    env.call("observe")
    return env


def test_one_step_from_injected_states_agrees_with_gymnasium() -> None:
    states, pushes = injected(), np.random.default_rng(1).integers(0, 2, COUNT)
    ours = stepped(states, pushes)
    theirs = CartPoleEnv()
    theirs.reset(seed=0)
    observations, ends = np.empty((COUNT, 4)), np.empty(COUNT, bool)
    for k in range(COUNT):
        theirs.state = states[k].astype(np.float64)
        theirs.steps_beyond_terminated = None
        observations[k], reward, ends[k], truncated, _ = theirs.step(int(pushes[k]))
        assert (reward, truncated) == (1.0, False)
        observations[k] = theirs.state  # before it is rounded to float32
    error = np.abs(ours.obs.view(np.float32) - observations) / np.maximum(1, np.abs(observations))
    assert error.max() <= 1e-6
    edge = np.abs(observations[:, [0, 2]]) - [theirs.x_threshold, theirs.theta_threshold_radians]
    clear = (np.abs(edge) > 1e-6).all(axis=1)
    assert clear.sum() > COUNT - 10
    np.testing.assert_array_equal(ours.terminated[clear], ends[clear])
    assert 0.1 < ends.mean() < 0.9
    assert (ours.rewards == 1).all()
    assert (ours.truncated == 0).all()  # the time limit is the engine's


def test_description_matches_gymnasium() -> None:
    about = Driven("cartpole_driven", 1).about
    theirs = gymnasium.make("CartPole-v1")
    space = theirs.observation_space
    assert isinstance(space, gymnasium.spaces.Box)
    low = np.array([field["low"] for field in about["obs_fields"]], np.float32)
    high = np.array([field["high"] for field in about["obs_fields"]], np.float32)
    np.testing.assert_array_equal(low, space.low)
    np.testing.assert_array_equal(high, space.high)
    assert [field["choices"] for field in about["action_fields"]] == [2]
    assert theirs.spec is not None
    assert about["max_steps"] == theirs.spec.max_episode_steps
    inner = theirs.unwrapped
    for param in about["params"]:
        assert param["default"] == np.float32(getattr(inner, param["name"])), param["name"]


@pytest.mark.parametrize("name", ["gravity", "masscart", "masspole", "length", "force_mag", "tau"])
def test_parameters_mean_what_they_mean_in_gymnasium(name: str) -> None:
    states, pushes = injected(50), np.ones(50, int)
    theirs = CartPoleEnv()
    theirs.reset(seed=0)
    value = np.float32(1.5 * getattr(theirs, name))
    setattr(theirs, name, float(value))
    theirs.total_mass = theirs.masspole + theirs.masscart
    theirs.polemass_length = theirs.masspole * theirs.length
    ours = Driven("cartpole_driven", 50, lambda about: params_bytes(about, **{name: value}))
    ours.state.view(np.float32)[:] = states
    ours.actions.view(np.int32)[:, 0] = pushes
    ours.call("step")
    for k in range(50):
        theirs.state = states[k].astype(np.float64)
        theirs.steps_beyond_terminated = None
        theirs.step(1)
        np.testing.assert_allclose(
            ours.state.view(np.float32)[k], theirs.state, rtol=1e-6, atol=1e-6
        )


def test_ends_by_parameters() -> None:
    params = {"x_threshold": 1.0, "theta_threshold_radians": 0.1}
    env = Driven("cartpole_driven", 5, lambda about: params_bytes(about, **params))
    env.state.view(np.float32)[:] = 0
    env.state.view(np.float32)[:, 0] = [0.99, 1.01, -1.01, 0, 0]
    env.state.view(np.float32)[:, 2] = [0, 0, 0, 0.11, -0.09]
    env.call("step")
    assert env.terminated.tolist() == [0, 1, 1, 1, 0]


def test_start_is_uniform() -> None:
    env = Driven("cartpole_driven", 20_000)
    env.reset()
    states = env.state.view(np.float32)
    assert np.abs(states).max() <= 0.05
    for column in states.T:
        counts = np.histogram(column, 10, (-0.05, 0.05))[0]
        assert np.abs(counts / 2000 - 1).max() < 0.1
    assert np.abs(np.corrcoef(states.T) - np.eye(4)).max() < 0.03


def test_drawing_shows_cart_and_pole() -> None:
    env = Driven("cartpole_driven", 1)
    env.state.view(np.float32)[:] = [[1.2, 0, 0.2, 0]]
    frame = np.zeros((400, 600, 3), np.uint8)
    env.lib.drive_draw(
        ctypes.c_int64(0),
        ctypes.c_void_p(frame.ctypes.data),
        ctypes.c_int32(600),
        ctypes.c_int32(400),
    )
    cart = np.argwhere((frame == (40, 40, 40)).all(axis=2))
    pole = np.argwhere((frame == (202, 152, 101)).all(axis=2))
    assert abs(cart[:, 1].mean() - 375) < 2  # a quarter of the way from the middle to the right
    assert pole[:, 0].max() < 300
    assert pole[pole[:, 0].argmin(), 1] > 385  # leans to the right
    assert (frame[0] == 255).all()


def test_it_is_registered_with_its_own_time_limit() -> None:
    shipped = {each.name: each for each in SHIPPED}
    cartpole = shipped["cartpole"]
    assert cartpole.gymnasium_id == "headrace/CartPole-v1"
    assert cartpole.max_steps == Driven("cartpole_driven", 1).about["max_steps"]
    assert cartpole.path.is_file()
    assert cartpole.path.with_suffix(".toml").is_file()
    spec = gymnasium.spec("headrace/CartPole-v1")
    assert spec.max_episode_steps == 500
