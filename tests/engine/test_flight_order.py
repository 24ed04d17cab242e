"""In which order worlds come back: brief groups whole and as they were sent, slow ones as each
world is ready."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from batches import PAIR, forked
from drifting import Batch

from headrace import make_vec
from headrace.engine import _core
from headrace.engine.errors import CallOrderError

WORLDS = 70
HALF = WORLDS // 2
ALWAYS = 2**62  # ns: every group is brief
FIRST, SECOND = range(HALF), range(HALF, WORLDS)


class Held:
    """A batch in flight on two threads, one of whose worlds stays in its step while it is held."""

    def __init__(self, patience: int, agents: int = 1) -> None:
        self.batch = Batch(WORLDS, AGENTS=agents)
        self.stepper = _core.AsyncStepper(self.batch.core, _core.Pool(2))
        self.stepper.set_patience(patience)
        library = ctypes.CDLL(self.batch.library.path)
        self._hold = ctypes.c_int32.in_dll(library, "drift_hold")
        self._which = ctypes.c_int32.in_dll(library, "drift_held_world")

    def send(self, worlds: Any) -> None:
        self.stepper.submit(worlds if isinstance(worlds, range) else np.array(worlds, np.int64))

    @contextmanager
    def holding(self, world: int) -> Iterator[None]:
        """Sends may follow; the first must begin with `world`, which is let go at the end."""
        self._which.value, self._hold.value = world, 1
        try:
            yield
        finally:
            self.let_go()

    def until_held(self) -> None:
        """The other thread is inside the step of the world."""
        while self._hold.value != 2:
            time.sleep(0.0005)

    def let_go(self) -> None:
        self._hold.value, self._which.value = 0, -1

    def let_go_last(self) -> threading.Thread:
        """Lets the world go once all others have been stepped."""

        def watch() -> None:
            while (self.batch.arrays["elapsed"] == 1).sum() < WORLDS - 5:  # the others of its chunk
                time.sleep(0.0005)
            self.let_go()

        thread = threading.Thread(target=watch)
        thread.start()
        return thread


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_brief_group_comes_back_whole_and_in_the_order_it_was_sent(
    agents: int, mixed: bool
) -> None:
    """Although its first world is ready last."""
    held = Held(ALWAYS, agents)
    rng = np.random.default_rng(7)
    group = [0, *(1 + rng.permutation(WORLDS - 1)).tolist()] if mixed else range(WORLDS)
    with held.holding(0):
        held.send(group)
        held.until_held()
        thread = held.let_go_last()
        got = held.stepper.wait(HALF)
        thread.join()
    assert list(got) == list(group[:HALF])
    assert held.stepper.ready == HALF
    assert isinstance(got, range) != mixed
    assert list(held.stepper.wait(HALF)) == list(group[HALF:])


def test_a_group_that_is_held_up_holds_up_no_other() -> None:
    held = Held(ALWAYS)
    with held.holding(0):
        held.send(FIRST)
        held.until_held()
        for _ in range(3):
            held.send(SECOND)
            assert held.stepper.wait(HALF) == SECOND
        assert held.stepper.ready == 0
    assert held.stepper.wait(HALF) == FIRST


def test_what_is_ready_of_a_group_that_takes_too_long_comes_though_others_are_quick() -> None:
    held = Held(1_000_000)
    seen: set[int] = set()
    with held.holding(0):
        held.send(FIRST)
        held.until_held()
        got = list(SECOND)
        for _ in range(200):
            held.send(got)
            got = list(held.stepper.wait(HALF))
            seen |= set(got)
            time.sleep(0.001)
        assert set(range(5, WORLDS)) <= seen  # all but the chunk of world 0
        assert not seen & set(range(5))


@pytest.mark.parametrize("patience", [0, 1_000_000])
def test_a_group_that_takes_too_long_comes_back_as_it_is_ready(patience: int) -> None:
    """At once where no group is taken for brief, else after a while."""
    held = Held(patience)
    with held.holding(0):
        held.send(range(WORLDS))
        held.until_held()
        got = list(held.stepper.wait(WORLDS - 5))
        assert sorted(got) == list(range(5, WORLDS))  # all but the chunk of world 0
        held.send(got)
        assert sorted(held.stepper.wait(WORLDS - 5)) == list(range(5, WORLDS))
    assert list(held.stepper.wait(5)) == [0, 1, 2, 3, 4]


def test_neighbours_find_together_again() -> None:
    """After a hitch had mixed two groups up."""
    held = Held(1_000_000)
    with held.holding(0):
        held.send(range(WORLDS))
        held.until_held()
        got = held.stepper.wait(HALF)
        assert 0 not in got
        held.stepper.set_patience(ALWAYS)
    for _ in range(20):
        held.send(got)
        got = held.stepper.wait(HALF)
    for _ in range(5):
        assert got in (FIRST, SECOND)
        held.send(got)
        got = held.stepper.wait(HALF)


@pytest.mark.parametrize("patience", [0, ALWAYS])
def test_closing_waits_for_groups_in_flight(patience: int) -> None:
    batch = Batch(WORLDS, WORK=20_000)
    stepper = _core.AsyncStepper(batch.core, _core.Pool(3))
    stepper.set_patience(patience)
    for group in (FIRST, SECOND):
        stepper.submit(group)
    stepper.close()
    assert (batch.arrays["elapsed"] == 1).all()
    assert batch.core.in_flight == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_whole_groups_too() -> None:
    stepper = Held(ALWAYS).stepper
    stepper.submit(range(WORLDS))
    stepper.wait(WORLDS)

    def both_whole() -> bool:
        stepper.submit(FIRST)
        stepper.submit(SECOND)
        return {stepper.wait(HALF), stepper.wait(HALF)} == {FIRST, SECOND}

    assert forked(lambda: all(both_whole() for _ in range(3)))()


def test_ranges_are_checked() -> None:
    stepper = _core.AsyncStepper(Batch(6).core)
    for wrong in (range(2, 8), range(-1, 3), range(0, 6, 2)):
        with pytest.raises(ValueError, match=r"range\(.* is no range of 0 to 5"):
            stepper.submit(wrong)
    stepper.submit(range(2, 4))
    with pytest.raises(CallOrderError, match="world 2 is in flight"):
        stepper.submit(range(1, 4))
    assert stepper.wait(2) == range(2, 4)


# ---- as users see it --------------------------------------------------------------------


@pytest.mark.parametrize(("env", "agents"), [("cartpole", 1), (PAIR, 2)])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_halves_stay_halves(env: str, agents: int, copy: bool, named: bool) -> None:
    rows, half = 1200, 600
    vec = make_vec(env, rows, threads=3, batch_size=half, copy=copy)
    vec._flight._stepper.set_patience(ALWAYS)
    vec.reset(seed=0)
    vec.send(np.zeros(rows, int))
    steps = np.zeros(rows, int)
    for _ in range(40):
        _obs, rewards, _, _, infos = vec.recv()
        got = infos["env_id"]
        assert got.dtype == np.int64
        assert got.tolist() in (list(range(half)), list(range(half, rows)))
        assert np.shares_memory(rewards, vec.buffers.arrays["rewards"]) == (not copy)
        assert got.flags.writeable == copy
        np.testing.assert_array_equal(rewards, vec.buffers.arrays["rewards"][got])
        steps[got] += 1
        vec.send(np.zeros(half, int), got if named else None)
    assert np.ptp(steps.reshape(-1, agents), axis=1).max() == 0  # worlds come whole


def test_parts_that_were_named_come_back_as_views_where_they_are_neighbours() -> None:
    vec = make_vec("cartpole", 1000, threads=2, batch_size=200, copy=False)
    vec._flight._stepper.set_patience(ALWAYS)
    vec.reset(seed=0)
    for start in (600, 0, 300):
        vec.send(np.ones(200, int), np.arange(start, start + 200))
        _, rewards, *_, infos = vec.recv()
        assert infos["env_id"].tolist() == list(range(start, start + 200))
        assert np.shares_memory(rewards, vec.buffers.arrays["rewards"])
        with pytest.raises(ValueError, match="read-only"):
            infos["env_id"][0] = 5
    np.testing.assert_array_equal(vec.buffers.arrays["elapsed"][200:300], 0)
