"""What the compiled trainer refuses before it touches memory, and what survives the collector."""

import gc

import numpy as np
import pytest
from naive import field, make_policy, make_spec
from test_collector import collector_of, environments

from headrace.engine.errors import ArgumentError
from headrace.trainers import _native
from headrace.trainers import learner as learner_module
from headrace.trainers.collector import FusedCollector
from headrace.trainers.learner import NativeLearner
from headrace.trainers.policy import PolicySpec
from headrace.trainers.tiles import to_tiles

OPTIONS = {"horizon": 4, "gamma": 0.9, "gae_lambda": 0.9, "seed": 0}


@pytest.fixture
def cartpole():
    vec = environments("cartpole", 100)
    yield vec
    vec.close()


def test_a_policy_of_another_environment_is_refused(cartpole):
    for name, what in (("walk", "obs_size"), ("pendulum", "obs_size")):
        other = environments(name, 4)
        policy = PolicySpec.from_env(other.spec_)
        with pytest.raises(ArgumentError, match=f"made for another environment: its {what}"):
            FusedCollector(cartpole, policy, **OPTIONS)
        other.close()


def test_weights_of_another_policy_are_refused(cartpole):
    collector = collector_of(cartpole, 4, hidden=(64,))
    small = PolicySpec.from_env(cartpole.spec_, (4,))
    weights = small.weights(small.init(0))
    with pytest.raises(ArgumentError, match="length of the weights' params is 35: expected 515"):
        collector.collect(weights)
    policy = collector.policy
    right = policy.weights(policy.init(0))
    short = np.zeros(3, np.float32)
    with pytest.raises(ArgumentError, match="obs_mean is 3: expected 4"):
        collector.collect(_native.Weights(right.params, short, short))
    with pytest.raises(ArgumentError, match="length of obs_scale is 4: expected 3"):
        _native.Weights(right.params, short, np.ones(4, np.float32))
    slots = _native.Slots(right, 2)
    with pytest.raises(ArgumentError, match="params"):
        slots.publish(weights)
    with pytest.raises(ArgumentError, match="slots' params"):
        collector._native.shares[0].start(collector.new_rollout(), slots=_native.Slots(weights, 2))
    assert collector.collect(right).steps == 400


def test_a_rollout_of_another_collector_is_refused(cartpole):
    collector = collector_of(cartpole, 4)
    weights = collector.policy.weights(collector.policy.init(0))
    larger = environments("cartpole", 1000)
    made = {
        "horizon": collector_of(cartpole, 5),
        "blocks": collector_of(larger, 4),
        "normalize_obs": collector_of(cartpole, 4, normalize_obs=True),
        "normalize_reward": collector_of(cartpole, 4, normalize_reward=True),
    }
    for what, other in made.items():
        with pytest.raises(ArgumentError, match=f"made for another collector: its {what}"):
            collector.collect(weights, into=other.new_rollout())
    larger.close()


def test_arrays_of_another_shape_are_refused():
    policy = make_policy(5, [3], masked=True)
    net, params = policy.net, policy.init(0)
    x = to_tiles(np.zeros((70, 5), np.float32))
    out = net.forward(params, x)
    aligned = _native.aligned
    wrong = [
        lambda: net.forward(params[:-1], x),
        lambda: net.forward(params, x[:, :4]),
        lambda: net.forward(params, x.astype(np.float64)),
        lambda: net.encode(np.zeros(21, np.uint8)),
        lambda: net.normalize(x, np.zeros(4, np.float32), np.ones(5, np.float32), 1.0),
        lambda: net.sample(params, out[:, :2], None, 0, 0, False),
        lambda: net.sample(params, out, np.ones((1, 3, 64), np.uint8), 0, 0, False),
        lambda: net.sample(params[:-1], out, None, 0, 0, False),
        lambda: _native.gae(*[aligned((3, 64), np.float32)] * 5, aligned(63, np.float32), 0.9, 0.9),
        lambda: _native.gae(
            *[aligned((3, 64), np.float32)] * 4, aligned((2, 64), np.float32),
            aligned(64, np.float32), 0.9, 0.9,
        ),
        lambda: _native.adam(*[np.zeros(n, np.float32) for n in (5, 5, 5, 4)], 1, 0.1, (0, 0), 1),
    ]  # fmt: skip
    for call in wrong:
        with pytest.raises(ArgumentError):
            call()


def test_tensors_of_another_shape_are_refused():
    policy = make_policy(5, [3])
    weights = policy.weights(policy.init(0))
    tensors = policy.to_tensors(weights)
    with pytest.raises(ArgumentError, match=r"'obs.mean' is float32 \[4\], expected float32 \[5\]"):
        policy.from_tensors(
            {**tensors, "obs.mean": np.zeros(4, np.float32), "obs.scale": np.ones(5, np.float32)}
        )
    with pytest.raises(ArgumentError, match=r"'obs\.scale' is missing"):
        policy.from_tensors({**tensors, "obs.mean": np.zeros(5, np.float32)})


def test_too_many_elements_of_an_action_are_refused():
    spec = make_spec([field("x")], [field("push", "int32", shape=(40_000,), choices=2)])
    with pytest.raises(ArgumentError, match=r"actions of 40000 elements: at most 32768"):
        PolicySpec.from_env(spec)


def test_many_elements_of_an_action_are_learned():
    """More than would fit on a thread's stack."""
    policy = make_policy(2, [2] * 2000, hidden=(4,))
    learner = NativeLearner(policy, None, seed=0, minibatches=1, epochs=1)
    rollout = _native.Rollout(policy.net, horizon=2, worlds=64, agents=1)
    rollout.valid[:], rollout.advantage[:] = 1.0, 1.0
    rollout.count_rows()
    assert np.isfinite(learner.learn(rollout, lr=1e-3).grad_norm)
    assert learner.version == 1


def test_a_learner_too_large_for_the_memory_is_refused(monkeypatch):
    policy = make_policy(4, [2], hidden=(64, 64))
    monkeypatch.setattr(learner_module, "available_memory", lambda: 1_000_000)
    with pytest.raises(ArgumentError, match=r"1.3 MB of memory, of which 1.0 MB.*smaller hidden"):
        NativeLearner(policy, None, seed=0)


def test_a_busy_share_may_be_forgotten():
    """Its job is waited for before the garbage collector takes what the job works on."""
    vec = environments("cartpole", 1024)
    for _ in range(3):
        collector = collector_of(vec, 64, normalize_reward=True)
        weights = collector.policy.weights(collector.policy.init(0))
        collector._native.shares[0].start(collector.new_rollout(), weights)
        del collector
        gc.collect()
    collector = collector_of(vec, 4)
    assert collector.collect(weights).steps == 4096
    vec.close()


def test_close_waits_for_shares():
    vec = environments("cartpole", 1024)
    collector = collector_of(vec, 64)
    weights = collector.policy.weights(collector.policy.init(0))
    share = collector._native.shares[0]
    share.start(collector.new_rollout(), weights)
    collector.close()
    assert not share.busy
    vec.close()
