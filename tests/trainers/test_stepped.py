"""Stepped collection: the same as fused collection, whatever the groups; segments closed early."""

from itertools import pairwise

import gymnasium
import naive
import numpy as np
import pytest
from gymnasium import spaces
from test_collector import (
    FUSE,
    GAMMA,
    LAMBDA,
    SHUT,
    WORLDS,
    collector_of,
    environments,
    spread_params,
)

from headrace import make_vec
from headrace.engine.errors import ArgumentError, CallOrderError
from headrace.trainers._native import StopFlag
from headrace.trainers.actor import NativeActor
from headrace.trainers.batch import Batch
from headrace.trainers.learner import NativeLearner
from headrace.trainers.policy import PolicySpec
from headrace.trainers.rollout import MaskError, NonFiniteError, Stopped
from headrace.trainers.stepped import SteppedCollector

ARRAYS = ("obs", "actions", "logp", "value", "reward", "done", "bootstrap", "valid", "advantage")


def stepped_of(vec, policy, horizon, seed=3, normalize_obs=False, **options):
    actor = NativeActor(policy, normalize_obs=normalize_obs)
    return SteppedCollector(
        vec, actor, horizon=horizon, gamma=GAMMA, gae_lambda=LAMBDA, seed=seed,
        normalize_obs=normalize_obs, **options,
    )  # fmt: skip


@pytest.mark.parametrize("memory", ["none", "mingru"])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("name", list(WORLDS))
def test_rollouts_equal_those_of_fused_collection(name, groups, memory):
    agents = 2 if name in ("pair", "leave", "turns") else 1
    batch = -(-150 // groups // agents) * agents
    fast, slow = environments(name, 150), environments(name, 150, batch_size=batch)
    fused = collector_of(fast, 9, memory=memory)
    stepped = stepped_of(slow, fused.policy, 9)
    weights = fused.policy.weights(spread_params(fused.policy), version=4)
    for _ in range(3):
        one, other = fused.collect(weights), stepped.collect(weights)
        live = one.valid > 0
        for array in ARRAYS:
            a, b = getattr(one, array), getattr(other, array)
            where = live if a.ndim == 2 else live[:, None].repeat(a.shape[1], 1)
            np.testing.assert_array_equal(a[where], b[where], err_msg=array)
        np.testing.assert_array_equal(one.ret, other.ret)
        np.testing.assert_array_equal(one.states, other.states)
        np.testing.assert_array_equal(one.moments, other.moments)
        for what in ("returns", "lengths", "steps", "rows"):
            a, b = (getattr(ro, f"episode_{what}") for ro in (one, other))
            np.testing.assert_array_equal(a, b)
        assert (one.steps, one.version) == (other.steps, other.version)
        assert (other.versions[other.valid.reshape(-1) > 0] == 4).all()
    fast.close()
    slow.close()


@pytest.mark.parametrize(("threads", "memory"), [(1, "none"), (2, "none"), (2, "mingru")])
def test_training_ends_in_the_same_weights(threads, memory):
    results = []
    for kind in ("fused", "stepped"):
        vec = environments("short", 100, threads=threads, batch_size=50)
        fused = collector_of(vec, 8, memory=memory, normalize_obs=True, normalize_reward=True)
        collector = fused
        if kind == "stepped":
            collector = stepped_of(vec, fused.policy, 8, normalize_obs=True, normalize_reward=True)
        learner = NativeLearner(fused.policy, vec.pool, seed=3, epochs=2)
        for _ in range(4):
            learner.learn(collector.collect(learner.weights), lr=0.01, ent_coef=0.01)
        results.append(learner.state_dict())
        vec.close()
    np.testing.assert_array_equal(results[0]["native"]["params"], results[1]["native"]["params"])
    for name in ("observations", "returns"):
        np.testing.assert_array_equal(results[0][name]["square"], results[1][name]["square"])


def streams(rollouts, rows):
    """What each row did over several rollouts: {name: list of arrays, one for each row}."""
    found = {name: [[] for _ in range(rows)] for name in ("value", "logp", "reward", "raw")}
    for ro in rollouts:
        valid = ro.by_step(ro.valid) > 0
        for name, lists in found.items():
            array = ro.by_step(ro.raw if name == "raw" else getattr(ro, name))
            for row in range(rows):
                lists[row].extend(array[valid[:, row], row])
    return {name: [np.array(each) for each in lists] for name, lists in found.items()}


class Moody(Batch):
    """Hands rows out in a random order, the first ten of them seldom."""

    def __init__(self, vec):
        super().__init__(vec)
        self.rng = np.random.default_rng(1)
        self.waiting = {}

    def send(self, actions, rows):
        self.waiting.update(zip(rows.tolist(), actions, strict=True))
        self.in_flight += len(rows)

    def recv(self):
        there = np.array(sorted(self.waiting))
        haste = np.where(there < 10, 0.8, 1.0) * self.rng.random(len(there))
        rows = np.sort(there[np.argsort(-haste)[: self.group]])
        super().send(np.array([self.waiting.pop(row) for row in rows]), rows)
        self.in_flight -= len(rows)  # counted when they were sent
        return super().recv()


def early(fill, collects=6):
    """Copies of rollouts that were closed early, their collector and environments."""
    vec = environments("short", 96, batch_size=16)
    policy = PolicySpec.from_env(vec.spec_, (16,))
    collector = stepped_of(Moody(vec), policy, 12, fill=fill)
    weights = policy.weights(spread_params(policy), version=2)
    rollouts = [collector.collect(weights, collector.new_rollout()) for _ in range(collects)]
    return rollouts, collector, vec


def test_segments_that_are_closed_early_lose_and_repeat_nothing():
    rollouts, collector, vec = early(0.6)
    sent, under_way = collector._book.taken.sum(), collector._book.flying.sum()
    assert sent == sum(ro.steps for ro in rollouts) + under_way
    full = environments("short", 96)
    policy = collector.actor.policy
    whole = stepped_of(full, policy, 72).collect(policy.weights(spread_params(policy)))
    expected, got = streams([whole], 96), streams(rollouts, 96)
    lengths = [len(each) for each in got["value"]]
    assert 1 <= min(lengths) < max(lengths) <= 72
    for name in expected:
        for row, length in enumerate(lengths):
            np.testing.assert_array_equal(got[name][row], expected[name][row][:length])
    vec.close()
    full.close()


def test_segments_that_are_closed_early_are_prefixes_with_their_bootstrap():
    rollouts, _, vec = early(0.6)
    for ro, after in pairwise(rollouts):
        valid = ro.by_step(ro.valid) > 0
        assert 0.6 * 96 * 12 <= ro.steps < 96 * 12
        assert (np.diff(valid.astype(int), axis=0) <= 0).all()
        reward, value, done, bootstrap, advantage = (
            ro.by_step(getattr(ro, k))
            for k in ("reward", "value", "done", "bootstrap", "advantage")
        )
        first = after.by_step(after.value)[0]  # of the observation where the segment stopped
        acts = after.by_step(after.valid)[0] > 0
        expected, _ = naive.gae(
            reward, value, done, bootstrap, valid.astype(float), first, GAMMA, LAMBDA
        )
        np.testing.assert_allclose(advantage[:, acts], expected[:, acts], rtol=1e-4, atol=1e-5)
    vec.close()


def test_weights_are_asked_for_at_every_step():
    vec = environments("cartpole", 64, batch_size=32)
    policy = PolicySpec.from_env(vec.spec_, (8,))
    collector = stepped_of(vec, policy, 4)
    given = []

    def newest():
        given.append(policy.weights(policy.init(len(given)), version=len(given)))
        return given[-1]

    ro = collector.collect(newest)
    versions = ro.by_step(ro.versions)
    assert set(versions.ravel()) == set(range(8))  # two groups, four steps each
    assert (np.diff(versions, axis=0) > 0).all()
    assert ro.version == 0
    assert list(ro.block_versions) == [0]
    vec.close()


def test_a_saved_collector_goes_on():
    ends = []
    for interrupted in (False, True):
        vec = environments("pair", 64, batch_size=32)
        policy = PolicySpec.from_env(vec.spec_, (8,))
        weights = policy.weights(spread_params(policy))
        collector = stepped_of(vec, policy, 5, normalize_reward=True)
        for _ in range(2):
            collector.collect(weights)
        if interrupted:
            state, snapshot = collector.state_dict(), vec.snapshot()
            vec.close()
            vec = environments("pair", 64, batch_size=32)
            collector = stepped_of(vec, policy, 5, normalize_reward=True)
            collector.load_state_dict(state)
            vec.restore(snapshot)
        ro = collector.collect(weights)
        ends.append((ro.logp.copy(), ro.advantage.copy(), ro.episode_returns.copy()))
        vec.close()
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_under_way_is_dropped_for_a_checkpoint():
    _, collector, vec = early(0.3, collects=1)
    assert collector.batch.in_flight > 0
    collector.state_dict()
    assert collector.batch.in_flight == 0
    vec.snapshot()
    assert collector.collect(collector.actor.policy.weights(collector.actor.policy.init(0))).steps
    vec.close()


@pytest.mark.parametrize(
    ("params", "kind", "sentence"),
    [
        ({"bad_obs": 3}, "observation", "observation 'wild' of row 0 is nan at step 3"),
        ({"bad_reward": 2}, "reward", "the reward of row 0 is inf at step 1"),
    ],
)
def test_numbers_that_are_not_finite_are_named(params, kind, sentence):
    vec = make_vec(FUSE, 10, autoreset_mode="SameStep", threads=1, **params)
    vec.reset(seed=1)
    policy = PolicySpec.from_env(vec.spec_, (8,))
    with pytest.raises(NonFiniteError, match=sentence) as caught:
        stepped_of(vec, policy, 5).collect(policy.weights(policy.init(0)))
    assert (caught.value.kind, caught.value.row) == (kind, 0)
    vec.close()


def test_wrong_arguments_are_named():
    vec = environments("cartpole", 4)
    policy = PolicySpec.from_env(vec.spec_, (8,))
    with pytest.raises(ArgumentError, match="horizon is 0"):
        stepped_of(vec, policy, 0)
    with pytest.raises(ArgumentError, match=r"fill is 0\.0"):
        stepped_of(vec, policy, 4, fill=0.0)
    other = make_vec("cartpole", 4)
    with pytest.raises(ArgumentError, match="SameStep"):
        stepped_of(other, policy, 4)
    fresh = make_vec("cartpole", 4, autoreset_mode="SameStep")
    with pytest.raises(CallOrderError, match="reset"):
        stepped_of(fresh, policy, 4).collect(policy.weights(policy.init(0)))
    for each in (vec, other, fresh):
        each.close()


# ---- Python environments -----------------------------------------------------------------------


class Counter(gymnasium.Env):
    """Counts its steps in a nested observation, and is cut after five; its reward is the first
    choice of its action."""

    observation_space = spaces.Dict(
        {
            "count": spaces.Box(-10, 10, (2,), np.float64),
            "kind": spaces.Tuple((spaces.Discrete(3, start=4), spaces.MultiBinary(2))),
        }
    )
    action_space = spaces.Tuple(
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), spaces.Box(-1, 1, (1,), np.float32))
    )

    def look(self):
        return {"count": np.array([self.steps, -1.0]), "kind": (4 + self.steps % 3, [1, 0])}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        choices, number = action
        assert choices[0] in (5, 6)
        assert choices[1] in (-1, 0, 1)
        assert -1 <= number[0] <= 1
        self.steps += 1
        return self.look(), float(choices[0]), False, self.steps == 5, {}


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_python_environments_with_nested_spaces(executor):
    options = {"workers": 2} if executor == "processes" else {}
    vec = make_vec(
        Counter, 6, executor=executor, autoreset_mode="SameStep", batch_size=3, **options
    )
    vec.reset(seed=1)
    batch = Batch(vec)
    policy = PolicySpec.from_env(batch.spec, (8,))
    assert policy.features == 2 + 3 + 2
    assert [head.size for head in policy.heads] == [2, 3, 0]
    weights = policy.weights(spread_params(policy))
    collector = stepped_of(batch, policy, 7)
    ro = collector.collect(weights)
    x = policy.net.encode(ro.raw)
    steps = np.arange(7) % 5
    for row in range(6):
        seen = ro.by_step(x.transpose(0, 2, 1).reshape(-1, policy.features))[:, row]
        np.testing.assert_array_equal(seen[:, 0], steps)
        np.testing.assert_array_equal(seen[:, 1], -1)
        np.testing.assert_array_equal(seen[:, 2:5], np.eye(3)[steps % 3])
        np.testing.assert_array_equal(seen[:, 5:], [[1, 0]] * 7)
    done = ro.by_step(ro.done)
    np.testing.assert_array_equal(done, (steps == 4)[:, None].repeat(6, 1))
    choice = ro.by_step(ro.actions.transpose(0, 2, 1).reshape(-1, 3))[:, :, 0]
    np.testing.assert_array_equal(ro.by_step(ro.reward), 5 + choice)
    np.testing.assert_array_equal(ro.episode_lengths, [5] * 6)
    np.testing.assert_allclose(ro.episode_returns, ro.by_step(ro.reward)[:5].sum(0))
    final = batch._codec.pack(
        {"count": np.array([[5.0, -1.0]]), "kind": (np.array([4 + 5 % 3]), np.array([[1, 0]]))}
    )
    cut = collector.actor.value(weights, final, np.zeros((1, 0), np.float32))
    np.testing.assert_array_equal(ro.by_step(ro.bootstrap)[4], cut.repeat(6))
    vec.close()


def test_gymnasium_cartpole_collects_in_processes():
    vec = make_vec("gymnasium:CartPole-v1", 8, workers=2, autoreset_mode="SameStep", batch_size=4)
    vec.reset(seed=1)
    batch = Batch(vec)
    policy = PolicySpec.from_env(batch.spec, (8,))
    collector = stepped_of(batch, policy, 60)
    ro = collector.collect(policy.weights(policy.init(0)))
    assert ro.steps == 8 * 60
    assert (ro.reward[ro.valid > 0] == 1).all()
    assert len(ro.episode_lengths) > 4
    np.testing.assert_array_equal(ro.episode_lengths, ro.episode_returns)
    vec.close()


def test_a_mask_that_allows_nothing_is_named():
    vec = environments(SHUT, 150, shut=np.where(np.arange(150) == 131, 7, -1))
    policy = PolicySpec.from_env(vec.spec_, (16,))
    collector = stepped_of(vec, policy, 5)
    weights = policy.weights(spread_params(policy))
    collector.collect(weights)
    with pytest.raises(MaskError, match="mask of row 131 allows no action at step 7"):
        collector.collect(weights)
    vec.close()


def test_a_raised_flag_stops_between_two_steps():
    stop = StopFlag()
    vec = environments("cartpole", 8)
    policy = PolicySpec.from_env(vec.spec_, (16,))
    collector = stepped_of(vec, policy, 5, stop=stop)
    weights = policy.weights(spread_params(policy))
    stop.arm()
    stop.request()
    with pytest.raises(Stopped):
        collector.collect(weights)
    stop.arm(False)
    collector.settle()
    assert collector.collect(weights).steps == 40
    vec.close()
