"""The decoupled objective, and what each correction makes of a rollout that lags."""

import naive
import numpy as np
import pytest
from rollouts import random_rollout
from test_loss import IDS, OPTIONS, POLICIES, case, make_learner, torch_gradient

from headrace.engine import _core
from headrace.engine.errors import ArgumentError
from headrace.trainers import _native
from headrace.trainers.learner import NativeLearner


def with_proximal(rows, seed=0, off=0.4):
    """Rows with a proximal policy away from the behaviour policy, and it in tiles."""
    rng = np.random.default_rng(seed)
    proximal = rows["logp"] + off * rng.standard_normal(len(rows["logp"]))
    rows["proximal"] = proximal.astype(np.float32)
    return rows, rows["proximal"].reshape(-1, 64).copy()


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
@pytest.mark.parametrize("weight_max", [1.0, 5.0])
def test_gradient_agrees_with_torch(number, weight_max):
    torch = pytest.importorskip("torch")
    policy, params, ro, rows = case(number)
    rows, tiles = with_proximal(rows)
    learner = make_learner(policy, params, weight_max=weight_max, **OPTIONS)
    got, _ = learner.gradient(ro, OPTIONS["ent_coef"], proximal=tiles)
    expected = torch_gradient(torch, policy, params, rows, **OPTIONS, weight_max=weight_max)
    error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
    assert error <= 1e-5
    plain, _ = learner.gradient(ro, OPTIONS["ent_coef"])
    assert np.linalg.norm(plain - expected) / np.linalg.norm(expected) > 1e-2


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
def test_sums_and_gradient_agree_with_numpy(number):
    policy, params, ro, rows = case(number, seed=1)
    rows, tiles = with_proximal(rows, seed=1)
    learner = make_learner(policy, params, weight_max=1.5)
    got, sums = learner.gradient(ro, 0.01, proximal=tiles)
    options = {"clip": 0.2, "vf_clip": 0.0, "weight_max": 1.5}
    expected = naive.loss_sums(policy, params, rows, **options)
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-3)
    indices = np.random.default_rng(0).choice(len(params), min(len(params), 6), replace=False)
    slow = naive.gradient(policy, params, rows, indices, vf_coef=0.5, ent_coef=0.01, **options)
    np.testing.assert_allclose(got[indices], slow, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
def test_current_log_probabilities(number):
    policy, params, ro, rows = case(number)
    logp, weights = make_learner(policy, params).current_logp(ro)
    out = naive.forward(policy, params, rows["obs"])
    expected, _ = naive.logp_and_entropy(policy, params, out, rows["actions"], rows["mask"])
    live = rows["valid"] > 0
    np.testing.assert_allclose(logp.reshape(-1)[live], expected[live], rtol=1e-4, atol=1e-4)
    w = np.where(live, np.exp(expected - rows["logp"]), 0.0).reshape(-1, 64)
    np.testing.assert_allclose(weights, np.stack([w.sum(1), (w**2).sum(1)], 1), rtol=1e-3)


# ---- what a learner does about lag -------------------------------------------------------


def prepared(correction, *, version, pool=None, off=0.3, **options):
    """A learner at version 3 and a rollout of weights `version`."""
    policy = naive.make_policy(5, [3, 0], (16, 8))
    learner = NativeLearner(policy, pool, seed=0, correction=correction, **options)
    rng = np.random.default_rng(0)
    ro, rows = random_rollout(policy, learner.weights.params, rng, horizon=7, worlds=300, off=off)
    for name in ("reward", "bootstrap"):
        getattr(ro, name)[:] = rng.standard_normal(ro.reward.shape)
    ro.done[:] = rng.random(ro.done.shape) < 0.1
    ro.last[:] = rng.standard_normal(ro.last.shape)
    ro.ret[:] = ro.advantage + ro.value
    rows["ret"] = ro.ret.reshape(-1).copy()
    ro.count_rows()
    learner.version = 3
    ro.block_versions[:] = version
    return learner, ro, rows


@pytest.mark.parametrize("correction", _native.CORRECTIONS)
def test_all_corrections_are_one_where_nothing_lags(correction):
    learner, ro, _ = prepared(correction, version=3)
    other, same, _ = prepared("clip", version=3)
    stats = learner.learn(ro, lr=0.01)
    assert stats == other.learn(same, lr=0.01)
    assert (stats.lag, stats.lag_max, stats.ess) == (0.0, 0, 1.0)
    np.testing.assert_array_equal(learner.weights.params, other.weights.params)


def objective(rows, current, correction):
    """The rows that each correction learns from."""
    if correction == "none":
        return {**rows, "logp": current}
    return rows if correction == "clip" else {**rows, "proximal": current}


@pytest.mark.parametrize("correction", _native.CORRECTIONS)
def test_each_correction_has_its_objective(correction):
    learner, ro, rows = prepared(
        correction, version=1, normalize_advantage=False, gamma=0.9, gae_lambda=0.8
    )
    policy, params = learner.policy, learner.weights.params
    out = naive.forward(policy, params, rows["obs"])
    current, _ = naive.logp_and_entropy(policy, params, out, rows["actions"], rows["mask"])
    rows = objective(rows, current, correction)
    if correction == "vtrace":  # 300 worlds are 5 blocks; rows of rollouts are [block, step, row]
        blocks, ratio = 5, np.exp(current - rows["logp"])
        shape = (blocks, 7, 64)
        columns = [a.reshape(shape) for a in (ro.reward, ro.value, ro.done, ro.bootstrap, ro.valid)]
        parts = [
            naive.vtrace(
                *(c[b] for c in columns), ro.last[b], ratio.reshape(shape)[b], 0.9, 0.8, 1.0, 1.0
            )
            for b in range(blocks)
        ]
        rows["advantage"] = np.stack([p[0] for p in parts]).reshape(-1)
        rows["ret"] = np.stack([p[1] for p in parts]).reshape(-1)
    bound = 1.0 if correction == "vtrace" else 5.0
    sums = naive.loss_sums(policy, params, rows, clip=0.2, vf_clip=0.0, weight_max=bound)
    stats = learner.learn(ro, lr=0.0)
    got = (stats.policy_loss, stats.value_loss, stats.entropy, stats.kl, stats.clip_fraction)
    np.testing.assert_allclose(got, sums / ro.steps, rtol=1e-3, atol=1e-5)
    live = rows["valid"] > 0
    error = (rows["ret"] - rows["value"])[live]
    explained = 1 - error.var() / rows["ret"][live].var()
    assert stats.explained_variance == pytest.approx(explained, rel=1e-3)
    assert (stats.lag, stats.lag_max) == (2.0, 2)
    weights = np.exp(current - ro.logp.reshape(-1))[live]
    ess = weights.sum() ** 2 / (len(weights) * (weights**2).sum())
    assert stats.ess == pytest.approx(ess, abs=0.05 if correction == "clip" else 1e-4)
    assert ess < 0.95


@pytest.mark.parametrize("correction", _native.CORRECTIONS)
def test_threads_change_no_bit(correction):
    results = set()
    for threads in (0, 2, 3):
        pool = _core.Pool(threads) if threads else None
        learner, ro, _ = prepared(correction, version=0, pool=pool)
        stats = learner.learn(ro, lr=0.01)
        results.add((learner.weights.params.tobytes(), stats))
        if pool is not None:
            pool.close()
    assert len(results) == 1


def test_lag_counts_rows():
    learner, ro, _ = prepared("clip", version=3)
    ro.block_versions[1] = 1
    rows = ro.tile_rows.reshape(5, 7).sum(1)
    stats = learner.learn(ro, lr=0.0)
    assert stats.lag == pytest.approx(2 * rows[1] / rows.sum())
    assert stats.lag_max == 2


def test_weights_beyond_all_bounds_are_no_sample():
    learner, ro, _ = prepared("decoupled", version=0)
    ro.logp[:] = -200.0
    assert learner.learn(ro, lr=0.0).ess == 0.0


def test_an_unknown_correction_is_named():
    policy = naive.make_policy(2, [2])
    with pytest.raises(ArgumentError, match="correction is 'both': expected one of none, clip"):
        NativeLearner(policy, None, seed=0, correction="both")
