"""TensorBoard and Weights & Biases: asked for, told everything, and not there otherwise."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import headrace
from headrace.trainers import loggers
from headrace.trainers.loggers import numbers
from headrace.trainers.settings import ConfigError

LINE = {"steps": 64, "sps": 2.5, "episode/count": 3, "async/ess": None, "time/bottleneck": "queue"}


def lines(run):
    return [json.loads(line) for line in (Path(run) / "metrics.jsonl").open()]


def events(folder):
    """(step, {tag: value}) of every event in the folder's files that holds values, in order, and
    the steps at which a run went on."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    found, starts = [], []
    for file in sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime_ns):
        for event in loader.LegacyEventFileLoader(str(file)).Load():
            if event.HasField("session_log"):
                starts.append(event.step)
            if event.HasField("summary"):
                found.append((event.step, {v.tag: v.simple_value for v in event.summary.value}))
    return found, starts


def test_only_numbers_are_told():
    assert numbers(LINE) == {"sps": 2.5, "episode/count": 3.0}


def test_event_files_hold_what_metrics_jsonl_does(tmp_path):
    pytest.importorskip("tensorboard")
    given = {"target": None, "run_dir": str(tmp_path / "r"), "tensorboard": True}
    first = headrace.train("cartpole", steps=50_000, **given)
    found, starts = events(tmp_path / "r" / "tensorboard")
    expected = lines(first.run)
    assert [step for step, _ in found] == [line["steps"] for line in expected]
    for (_, values), line in zip(found, expected, strict=True):
        assert values == pytest.approx(numbers(line), rel=1e-6)
    assert starts == []
    headrace.train(resume=first.run, steps=100_000)  # what a run was told lasts
    found, starts = events(tmp_path / "r" / "tensorboard")
    assert [step for step, _ in found] == [line["steps"] for line in lines(first.run)]
    assert starts == [first.steps]


class Run:
    """Stands in for a run of W&B."""

    def __init__(self, **given):
        self.given, self.logged, self.finished = given, [], False

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.finished = True


@pytest.fixture
def runs(monkeypatch):
    """The runs that a stand-in for the package wandb has begun."""
    begun = []
    package = types.ModuleType("wandb")
    package.__spec__ = importlib.util.spec_from_loader("wandb", None)
    package.init = lambda **given: begun.append(Run(**given)) or begun[-1]
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return begun


def test_wandb_is_told_settings_and_lines_and_goes_on_in_the_same_run(tmp_path, runs, monkeypatch):
    given = {"target": None, "run_dir": str(tmp_path / "cart"), "wandb": True, "seed": 5}
    headrace.train("cartpole", steps=50_000, params={"gravity": 9.0}, **given)
    monkeypatch.setenv("WANDB_PROJECT", "wheels")
    headrace.train(resume=tmp_path / "cart", steps=100_000)
    first, second = runs
    assert first.given["project"] == "headrace"
    assert second.given["project"] == "wheels"
    assert first.given["name"] == "cart"
    assert first.given["config"]["seed"] == 5
    assert first.given["config"]["params"] == {"gravity": 9.0}
    assert first.given["id"] == second.given["id"]
    assert first.finished
    assert second.finished
    logged = [*first.logged, *second.logged]
    written = lines(tmp_path / "cart")
    assert logged == [(line["steps"], numbers(line)) for line in written]


def test_the_package_itself_takes_what_it_is_told_without_a_network(tmp_path):
    pytest.importorskip("wandb")
    command = [sys.executable, "-m", "headrace", "train", "cartpole", "--target", "none"]
    subprocess.run(
        [*command, "--steps", "20_000", "--run-dir", "r", "--wandb", "--quiet"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        env={**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"},
    )
    (file,) = tmp_path.glob("r/wandb/offline-run-*/*.wandb")
    assert b"policy/kl" in file.read_bytes()


def test_wandb_is_closed_when_training_fails(tmp_path, runs):
    def stop(_):
        raise RuntimeError("elsewhere")

    given = {"run_dir": str(tmp_path / "r"), "wandb": True, "steps": 50_000}
    with pytest.raises(RuntimeError, match="elsewhere"):
        headrace.train("cartpole", callbacks=[stop], **given)
    assert runs[0].finished


@pytest.mark.parametrize("name", loggers.PACKAGES)
def test_a_package_that_is_missing_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=rf"pip install 'headrace\[{name}\]'") as error:
        headrace.train("cartpole", run_dir=str(tmp_path / "r"), **{name: True})
    assert f"--no-{name}" in str(error.value)
    assert not (tmp_path / "r").exists()


def test_nothing_is_imported_that_was_not_asked_for(tmp_path):
    script = (
        "import sys, headrace; headrace.train('cartpole', steps=20_000, run_dir='r');"
        "sys.exit(bool({'tensorboard', 'wandb', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == 0
