"""Torch policies and rows of older weights: what native policies make of them, and from where."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_collector import environments  # noqa: E402
from test_torch_learner import native_parts, tensors_of, torch_parts  # noqa: E402

import headrace  # noqa: E402
from headrace.engine.errors import ArgumentError  # noqa: E402
from headrace.trainers import torch_lag  # noqa: E402
from headrace.trainers._native import CORRECTIONS  # noqa: E402

CASES = {
    "plain": ("cartpole", {"minibatches": 4, "epochs": 2}),
    "normalised": ("short", {"minibatches": 3, "normalize": True, "vf_clip": 0.1}),
    "several agents": ("pair", {"minibatches": 2, "separate": True}),
    "numbers": ("slide", {"minibatches": 4, "normalize_advantage": False}),
    "memory": ("short", {"minibatches": 3, "memory": "mingru", "normalize": True}),
    "agents that remember": ("pair", {"minibatches": 1, "memory": "mingru", "epochs": 2}),
}


def lagged(make, name, options, off=0.3, lag=2, updates=2):
    """Tensors and figures after updates from rollouts whose behaviour policy was another one, by
    so much in its log-probabilities, and by so many versions."""
    vec = environments(name, 300)
    collector, learner = make(vec, **options)
    rng = np.random.default_rng(3)
    found = []
    for _ in range(updates):
        ro = collector.collect(learner.weights)
        ro.logp[:] += off * rng.standard_normal(ro.logp.shape)
        learner.version += lag
        found.append(learner.learn(ro, lr=0.003, ent_coef=0.02))
    tensors = tensors_of(learner)
    vec.close()
    return tensors, found


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("case", CASES)
def test_updates_are_the_native_learners(case, correction):
    name, options = CASES[case]
    native, stats = lagged(native_parts, name, {**options, "correction": correction})
    own, own_stats = lagged(torch_parts, name, {**options, "correction": correction})
    for tensor, array in native.items():
        np.testing.assert_allclose(own[tensor], array, rtol=2e-3, atol=5e-5, err_msg=tensor)
    np.testing.assert_allclose(own_stats, stats, rtol=5e-3, atol=5e-5)
    assert all((each.lag, each.lag_max) == (2.0, 2) for each in own_stats)
    assert 0.5 < own_stats[0].ess < 0.97


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("case", ["plain", "memory"])
def test_all_are_one_where_nothing_lags(case, correction):
    name, options = CASES[case]
    plain, stats = lagged(torch_parts, name, options, off=0.0, lag=0)
    other, found = lagged(torch_parts, name, {**options, "correction": correction}, 0.0, lag=0)
    assert found == stats
    assert found[0].ess == 1.0
    for tensor, array in plain.items():
        np.testing.assert_array_equal(other[tensor], array)


@pytest.mark.parametrize("correction", ["vtrace", "decoupled", "none"])
def test_they_differ_where_rows_lag(correction):
    name, options = CASES["plain"]
    plain, _ = lagged(torch_parts, name, options)
    other, _ = lagged(torch_parts, name, {**options, "correction": correction})
    assert np.abs(other["policy.bias"] - plain["policy.bias"]).max() > 1e-4


def test_the_current_policy_is_the_one_that_acts():
    """Dropout is off when actions are taken, and so it is when they are looked at again."""
    vec = environments("cartpole", 64)
    collector, learner = torch_parts(vec, correction="decoupled")
    learner.module.trunk.append(torch.nn.Dropout(0.5))
    collector.actor._module.trunk.append(torch.nn.Dropout(0.5).eval())
    ro = collector.collect(learner.weights)
    learner.version += 1
    assert learner.learn(ro, lr=0.0).ess == pytest.approx(1.0, abs=1e-6)
    assert learner.module.training
    vec.close()


def test_layers_that_are_kept_in_eval_stay_so(monkeypatch):
    vec = environments("cartpole", 64)
    collector, learner = torch_parts(vec, correction="decoupled")
    frozen = learner.module.trunk[0].eval()
    flags = {layer: layer is not frozen for layer in learner.module.modules()}
    for update in range(2):
        ro = collector.collect(learner.weights)
        learner.version += update
        if update:
            monkeypatch.setattr(torch_lag, "logp_and_entropy", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                learner.learn(ro, lr=0.0)
        else:
            learner.version += 1
            learner.learn(ro, lr=0.0)
        assert {layer: layer.training for layer in learner.module.modules()} == flags
    vec.close()


def test_weights_beyond_all_bounds_are_no_sample():
    assert torch_lag.effective_share(np.full(9, 800.0, np.float32)) == 0.0
    assert torch_lag.effective_share(np.zeros(0, np.float32)) == 1.0
    assert torch_lag.effective_share(np.log(np.float32([1, 3]))) == pytest.approx(16 / (2 * 10))


def test_the_sample_of_clip_is_that_of_the_kernels():
    text = (Path(__file__).parents[2] / "trainers" / "csrc" / "learn.h").read_text()
    assert f"#define HR_SAMPLED    {torch_lag.SAMPLED} " in text


def test_an_unknown_correction_is_named():
    vec = environments("cartpole", 4)
    with pytest.raises(ArgumentError, match="correction is 'both': expected one of none, clip"):
        torch_parts(vec, correction="both")
    vec.close()


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_asynchronous_runs_train_with_each(tmp_path, correction):
    folder = str(tmp_path / "r")
    headrace.train(
        "cartpole", policy="torch", async_=True, deterministic=True, max_lag=3, run_dir=folder,
        correction=correction, steps=60_000, seed=1, num_envs=128, horizon=16, target=None,
    )  # fmt: skip
    lines = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    assert max(line.get("async/lag_max", 0) for line in lines) == 3
    assert 0.3 < lines[-1]["async/ess"] < 1.0
