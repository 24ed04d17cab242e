"""The torch learner: its updates are the native learner's; memory, options, resuming, errors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_collector import GAMMA, LAMBDA, environments  # noqa: E402

from headrace.engine.errors import ArgumentError  # noqa: E402
from headrace.trainers import policies  # noqa: E402
from headrace.trainers.batch import Batch  # noqa: E402
from headrace.trainers.collector import FusedCollector  # noqa: E402
from headrace.trainers.config import TrainConfig  # noqa: E402
from headrace.trainers.learner import NativeLearner  # noqa: E402
from headrace.trainers.policy import PolicySpec  # noqa: E402
from headrace.trainers.rollout import NonFiniteError  # noqa: E402
from headrace.trainers.stepped import SteppedCollector  # noqa: E402
from headrace.trainers.torch_device import Transfer  # noqa: E402
from headrace.trainers.torch_learner import TorchLearner  # noqa: E402
from headrace.trainers.torch_policy import TorchActor  # noqa: E402

HIDDEN = (16, 8)


def torch_parts(vec, horizon=12, normalize=False, seed=3, separate=False, fill=1.0, **options):
    """A collector and a learner of a default module."""
    settings = {k: options.pop(k) for k in ("memory", "bf16", "compile") if k in options}
    config = TrainConfig(
        env="x", policy="torch", hidden=HIDDEN, seed=seed, separate=separate, **settings
    )
    batch = Batch(vec)
    policy = policies.torch_policy(config, batch.spec)
    actor = TorchActor(policy, normalize_obs=normalize, compiled=config.compile)
    collector = SteppedCollector(
        batch, actor, horizon=horizon, gamma=GAMMA, gae_lambda=LAMBDA, seed=seed, fill=fill,
        normalize_obs=normalize, normalize_reward=normalize,
    )  # fmt: skip
    return collector, TorchLearner(policy, seed=seed, compiled=config.compile, **options)


def native_parts(
    vec, horizon=12, normalize=False, seed=3, separate=False, memory="none", **options
):
    policy = PolicySpec.from_env(vec.spec_, HIDDEN, separate=separate, memory=memory)
    collector = FusedCollector(
        vec, policy, horizon=horizon, gamma=GAMMA, gae_lambda=LAMBDA, seed=seed,
        normalize_obs=normalize, normalize_reward=normalize,
    )  # fmt: skip
    return collector, NativeLearner(policy, vec.pool, seed=seed, **options)


def tensors_of(learner):
    return learner.policy.to_tensors(learner.weights)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cartpole", {"minibatches": 4, "epochs": 2}),
        ("short", {"minibatches": 3, "normalize": True, "vf_clip": 0.1}),
        ("walk", {"minibatches": 2, "separate": True, "clip": 0.05}),
        ("pair", {"minibatches": 5, "epochs": 2}),
        ("slide", {"minibatches": 4, "max_grad_norm": 0.05, "normalize": True}),
        ("kart", {"minibatches": 1, "normalize_advantage": False, "vf_coef": 0.9}),
        ("cartpole", {"minibatches": 3, "epochs": 2, "memory": "mingru", "normalize": True}),
        ("short", {"minibatches": 1, "memory": "mingru", "horizon": 20}),
        ("pair", {"minibatches": 2, "memory": "mingru"}),
    ],
)
def test_updates_are_the_native_learners(name, options):
    results = []
    for make in (native_parts, torch_parts):
        vec = environments(name, 150)
        collector, learner = make(vec, **options)
        stats = [
            learner.learn(collector.collect(learner.weights), lr=0.003, ent_coef=0.02)[:7]
            for _ in range(2)
        ]
        results.append((tensors_of(learner), stats, learner.version))
        vec.close()
    (native, stats, version), (own, own_stats, own_version) = results
    assert set(native) == set(own)
    assert version == own_version == 2
    for tensor, array in native.items():
        np.testing.assert_allclose(own[tensor], array, rtol=1e-3, atol=2e-5, err_msg=tensor)
    np.testing.assert_allclose(own_stats, stats, rtol=2e-3, atol=2e-5)


def test_the_first_step_moves_the_weights():
    vec = environments("cartpole", 64)
    collector, learner = torch_parts(vec)
    before = tensors_of(learner)
    first = learner.weights
    learner.learn(collector.collect(first), lr=0.01)
    after = tensors_of(learner)
    assert all(not np.array_equal(before[k], after[k]) for k in ("trunk.0.weight", "value.bias"))
    assert (first.version, learner.weights.version) == (0, 1)
    assert np.array_equal(first.tensors["value.bias"].numpy(), before["value.bias"])  # as it was
    vec.close()


@pytest.mark.parametrize("core", ["lstm", "gru", "mingru"])
@pytest.mark.parametrize(("name", "fill"), [("short", 1.0), ("pair", 1.0), ("short", 0.5)])
def test_the_learner_sees_the_state_that_acted(core, name, fill):
    """Log-probabilities and values of whole segments, computed anew by the learner, are those
    noted when the steps were taken, through the ends of episodes and between rollouts."""
    vec = environments(name, 48, batch_size=16)
    collector, learner = torch_parts(vec, horizon=10, memory=core, fill=fill, minibatches=2)
    for _ in range(3):
        ro = collector.collect(learner.weights)
        stats = learner.learn(ro, lr=0.0)
        assert stats.kl == pytest.approx(0.0, abs=1e-6)
        assert stats.clip_fraction == 0.0
    assert ro.done.sum() > 20
    assert np.abs(ro.states).max() > 0.1  # episodes go on between rollouts
    learner.learn(ro, lr=0.01)
    vec.close()


def test_gradients_reach_encoder_and_memory():
    vec = environments("short", 32)
    collector, learner = torch_parts(vec, memory="gru")
    before = tensors_of(learner)
    learner.learn(collector.collect(learner.weights), lr=0.01)
    after = tensors_of(learner)
    for name in ("core.input.weight", "core.recurrent.weight", "encoder.layers.0.weight"):
        assert not np.array_equal(before[name], after[name])
    vec.close()


@pytest.mark.parametrize("options", [{}, {"memory": "lstm"}, {"optimizer": "muon"}])
def test_a_saved_learner_goes_on(options):
    if options.get("optimizer") == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    torch.set_num_threads(1)
    results = []
    for resumed in (False, True):
        vec = environments("cartpole", 64)
        collector, learner = torch_parts(vec, normalize=True, epochs=2, **options)
        for update in range(4):
            if resumed and update == 2:
                states = collector.state_dict(), learner.state_dict()
                collector, learner = torch_parts(vec, normalize=True, epochs=2, seed=3, **options)
                collector.load_state_dict(states[0])
                learner.load_state_dict(states[1])
            learner.learn(collector.collect(learner.weights), lr=0.01)
        results.append(tensors_of(learner))
        vec.close()
    assert all(np.array_equal(results[0][name], array) for name, array in results[1].items())


def test_an_update_ends_where_the_policy_has_moved_enough():
    counts = []
    for target in (0.0, 1e-7):
        vec = environments("cartpole", 64)
        collector, learner = torch_parts(vec, epochs=5, minibatches=2, target_kl=target)
        learner.learn(collector.collect(learner.weights), lr=0.01)
        counts.append(learner._shuffles)
        vec.close()
    assert counts == [5, 1]


@pytest.mark.parametrize("options", [{"bf16": True}, {"optimizer": "muon"}])
def test_options_train(options):
    if options.get("optimizer") == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    vec = environments("cartpole", 64)
    collector, learner = torch_parts(vec, **options)
    for _ in range(2):
        stats = learner.learn(collector.collect(learner.weights), lr=0.005)
    assert np.isfinite(stats[:6]).all()
    assert len(learner._optimizers) == (2 if "optimizer" in options else 1)
    vec.close()


def test_a_gradient_that_is_not_finite_is_named():
    vec = environments("cartpole", 64)
    collector, learner = torch_parts(vec)
    ro = collector.collect(learner.weights)
    with torch.no_grad():
        learner.module.value.bias.fill_(float("inf"))
    with pytest.raises(NonFiniteError, match="value_loss is inf in update 0") as caught:
        learner.learn(ro, lr=0.01)
    assert (caught.value.kind, caught.value.name) == ("loss", "value_loss")
    vec.close()


def test_wrong_options_are_named():
    vec = environments("cartpole", 4)
    with pytest.raises(ArgumentError, match="epochs is 0"):
        torch_parts(vec, epochs=0)
    with pytest.raises(ArgumentError, match="optimizer is 'sgd': expected adam or muon"):
        torch_parts(vec, optimizer="sgd")
    vec.close()


def test_transfer_off_the_cpu_keeps_its_staging_memory():
    """On a device without memory of its own, which goes the way that CUDA does but for pinning."""
    transfer = Transfer(torch.device("meta"))
    first = transfer("x", np.ones((3, 2), np.float32))
    assert first.device.type == "meta"
    kept = transfer._pinned["x"]
    assert kept.tolist() == [[1, 1]] * 3
    transfer("x", np.zeros((3, 2), np.float32))
    assert transfer._pinned["x"] is kept
    assert kept.tolist() == [[0, 0]] * 3
    array = np.ones(4, np.float32)
    assert Transfer(torch.device("cpu"))("x", array).data_ptr() == array.ctypes.data
