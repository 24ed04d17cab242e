"""Classic control against Gymnasium: one step from the same 10,000 states, and the constants."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import headrace

STATES = 10_000
TOLERANCE = 1e-5  # relative, absolute below 1
MARGIN = 1e-6  # flags may differ this close to a threshold

# name: Gymnasium's id, and the states to start from: lows and highs of the State's members
ENVS = {
    "mountain_car": ("MountainCar-v0", [-1.2, -0.07], [0.6, 0.07]),
    "mountain_car_continuous": ("MountainCarContinuous-v0", [-1.2, -0.07], [0.6, 0.07]),
    "pendulum": ("Pendulum-v1", [-3.1415926, -8.0], [3.1415926, 8.0]),
    "acrobot": (
        "Acrobot-v1",
        [-3.1415926, -3.1415926, -4 * np.pi, -9 * np.pi],
        [3.1415926, 3.1415926, 4 * np.pi, 9 * np.pi],
    ),
}


def margin_to_goal(name: str, obs: np.ndarray) -> np.ndarray:
    """Distance of the nearest quantity that ends an episode from its threshold, [n]."""
    if name == "acrobot":
        cosine1, sine1, cosine2, sine2 = obs[:, :4].T
        return np.abs(-cosine1 - (cosine1 * cosine2 - sine1 * sine2) - 1.0)
    if name == "pendulum":
        return np.ones(len(obs))
    goal = 0.5 if name == "mountain_car" else 0.45
    return np.minimum(np.abs(obs[:, 0] - goal), np.abs(obs[:, 1]))


def step_gymnasium(env_id: str, states: np.ndarray, actions: np.ndarray):
    """One step of Gymnasium's own class from each state."""
    env = gymnasium.make(env_id).unwrapped
    env.reset(seed=0)
    obs, rewards, terminated = [], [], []
    for state, action in zip(states, actions, strict=True):
        env.state = state.copy()
        after, reward, over, cut, _ = env.step(action)
        assert not cut
        obs.append(after)
        rewards.append(reward)
        terminated.append(over)
    return np.array(obs), np.array(rewards), np.array(terminated)


def assert_close(ours: np.ndarray, theirs: np.ndarray) -> None:
    error = np.abs(ours.astype(np.float64) - theirs) / np.maximum(np.abs(theirs), 1.0)
    assert error.max() <= TOLERANCE


@pytest.mark.parametrize("name", ENVS)
def test_one_step_from_injected_states_is_gymnasiums(name: str) -> None:
    env_id, low, high = ENVS[name]
    rng = np.random.default_rng(7)
    states = rng.uniform(low, high, (STATES, len(low))).astype(np.float32)
    states[: STATES // 2] *= 0.5  # half of them where a policy spends its time
    env = headrace.make_vec(name, STATES, executor="serial")
    env.action_space.seed(11)
    actions = env.action_space.sample()
    env.reset(seed=0)
    env.state[:] = states.view(np.uint8)
    obs, rewards, terminated, truncated, _ = env.step(actions)

    expected_obs, expected_rewards, expected_terminated = step_gymnasium(env_id, states, actions)
    assert_close(obs, expected_obs)
    clear = margin_to_goal(name, expected_obs) > MARGIN
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(terminated[clear], expected_terminated[clear])
    assert_close(rewards[clear], expected_rewards[clear])
    assert not truncated.any()
    assert terminated.any() == (name != "pendulum")


@pytest.mark.parametrize("name", ENVS)
def test_spaces_and_time_limit_are_gymnasiums(name: str) -> None:
    env_id = ENVS[name][0]
    theirs = gymnasium.make(env_id)
    ours = headrace.make_vec(name, 1)
    assert ours.single_observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.action_space
    assert ours.max_steps == theirs.spec.max_episode_steps


@pytest.mark.parametrize("name", ENVS)
def test_starts_are_distributed_as_gymnasiums(name: str) -> None:
    count = 2000
    theirs = gymnasium.make_vec(ENVS[name][0], count, vectorization_mode="sync")
    expected = theirs.reset(seed=1)[0]
    ours = headrace.make_vec(name, count).reset(seed=1)[0]
    for column in range(expected.shape[1]):
        quantiles = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]
        spread = np.ptp(expected[:, column]) + 1e-9
        difference = np.quantile(ours[:, column], quantiles) - np.quantile(
            expected[:, column], quantiles
        )
        assert np.abs(difference).max() < 0.1 * spread + 1e-6


@pytest.mark.parametrize("name", ENVS)
def test_random_play_stays_inside_the_space_and_ends_by_truncation(name: str) -> None:
    env = headrace.make_vec(name, 64, autoreset_mode="SameStep", max_steps=100)
    env.action_space.seed(3)
    env.reset(seed=5)
    low, high = env.single_observation_space.low, env.single_observation_space.high
    ends = 0
    for _ in range(300):
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert (obs >= low).all() and (obs <= high).all()
        ends += int(truncated.sum())
        assert not terminated.any() or name == "acrobot"
    assert ends >= 3 * 64 * 0.9


def test_mountain_car_stops_at_the_wall() -> None:
    env = headrace.make_vec("mountain_car", 1)
    env.reset(seed=0)
    env.state.view(np.float32)[:] = [-1.19, -0.05]
    obs = env.step([0])[0]
    np.testing.assert_array_equal(obs, np.float32([[-1.2, 0.0]]))


def test_mountain_car_continuous_pays_for_the_unclipped_action() -> None:
    env = headrace.make_vec("mountain_car_continuous", 1)
    env.reset(seed=0)
    env.state.view(np.float32)[:] = [0.44, 0.06]
    _, rewards, terminated, _, _ = env.step(np.float32([[3.0]]))
    assert terminated[0]
    assert rewards[0] == pytest.approx(100.0 - 0.1 * 9.0)
