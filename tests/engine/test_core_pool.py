"""Pool and AsyncStepper from Python: lifetimes, order, forks."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import numpy as np
import pytest
from batches import forked
from drifting import Batch
from naive_vec import NEXT_STEP, SAME_STEP

from headrace.engine import _core
from headrace.engine.errors import CallOrderError, ClosedError

POOLS = [None, 1, 2, 3]


def make_pool(threads):
    return None if threads is None else _core.Pool(threads)


def fly(stepper, ids):
    stepper.submit(np.asarray(ids, np.int64))


# ---- pool ------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_number_of_threads_is_checked(threads):
    with pytest.raises(ValueError, match="threads"):
        _core.Pool(threads)


def test_closed_pool_refuses():
    batch, pool = Batch(4), _core.Pool(2)
    pool.close()
    pool.close()
    with pytest.raises(ClosedError):
        batch.core.step(pool)
    with pytest.raises(ClosedError):
        pool.capsule  # noqa: B018


def test_pool_in_use_is_not_closed():
    batch, pool = Batch(4), _core.Pool(2)
    stepper = _core.AsyncStepper(batch.core, pool)
    with pytest.raises(CallOrderError, match="in use"):
        pool.close()
    stepper.close()
    pool.close()


def test_two_batches_share_a_pool_from_two_threads():
    pool = _core.Pool(3)
    batches = [Batch(60, mode=SAME_STEP, WORK=500) for _ in range(2)]
    reference = Batch(60, mode=SAME_STEP, WORK=500)

    def run(batch):
        rng = np.random.default_rng(0)
        for _ in range(30):
            batch.act(rng)
            batch.core.step(pool if batch is not reference else None)

    threads = [threading.Thread(target=run, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(reference)
    for batch in batches:
        np.testing.assert_array_equal(batch.arrays["state"], reference.arrays["state"])


def test_patient_pool_takes_the_same_steps():
    """Long enough for its threads to spin for longer, with waits in between that outlast it."""
    pool, batches = _core.Pool(2), [Batch(256, mode=SAME_STEP, WORK=100) for _ in range(2)]
    pool.be_patient()
    for batch in batches:
        rng = np.random.default_rng(0)
        for step in range(120):
            batch.act(rng)
            batch.core.step(pool if batch is batches[0] else None)
            if batch is batches[0] and step % 50 == 49:
                time.sleep(0.002)
    np.testing.assert_array_equal(batches[0].arrays["state"], batches[1].arrays["state"])
    pool.close()
    with pytest.raises(ClosedError):
        pool.be_patient()


def test_one_batch_is_not_stepped_by_two_threads_at_once():
    batch = Batch(50, WORK=2_000_000)
    began = threading.Event()

    def run():
        began.set()
        batch.core.step(None)

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    messages = []
    while thread.is_alive() and not messages:
        try:
            batch.core.step_range(0, 0)
        except CallOrderError as error:
            messages.append(str(error))
    thread.join()
    assert messages == ["Vec is being stepped by another thread"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_steps_with_threads_of_its_own():
    batch, pool = Batch(50, mode=NEXT_STEP, WORK=500), _core.Pool(3)
    twin = Batch(50, mode=NEXT_STEP, WORK=500)
    rng = np.random.default_rng(0)
    for _ in range(3):
        twin.buffers.actions[:] = batch.act(rng)
        batch.core.step(pool)
        twin.core.step(None)

    def step_on():
        for _ in range(5):
            twin.buffers.actions[:] = batch.act(rng)
            batch.core.step(pool)
            twin.core.step(None)
        pool.close()
        return np.array_equal(batch.arrays["state"], twin.arrays["state"])

    child_did = forked(step_on)
    batch.core.step(pool)
    assert child_did()


# ---- worlds in flight -------------------------------------------------------------------


@pytest.mark.parametrize("threads", POOLS)
@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("neighbours", [False, True])
def test_in_flight_equals_whole_steps(agents, threads, neighbours):
    """Worlds sent in random groups, in any order or mostly neighbours, take the same steps as
    worlds stepped together."""
    worlds, steps = 40, 25
    batch = Batch(worlds, mode=NEXT_STEP, max_steps=9, AGENTS=agents)
    whole = Batch(worlds, mode=NEXT_STEP, max_steps=9, AGENTS=agents)
    rng = np.random.default_rng(11)
    plan = rng.integers(0, 3, (steps, worlds, agents), dtype=np.int32)
    for actions in plan:
        whole.buffers.actions[:] = actions.reshape(-1)
        whole.core.step(None)

    stepper = _core.AsyncStepper(batch.core, make_pool(threads))
    taken = np.zeros(worlds, np.int64)
    slots = batch.buffers.actions.reshape(worlds, agents)
    here = list(range(worlds))
    while here or stepper.in_flight:
        todo = [w for w in here if taken[w] < steps]
        if not todo and not stepper.in_flight:
            break
        order = sorted(todo) if neighbours else rng.permutation(todo)
        group = np.array(order[: rng.integers(0, len(todo) + 1)], np.int64)
        for w in group:
            slots[w] = plan[taken[w], w]
            taken[w] += 1
        fly(stepper, group)
        here = [w for w in here if w not in set(group.tolist())]
        if stepper.in_flight:
            here += list(stepper.wait(int(rng.integers(1, stepper.in_flight + 1))))
    assert sorted(here) == list(range(worlds))
    assert (taken == steps).all()
    for name in ("state", "rng", "obs", "rewards", "last_return", "elapsed"):
        np.testing.assert_array_equal(batch.arrays[name], whole.arrays[name], err_msg=name)
    stepper.close()


def test_serial_stepper_returns_in_order_of_submission():
    stepper = _core.AsyncStepper(Batch(9).core, None)
    fly(stepper, [5, 2, 8])
    fly(stepper, [0])
    assert stepper.ready == 4
    assert list(stepper.wait(3)) == [5, 2, 8]
    fly(stepper, [5])
    assert list(stepper.wait(2)) == [0, 5]
    assert stepper.in_flight == 0


def test_neighbours_return_in_order_of_submission_and_by_parts():
    stepper = _core.AsyncStepper(Batch(9).core, None)
    fly(stepper, [6, 7, 8])
    fly(stepper, [0, 1, 2, 3])  # does not follow the 8 before it
    fly(stepper, [4, 5])  # does
    assert list(stepper.wait(2)) == [6, 7]
    fly(stepper, [6, 7])
    assert list(stepper.wait(6)) == [8, 0, 1, 2, 3, 4]
    with pytest.raises(CallOrderError, match="world 5 is in flight"):
        fly(stepper, [3, 4, 5])
    with pytest.raises(ValueError, match=r"worlds\[2\] is 9"):
        fly(stepper, [2, 8, 9])
    with pytest.raises(ValueError, match=r"worlds\[1\] is 9"):
        fly(stepper, [8, 9])
    fly(stepper, [3, 4])
    assert list(stepper.wait(5)) == [5, 6, 7, 3, 4]
    assert stepper.in_flight == 0


@pytest.mark.parametrize(
    ("ids", "first"),
    [([4], 4), ([2, 3, 4], 2), ([4, 2, 3], 2), ([2, 4], -1), ([3, 2, 5, 4, 7], -1), ([], -1)],
)
def test_first_of_a_range_in_any_order(ids, first):
    assert _core.first_of_range(np.array(ids, np.int64)) == first


def test_slow_group_does_not_hold_up_the_rest():
    """Two batches on one pool: while one thread is busy with a slow world of the first, worlds
    of the second come back."""
    slow, fast = Batch(1, WORK=200_000_000), Batch(8)
    pool = _core.Pool(3)
    slow_stepper = _core.AsyncStepper(slow.core, pool)
    fast_stepper = _core.AsyncStepper(fast.core, pool)
    fly(slow_stepper, [0])
    for _ in range(20):
        fly(fast_stepper, range(8))
        assert sorted(fast_stepper.wait(8)) == list(range(8))
    assert fast.arrays["elapsed"].max() >= 1
    assert list(slow_stepper.wait(1)) == [0]


def test_flight_rules():
    batch = Batch(6)
    stepper = _core.AsyncStepper(batch.core, _core.Pool(2))
    for wrong in ([0, 1], np.arange(2, dtype=np.int32), np.arange(6)[::2]):
        with pytest.raises(ValueError, match="worlds must be a C-contiguous int64 array"):
            stepper.submit(wrong)
    with pytest.raises(ValueError, match=r"worlds\[1\] is 6"):
        fly(stepper, [0, 6])
    with pytest.raises(CallOrderError, match=r"wait\(1\): 0 worlds"):
        stepper.wait(1)
    with pytest.raises(CallOrderError, match="world 3 is in flight"):
        fly(stepper, [3, 3])
    assert stepper.in_flight == 0
    fly(stepper, [3])
    with pytest.raises(CallOrderError, match="world 3 is in flight"):
        fly(stepper, [2, 3])
    for call in (
        lambda: batch.core.step(None),
        lambda: batch.core.reset(),
        lambda: batch.core.step_range(0, 1),
        lambda: batch.core.close(),
        lambda: _core.AsyncStepper(batch.core),
    ):
        with pytest.raises(CallOrderError, match="in flight"):
            call()
    fly(stepper, [2])
    assert sorted(stepper.wait(2)) == [2, 3]
    fly(stepper, [])
    assert list(stepper.wait(0)) == []
    batch.core.step(None)


def test_closed_stepper_drains_and_refuses():
    batch = Batch(30, WORK=20_000)
    stepper = _core.AsyncStepper(batch.core, _core.Pool(3))
    fly(stepper, range(30))
    stepper.close()
    stepper.close()
    assert (batch.arrays["elapsed"] == 1).all()
    assert batch.core.in_flight == 0
    with pytest.raises(ClosedError):
        fly(stepper, [0])


def test_stepper_dropped_in_flight_does_no_harm():
    batch = Batch(30, WORK=20_000)
    stepper = _core.AsyncStepper(batch.core, _core.Pool(3))
    fly(stepper, range(30))
    del stepper
    assert (batch.arrays["elapsed"] == 1).all()
    assert batch.core.in_flight == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_is_told_that_the_flight_is_not_its_own():
    batch = Batch(8, WORK=20_000)
    stepper = _core.AsyncStepper(batch.core, _core.Pool(2))
    fly(stepper, range(8))

    def wait():
        with pytest.raises(CallOrderError, match="forked"):
            stepper.wait(8)
        return True

    child_did = forked(wait)
    assert sorted(stepper.wait(8)) == list(range(8))
    assert child_did()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_forked_child_goes_on_with_nothing_in_flight(threads):
    batch = Batch(70)
    stepper = _core.AsyncStepper(batch.core, None if threads is None else _core.Pool(threads))
    fly(stepper, range(70))
    stepper.wait(70)

    def fly_on():
        for _ in range(3):
            fly(stepper, range(70))
            stepper.wait(70)
        stepper.close()
        return batch.arrays["elapsed"].max() > 0

    assert forked(fly_on)()


def test_a_claimed_batch_is_left_alone():
    batch = Batch(3)
    stepper = _core.AsyncStepper(batch.core)
    batch.core.acquire()
    for call in (
        batch.core.step, batch.core.reset, batch.core.observe, batch.core.acquire,
        batch.core.close, lambda: fly(stepper, [0]), lambda: batch.core.step_range(0, 1),
        lambda: batch.core.metrics(0),
    ):  # fmt: skip
        with pytest.raises(CallOrderError, match="stepped by a collector"):
            call()
    batch.core.release()
    batch.core.step()
    fly(stepper, [0, 1])
    with pytest.raises(CallOrderError, match="2 worlds are in flight"):
        batch.core.acquire()


def test_a_stepper_that_submits_excludes_other_steps():
    """Without a pool the step runs inside `submit`, on whatever thread called it."""
    batch = Batch(1)
    hold = ctypes.c_int32.in_dll(ctypes.CDLL(batch.library.path), "drift_hold")
    stepper = _core.AsyncStepper(batch.core)
    hold.value = 1
    thread = threading.Thread(target=fly, args=(stepper, [0]))
    thread.start()
    try:
        while hold.value != 2:
            time.sleep(0.001)
        for call in (batch.core.step, batch.core.acquire, batch.core.close):
            with pytest.raises(CallOrderError, match="1 worlds are in flight"):
                call()
    finally:
        hold.value = 0
        thread.join()
    assert list(stepper.wait(1)) == [0]
    with pytest.raises(ValueError, match="worlds are 0 to 0"):
        fly(stepper, [7])
    assert batch.core.in_flight == 0


def test_waiting_hears_signals():
    """Ctrl-C ends a wait for a world that takes long."""
    batch = Batch(1)
    hold = ctypes.c_int32.in_dll(ctypes.CDLL(batch.library.path), "drift_hold")
    stepper = _core.AsyncStepper(batch.core, _core.Pool(2))
    hold.value = 1
    fly(stepper, [0])
    while hold.value != 2:  # until the other thread is inside the step
        time.sleep(0.001)

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            stepper.wait(1)
    finally:
        hold.value = 0
        signal.signal(signal.SIGALRM, before)
    assert list(stepper.wait(1)) == [0]
