"""Checkpoints of a run as it is trained: evaluations, the best, kills, damage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headrace
from headrace.cli import main
from headrace.trainers import progress
from headrace.trainers.interrupt import TrainingInterrupted
from headrace.trainers.run import Best, Run, RunError
from headrace.trainers.settings import ConfigError

ROLLOUT = 256 * 32
SETTINGS = {"seed": 3, "steps": 8 * ROLLOUT, "target": None}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def weights(run, step=None):
    run = Run.open(run)
    step = run.latest() if step is None else step
    return (run.checkpoint_path(step) / "policy.safetensors").read_bytes()


def lines(run):
    return [json.loads(line) for line in (Path(run) / "metrics.jsonl").open()]


# ---- evaluations and the best ------------------------------------------------------------


@pytest.mark.parametrize("policy", ["native", "torch"])
def test_evaluations_are_those_of_headrace_eval_and_change_nothing(policy):
    if policy == "torch":
        pytest.importorskip("torch")
    settings = {**SETTINGS, "policy": policy, "normalize_obs": True, "threads": 1}
    plain = headrace.train("cartpole", run_dir="plain", **settings)
    seen = []
    watched = headrace.train(
        "cartpole",
        run_dir="watched",
        eval_every=3 * ROLLOUT,
        eval_episodes=10,
        keep_checkpoints=9,
        callbacks=[seen.append],
        **settings,
    )
    assert weights("watched") == weights("plain")
    assert watched.return_mean == plain.return_mean
    found = {line["steps"]: line for line in lines("watched") if "eval/return" in line}
    assert list(found) == [3 * ROLLOUT, 6 * ROLLOUT, 8 * ROLLOUT]  # and at the end
    assert [m["steps"] for m in seen if "eval/return" in m] == [3 * ROLLOUT, 6 * ROLLOUT]
    best = Run.open("watched").best()
    score = max(line["eval/return"] for line in found.values())
    assert (best.score, best.evaluated) == (score, True)
    assert found[best.steps]["eval/return"] == score
    played = headrace.evaluate("watched", checkpoint="best", episodes=10, seed=3)
    assert (played.checkpoint, played.return_mean) == (best.steps, score)
    assert played.length_mean == found[best.steps]["eval/length"]


def test_without_evaluations_the_best_is_by_training_return(monkeypatch):
    """Checkpoints after every update; the worse ones that follow do not take its place."""
    returns = iter([10.0, 30.0, 20.0, 25.0, 5.0])
    monkeypatch.setattr(
        "headrace.trainers.saving.Checkpoints.due", property(lambda self: True), raising=True
    )

    class Window(headrace.trainers.session.EpisodeWindow):
        @property
        def return_mean(self):
            return self.now

        now = 0.0

    monkeypatch.setattr(headrace.trainers.session, "EpisodeWindow", Window)
    with headrace.PPO(
        "cartpole", run_dir="r", keep_checkpoints=2, steps=5 * ROLLOUT, target=None
    ) as ppo:
        Window.now = next(returns)
        for _ in ppo:
            Window.now = next(returns, 0.0)
    assert Run.open("r").best() == Best(2 * ROLLOUT, 30.0, evaluated=False)
    assert Run.open("r").checkpoints() == [2 * ROLLOUT, 4 * ROLLOUT, 5 * ROLLOUT]


def test_eval_takes_the_checkpoint_that_is_asked_for(capsys):
    headrace.train("cartpole", run_dir="r", eval_every=ROLLOUT, eval_episodes=4, **SETTINGS)
    run = Run.open("r")
    for which in ("best", "last", str(run.checkpoints()[0])):
        argv = ["eval", "r", "--checkpoint", which, "--episodes", "4", "--json"]
        assert main(argv) == 0
        assert json.loads(capsys.readouterr().out)["checkpoint"] == run.find(which)
    assert main(["eval", "r", "--checkpoint", "newest"]) == 2
    assert "checkpoint must be best, last or a number of steps" in capsys.readouterr().err


def test_ctrl_c_breaks_an_evaluation_off(monkeypatch, point):
    """Its episodes have no end."""

    def interrupt(at):
        raise AssertionError("the evaluation ended")

    monkeypatch.setattr(progress, "OBSERVER_SECONDS", 0.0)
    play = headrace.trainers.evaluator.play

    def started(*given, **named):
        os.kill(os.getpid(), signal.SIGINT)
        return play(*given, **named)

    monkeypatch.setattr(headrace.trainers.evaluator, "play", started)
    with pytest.raises(TrainingInterrupted) as stopped:
        headrace.train(
            point,
            run_dir="r",
            eval_every=1,
            observer=interrupt,
            params={"max_steps": 0, "speed": 0.0},
        )
    assert stopped.value.checkpoint.name == str(ROLLOUT)


# ---- kills and damage --------------------------------------------------------------------

KILLED = """
import headrace
options = {"seed": 3, "target": None, "steps": 300 * 8192, "checkpoint_seconds": 1e-9,
           "run_dir": "r", "threads": 1}
from pathlib import Path
if (Path("r") / "checkpoints").is_dir():
    headrace.train(resume="r")
else:
    headrace.train("cartpole", **options)
"""


def test_a_run_killed_at_any_moment_goes_on_from_its_last_checkpoint():
    """It saves after every update, so that most kills come while something is written."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    kills = 0
    for delay in (0.0, 0.004, 0.001, 0.007):
        process = subprocess.Popen([sys.executable, "-c", KILLED], env=environment)
        before = Run(Path("r")).checkpoints()
        deadline = time.monotonic() + 60
        while process.poll() is None and Run(Path("r")).checkpoints() == before:
            assert time.monotonic() < deadline
        time.sleep(delay)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        run = Run.open("r")
        for step in run.checkpoints():  # each is whole
            assert run.load_state(step)["steps"] == step
            run.load_policy(step)
    assert kills == 4
    whole = headrace.train(
        "cartpole", seed=3, target=None, steps=300 * ROLLOUT, run_dir="whole", threads=1
    )
    resumed = headrace.train(resume="r", checkpoint_seconds=60)
    assert weights("r") == weights("whole")
    assert resumed.return_mean == whole.return_mean
    assert [p.name for p in Path("r/checkpoints").glob(".*")] == []
    steps = [line["steps"] for line in lines("r")]
    assert steps == sorted(set(steps))


def damaged():
    """A run of 8 updates, saved after each, whose last checkpoint was cut short."""
    headrace.train("cartpole", run_dir="r", checkpoint_seconds=1e-9, **SETTINGS)
    run = Run.open("r")
    for name in ("policy.safetensors", "state.safetensors"):
        file = run.checkpoint_path(run.latest()) / name
        file.write_bytes(file.read_bytes()[:-100])
    return run


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_serves(capsys):
    run = damaged()
    sentence = rf"checkpoints/{8 * ROLLOUT}/.* is damaged.* take it with --checkpoint {7 * ROLLOUT}"
    with pytest.raises(RunError, match=sentence):
        headrace.train(resume="r")
    with pytest.raises(RunError, match=sentence):
        headrace.evaluate("r")
    assert main(["train", "--resume", "r", "--quiet"]) == 1
    assert f"--checkpoint {7 * ROLLOUT}" in capsys.readouterr().err
    assert headrace.evaluate("r", checkpoint=7 * ROLLOUT, episodes=3).checkpoint == 7 * ROLLOUT
    assert main(["train", "--resume", "r", "--checkpoint", str(7 * ROLLOUT), "--quiet"]) == 0
    headrace.train("cartpole", run_dir="whole", **SETTINGS)
    assert weights("r") == weights("whole")
    assert run.checkpoints() == [6 * ROLLOUT, 7 * ROLLOUT, 8 * ROLLOUT]


def test_going_back_forgets_what_came_after_once_something_is_saved():
    headrace.train("cartpole", run_dir="r", checkpoint_seconds=1e-9, **SETTINGS)
    run = Run.open("r")
    with headrace.PPO(resume="r", checkpoint=6 * ROLLOUT, checkpoint_seconds=1e9) as ppo:
        assert ppo.steps == 6 * ROLLOUT
        assert run.latest() == 8 * ROLLOUT
        next(iter(ppo))
    assert run.checkpoints() == [6 * ROLLOUT, 7 * ROLLOUT]


def test_a_checkpoint_is_of_a_run_that_is_continued():
    with pytest.raises(ConfigError, match="add --resume RUN"):
        headrace.train("cartpole", checkpoint="best")
