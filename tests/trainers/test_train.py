"""Training end to end: results, determinism, resuming, and stopping for bad numbers."""

import dataclasses
import json
import os
import shlex
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.engine.errors import ArgumentError, HeadraceError
from headrace.trainers import begin, progress, session
from headrace.trainers.config import ASYNC_ONLY, TORCH_ONLY, TrainConfig
from headrace.trainers.interrupt import TrainingInterrupted
from headrace.trainers.metrics import METRICS
from headrace.trainers.rollout import NonFiniteError
from headrace.trainers.run import Run, RunFolderError
from headrace.trainers.settings import ConfigError

STEPS = 100_000


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def weights(result):
    run = Run.open(result.run)
    return (run.checkpoint_path(run.latest()) / "policy.safetensors").read_bytes()


def metrics(run):
    lines = (Path(run) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_result_says_what_happened():
    result = headrace.train("cartpole", seed=3, steps=STEPS, target=None, num_envs=128, horizon=16)
    assert result.env == "cartpole"
    assert result.seed == 3
    assert STEPS <= result.steps < STEPS + 128 * 16
    assert result.steps % (128 * 16) == 0
    assert result.sps == pytest.approx(result.steps / result.seconds)
    assert result.setup_seconds > 0
    assert result.return_mean > 9
    assert result.return_target is None
    assert (result.solved, result.solved_seconds, result.solved_steps) == (False, None, None)
    assert Run.open(result.run).latest() == result.steps


def test_training_stops_where_the_target_is_reached():
    result = headrace.train("cartpole", seed=1, target=60)
    assert result.solved
    assert result.return_mean >= 60
    assert result.solved_steps == result.steps < 1_000_000
    assert result.solved_seconds == result.seconds


def test_run_folder_holds_configuration_metrics_and_weights():
    result = headrace.train("cartpole", seed=3, steps=STEPS, run_dir="mine")
    assert result.run == "mine"
    config, build = Run.open("mine").read_config()
    assert (config.seed, config.steps, config.num_envs) == (3, STEPS, 256)
    assert set(build) == {"headrace", "code", "environment", "isa", "machine"}
    lines = metrics("mine")
    assert lines[-1]["steps"] == result.steps
    assert lines[-1]["episode/return"] == result.return_mean
    assert all(set(line) <= set(METRICS) for line in lines)
    assert [line["steps"] for line in lines] == sorted(line["steps"] for line in lines)


def test_weights_do_not_depend_on_the_number_of_threads():
    runs = [headrace.train("cartpole", seed=5, steps=STEPS, threads=n) for n in (1, 2, 3)]
    assert len({weights(run) for run in runs}) == 1
    assert len({run.return_mean for run in runs}) == 1


def test_seeds_give_different_weights():
    runs = [headrace.train("cartpole", seed=seed, steps=20_000) for seed in (5, 6)]
    assert len({weights(run) for run in runs}) == 2


def test_file_of_ones_own_trains(point):
    result = headrace.train(point, steps=400_000)
    assert result.env == str(point)
    assert result.run.startswith("runs/point-")
    assert result.return_mean > 40  # of 50; standing still gives 25


def test_preset_beside_ones_own_file_counts(point):
    preset = point.with_suffix(".toml")
    preset.write_text("target = -100.0\nhidden = [8]\n")
    try:
        result = headrace.train(point, lr=0.001)
    finally:
        preset.unlink()
    assert result.solved
    config, _ = Run.open(result.run).read_config()
    assert (config.hidden, config.lr, config.target) == ((8,), 0.001, -100.0)


def test_parameters_reach_the_environment(point):
    still = headrace.train(point, steps=20_000, params={"speed": 0, "max_steps": 7})
    window = metrics(still.run)[-1]
    assert window["episode/length"] == 7
    assert window["env/steps_taken"] == 7.0
    with pytest.raises(HeadraceError, match="sped"):
        headrace.train(point, steps=20_000, params={"sped": 1})
    with pytest.raises(ConfigError, match="point has no copy: its parameters are speed"):
        headrace.train(point, steps=20_000, params={"copy": 1})


@pytest.mark.parametrize(
    ("param", "words", "step"),
    [("poison_obs", "observation 'position'", 20), ("poison_reward", "the reward", 19)],
)
def test_nan_from_the_environment_stops_the_run_and_says_where(point, param, words, step):
    with pytest.raises(HeadraceError) as caught:
        headrace.train(point, steps=STEPS, params={param: 20}, horizon=8, run_dir="r")
    sentence = str(caught.value)
    assert words in sentence
    assert "nan" in sentence.lower()
    told, _, way_out = sentence.partition(" (the run's seed is ")
    assert told.endswith(f"row 0 is nan at step {step}")
    assert way_out.startswith("0); headrace check ")
    assert shlex.split(way_out[4:]) == ["headrace", "check", str(point), "finds", "where"]
    assert Run.open("r").checkpoints() == []


def test_loss_that_overflows_stops_the_run_and_says_where():
    with pytest.raises(HeadraceError, match=r"(loss|gradient).* is (inf|nan) in update \d+"):
        headrace.train("cartpole", steps=STEPS, lr=1e30, run_dir="r")
    assert Run.open("r").checkpoints() == []


def test_nan_leaves_saved_checkpoints_alone(point):
    with pytest.raises(HeadraceError):
        headrace.train(
            point,
            steps=STEPS,
            params={"poison_obs": 40},
            horizon=8,
            run_dir="r",
            checkpoint_seconds=1e-9,
        )
    run = Run.open("r")
    for step in run.checkpoints():
        assert all(np.isfinite(array).all() for array in run.load_policy(step).values())
    assert len(run.checkpoints()) == 3


def interrupted(monkeypatch, **settings):
    """Trains until the first report, where Ctrl-C arrives; returns the exception."""
    monkeypatch.setattr(progress, "OBSERVER_SECONDS", 0.0)

    def observer(at):
        if at.steps >= STEPS // 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted) as caught:
        headrace.train("cartpole", observer=observer, steps=STEPS, **settings)
    return caught.value


@pytest.mark.parametrize("normalize", [False, True])
def test_resumed_run_equals_an_uninterrupted_one(monkeypatch, normalize):
    settings = {"seed": 4, "normalize_obs": normalize, "normalize_reward": normalize}
    whole = headrace.train("cartpole", steps=STEPS, run_dir="whole", **settings)
    stop = interrupted(monkeypatch, run_dir="parts", **settings)
    assert stop.checkpoint.is_dir()
    assert str(stop.checkpoint) in str(stop)
    steps = Run.open("parts").latest()
    assert STEPS // 3 <= steps < STEPS // 2
    resumed = headrace.train(resume="parts")
    assert weights(resumed) == weights(whole)
    assert resumed.steps == whole.steps
    assert resumed.return_mean == whole.return_mean
    lines = [line["steps"] for line in metrics("parts")]
    assert lines == sorted(set(lines))


def test_only_what_may_change_changes_when_resuming():
    headrace.train("cartpole", steps=20_000, run_dir="r")
    with pytest.raises(ConfigError, match="lr cannot change when a run is resumed; only steps,"):
        headrace.train(resume="r", lr=0.1)
    with pytest.raises(ConfigError, match="env cannot change"):
        headrace.train("other", resume="r")
    longer = headrace.train(resume="r", steps=60_000, threads=1)
    assert longer.steps >= 60_000
    assert Run.open("r").read_config()[0].steps == 60_000


def test_run_that_is_finished_resumes_to_itself():
    first = headrace.train("cartpole", steps=20_000, run_dir="r")
    again = headrace.train("cartpole", resume="r")
    assert again.steps == first.steps
    assert weights(again) == weights(first)


def test_run_folder_in_use_is_refused():
    headrace.train("cartpole", steps=1, run_dir="r")
    before = sorted(os.listdir("r"))
    with pytest.raises(RunFolderError, match="is not empty"):
        headrace.train("cartpole", steps=1, run_dir="r")
    assert sorted(os.listdir("r")) == before


def test_resuming_no_run_is_one_sentence():
    with pytest.raises(RunFolderError, match="nowhere is no run"):
        headrace.train(resume="nowhere")


@pytest.mark.parametrize("name", ["lerning_rate", "num_env"])
def test_unknown_setting_is_refused(name):
    with pytest.raises(ArgumentError, match=f"unknown setting {name}"):
        headrace.train("cartpole", **{name: 1})


def test_impossible_batch_is_refused_before_anything_is_made():
    with pytest.raises(HeadraceError, match="fewer environments"):
        headrace.train("cartpole", num_envs=10**9)
    assert os.listdir(".") == []


def test_policy_that_cannot_be_is_refused_before_anything_is_made():
    with pytest.raises(HeadraceError, match="hidden"):
        headrace.train("cartpole", hidden=(8,) * 99)
    assert os.listdir(".") == []


def test_training_without_environment_is_one_sentence():
    with pytest.raises(ConfigError, match="env is missing"):
        headrace.train()


def test_every_setting_is_taken():
    """Each field away from its default, so that none is dropped on the way to the learner."""
    config = TrainConfig(env="cartpole")
    changed = {
        "seed": 7, "steps": 3000, "target": 1e9, "num_envs": 64, "threads": 1,
        "params": {"gravity": 5.0}, "hidden": (16, 8), "activation": "relu", "separate": True,
        "horizon": 8, "minibatches": 2, "epochs": 3, "lr": 0.03,
        "gamma": 0.9, "gae_lambda": 0.8, "clip": 0.01, "vf_clip": 1e-4, "vf_coef": 1.0,
        "ent_coef": 0.1, "max_grad_norm": 1.0, "normalize_obs": False,
        "normalize_reward": False, "normalize_advantage": False, "checkpoint_seconds": 5.0,
        "lr_schedule": "cosine", "ent_coef_final": 0.02,
        "keep_checkpoints": 1, "run_dir": "r", "eval_every": 500, "eval_episodes": 3,
    }  # fmt: skip
    elsewhere = {"env", "policy", "batch_size", "fill", *TORCH_ONLY}  # see test_torch_train.py
    elsewhere |= {"async_", *ASYNC_ONLY}  # see test_pipeline_train.py
    elsewhere |= {"memory", "recall"}  # see test_memory_training.py
    elsewhere |= {"tensorboard", "wandb"}  # see test_loggers.py
    elsewhere |= {"wrappers"}  # see test_gymnasium_presets.py
    elsewhere |= {"caller_share"}  # see test_python_environments.py
    elsewhere |= {"target_kl"}  # below
    assert set(changed) == {f.name for f in dataclasses.fields(config)} - elsewhere
    base = weights(headrace.train("cartpole", **{**changed, "run_dir": "base"}))
    neutral = {"threads", "target", "checkpoint_seconds", "keep_checkpoints", "run_dir"}
    neutral |= {"eval_every", "eval_episodes"}
    for name in changed.keys() - neutral - {"steps"}:
        rest = {k: v for k, v in changed.items() if k not in (name, "run_dir")}
        default = 128 if name == "num_envs" else getattr(config, name)
        if name == "params":
            default = ()
        other = headrace.train("cartpole", **{**rest, name: default})
        assert weights(other) != base, name


@pytest.mark.parametrize("policy", ["native", "torch"])
def test_learning_rate_and_entropy_bonus_fall_by_their_schedule(monkeypatch, policy):
    if policy == "torch":
        pytest.importorskip("torch")
    given = {"policy": policy, "num_envs": 64, "horizon": 4, "steps": 1024, "target": None}
    asked = []

    class Watched(session.Session):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            learn = self._source.learn

            def call(rollout, **rates):
                asked.append((rates["lr"], rates["ent_coef"]))
                return learn(rollout, **rates)

            self._source.learn = call

    monkeypatch.setattr(begin, "Session", Watched)
    headrace.train("cartpole", lr=0.1, ent_coef=0.01, **given)
    assert np.allclose(asked, [(0.1, 0.01), (0.075, 0.01), (0.05, 0.01), (0.025, 0.01)])
    asked.clear()
    headrace.train(
        "cartpole", lr=0.1, ent_coef=0.01, ent_coef_final=0.002, lr_schedule="cosine", **given
    )
    left = 0.5 * (1 + np.cos(np.pi * np.arange(4) / 4))
    entropy = 0.002 + 0.008 * (1 - np.arange(4) / 4)
    assert np.allclose(asked, np.stack([0.1 * left, entropy], 1))
    asked.clear()
    headrace.train("cartpole", lr=0.1, lr_schedule="constant", **given)
    assert {lr for lr, _ in asked} == {0.1}


@pytest.mark.parametrize(("target", "epochs"), [(1e-9, 1), (1e9, 3)])
def test_an_update_ends_after_the_epoch_whose_divergence_is_above(target, epochs):
    given = {"seed": 5, "steps": 20_000, "target": None, "lr": 0.02}
    cut = headrace.train("cartpole", epochs=3, target_kl=target, **given)
    assert weights(cut) == weights(headrace.train("cartpole", epochs=epochs, **given))


# ---- interruptions inside an update --------------------------------------------------------


@pytest.mark.parametrize("where", ["collecting", "learning"])
@pytest.mark.parametrize("policy", ["native", "torch"])
def test_an_update_that_is_broken_off_is_taken_back(monkeypatch, where, policy):
    """Its steps are lost; the run goes on from before it as if nothing had happened."""
    if policy == "torch":
        pytest.importorskip("torch")
    monkeypatch.setattr(session, "SLOW_SECONDS", -1.0)  # every update counts as slow
    options = {"seed": 4, "num_envs": 128, "horizon": 16, "steps": 128 * 16 * 6, "threads": 1}
    options["policy"] = policy
    whole = headrace.train("cartpole", run_dir="whole", **options)
    begun = []

    class Interrupted(session.Session):
        def __init__(self, *given):
            super().__init__(*given)
            name = "take" if where == "collecting" else "learn"
            original = getattr(self._source, name)

            def call(*given, **named):
                begun.append(self.steps)
                if len(begun) == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                return original(*given, **named)

            monkeypatch.setattr(self._source, name, call)

    with monkeypatch.context() as patch:
        patch.setattr(begin, "Session", Interrupted)
        with pytest.raises(TrainingInterrupted) as stopped:
            headrace.train("cartpole", run_dir="parts", **options)
    assert len(begun) == 3
    assert stopped.value.checkpoint.name == str(2 * 128 * 16)
    assert weights(headrace.train(resume="parts")) == weights(whole)
    assert [line["steps"] for line in metrics("parts")][-1] == 128 * 16 * 6


@pytest.mark.parametrize(
    "schedule", [{}, {"async_": True}, {"async_": True, "deterministic": True}]
)
def test_a_signal_is_heard_inside_native_code(monkeypatch, schedule):
    """One update of these environments takes many minutes."""
    take = session.Session._take

    def soon(self):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        return take(self)

    monkeypatch.setattr(session.Session, "_take", soon)
    shut = str(Path(__file__).parent / "worlds" / "shut.c")
    with pytest.raises(TrainingInterrupted) as stopped:
        headrace.train(
            shut, run_dir="r", num_envs=64, horizon=10_000, params={"spin": 1_000_000}, threads=1,
            **schedule,
        )  # fmt: skip
    assert stopped.value.checkpoint.name == "0"


def test_fast_updates_are_finished(monkeypatch):
    monkeypatch.setattr(session, "SLOW_SECONDS", 1000.0)
    steps = []

    def interrupt(at):
        steps.append(at.steps)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress, "OBSERVER_SECONDS", 0.0)
    with pytest.raises(TrainingInterrupted) as stopped:
        headrace.train("cartpole", run_dir="r", steps=10**6, observer=interrupt)
    assert stopped.value.checkpoint.name == str(steps[0])


def test_another_build_is_told_and_kept_on_record(monkeypatch):
    headrace.train("cartpole", run_dir="r", steps=10_000)
    first = Run.open("r").read_config()[1]
    monkeypatch.setattr(session, "build_table", lambda *_, **__: {**first, "isa": "another"})
    with pytest.warns(UserWarning, match=r"begun with another build \(isa changed\)"):
        headrace.train(resume="r", steps=20_000)
    headrace.train(resume="r", steps=30_000)  # the same again: no warning
    config = (Path("r") / "config.toml").read_text()
    assert Run.open("r").read_config()[1]["isa"] == "another"
    assert config.count("[[earlier_builds]]") == 1
    assert config.index("[build]") < config.index(f'isa = "{first["isa"]}"')


# ---- numbers that are too large --------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scaled", [True, False])
def test_rewards_whose_sums_overflow_are_named(scaled):
    fuse = str(Path(__file__).parent / "worlds" / "fuse.c")
    with pytest.raises(NonFiniteError, match=r"returns overflow .* scale the rewards") as e:
        headrace.train(
            fuse, num_envs=64, params={"pay": 3.0e38}, normalize_reward=scaled, run_dir="r"
        )
    assert e.value.kind == "reward"


def test_a_wrong_parameter_of_a_preset_names_the_file(tmp_path):
    shutil.copy(Path(__file__).parents[2] / "examples" / "catch.c", tmp_path / "catch.c")
    preset = tmp_path / "catch.toml"
    preset.write_text("[params]\nmax_stepz = 3\n")
    with pytest.raises(ConfigError, match=r"catch\.toml: .*max_stepz"):
        headrace.train(tmp_path / "catch.c", steps=64, run_dir=str(tmp_path / "run"))
    with pytest.raises(ValueError, match="max_stepy") as caught:
        headrace.train(
            tmp_path / "catch.c", steps=64, run_dir=str(tmp_path / "run"), params={"max_stepy": 1}
        )
    assert "catch.toml" not in str(caught.value)
