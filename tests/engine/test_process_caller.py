"""The calling process steps a share of the environments itself, beside the workers."""

from __future__ import annotations

import _thread
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from process_envs import Chatty, Counter, Duel, Faulty, FaultyReset, Napper

import headrace
from headrace.engine.errors import WorkerError
from headrace.engine.processes.own import worlds_of_caller
from headrace.engine.processes.vector import ProcessVecEnv


@pytest.fixture
def made() -> Iterator[Callable[..., ProcessVecEnv]]:
    """make_vec with one worker and a caller who steps as much; closed after the test."""
    batches: list[ProcessVecEnv] = []

    def make(env: Any, num_envs: int, **kwargs: Any) -> ProcessVecEnv:
        settings = {"workers": 1, "caller_share": 1, "start_method": "fork"} | kwargs
        vec = headrace.make_vec(env, num_envs, **settings)
        assert isinstance(vec, ProcessVecEnv)
        batches.append(vec)
        return vec

    yield make
    for batch in batches:
        batch.close()


class Where(Counter):
    """Tells which process it lives in."""

    @property
    def pid(self) -> int:
        return os.getpid()


@pytest.mark.parametrize(
    ("share", "worlds", "workers", "own"),
    [(0, 64, 2, 0), (1, 64, 1, 32), (0.5, 64, 1, 21), (1, 64, 3, 16), (0.01, 64, 2, 1)],
)
def test_the_callers_part(share: float, worlds: int, workers: int, own: int) -> None:
    assert worlds_of_caller(share, worlds, workers) == own


def test_the_last_worlds_are_the_callers(made: Any) -> None:
    vec = made(Where, 9, workers=2)
    first, second = vec.pids()
    assert vec.get_attr("pid") == (first,) * 3 + (second,) * 3 + (os.getpid(),) * 3
    alone = made(Where, 1)
    assert alone.get_attr("pid") == tuple(alone.pids())


def test_attributes_reach_the_callers_worlds(made: Any) -> None:
    vec = made(Counter, 4)
    vec.set_attr("length", [5, 6, 7, 8])
    assert vec.get_attr("length") == (5, 6, 7, 8)
    vec.reset(seed=10)
    assert vec.np_random_seed == (10, 11, 12, 13)


@pytest.mark.parametrize("kind", [functools.partial(Counter, 3, True), Chatty, Duel])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_lives_are_those_of_a_serial_batch(made: Any, kind: Any, mode: str) -> None:
    """Infos that are short and long, and worlds of several rows, among them."""
    ours = made(kind, 6, autoreset_mode=mode)
    plain = made(kind, 6, autoreset_mode=mode, executor="serial")
    one, other = ours.reset(seed=3), plain.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(14):
        assert data_equivalence(one, other)
        actions = rng.integers(0, 3, 6)
        one, other = ours.step(actions), plain.step(actions)


@pytest.mark.parametrize("batch_size", [1, 3, 4])
def test_sent_worlds_come_back_once_and_none_starves(made: Any, batch_size: int) -> None:
    vec = made(Counter, 8, batch_size=batch_size, copy=False)
    vec.reset(seed=0)
    steps, flying = np.zeros(8, int), set(range(8))
    vec.send(np.zeros(8, int))
    for _ in range(400):
        rows = vec.recv()[4]["env_id"]
        assert flying.issuperset(rows.tolist())
        assert len(rows) == batch_size
        steps[rows] += 1
        vec.send(np.zeros(batch_size, int))
    while vec._flight.in_flight:
        steps[vec.recv()[4]["env_id"]] += 1
    assert steps.sum() == 400 * batch_size + 8
    assert steps.min() >= 0.7 * steps.mean()  # three quarters, but for the ends
    for share in (steps[:4], steps[4:]):  # of one process take turns
        assert np.ptp(share) <= 2


def test_quick_workers_do_not_starve_the_caller(made: Any) -> None:
    """The worker's worlds are always ready before the caller has stepped one of its own."""
    vec = made([Counter, Counter, Slow, Slow], 4, batch_size=2)
    vec.reset()
    steps = np.zeros(4, int)
    vec.send(np.zeros(4, int))
    for _ in range(60):
        rows = vec.recv()[4]["env_id"]
        steps[rows] += 1
        vec.send(np.zeros(2, int))
    assert steps[2:].min() >= 0.7 * 60 * 2 / 4


class Slow(Counter):
    """A Counter that takes its time."""

    def step(self, action: Any) -> Any:
        threading.Event().wait(0.003)
        return super().step(action)


def test_an_error_in_the_callers_world_is_named_and_ends_the_batch(made: Any) -> None:
    vec = made(functools.partial(Faulty, "raise", seed=3), 4)
    pids = vec.pids()
    vec.reset(seed=0)
    vec.step([0] * 4)
    said = r"environment 3 \(in the calling process\) raised ZeroDivisionError"
    with pytest.raises(WorkerError, match=said) as raised:
        vec.step([0] * 4)
    assert 'raise ZeroDivisionError("the pole broke")' in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    with pytest.raises(RuntimeError, match="after close"):
        vec.step([0] * 4)


def test_an_error_in_the_callers_reset_is_named(made: Any) -> None:
    vec = made(functools.partial(FaultyReset, "raise"), 2)
    with pytest.raises(WorkerError, match=r"environment 1 \(in the calling process\) raised"):
        vec.reset(seed=0)
    with pytest.raises(RuntimeError, match="after close"):
        vec.reset()
    broken = [Counter, lambda: 1 / 0]
    with pytest.raises(WorkerError, match=r"environment 1 \(in the calling process\) raised Zero"):
        made(broken, 2)


def test_a_lost_worker_is_replaced_beside_the_callers_worlds(made: Any) -> None:
    vec = made(functools.partial(Faulty, "kill", seed=1), 4, restarts=1)
    vec.reset(seed=0)
    vec.step([1] * 4)
    with pytest.warns(UserWarning, match="it is restarted"):
        obs, _, _, truncated, _ = vec.step([1] * 4)
    assert truncated.tolist() == [False, True, False, False]
    assert obs[[0, 2, 3], 0].tolist() == [2, 2, 2]
    assert vec.step([1] * 4)[3].tolist() == [True, False, False, False]


def test_an_interrupt_cuts_the_world_that_was_being_stepped(made: Any) -> None:
    vec = made(Napper, 2)
    vec.reset()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        vec.step(np.array([0.0, 1.0]))
    with pytest.raises(RuntimeError, match="2 environments are in flight"):
        vec.step(np.array([0.0, 0.0]))
    _, _, _, truncated, infos = vec.recv()
    assert truncated.tolist() == [False, True]
    assert infos["restarted"].tolist() == [False, True]
    vec.step(np.array([0.0, 0.0]))  # the reset that ends it
    assert not vec.step(np.array([0.0, 0.0]))[3].any()


@pytest.mark.parametrize("share", [-0.1, 1.5, "1", True, None, float("nan")])
def test_wrong_shares(share: Any) -> None:
    with pytest.raises(ValueError, match=r"caller_share is .*: expected a number from 0"):
        headrace.make_vec(Counter, 2, caller_share=share)


def test_native_environments_have_no_such_share() -> None:
    with pytest.raises(ValueError, match="caller_share is 1, but env is a native environment"):
        headrace.make_vec("cartpole", 64, caller_share=1)


class Closing(Counter):
    """Notes that it was closed, in the process that it lives in."""

    closed: list[int] = []  # noqa: RUF012

    def close(self) -> None:
        self.closed.append(id(self))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_closing_closes_the_callers_worlds_and_leaves_nothing() -> None:
    def cycle() -> None:
        vec = headrace.make_vec(Closing, 6, workers=1, caller_share=1, start_method="fork")
        vec.reset(seed=0)
        vec.step([0] * 6)
        vec.close()

    cycle()
    handles = len(os.listdir("/proc/self/fd"))
    Closing.closed.clear()
    for _ in range(4):
        cycle()
    assert len(Closing.closed) == 4 * 3
    assert len(os.listdir("/proc/self/fd")) == handles
