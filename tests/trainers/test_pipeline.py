"""The pipeline: lag, backpressure, counts to the step, stalls, and what each schedule gives."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
import pytest
from conftest import POINT

from headrace import make_vec
from headrace.engine.errors import ArgumentError
from headrace.trainers import _native
from headrace.trainers.actor import NativeActor
from headrace.trainers.batch import Batch
from headrace.trainers.collector import FusedCollector
from headrace.trainers.learner import NativeLearner
from headrace.trainers.pipeline import InTurn, Pipeline, load_rollout, save_rollout
from headrace.trainers.policy import PolicySpec
from headrace.trainers.rollout import NonFiniteError
from headrace.trainers.stepped import SteppedCollector

# Counts its steps and never ends; waits a while at its step number `stall`.
COUNTER = r"""
#include <headrace.h>

extern int usleep(unsigned int microseconds);

typedef struct { float stall; float seconds; } Params;
typedef struct { int32_t steps; } State;
typedef struct { int32_t push; } Action;
typedef struct { float phase; } Obs;

static inline void counter_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p; (void)rng;
    s->steps = 0;
}

static inline void counter_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                hr_rng *rng) {
    (void)rng;
    s->steps += 1;
    if (s->steps == (int32_t)p->stall) usleep((unsigned int)(p->seconds * 1e6f));
    out->reward = (float)a->push;
}

static inline void counter_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->phase = (float)(s->steps % 7);
}

HR_ENV(counter, HR_OBS(HR_FIELD(Obs, phase, 0.0f, 7.0f)), HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(HR_PARAM(stall, -1.0f), HR_PARAM(seconds, 0.0f)))
"""

T, WORLDS = 8, 200  # 4 blocks, the last one not full


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    """The file of the counting environment."""
    path = tmp_path_factory.mktemp("counter") / "counter.c"
    path.write_text(COUNTER)
    return path


class Run:
    """Environments, collector and learner of a pipeline; to be closed."""

    def __init__(self, env, *, threads=2, worlds=WORLDS, normalize=False, stepped=False, **params):
        executor = "threads" if threads else "serial"
        self.vec = make_vec(
            env, worlds, executor=executor, threads=threads or None, autoreset_mode="SameStep",
            **({"batch_size": worlds // 2} if stepped else {}),
        )  # fmt: skip
        if params:
            self.vec.set_params(**params)
        self.vec.reset(seed=0)
        self.policy = PolicySpec.from_env(self.vec.spec_, (16,))
        options = {"horizon": T, "gamma": 0.9, "gae_lambda": 0.9, "seed": 1,
                   "normalize_obs": normalize, "normalize_reward": normalize}  # fmt: skip
        if stepped:
            actor = NativeActor(self.policy, normalize_obs=normalize)
            self.collector = SteppedCollector(Batch(self.vec), actor, **options)
        else:
            self.collector = FusedCollector(self.vec, self.policy, **options)
        self.learner = NativeLearner(self.policy, self.vec.pool, seed=1)
        self.pipeline = None

    def start(self, **options):
        self.pipeline = Pipeline(self.collector, self.learner, **options)
        return self.pipeline

    def close(self):
        if self.pipeline is not None:
            self.pipeline.close()
        self.vec.close()

    def sent(self):
        """Environment steps by the environments' own count."""
        return int(self.vec.state.view(np.int32).sum())


def learn(pipeline, rollout, lr=0.01):
    return pipeline.learn(rollout, lr=lr, ent_coef=0.01)


def assert_exact(run):
    """steps sent = steps learned + steps in flight, by three counts of their own."""
    pipeline = run.pipeline
    pipeline.settle()
    waiting = sum(int((ro.valid > 0).sum()) for ro in pipeline.waiting)
    assert run.sent() == pipeline.steps_collected == pipeline.steps_learned + waiting
    return waiting


SCHEDULES = [
    {"max_lag": 0},
    {"max_lag": 1},
    {"max_lag": 1, "inflight": False},
    {"max_lag": 3, "replicas": 3},
    {"max_lag": 2, "replicas": 4, "inflight": False},
    {"max_lag": 4, "deterministic": True, "replicas": 2},
]
IDS = ["-".join(f"{k}={v}" for k, v in s.items()) for s in SCHEDULES]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=IDS)
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_lag_is_bounded_and_no_step_is_lost(counter, schedule, threads):
    with closing(Run(counter, threads=threads)) as run:
        pipeline = run.start(**schedule)
        for update in range(7):
            rollout = pipeline.take()
            assert rollout.steps == T * WORLDS
            lags = update - rollout.block_versions
            assert 0 <= lags.min() <= lags.max() <= schedule["max_lag"]
            stats = learn(pipeline, rollout)
            assert stats.lag_max == lags.max()
            if update in (2, 6):
                assert assert_exact(run) <= schedule["max_lag"] * T * WORLDS
        assert pipeline.learned == run.learner.version == 7
        assert pipeline.steps_learned == 7 * T * WORLDS


@pytest.mark.parametrize("max_lag", [1, 3])
@pytest.mark.parametrize("inflight", [True, False])
def test_a_learner_that_stalls_holds_the_actors_back(counter, max_lag, inflight, monkeypatch):
    with closing(Run(counter)) as run:
        pipeline = run.start(max_lag=max_lag, replicas=2, inflight=inflight)
        ordinary = run.learner.learn

        def stalled(rollout, **options):
            time.sleep(2.0)
            return ordinary(rollout, **options)

        for update in range(6):
            rollout = pipeline.take()
            assert (update - rollout.block_versions).max() <= max_lag
            with monkeypatch.context() as patch:
                if update == 2:
                    patch.setattr(run.learner, "learn", stalled)
                learn(pipeline, rollout)
            started = [actor.started for actor in pipeline._actors]
            assert max(started) <= pipeline.learned + max_lag
        assert_exact(run)
        assert pipeline.steps_collected <= (pipeline.learned + max_lag + 1) * T * WORLDS


@pytest.mark.parametrize("max_lag", [1, 3])
def test_an_actor_that_stalls_holds_nobody_but_the_learner_up(counter, max_lag):
    """World 70, of the second block, waits 2 s at its step 20, in the third rollout."""
    stall = np.full(WORLDS, -1.0, np.float32)
    stall[70] = 20.0
    with closing(Run(counter, threads=3, stall=stall, seconds=2.0)) as run:
        pipeline = run.start(max_lag=max_lag, replicas=4)
        slowest = 0.0
        for update in range(6):
            started = time.monotonic()
            rollout = pipeline.take()
            slowest = max(slowest, time.monotonic() - started)
            assert (update - rollout.block_versions).max() <= max_lag
            learn(pipeline, rollout)
        assert_exact(run)
        assert pipeline.steps_learned == 6 * T * WORLDS
    assert slowest < 10.0


def test_the_fixed_schedule_lags_by_max_lag_exactly(counter):
    with closing(Run(counter)) as run:
        pipeline = run.start(max_lag=4, deterministic=True)
        versions = []
        for _ in range(8):
            rollout = pipeline.take()
            versions.append(set(rollout.block_versions.tolist()))
            learn(pipeline, rollout)
        assert versions == [{max(0, k - 4)} for k in range(8)]


@pytest.mark.parametrize("inflight", [True, False])
def test_weights_are_picked_up_in_flight(counter, inflight):
    """On one thread blocks run when they are waited for: after the update."""
    with closing(Run(counter, threads=1)) as run:
        pipeline = run.start(inflight=inflight)
        found = []
        for _ in range(4):
            rollout = pipeline.take()
            found.append(rollout.lag(run.learner.version))
            learn(pipeline, rollout)
        late = (0.0, 0) if inflight else (1.0, 1)
        assert found == [(0.0, 0), late, late, late]


def test_no_lag_is_training_in_turn(point):
    """The very weights, with statistics that are merged from rollouts."""
    results = []
    for kind in (InTurn, Pipeline):
        with closing(Run(point, normalize=True)) as run:
            source = kind(run.collector, run.learner, **({} if kind is InTurn else {"max_lag": 0}))
            run.pipeline = source
            for _ in range(5):
                learn(source, source.take())
            weights = run.learner.weights
            results.append((weights.params.tobytes(), weights.obs_scale.tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_shares_fill_what_the_whole_would(point, replicas):
    """With weights that stay as they are, rollouts do not depend on who collects them when."""
    with closing(Run(point)) as run, closing(Run(point)) as other:
        pipeline = run.start(max_lag=2, replicas=replicas, inflight=False)
        plain = InTurn(other.collector, other.learner)
        for _ in range(7):
            ours, theirs = pipeline.take(), plain.take()
            for name in ("obs", "actions", "logp", "reward", "done", "advantage", "ret", "last"):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
            for name in ("steps", "returns", "rows", "lengths"):
                name = f"episode_{name}"
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
            learn(pipeline, ours, lr=0.0)
            learn(plain, theirs, lr=0.0)
        assert len(ours.episode_returns) > 0


def test_statistics_of_older_weights_are_merged_about_their_own_means(point):
    """Four updates ahead, means and deviations are those of all observations seen."""
    with closing(Run(point, normalize=True)) as run:
        run.learner.weights = _native.Weights(
            run.learner.weights.params.copy(),
            np.full(2, 0.5, np.float32), np.ones(2, np.float32),
        )  # fmt: skip
        pipeline = run.start(max_lag=3, deterministic=True)
        seen = []
        for _ in range(6):
            rollout = pipeline.take()
            raw = rollout.obs[:, 0] / scale_of(run, rollout) + centre_of(run, rollout)
            seen.append(raw[rollout.valid > 0].astype(np.float64))
            learn(pipeline, rollout)
        everything = np.concatenate(seen)
        assert run.learner._obs.mean[0] == pytest.approx(everything.mean(), abs=1e-4)
        spread = 1 / run.learner._obs.scale()[0]
        assert spread == pytest.approx(everything.std(), rel=1e-3)


HISTORY: dict[int, tuple[float, float]] = {}


def centre_of(run, rollout):
    return history(run, rollout)[0]


def scale_of(run, rollout):
    return history(run, rollout)[1]


def history(run, rollout):
    """(mean, scale) of the first feature in the weights that acted."""
    weights = run.learner.weights
    HISTORY[run.learner.version] = (float(weights.obs_mean[0]), float(weights.obs_scale[0]))
    return HISTORY[int(rollout.block_versions[0])]


# ---- rollouts that are saved -------------------------------------------------------------


def test_a_saved_pipeline_goes_on_to_the_last_bit(point):
    def rounds(pipeline, count):
        for _ in range(count):
            learn(pipeline, pipeline.take())

    options = {"max_lag": 2, "deterministic": True, "replicas": 2}
    with closing(Run(point, normalize=True)) as run, closing(Run(point, normalize=True)) as other:
        pipeline = run.start(**options)
        rounds(pipeline, 3)
        pipeline.settle()
        state = pipeline.state_dict()
        assert len(state) == 2
        other.collector.load_state_dict(run.collector.state_dict())
        other.vec.restore(run.vec.snapshot())
        other.learner.load_state_dict(run.learner.state_dict())
        resumed = other.start(**options)
        resumed.load_state_dict(state)
        rounds(pipeline, 4)
        rounds(resumed, 4)
        ours, theirs = run.learner.weights, other.learner.weights
        assert ours.version == theirs.version == 7
        np.testing.assert_array_equal(ours.params, theirs.params)
        np.testing.assert_array_equal(ours.obs_mean, theirs.obs_mean)


def test_rollouts_survive_being_saved(point):
    with closing(Run(point, normalize=True)) as run:
        for _ in range(7):
            rollout = run.collector.collect(run.learner.weights)
        other = run.collector.new_rollout()
        load_rollout(other, save_rollout(rollout))
        assert other.steps == rollout.steps
        assert len(rollout.episode_returns) > 0
        for name in ("obs", "moments", "tile_rows", "episode_returns", "episode_rows", "ret"):
            np.testing.assert_array_equal(getattr(other, name), getattr(rollout, name))


# ---- a collector in a thread of its own --------------------------------------------------


@pytest.mark.parametrize("inflight", [True, False])
def test_stepped_collection_in_a_thread(counter, inflight):
    with closing(Run(counter, worlds=128, stepped=True)) as run:
        pipeline = run.start(max_lag=2, inflight=inflight)
        for update in range(6):
            rollout = pipeline.take()
            acted = rollout.versions[rollout.flat["valid"] > 0]
            assert 0 <= update - acted.max() <= update - acted.min() <= 2
            if not inflight:
                assert acted.min() == acted.max()
            learn(pipeline, rollout)
        assert_exact(run)


def test_a_slow_learner_is_waited_for_by_a_thread(counter, monkeypatch):
    with closing(Run(counter, worlds=128, stepped=True)) as run:
        pipeline = run.start(max_lag=1)
        ordinary = run.learner.learn
        rollout = pipeline.take()
        with monkeypatch.context() as patch:
            patch.setattr(
                run.learner, "learn", lambda *a, **k: (time.sleep(2.0), ordinary(*a, **k))[1]
            )
            learn(pipeline, rollout)
        assert pipeline.take().lag(run.learner.version)[1] <= 1
        assert_exact(run)


# ---- errors ------------------------------------------------------------------------------


def test_a_bad_number_is_named_where_it_came_from(tmp_path):
    path = tmp_path / "point.c"
    path.write_text(POINT)
    poison = np.full(WORLDS, -1.0, np.float32)
    poison[150] = 20.0
    with closing(Run(path, poison_obs=poison)) as run:
        pipeline = run.start(max_lag=2, replicas=2)
        for _ in range(2):
            learn(pipeline, pipeline.take())
        with pytest.raises(NonFiniteError, match="'position' of row 150 is nan") as caught:
            pipeline.take()
        assert caught.value.step == 20


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"replicas": 5}, "replicas is 5: 200 worlds make 4 blocks of 64, so 1 to 4"),
        ({"max_lag": 65}, "max_lag is 65: expected 0 to 64"),
        ({"max_lag": -1}, "max_lag is -1: expected 0 to 64"),
    ],
)
def test_what_cannot_be_had_is_named(counter, options, sentence):
    with closing(Run(counter)) as run, pytest.raises(ArgumentError, match=sentence):
        run.start(**options)


def test_one_actor_where_policies_are_stepped(counter):
    sentence = "replicas is 2: several actors need a native"
    with (
        closing(Run(counter, worlds=128, stepped=True)) as run,
        pytest.raises(ArgumentError, match=sentence),
    ):
        run.start(replicas=2)


def test_closing_amid_a_rollout(counter):
    run = Run(counter, stall=3.0, seconds=0.001)
    pipeline = run.start(max_lag=2, replicas=2)
    learn(pipeline, pipeline.take())
    run.close()
    assert not any(share.busy for share in run.collector._native.shares)
