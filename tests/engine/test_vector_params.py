"""Parameters, states, sizes, agents, drawing and checked builds."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from batches import KART, PAIR, SLIDE, WALK

from headrace import make_vec
from headrace.engine.errors import ArgumentError, CheckError


def test_shared_and_per_world_parameters() -> None:
    vec = make_vec(SLIDE, 3, slope=[1.0, 0.0], friction=[0.0, 0.5, 1.0])
    vec.reset(seed=0)
    place = vec.state.view(np.float32).copy()
    push = np.zeros((3, 2), np.float32)
    obs = vec.step(push)[0]
    expected = np.add(place, [1.0, 0.0]) * (1 - np.array([[0.0], [0.5], [1.0]]))
    np.testing.assert_allclose(obs, expected, rtol=1e-6)
    vec.set_params(friction=0.0, seats=np.array([1, 2, 2**40]))
    np.testing.assert_allclose(vec.step(push)[0], np.add(obs, [1.0, 0.0]), rtol=1e-6)
    rewards = vec.step(push)[1]
    np.testing.assert_allclose(rewards - vec.buffers.obs[:, 0], [1, 2, 2**40], atol=0.1)
    assert vec.params["friction"] == 0.0
    assert vec.params["seats"].tolist() == [1, 2, 2**40]
    assert vec.params["slope"].tolist() == [1.0, 0.0]


def test_one_value_per_world_equals_batches_of_one() -> None:
    gravity = [1.0, 9.8, 30.0]
    together = make_vec("cartpole", 3, gravity=gravity)
    together.reset(seed=4)
    alone = [make_vec("cartpole", 1, gravity=value) for value in gravity]
    for i, vec in enumerate(alone):
        vec.reset(seed=4 + i)
    for t in range(30):
        obs = together.step([t % 2] * 3)[0]
        for i, vec in enumerate(alone):
            np.testing.assert_array_equal(obs[i], vec.step([t % 2])[0][0])


def test_array_parameters_are_copied() -> None:
    slope = np.array([0.5, 0.25], np.float32)
    vec = make_vec(SLIDE, 2, slope=slope)
    vec.reset(seed=0)
    place = vec.state.view(np.float32).copy()
    slope[:] = 99.0
    np.testing.assert_allclose(
        vec.step(np.zeros((2, 2)))[0], np.add(place, [0.5, 0.25]), rtol=1e-6, atol=1e-7
    )
    vec.set_params(slope=[])
    before = vec.buffers.obs.copy()
    np.testing.assert_array_equal(vec.step(np.zeros((2, 2)))[0], before)


def test_a_wrong_parameter_changes_none() -> None:
    vec = make_vec("cartpole", 2)
    with pytest.raises(ArgumentError, match="'mass' is no parameter"):
        vec.set_params(gravity=1.0, mass=2.0)
    assert vec.params["gravity"] == pytest.approx(9.8)


def test_get_attr_and_set_attr() -> None:
    vec = make_vec("cartpole", 3)
    assert vec.get_attr("tau") == pytest.approx((0.02,) * 3)
    vec.set_attr("tau", [0.01, 0.02, 0.03])
    assert vec.get_attr("tau") == pytest.approx((0.01, 0.02, 0.03))
    assert vec.call("tau") == vec.get_attr("tau")
    vec.set_attr("tau", 0.05)
    assert vec.call("tau") == pytest.approx((0.05,) * 3)
    assert vec.get_attr("observation_space") == (vec.single_observation_space,) * 3
    assert vec.get_attr("render_mode") == (None,) * 3


def test_states_can_be_injected() -> None:
    vec = make_vec("cartpole", 4)
    vec.reset(seed=0)
    assert (vec.state.dtype, vec.state.shape) == (np.uint8, (4, 16))
    states = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [2.4, 1, 0, 0], [0, 0, 0.2, 2]], np.float32)
    vec.state[:] = states.view(np.uint8)
    obs, _, terminated, *_ = vec.step([1, 1, 1, 1])
    np.testing.assert_allclose(obs[:, 0], [0, 1, 2.42, 0], rtol=1e-6)
    assert terminated.tolist() == [False, False, True, True]


def test_compile_time_sizes() -> None:
    assert make_vec(WALK, 1).single_observation_space["place"].n == 5
    vec = make_vec(WALK, 1, LENGTH=9)
    assert vec.single_observation_space["place"].n == 9


def test_agents_are_rows() -> None:
    vec = make_vec(PAIR, 6, autoreset_mode="NextStep")
    assert (vec.num_envs, vec.worlds, vec.agents) == (6, 3, 2)
    assert vec.observation_space.shape == (6, 2)
    obs, infos = vec.reset(seed=5)
    np.testing.assert_array_equal(obs[0::2], obs[1::2, ::-1])  # own and other
    assert infos["present"].tolist() == [True] * 6
    np.testing.assert_array_equal(make_vec(PAIR, 2).reset(seed=6)[0], obs[2:4])
    assert vec.get_attr("np_random_seed") == (5, 5, 6, 6, 7, 7)
    mask = np.array([False, False, True, True, False, False])
    again, _ = vec.reset(seed=[None, 9, None], options={"reset_mask": mask})
    np.testing.assert_array_equal(again[[0, 1, 4, 5]], obs[[0, 1, 4, 5]])
    assert (again[2:4] != obs[2:4]).all()
    with pytest.raises(ArgumentError, match="splits world 1: its environments 2 to 3"):
        vec.reset(options={"reset_mask": np.array([True, True, True, False, False, False])})


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_an_agent_that_leaves_early(mode: str) -> None:
    vec = make_vec(PAIR, 2, autoreset_mode=mode)
    vec.reset(seed=0)
    alone = 0
    for _ in range(200):
        there = vec.buffers.arrays["present"].copy()
        _, rewards, terminated, truncated, infos = vec.step([2, 0])
        ended = terminated | truncated
        assert not ended[~there].any()
        assert (rewards[~there] == 0).all()
        if mode == "SameStep" and ended.any():
            np.testing.assert_array_equal(infos["_final_obs"], ended)
            assert infos["final_obs"].shape == (2, 2)
        if terminated[1] and not ended[0]:  # fell behind while the other goes on
            assert infos["present"].tolist() == [True, False]
            alone += 1
    assert alone > 10
    assert vec.statistics()["episodes"] >= 2 * alone


def test_metrics_are_averaged_over_finished_episodes() -> None:
    vec = make_vec(WALK, 8, autoreset_mode="SameStep")
    vec.reset(seed=0)
    vec.action_space.seed(0)
    steps, places = [], []
    for _ in range(80):
        *_, infos = vec.step(vec.action_space.sample())
        if "final_info" in infos:
            metrics = infos["final_info"]["metrics"]
            steps.extend(metrics["steps"][metrics["_steps"]])
            places.extend(metrics["place"][metrics["_place"]])
    stats = vec.statistics(clear=True)
    assert stats["episodes"] == len(steps) > 50
    assert stats["steps"] == np.mean(steps) == stats["length_mean"]
    assert stats["place"] == np.mean(places)
    cleared = vec.statistics()
    assert cleared["episodes"] == 0
    assert np.isnan([cleared["return_mean"], cleared["steps"], cleared["return_min"]]).all()


def test_render() -> None:
    vec = make_vec("cartpole", 2, render_mode="rgb_array")
    vec.reset(seed=0)
    frames = vec.render()
    assert [frame.shape for frame in frames] == [(400, 600, 3)] * 2
    assert (frames[0] != frames[1]).any()
    assert (vec.call("render")[1] == frames[1]).all()


def kart(**kwargs: Any) -> Any:
    vec = make_vec(KART, 3, **kwargs)
    vec.reset(seed=40)
    return vec


def actions(throttle: list[float]) -> dict[str, Any]:
    return {"gear": [0, 0, 0], "throttle": [[value, 0.0] for value in throttle]}


@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_failed_checks_name_environment_step_and_seed(executor: str) -> None:
    vec = kart(checked=True, executor=executor)
    vec.step(actions([0, 0, 3]))
    words = r"kart.c:\d+: HR_CHECK failed: the kart is too fast \(environment 2 of 'kart', step 2 "
    with pytest.raises(CheckError, match=words + r"since the seed 42\)"):
        vec.step(actions([0, 0, 3]))
    vec.reset(seed=1)
    vec.send(actions([0, 6, 0]))
    with pytest.raises(CheckError, match="environment 1 of 'kart', step 1 since the seed 2"):
        vec.recv()


def test_checks_are_free_in_a_normal_build() -> None:
    assert kart().step(actions([9, 9, 9]))[1].tolist() == [9.0, 9.0, 9.0]


@pytest.mark.parametrize(
    ("value", "shown"), [(float("nan"), "nan"), ([9.8, float("nan")], "nan in world 1")]
)
def test_a_nan_is_refused_and_changes_nothing(value, shown):
    with closing(make_vec("cartpole", 2)) as vec:
        with pytest.raises(ValueError, match=f"parameter 'gravity' is {shown}: give a number"):
            vec.set_params(gravity=value)
        assert vec.get_attr("gravity") == pytest.approx((9.8, 9.8))
        vec.set_params(gravity=float("inf"))
    with pytest.raises(ValueError, match="parameter 'gravity' is nan: give a number"):
        make_vec("cartpole", 2, gravity=float("nan"))
    with pytest.raises(TypeError, match="num_envs is True: expected an integer"):
        make_vec("cartpole", True)


@pytest.mark.parametrize(("env", "shown"), [(5, "an int"), (3.5, "a float"), (None, "None")])
def test_what_is_no_environment_is_named_with_its_article(env: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"env is {shown}: expected"):
        make_vec(env, 2)
