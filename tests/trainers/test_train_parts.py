"""Small parts of the training loop: the window of episodes, seeds, metrics, interruption."""

import io
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from headrace.trainers._native import StopFlag
from headrace.trainers.bottleneck import Shares
from headrace.trainers.episodes import WINDOW, EpisodeWindow
from headrace.trainers.interrupt import Interruption
from headrace.trainers.learner import LearnStats
from headrace.trainers.metrics import METRICS, MetricsLog
from headrace.trainers.seeds import EVALUATION, TRAINING, world_seeds

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_window_holds_the_last_hundred_in_order():
    window = EpisodeWindow()
    assert window.return_mean is None
    rng = np.random.default_rng(0)
    returns: list[float] = []
    for size in (0, 1, 40, 99, 250, 3):
        batch = rng.normal(size=size)
        window.add(batch, np.full(size, 2, np.int32))
        returns += list(batch)
        if returns:
            assert window.return_mean == pytest.approx(np.mean(returns[-WINDOW:]), rel=1e-12)
    assert window.count == 393
    assert window.length_mean == 2.0


def test_target_needs_a_full_window():
    window = EpisodeWindow()
    window.add(np.full(99, 500.0), np.full(99, 500))
    assert not window.reached(475.0)
    window.add(np.full(1, 500.0), np.full(1, 500))
    assert window.reached(475.0)
    assert not window.reached(None)
    assert not window.reached(500.1)


def test_window_continues_from_its_state():
    window, other = EpisodeWindow(), EpisodeWindow()
    window.add(np.arange(150.0), np.arange(150))
    other.load_state_dict(window.state_dict())
    for each in (window, other):
        each.add(np.array([7.0]), np.array([1]))
    assert window.return_mean == other.return_mean
    assert window.count == other.count == 151


def test_first_world_seed_is_splitmix_of_its_parts():
    def splitmix(state):
        mask = 2**64 - 1
        z = (state + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    run = splitmix((splitmix(7) + TRAINING) % 2**64)
    expected = [splitmix((run + world) % 2**64) for world in range(5)]
    assert world_seeds(7, 5, TRAINING).tolist() == expected


def test_no_two_runs_or_streams_share_a_seed():
    seeds = [world_seeds(s, 1000, k) for s in range(20) for k in (TRAINING, EVALUATION)]
    assert len(np.unique(np.concatenate(seeds))) == 40_000


def stats(value):
    return LearnStats._make([value] * len(LearnStats._fields))


class Half:
    """A stopwatch of a run without inference."""

    def read(self):
        return ()

    def shares(self, before, after, passed):
        collect, learn = passed.collect / passed.wall, passed.learn / passed.wall
        return Shares(collect, 0.0, learn, 0.0, 1.0 - collect - learn, "learner")


def test_metrics_line_averages_updates_and_uses_documented_names():
    file, episodes = io.StringIO(), EpisodeWindow()
    log = MetricsLog(file, 0.0, 0, Half())
    log.add(stats(1.0), lr=0.2, collect=0.1, learn=0.3)
    log.add(stats(3.0), lr=0.1, collect=0.1, learn=0.3)
    assert not log.due(0.005)
    assert log.due(1.0)
    evaluated = [name for name in METRICS if name.startswith("eval/")]
    log.write(1.0, 500, 2000, 2, episodes, {}, dict.fromkeys(evaluated, 5.0))
    episodes.add(np.array([4.0]), np.array([9]))
    log.write(2.0, 800, 3200, 2, episodes, {"goals": 2.5})
    first, second = map(json.loads, file.getvalue().splitlines())
    assert set(first) == set(METRICS)
    assert first["loss/policy"] == 2.0
    assert first["learner/lr"] == 0.1
    assert first["sps"] == 500.0
    assert first["time/environment"] == pytest.approx(0.2)
    assert first["time/learn"] == pytest.approx(0.6)
    assert first["time/bottleneck"] == "learner"
    assert first["episode/return"] is None
    assert second["sps"] == 300.0
    assert second["episode/return"] == 4.0
    assert second["episode/length"] == 9.0
    assert second["env/goals"] == 2.5
    assert first["eval/return"] == 5.0
    assert not {"loss/policy", "eval/return"} & set(second)


def test_metrics_page_documents_each_metric_once():
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    expected = [f"| `{n}` | {m.unit} | {m.meaning} | {m.healthy} |" for n, m in METRICS.items()]
    assert rows == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_is_noted_and_handlers_come_back(number):
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested
        assert signal.getsignal(number) is before
    assert signal.getsignal(number) is before


def test_who_watched_signals_before_is_told_meanwhile_and_watches_again():
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    try:
        with Interruption(StopFlag()) as interruption:
            os.kill(os.getpid(), signal.SIGTERM)
            assert interruption.requested
            assert os.read(read, 1) == bytes([signal.SIGTERM])
    finally:
        assert signal.set_wakeup_fd(before) == write
        os.close(read)
        os.close(write)
