"""Fused collection: replayed step by step through VecEnv.step, and its statistics and errors."""

from pathlib import Path

import naive
import numpy as np
import pytest
from rollouts import mask_tiles

from headrace import make_vec
from headrace.engine.errors import ArgumentError, CallOrderError, ClosedError
from headrace.trainers._native import StopFlag
from headrace.trainers.collector import FusedCollector
from headrace.trainers.learner import NativeLearner
from headrace.trainers.policy import PolicySpec, seed_key
from headrace.trainers.rollout import MaskError, NonFiniteError, Stopped
from headrace.trainers.tiles import from_tiles, to_tiles

ENGINE = Path(__file__).parents[1] / "engine" / "worlds"
HERE = Path(__file__).parent / "worlds"
FUSE = str(HERE / "fuse.c")
SHUT = str(HERE / "shut.c")
WORLDS = {
    "cartpole": ("cartpole", {}),
    "short": ("cartpole", {"max_steps": 7}),  # mostly truncations
    "walk": (str(ENGINE / "walk.c"), {}),  # masks, two choices, one-hot
    "pair": (str(ENGINE / "pair.c"), {}),  # agents that come and go
    "leave": (str(HERE / "leave.c"), {}),  # an agent is away when its world ends
    "turns": (str(HERE / "turns.c"), {}),  # and rewarded meanwhile
    "slide": (str(ENGINE / "slide.c"), {"slope": np.float32([0.3, -0.2])}),  # continuous
    "kart": (str(ENGINE / "kart.c"), {"max_steps": 5}),  # bytes; both kinds of action
}
GAMMA, LAMBDA = 0.97, 0.9


def environments(name, num_envs, threads=2, **extra):
    env, params = WORLDS.get(name, (name, {}))
    vec = make_vec(env, num_envs, threads=threads, autoreset_mode="SameStep", **params, **extra)
    vec.reset(seed=5)
    return vec


def collector_of(vec, horizon, seed=3, hidden=(16,), memory="none", **options):
    policy = PolicySpec.from_env(vec.spec_, hidden, memory=memory)
    return FusedCollector(
        vec, policy, horizon=horizon, gamma=GAMMA, gae_lambda=LAMBDA, seed=seed, **options
    )


def by_row(array, rollout, agents):
    """[tiles, k, 64] or [tiles, 64] as [horizon, rows (padding included), k] or [horizon, rows]."""
    flat = array if array.ndim == 3 else array[:, None]
    steps = rollout.horizon
    cut = flat.reshape(-1, steps, agents, flat.shape[1], 64).transpose(1, 0, 2, 4, 3)
    cut = cut.reshape(steps, -1, flat.shape[1])
    return cut if array.ndim == 3 else cut[..., 0]


def spread_params(policy, seed=0):
    """Parameters that make a policy of some variety."""
    rng = np.random.default_rng(seed)
    return policy.init(seed) + (0.3 * rng.standard_normal(policy.num_params)).astype(np.float32)


def structs_of(policy, bits):
    """Action structs of the environment from sampled bits [rows, heads], floats clipped."""
    structs = np.zeros(len(bits), policy.env.action_dtype)
    data = structs.view(np.uint8).reshape(len(bits), -1)
    for k, head in enumerate(policy.heads):
        column = np.ascontiguousarray(bits[:, k])
        if not head.size:
            column = np.clip(column.view(np.float32), np.float32(head.low), np.float32(head.high))
        data[:, head.offset : head.offset + 4] = column.view(np.uint8).reshape(-1, 4)
    return structs


@pytest.mark.parametrize("num_envs", [8, 64, 150])
@pytest.mark.parametrize("name", list(WORLDS))
def test_a_rollout_is_what_step_gives(name, num_envs):
    vec, slow = environments(name, num_envs), environments(name, num_envs, threads=1)
    horizon = 13
    collector = collector_of(vec, horizon)
    policy = collector.policy
    params = spread_params(policy)
    weights = policy.weights(params, version=4)
    rows, agents, spec = vec.num_envs, vec.agents, vec.spec_
    arrays = slow.buffers.arrays
    step = 0
    for _ in range(3):
        ro = collector.collect(weights)
        assert ro.version == 4
        got = {
            k: by_row(getattr(ro, k), ro, agents)[:, :rows]
            for k in ("obs", "actions", "logp", "value", "reward", "done", "bootstrap", "valid")
        }
        bootstrap = np.zeros((horizon, rows))
        episodes = []
        for t in range(horizon):
            present = arrays["present"].copy()
            np.testing.assert_array_equal(got["valid"][t], present)
            expected = naive.encode(spec, arrays["obs"]) * present[:, None]
            np.testing.assert_allclose(got["obs"][t], expected, rtol=1e-6, atol=1e-7)
            mask = arrays["mask"].reshape(rows, -1) if spec.mask_size else None
            if mask is not None:
                stored = by_row(ro.mask, ro, agents)[t, :rows]
                np.testing.assert_array_equal(stored, mask)
            out = policy.net.forward(params, to_tiles(np.ascontiguousarray(got["obs"][t])))
            tiles = None if mask is None else mask_tiles(mask)
            actions, logp = policy.net.sample(params, out, tiles, seed_key(3), step, False)
            np.testing.assert_array_equal(got["actions"][t], from_tiles(actions, rows))
            np.testing.assert_array_equal(got["logp"][t], logp.reshape(-1)[:rows])
            np.testing.assert_array_equal(got["value"][t], from_tiles(out, rows)[:, -1])
            slow.step(spec.view_actions(structs_of(policy, from_tiles(actions, rows))))
            over = arrays["terminated"] | arrays["truncated"]
            np.testing.assert_array_equal(got["done"][t], over)
            np.testing.assert_array_equal(got["reward"][t], arrays["rewards"])
            finals = naive.forward(policy, params, naive.encode(spec, arrays["final_obs"]))[:, -1]
            bootstrap[t] = np.where(over & ~arrays["terminated"], finals, 0.0)
            episodes += [
                (t, row, arrays["last_return"][row], arrays["last_length"][row])
                for row in np.flatnonzero(over)
            ]
            step += 1
        np.testing.assert_allclose(got["bootstrap"], bootstrap, rtol=1e-5, atol=1e-5)
        ours = zip(
            ro.episode_steps, ro.episode_rows, ro.episode_returns, ro.episode_lengths, strict=True
        )
        assert [tuple(e) for e in ours] == episodes
        assert ro.steps == got["valid"].sum() == ro.tile_rows.sum()
        last = naive.encode(spec, arrays["obs"]) * ~arrays["ended"][:, None]
        expected = naive.gae(
            got["reward"], got["value"], got["done"], bootstrap, got["valid"],
            naive.forward(policy, params, last)[:, -1], GAMMA, LAMBDA,
        )  # fmt: skip
        for k, array in zip(("advantage", "ret"), expected, strict=True):
            np.testing.assert_allclose(
                by_row(getattr(ro, k), ro, agents)[:, :rows], array, rtol=2e-4, atol=2e-4
            )
        padding = by_row(ro.valid, ro, agents)[:, rows:]
        assert not padding.any()
        moments = [a[got["valid"] > 0].astype(np.float64) for a in expected]
        sums = [m for a in moments for m in (a.sum(), (a**2).sum())]
        np.testing.assert_allclose(
            ro.moments.sum(0), [ro.steps, *sums, *sums[:2]], rtol=1e-3, atol=1e-3 * ro.steps
        )
    vec.close()
    slow.close()


def test_an_end_reaches_the_rows_that_are_away():
    vec = environments("leave", 6)
    collector = collector_of(vec, 25)
    policy = collector.policy
    ro = collector.collect(policy.weights(spread_params(policy)))
    done, valid = (by_row(getattr(ro, k), ro, 2)[:, :6] for k in ("done", "valid"))
    for row in range(6):
        assert np.flatnonzero(done[:, row]).tolist() == [9, 19]
        steps = range(25) if row % 2 == 0 else [0, 1, 2, 10, 11, 12, 20, 21, 22]
        assert np.flatnonzero(valid[:, row]).tolist() == list(steps)
    assert sorted(zip(ro.episode_steps, ro.episode_rows, ro.episode_lengths, strict=True)) == [
        (t, row, 3 if row % 2 else 10) for t in (9, 19) for row in range(6)
    ]
    assert set(ro.episode_returns[ro.episode_rows % 2 == 1]) == {6.0}
    # the last step of an agent that left: its reward and V(final observation), nothing later
    value, bootstrap, advantage = (
        by_row(getattr(ro, k), ro, 2)[:, :6] for k in ("value", "bootstrap", "advantage")
    )
    wanted = 2.0 + GAMMA * bootstrap[9, 1::2] - value[2, 1::2]
    np.testing.assert_allclose(advantage[2, 1::2], wanted, rtol=1e-5)
    assert (bootstrap[9] != 0).all()
    vec.close()


def test_a_reward_reaches_the_last_step_of_the_agent_that_is_away():
    vec = environments("turns", 4)
    collector = collector_of(vec, 8)
    policy = collector.policy
    ro = collector.collect(policy.weights(spread_params(policy)))
    done, valid, value, advantage = (
        by_row(getattr(ro, k), ro, 2)[:, :4] for k in ("done", "valid", "value", "advantage")
    )
    np.testing.assert_array_equal(np.flatnonzero(done.all(1)), [3, 7])
    assert done.sum() == 8
    np.testing.assert_array_equal(valid[:, 1], [1, 0, 1, 0, 1, 0, 1, 0])
    np.testing.assert_allclose(advantage[2, 1::2], -1.0 - value[2, 1::2], rtol=1e-6)
    np.testing.assert_allclose(advantage[3, 0::2], 1.0 - value[3, 0::2], rtol=1e-6)
    assert ro.episode_returns.tolist() == [1.0, -1.0, 1.0, -1.0] * 2
    vec.close()


@pytest.mark.parametrize("name", ["cartpole", "walk", "pair", "slide"])
def test_neighbours_and_threads_change_nothing(name):
    """The rows of a small batch are those of a large one, on any number of threads."""
    taken = []
    for num_envs, threads in ((40, 1), (200, 2), (200, 3)):
        vec = environments(name, num_envs, threads)
        collector = collector_of(vec, 20)
        weights = collector.policy.weights(spread_params(collector.policy))
        for _ in range(2):
            ro = collector.collect(weights)
        names = ("obs", "actions", "logp", "value", "reward", "done", "advantage", "ret")
        taken.append([by_row(getattr(ro, k), ro, vec.agents)[:, :40].tobytes() for k in names])
        vec.close()
    assert taken[0] == taken[1] == taken[2]


def test_the_serial_executor_gives_the_same():
    returns = []
    for executor in ("serial", "threads"):
        threads = 2 if executor == "threads" else None
        vec = environments("cartpole", 100, threads, executor=executor)
        collector = collector_of(vec, 30)
        ro = collector.collect(collector.policy.weights(spread_params(collector.policy)))
        returns.append(ro.advantage.tobytes())
        vec.close()
    assert returns[0] == returns[1]


def test_several_rollouts_can_be_there_at_once():
    vec = environments("cartpole", 10)
    collector = collector_of(vec, 5)
    weights = collector.policy.weights(spread_params(collector.policy))
    first, second = collector.new_rollout(), collector.new_rollout()
    collector.collect(weights, into=first)
    kept = first.obs.copy()
    collector.collect(weights, into=second)
    np.testing.assert_array_equal(first.obs, kept)
    assert not np.array_equal(second.obs, kept)
    own = collector.collect(weights)
    assert own is collector.collect(weights)
    vec.close()


# ---- normalisation -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cartpole", "pair"])
def test_observations_are_normalised_by_what_was_seen(name):
    vec, plain = environments(name, 100), environments(name, 100)
    collector = collector_of(vec, 20, normalize_obs=True)
    policy = collector.policy
    learner = NativeLearner(policy, vec.pool, seed=0)
    raw_collector = collector_of(plain, 20)
    raw = []
    for _ in range(3):
        before = learner.weights
        ro = collector.collect(before)
        scaled = by_row(ro.obs, ro, vec.agents)[by_row(ro.valid, ro, vec.agents) > 0]
        # the same actions through a collector that leaves observations as they are
        other = raw_collector.policy.weights(before.params)
        same = _replayed(raw_collector, other, ro)
        wanted = np.clip((same - before.obs_mean) * before.obs_scale, -10, 10)
        np.testing.assert_allclose(scaled, wanted, rtol=1e-4, atol=1e-4)
        raw.append(same)
        learner.learn(ro, lr=1e-3)
        seen = np.concatenate(raw).astype(np.float64)
        np.testing.assert_allclose(learner.weights.obs_mean, seen.mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(learner.weights.obs_scale, 1 / seen.std(0), rtol=1e-3)
    vec.close()
    plain.close()


def _replayed(collector, weights, rollout):
    """Raw observations of the valid rows when the actions of `rollout` are played again."""
    vec, policy = collector.vec, collector.policy
    rows, found = vec.num_envs, []
    actions = by_row(rollout.actions, rollout, vec.agents)[:, :rows]
    for bits in actions:
        present = vec.buffers.arrays["present"].copy()
        found.append(naive.encode(policy.env, vec.buffers.arrays["obs"])[present])
        vec.step(policy.env.view_actions(structs_of(policy, bits)))
    assert weights.version == 0
    order = [row for step in found for row in step]
    return np.array(order)


def test_rewards_are_scaled_by_the_spread_of_discounted_returns():
    vec, plain = environments("walk", 100), environments("walk", 100)
    collector, raw = collector_of(vec, 15, normalize_reward=True), collector_of(plain, 15)
    policy = collector.policy
    learner = NativeLearner(policy, vec.pool, seed=0)
    total, seen = np.zeros(100), []
    for _ in range(3):
        weights = learner.weights
        ro, same = collector.collect(weights), raw.collect(weights)
        np.testing.assert_array_equal(ro.actions, same.actions)
        reward, done = by_row(same.reward, same, 1)[:, :100], by_row(same.done, same, 1)[:, :100]
        wanted = np.clip(reward * weights.reward_scale, -10, 10)
        np.testing.assert_allclose(by_row(ro.reward, ro, 1)[:, :100], wanted, rtol=1e-5)
        np.testing.assert_array_equal(ro.episode_returns, same.episode_returns)
        for t in range(15):
            total = total * GAMMA + reward[t]
            seen.append(total.copy())
            total = np.where(done[t] > 0, 0.0, total)
        learner.learn(ro, lr=1e-3)
        scale = 1 / np.std(np.concatenate(seen))
        assert learner.weights.reward_scale == pytest.approx(scale, rel=1e-4)
    vec.close()
    plain.close()


# ---- going on, and going wrong -----------------------------------------------------------


def test_a_saved_collector_goes_on():
    vec = environments("walk", 70)
    collector = collector_of(vec, 9, normalize_reward=True)
    weights = collector.policy.weights(spread_params(collector.policy))
    collector.collect(weights)
    state, worlds = collector.state_dict(), vec.snapshot()
    expected = collector.collect(weights)
    expected = {k: getattr(expected, k).copy() for k in ("actions", "reward", "advantage")}
    other_vec = environments("walk", 70)
    other_vec.restore(worlds)
    other = collector_of(other_vec, 9, normalize_reward=True)
    other.load_state_dict(state)
    again = other.collect(weights)
    for name, array in expected.items():
        np.testing.assert_array_equal(getattr(again, name), array)
    vec.close()
    other_vec.close()


def test_a_nan_observation_is_named():
    vec = environments(FUSE, 150, bad_obs=np.where(np.arange(150) == 131, 7, 0))
    collector = collector_of(vec, 5)
    weights = collector.policy.weights(spread_params(collector.policy))
    collector.collect(weights)
    with pytest.raises(NonFiniteError, match="observation 'wild' of row 131 is nan at step 7") as e:
        collector.collect(weights)
    assert (e.value.kind, e.value.row, e.value.step, e.value.name) == (
        "observation",
        131,
        7,
        "wild",
    )
    assert np.isnan(e.value.value)
    vec.close()


def test_a_nan_after_the_last_step_is_named():
    vec = environments(FUSE, 3, bad_obs=5)
    collector = collector_of(vec, 5)
    with pytest.raises(NonFiniteError, match="observation 'wild' of row 0 is nan at step 5"):
        collector.collect(collector.policy.weights(spread_params(collector.policy)))
    vec.close()


def test_a_nan_in_a_final_observation_is_named():
    vec = environments(FUSE, 3, bad_obs=50)  # the time limit
    collector = collector_of(vec, 60)
    with pytest.raises(NonFiniteError, match="observation 'wild' of row 0 is nan"):
        collector.collect(collector.policy.weights(spread_params(collector.policy)))
    vec.close()


def test_an_infinite_reward_is_named():
    vec = environments(FUSE, 70, bad_reward=np.where(np.arange(70) == 66, 3, 0))
    collector = collector_of(vec, 5)
    with pytest.raises(NonFiniteError, match="the reward of row 66 is inf at step 2") as e:
        collector.collect(collector.policy.weights(spread_params(collector.policy)))
    assert (e.value.kind, e.value.row) == ("reward", 66)
    vec.close()


def test_calls_out_of_order_are_refused():
    vec = make_vec("cartpole", 4, threads=2, autoreset_mode="SameStep")
    collector = collector_of(vec, 5)
    weights = collector.policy.weights(spread_params(collector.policy))
    with pytest.raises(CallOrderError, match=r"before reset\(\)"):
        collector.collect(weights)
    vec.reset(seed=0)
    vec.send(np.zeros(4, np.int64))
    with pytest.raises(CallOrderError, match="in flight"):
        collector.collect(weights)
    vec.recv()
    collector.collect(weights)
    vec.close()
    with pytest.raises(ClosedError):
        collector.collect(weights)


def test_wrong_arguments_are_named():
    vec = make_vec("cartpole", 4)
    with pytest.raises(ArgumentError, match=r"autoreset_mode is 'NextStep'.*'SameStep'"):
        collector_of(vec, 5)
    vec.close()
    vec = environments("cartpole", 4)
    with pytest.raises(ArgumentError, match="horizon is 0"):
        collector_of(vec, 0)
    vec.close()


def test_stages_are_timed_in_a_few_steps_unless_all_are_asked_for():
    vec = environments("cartpole", 64)
    collector = collector_of(vec, 16)
    weights = collector.policy.weights(spread_params(collector.policy))
    found = []
    for _ in range(3):  # steps 0, 17 and 34 are timed
        collector.collect(weights)
        found.append(collector.profile())
    assert 0 < found[0]["env"] < found[1]["env"] < found[2]["env"]
    assert found[0]["collect_task"] < found[1]["collect_task"]
    vec.close()


def test_profile_tells_the_stages():
    vec = environments("cartpole", 64)
    collector = collector_of(vec, 32, profile=True)
    collector.collect(collector.policy.weights(spread_params(collector.policy)))
    seconds = collector.profile()
    for stage in ("env", "encode", "forward", "sample", "record", "advantage"):
        assert seconds[stage] > 0
    assert seconds["loss"] == 0
    assert seconds["collect_task"] > sum(seconds[stage] for stage in ("env", "forward"))
    vec.close()


def test_a_mask_that_allows_nothing_is_named():
    vec = environments(SHUT, 150, shut=np.where(np.arange(150) == 131, 7, -1))
    collector = collector_of(vec, 5)
    weights = collector.policy.weights(spread_params(collector.policy))
    collector.collect(weights)
    with pytest.raises(MaskError, match="mask of row 131 allows no action at step 7") as e:
        collector.collect(weights)
    assert (e.value.row, e.value.step) == (131, 7)
    vec.close()


def test_nobody_else_steps_while_a_collector_does():
    vec = environments("cartpole", 64)
    collector = collector_of(vec, 4)
    weights = collector.policy.weights(spread_params(collector.policy))
    collector.begin()
    for call in (lambda: vec.step(np.zeros(64, np.int64)), vec.reset, vec.close):
        with pytest.raises(CallOrderError, match="stepped by a collector"):
            call()
    collector.end()
    vec.step(np.zeros(64, np.int64))
    vec.core.acquire()
    with pytest.raises(CallOrderError):
        collector.collect(weights)
    vec.core.release()
    collector.collect(weights)
    vec.close()


def test_a_raised_flag_stops_in_the_middle():
    stop = StopFlag()
    vec = environments("cartpole", 64)
    collector = collector_of(vec, 4, stop=stop)
    learner = NativeLearner(collector.policy, None, seed=0, stop=stop)
    stop.request()
    rollout = collector.collect(learner.weights)  # not armed
    learner.learn(rollout, lr=1e-3)
    stop.arm()
    with pytest.raises(Stopped):
        collector.collect(learner.weights)
    with pytest.raises(Stopped):
        learner.learn(rollout, lr=1e-3)
    assert learner.version == 1
    stop.arm(False)
    learner.learn(rollout, lr=1e-3)
    collector.collect(learner.weights)  # the environments are not claimed any more
    vec.close()
