"""The learner: its step, its statistics, determinism, resuming, errors."""

import naive
import numpy as np
import pytest
from rollouts import random_rollout

from headrace import make_vec
from headrace.engine import _core
from headrace.engine.errors import ArgumentError
from headrace.trainers._native import Rollout, RunningMoments
from headrace.trainers.collector import FusedCollector
from headrace.trainers.learner import NativeLearner
from headrace.trainers.policy import PolicySpec
from headrace.trainers.rollout import NonFiniteError


def prepared(seed=0, hidden=(16, 8), **options):
    """A learner and a rollout near its weights."""
    policy = naive.make_policy(5, [3, 0], hidden)
    learner = NativeLearner(policy, None, seed=seed, **options)
    rng = np.random.default_rng(seed)
    ro, rows = random_rollout(policy, learner.weights.params, rng, horizon=7, worlds=300)
    return learner, ro, rows


@pytest.mark.parametrize("max_grad_norm", [0.0, 0.05, 100.0])
def test_one_step_is_gradient_clip_and_adam(max_grad_norm):
    learner, ro, rows = prepared(
        hidden=(4, 3), minibatches=1, max_grad_norm=max_grad_norm, vf_coef=0.7, vf_clip=0.3
    )
    policy = learner.policy
    live = rows["advantage"][rows["valid"] > 0].astype(np.float64)
    scaled = {
        "clip": 0.2, "vf_clip": 0.3, "vf_coef": 0.7, "ent_coef": 0.02,
        "advantage_mean": live.mean(), "advantage_scale": 1 / (live.std(ddof=1) + 1e-8),
    }  # fmt: skip
    params = learner.weights.params.astype(np.float64)
    grad = naive.gradient(policy, params, rows, range(len(params)), **scaled)
    norm = np.linalg.norm(grad)
    if max_grad_norm > 0:
        grad = grad * min(1.0, max_grad_norm / (norm + 1e-6))
    zeros = np.zeros(len(params))
    expected, _, _ = naive.adam(params, grad, zeros, zeros, 1, 0.01, (0.9, 0.999), 1e-5)
    stats = learner.learn(ro, lr=0.01, ent_coef=0.02)
    assert stats.grad_norm == pytest.approx(norm, rel=1e-4)
    big = np.abs(grad) > 1e-5  # Adam's first step is the gradient's sign, nearly
    np.testing.assert_allclose(learner.weights.params[big], expected[big], atol=5e-6)
    assert big.mean() > 0.9


def test_statistics_are_means_over_all_rows():
    learner, ro, rows = prepared(minibatches=5, epochs=2, normalize_advantage=False)
    stats = learner.learn(ro, lr=0.0)
    sums = naive.loss_sums(learner.policy, learner.weights.params, rows, clip=0.2, vf_clip=0.0)
    means = sums / ro.steps
    got = (stats.policy_loss, stats.value_loss, stats.entropy, stats.kl, stats.clip_fraction)
    np.testing.assert_allclose(got, means, rtol=1e-4, atol=1e-5)
    live = rows["valid"] > 0
    advantage, ret = (rows[k][live].astype(np.float64) for k in ("advantage", "ret"))
    assert stats.explained_variance == pytest.approx(1 - advantage.var() / ret.var(), rel=1e-5)


def test_minibatches_are_shuffled_anew_in_each_update():
    learner, ro, _ = prepared(minibatches=3)
    orders = set()
    start = learner.state_dict()
    for shuffles in range(3):
        state = {**start, "native": {**start["native"], "shuffles": shuffles}}
        learner.load_state_dict(state)
        learner.learn(ro, lr=0.01)
        orders.add(learner.weights.params.tobytes())
    assert len(orders) == 3


def trained(threads, updates=4, num_envs=200, env="cartpole", epochs=2, **options):
    """Weights after a few updates."""
    executor = "threads" if threads else "serial"
    vec = make_vec(
        env, num_envs, executor=executor, threads=threads or None, autoreset_mode="SameStep"
    )
    vec.reset(seed=1)
    policy = PolicySpec.from_env(vec.spec_, (32, 17))
    collector = FusedCollector(
        vec, policy, horizon=16, gamma=0.99, gae_lambda=0.95, seed=1,
        normalize_obs=True, normalize_reward=True,
    )  # fmt: skip
    learner = NativeLearner(policy, vec.pool, seed=1, epochs=epochs, **options)
    for _ in range(updates):
        learner.learn(collector.collect(learner.weights), lr=0.01, ent_coef=0.01)
    vec.close()
    weights = learner.weights
    return weights.params.tobytes() + weights.obs_mean.tobytes() + weights.obs_scale.tobytes()


def test_threads_change_no_bit():
    results = {trained(threads) for threads in (0, 1, 2, 3, 5)}
    assert len(results) == 1


def test_gradients_of_many_chunks_are_added_up():
    """More than two groups of chunks, pairs of groups, and threads that share them."""
    results = []
    for threads in (1, 2, 3, 5):
        pool = _core.Pool(threads)
        policy = naive.make_policy(5, [3, 0], (16, 8))
        learner = NativeLearner(policy, pool, seed=0, normalize_advantage=False, clip=0.2)
        rng = np.random.default_rng(0)
        params = learner.weights.params
        ro, rows = random_rollout(policy, params, rng, horizon=61, worlds=640)
        grad, sums = learner._native.gradient(ro, 0.0)
        results.append(grad.tobytes() + sums.tobytes())
        pool.close()
    assert len(set(results)) == 1
    expected = naive.loss_sums(policy, params, rows, clip=0.2, vf_clip=0.0)
    np.testing.assert_allclose(sums, expected, rtol=1e-4)
    settings = {"clip": 0.2, "vf_clip": 0.0, "vf_coef": 0.5, "ent_coef": 0.0}
    scaled = {"advantage_mean": 0.0, "advantage_scale": 1.0}
    some = range(0, len(params), 37)
    few = naive.gradient(policy, params.astype(np.float64), rows, some, **settings, **scaled)
    np.testing.assert_allclose(grad[::37], few, rtol=2e-3, atol=1e-6)


def test_more_minibatches_than_tiles_is_one_tile_each():
    assert trained(1, num_envs=10, minibatches=1000) == trained(1, num_envs=10, minibatches=16)


def test_a_saved_learner_goes_on():
    learner, ro, _ = prepared(minibatches=3)
    learner.learn(ro, lr=0.01)
    state = learner.state_dict()
    other, _, _ = prepared(seed=9, minibatches=3)
    other._native.load_state_dict({**state["native"]})
    other.load_state_dict(state)
    assert other.version == 1
    np.testing.assert_array_equal(other.weights.params, learner.weights.params)
    one, _, _ = prepared(minibatches=3)
    one.load_state_dict(state)
    learner.learn(ro, lr=0.01)
    one.learn(ro, lr=0.01)
    np.testing.assert_array_equal(one.weights.params, learner.weights.params)
    assert one.weights.version == 2


def test_published_weights_stay_as_they_are():
    learner, ro, _ = prepared()
    first = learner.weights
    kept = first.params.copy()
    learner.learn(ro, lr=0.1)
    np.testing.assert_array_equal(first.params, kept)
    assert (first.version, learner.weights.version) == (0, 1)
    assert not np.array_equal(learner.weights.params, kept)


def test_an_empty_rollout_changes_nothing():
    learner, ro, _ = prepared()
    ro.valid[:] = 0
    ro.count_rows()
    before = learner.weights.params.copy()
    stats = learner.learn(ro, lr=0.1)
    np.testing.assert_array_equal(learner.weights.params, before)
    assert stats.policy_loss == 0.0
    assert np.isnan(stats.explained_variance)


# ---- errors ------------------------------------------------------------------------------


def test_an_infinite_loss_is_named_and_nothing_is_learned():
    learner, ro, _ = prepared()
    before = learner.weights.params.copy()
    ro.ret[3, 5] = 1e30
    ro.valid[3, 5] = 1.0
    with pytest.raises(NonFiniteError, match=r"value_loss is inf in update 0") as e:
        learner.learn(ro, lr=0.1)
    assert (e.value.kind, e.value.name, e.value.update) == ("loss", "value_loss", 0)
    assert learner.version == 0
    np.testing.assert_array_equal(learner.weights.params, before)


def test_an_infinite_gradient_is_named():
    policy = naive.make_policy(2, [2], ())
    learner = NativeLearner(policy, None, seed=0, minibatches=1)
    zeros = np.zeros(policy.num_params, np.float32)
    state = learner.state_dict()
    learner.load_state_dict({**state, "native": {**state["native"], "params": zeros}})
    ro, _ = random_rollout(policy, zeros, np.random.default_rng(0))
    ro.obs[:, 1] = 1e35
    ro.ret[:] = 1e8
    with pytest.raises(NonFiniteError, match=r"gradient of .value\.weight. is -inf in update 0"):
        learner.learn(ro, lr=0.1)


def test_a_rollout_of_another_policy_is_refused():
    learner, _, _ = prepared()
    other = naive.make_policy(6, [3, 0], (4,))
    ro, _ = random_rollout(other, other.init(0), np.random.default_rng(0))
    with pytest.raises(ValueError, match="rollout is of another policy"):
        learner.learn(ro, lr=0.1)


@pytest.mark.parametrize("name", ["minibatches", "epochs"])
def test_wrong_counts_are_named(name):
    policy = naive.make_policy(2, [2])
    with pytest.raises(ArgumentError, match=f"{name} is 0"):
        NativeLearner(policy, None, seed=0, **{name: 0})


# ---- running moments ---------------------------------------------------------------------


def test_running_moments_are_those_of_everything_seen():
    rng = np.random.default_rng(0)
    moments, seen = RunningMoments(3), []
    np.testing.assert_array_equal(moments.scale(), np.ones(3))
    for size in (1, 50, 0, 700):
        x = rng.standard_normal((size, 3)) * [1, 10, 0.1] + [0, 1000, -5]
        centre = moments.mean.astype(np.float32)
        moments.merge(size, (x - centre).sum(0), ((x - centre) ** 2).sum(0), centre)
        seen.append(x)
    everything = np.concatenate(seen)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-9)
    np.testing.assert_allclose(moments.scale(), 1 / everything.std(0), rtol=1e-6)
    again = RunningMoments(3)
    again.load_state_dict(moments.state_dict())
    np.testing.assert_array_equal(again.scale(), moments.scale())


def test_sums_of_blocks_are_merged_about_a_centre_of_each():
    policy = naive.make_policy(3, [2])
    ro = Rollout(policy.net, horizon=2, worlds=190, agents=1, normalize_obs=True,
                 normalize_reward=True)  # fmt: skip
    rng = np.random.default_rng(0)
    seen, returns = [], []
    for block, rows in enumerate((70, 0, 33)):
        x, y = rng.normal(5, 2, (rows, 3)), rng.normal(-9, 3, rows)
        centre, middle = rng.normal(4, 1, 3), rng.normal(-8, 1)
        ro.tile_rows[2 * block : 2 * block + 2] = (rows // 2, rows - rows // 2)
        ro.obs_centres[block], ro.reward_centres[block] = centre, middle
        ro.obs_sums[block] = (x - centre).sum(0), ((x - centre) ** 2).sum(0)
        ro.reward_sums[block] = rows, (y - middle).sum(), ((y - middle) ** 2).sum()
        seen.append(x)
        returns.append(y)
    moments, rewards = RunningMoments(3), RunningMoments(1)
    moments.merge_observations(ro)
    rewards.merge_rewards(ro)
    for found, all_of_it in ((moments, np.concatenate(seen)), (rewards, np.concatenate(returns))):
        assert found.count == len(all_of_it)
        np.testing.assert_allclose(found.mean, all_of_it.mean(0), rtol=1e-12)
        np.testing.assert_allclose(found.scale(), 1 / all_of_it.std(0), rtol=1e-8)


@pytest.mark.parametrize("name", ["mean", "square"])
def test_moments_of_another_size_are_refused(name):
    moments = RunningMoments(3)
    with pytest.raises(ArgumentError, match=name):
        moments.load_state_dict({**moments.state_dict(), name: np.zeros(2)})
    assert len(moments.mean) == len(moments.square) == 3


def test_learning_on_a_pool_of_its_own():
    pool = _core.Pool(2)
    learner, ro, _ = prepared()
    other = NativeLearner(learner.policy, pool, seed=0)
    learner.learn(ro, lr=0.01)
    other.learn(ro, lr=0.01)
    np.testing.assert_array_equal(learner.weights.params, other.weights.params)
    pool.close()
