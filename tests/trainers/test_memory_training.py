"""Policies with a memory in collection and training: what they remember, and until when."""

import naive
import numpy as np
import pytest
from test_collector import by_row, collector_of, environments, spread_params

import headrace
from headrace.trainers.config import TrainConfig
from headrace.trainers.learner import NativeLearner
from headrace.trainers.pipeline import Pipeline
from headrace.trainers.run import Run
from headrace.trainers.settings import ConfigError


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def taken(ro, vec, *names):
    """Arrays of a rollout as [T, rows, ...], copies."""
    return {k: by_row(getattr(ro, k), ro, vec.agents)[:, : vec.num_envs].copy() for k in names}


def episodes_of(rollouts):
    """(observations, values) of every finished episode of each row, of rollouts one after the
    other: the steps in which the row took part."""
    obs, value, done, valid = (
        np.concatenate([kept[name] for kept in rollouts])
        for name in ("obs", "value", "done", "valid")
    )
    for row in range(done.shape[1]):
        first = 0
        for end in np.flatnonzero(done[:, row]):
            live = first + np.flatnonzero(valid[first : end + 1, row])
            if len(live):
                yield obs[live, row], value[live, row]
            first = end + 1


@pytest.mark.parametrize("name", ["short", "pair", "leave", "walk"])
def test_no_state_crosses_an_episodes_end(name):
    """The values of each episode are those of a policy that begins with nothing and sees that
    episode alone, whatever the rollouts' borders."""
    vec = environments(name, 70)
    collector = collector_of(vec, 11, hidden=(16, 8), memory="mingru")
    policy = collector.policy
    params = spread_params(policy)
    weights, kept = policy.weights(params), []
    for _ in range(4):
        kept.append(taken(collector.collect(weights), vec, "obs", "value", "done", "valid"))
    episodes = list(episodes_of(kept))
    assert len(episodes) > 70
    assert max(len(value) for _, value in episodes) > 2
    nothing = np.zeros((1, policy.state_size))
    for obs, value in episodes:
        no, yes = np.zeros((len(obs), 1), bool), np.ones((len(obs), 1), bool)
        out, _ = naive.unroll(policy, params, obs[:, None], nothing, no, yes)
        np.testing.assert_allclose(value, out[:, 0, -1], rtol=1e-4, atol=1e-5)
    vec.close()


@pytest.mark.parametrize("name", ["short", "pair"])
def test_the_learner_sees_the_state_that_acted(name):
    """Computed anew from a rollout's first states, log-probabilities are those of its steps."""
    vec = environments(name, 150)
    collector = collector_of(vec, 10, hidden=(16, 8), memory="mingru")
    learner = NativeLearner(collector.policy, vec.pool, seed=3, minibatches=2)
    for _ in range(3):
        ro = collector.collect(learner.weights)
        again, _ = learner._native.current_logp(ro)
        live = ro.valid > 0
        np.testing.assert_allclose(again[live], ro.logp[live], atol=1e-6)
        assert learner.learn(ro, lr=0.0).kl == pytest.approx(0.0, abs=1e-6)
    assert np.abs(ro.states).max() > 0.1
    vec.close()


def test_what_is_cut_is_valued_by_what_was_remembered():
    vec = environments("short", 64)
    collector = collector_of(vec, 7, hidden=(16, 8), memory="mingru")
    policy = collector.policy
    params = spread_params(policy)
    ro = collector.collect(policy.weights(params))
    obs, done = by_row(ro.obs, ro, 1), by_row(ro.done, ro, 1)
    assert done[6].sum() > 40  # the time limit
    no, yes = np.zeros((7, 64), bool), np.ones((7, 64), bool)
    _, state = naive.unroll(policy, params, obs, np.zeros((64, 8)), no, yes)
    final = naive.encode(vec.spec_, vec.buffers.arrays["final_obs"])[None]
    out, _ = naive.unroll(policy, params, final, state, no[:1], yes[:1])
    cut = by_row(ro.bootstrap, ro, 1)[6]
    only = (cut != 0) & (done[:6].sum(0) == 0)
    assert only.sum() > 40
    np.testing.assert_allclose(cut[only], out[0, only, -1], rtol=1e-4, atol=1e-5)
    vec.close()


def test_a_state_can_be_computed_anew_by_newer_weights():
    vec = environments("short", 100)
    states = []
    for recall in (False, True):
        vec.reset(seed=5)
        collector = collector_of(vec, 10, hidden=(16, 8), memory="mingru")
        learner = NativeLearner(collector.policy, vec.pool, seed=3, recall=recall)
        first = collector.collect(learner.weights, collector.new_rollout())
        second = collector.collect(learner.weights, collector.new_rollout())
        acted = second.states.copy()
        learner.learn(first, lr=0.05)
        params = learner.weights.params.copy()
        learner.learn(second, lr=0.05)
        states.append(second.states.copy())
    np.testing.assert_array_equal(states[0], acted)
    rows = {
        "horizon": 10,
        **{name: getattr(first, name).reshape(-1) for name in ("valid", "done")},
    }
    obs = by_row(first.obs, first, 1)
    live, done = naive.by_step(rows, "valid") > 0, naive.by_step(rows, "done") > 0
    nothing = np.zeros((128, 8))
    _, last = naive.unroll(collector.policy, params, obs, nothing, naive.began(rows), live)
    expected = np.where(done[-1][:, None], 0.0, last)
    got = states[1].transpose(0, 2, 1).reshape(128, 8)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(got - acted.transpose(0, 2, 1).reshape(128, 8)).max() > 0.01
    vec.close()


# ---- training ----------------------------------------------------------------------------

STEPS = 60_000
SETTINGS = {
    "memory": "mingru", "hidden": (16, 8), "num_envs": 200, "horizon": 16, "target": None,
}  # fmt: skip


def weights_of(folder):
    run = Run.open(folder)
    return (run.checkpoint_path(run.latest()) / "policy.safetensors").read_bytes()


def test_threads_change_no_bit():
    for threads in (1, 2, 3):
        headrace.train("cartpole", steps=STEPS, threads=threads, run_dir=f"t{threads}", **SETTINGS)
    assert weights_of("t1") == weights_of("t2") == weights_of("t3")


@pytest.mark.parametrize(
    "options",
    [{}, {"recall": True}, {"async_": True, "deterministic": True, "max_lag": 2, "recall": True}],
)
def test_a_resumed_run_is_the_whole_one(options):
    settings = {**SETTINGS, "seed": 4, "lr_schedule": "constant", **options}
    headrace.train("cartpole", steps=STEPS, run_dir="whole", **settings)
    headrace.train("cartpole", steps=STEPS // 2, run_dir="parts", **settings)
    headrace.train(resume="parts", steps=STEPS)
    assert weights_of("parts") == weights_of("whole")
    if options == {"recall": True}:
        headrace.train(
            "cartpole", steps=STEPS, lr_schedule="constant", run_dir="r", **SETTINGS, seed=4
        )
        assert weights_of("r") != weights_of("whole")


@pytest.mark.parametrize("inflight", [True, False])
def test_a_state_survives_a_swap_of_weights(inflight):
    """Rows go on with what older weights made them remember; what has ended is forgotten."""
    vec = environments("cartpole", 128)
    collector = collector_of(vec, 5, hidden=(16, 8), memory="mingru")
    learner = NativeLearner(collector.policy, vec.pool, seed=3)
    options = {"max_lag": 2, "replicas": 2, "inflight": inflight, "deterministic": not inflight}
    pipeline = Pipeline(collector, learner, **options)
    params, before = {0: learner.weights.params}, None
    for _ in range(6):
        ro = pipeline.take()
        now = taken(ro, vec, "obs", "done", "valid")
        states = ro.states.transpose(0, 2, 1).reshape(128, 8)
        if before is not None:
            begun, last, own = before
            no = np.zeros_like(begun)
            for block, version in enumerate(own["versions"]):
                rows = slice(64 * block, 64 * block + 64)
                args = (own["obs"][:, rows], own["states"][rows], begun[:, rows], ~no[:, rows])
                _, after = naive.unroll(collector.policy, params[version], *args)
                expected = np.where(last[rows, None], 0.0, after)
                np.testing.assert_allclose(states[rows], expected, rtol=1e-4, atol=1e-5)
        began = np.concatenate([np.zeros((1, 128)), now["done"][:-1]]) > 0
        own = {"obs": now["obs"], "states": states, "versions": ro.block_versions.copy()}
        before = began, now["done"][-1] > 0, own
        pipeline.learn(ro, lr=0.01, ent_coef=0.0)
        params[learner.version] = learner.weights.params
    assert len(set(params)) > 4
    assert ro.version > 0
    pipeline.close()
    vec.close()


def test_settings_that_do_not_fit_are_named():
    for options, sentence in [
        ({"memory": "gru"}, "memory gru needs a torch policy"),
        ({"memory": "mingru", "separate": True}, "give separate or memory, not both"),
        ({"recall": True}, "recall is of policies with a memory"),
    ]:
        with pytest.raises(ConfigError, match=sentence):
            TrainConfig(env="cartpole", **options)


# ---- tasks that take memory ---------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("delay", [16, 64])
def test_a_cue_is_remembered(delay, seed):
    result = headrace.train("memory", params={"DELAY": delay}, seed=seed, run_dir="m")
    assert result.solved
    assert result.return_mean >= result.return_target == 0.95
    assert result.steps < 4_000_000
    if seed == 0:
        assert headrace.evaluate("m", episodes=200).return_mean > 0.9


def test_a_cue_is_not_remembered_without_a_memory():
    result = headrace.train("memory", memory="none", steps=500_000, run_dir="m")
    assert not result.solved
    assert result.return_mean < 0.0


def test_a_maze_takes_memory():
    """The preset's target is 12; a third of that is out of reach without a memory."""
    settings = {"steps": 1_500_000, "target": 4, "lr_schedule": "constant"}
    found = {
        memory: headrace.train("maze", memory=memory, run_dir=memory, **settings)
        for memory in ("mingru", "none")
    }
    assert found["mingru"].solved
    assert found["none"].return_mean < 2.5
