"""The step of a batch against its naive twin, and the checks of Vec and Library."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from drifting import Batch
from naive_vec import DISABLED, NEXT_STEP, SAME_STEP, splitmix_key

from headrace.engine import _core
from headrace.engine.errors import CallOrderError, ClosedError, EnvDefinitionError

STEPS = 50
SHAPES = [  # (agents, leaving, bulk)
    (1, 0, 4),
    (1, 0, 100),
    (1, 1, 4),
    (3, 0, 4),
    (3, 1, 4),
    (2, 1, 100),
]


def run_against_twin(batch, naive, step, mode, steps=STEPS):
    """Random actions; in Disabled mode the worlds that ended are reset after each step."""
    rng = np.random.default_rng(7)
    batch.assert_equals(naive)
    for _ in range(steps):
        naive.step(batch.act(rng))
        step(batch)
        batch.assert_equals(naive)
        if mode == DISABLED and batch.arrays["pending"].any():
            ended = batch.arrays["pending"].copy()
            batch.core.reset(None, ended)
            naive.reset(np.flatnonzero(ended).tolist())
            batch.assert_equals(naive)


@pytest.mark.parametrize("max_steps", [0, 6])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize(("agents", "leaving", "bulk"), SHAPES)
def test_step_equals_twin(agents, leaving, bulk, mode, max_steps):
    batch = Batch(
        131, mode=mode, max_steps=max_steps, AGENTS=agents, LEAVING=leaving, BULK=bulk, RARE=4
    )
    naive = batch.twin(mode, max_steps, agents=agents, leaving=bool(leaving))
    run_against_twin(batch, naive, lambda b: b.core.step(None), mode)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
@pytest.mark.parametrize("agents", [1, 2])
def test_odd_ranges_equal_twin(agents, mode):
    batch = Batch(150, mode=mode, max_steps=9, AGENTS=agents)
    naive = batch.twin(mode, 9, agents=agents)
    cuts = np.random.default_rng(3)

    def step(b):
        bounds = [0, *np.sort(cuts.integers(0, 151, 4)).tolist(), 150]
        ranges = list(itertools.pairwise(bounds))
        for i in cuts.permutation(len(ranges)):
            b.core.step_range(*ranges[i])

    run_against_twin(batch, naive, step, mode)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("agents", [1, 2])
def test_threads_equal_twin(agents, threads):
    """Slow worlds, so that the step is worth sharing."""
    batch = Batch(97, mode=SAME_STEP, max_steps=9, AGENTS=agents, WORK=2000)
    naive = batch.twin(SAME_STEP, 9, agents=agents)
    pool = _core.Pool(threads)
    run_against_twin(batch, naive, lambda b: b.core.step(pool), SAME_STEP, steps=20)
    pool.close()


@pytest.mark.parametrize("threads", [2, 3])
def test_many_fast_worlds_on_threads(threads):
    serial, shared = (Batch(5000, mode=NEXT_STEP, max_steps=30) for _ in range(2))
    pool = _core.Pool(threads)
    for batch in (serial, shared):
        rng = np.random.default_rng(1)
        for _ in range(100):
            batch.act(rng)
            batch.core.step(pool if batch is shared else None)
    for name, array in serial.arrays.items():
        if name != "final_obs":  # defined only where an episode ended
            np.testing.assert_array_equal(array, shared.arrays[name], err_msg=name)


def test_modes_yield_the_same_transitions():
    """Episode for episode, whatever happens between them."""
    episodes = {}
    for mode in (NEXT_STEP, SAME_STEP, DISABLED):
        batch = Batch(20, mode=mode, max_steps=12)
        transitions = [[] for _ in range(20)]
        for _ in range(200):
            # an action that depends on the world's history alone
            clock = batch.buffers.obs[:, 1].copy()
            batch.buffers.actions[:] = (batch.buffers.obs[:, 0].astype(np.int64) + clock) % 3
            batch.core.step(None)
            for w in np.flatnonzero(batch.arrays["acted"]):
                over = batch.arrays["world_over"][w]
                obs = batch.buffers.final_obs[w] if over else batch.buffers.obs[w]
                transitions[w].append((*obs.tolist(), float(batch.arrays["rewards"][w]), over))
            if mode == DISABLED and batch.arrays["pending"].any():
                batch.core.reset(None, batch.arrays["pending"].copy())
        episodes[mode] = transitions
    for w in range(20):
        shortest = min(len(episodes[mode][w]) for mode in episodes)
        assert shortest > 150
        assert episodes[NEXT_STEP][w][:shortest] == episodes[SAME_STEP][w][:shortest]
        assert episodes[DISABLED][w][:shortest] == episodes[SAME_STEP][w][:shortest]


@pytest.mark.parametrize("bulk", [4, 100])
def test_dead_worlds_are_never_stepped(bulk):
    batch = Batch(100, mode=NEXT_STEP, BULK=bulk)
    violations = ctypes.c_int32.in_dll(ctypes.CDLL(batch.library.path), "drift_violations")
    before = violations.value
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(100):
        batch.act(rng)
        batch.core.step(None)
        ends += int(batch.arrays["world_over"].sum())
    assert ends > 100
    assert violations.value == before


def test_neighbours_do_not_matter():
    alone, among = Batch(1, mode=NEXT_STEP, max_steps=7), Batch(77, mode=NEXT_STEP, max_steps=7)
    rng = np.random.default_rng(5)
    for _ in range(60):
        actions = among.act(rng)
        alone.buffers.actions[:] = actions[:1]
        alone.core.step(None)
        among.core.step(None)
        assert alone.buffers.obs[0].tolist() == among.buffers.obs[0].tolist()
        assert alone.arrays["rng"][0].tolist() == among.arrays["rng"][0].tolist()


def test_reset_by_mask_and_seed_touches_the_chosen_worlds_only():
    batch = Batch(70)
    batch.act(np.random.default_rng(0))
    batch.core.step(None)
    before = {name: array.copy() for name, array in batch.arrays.items()}
    mask = np.zeros(70, np.bool_)
    mask[[3, 4, 64, 69]] = True
    batch.core.reset(np.full(70, 123, np.uint64), mask)
    assert (batch.arrays["rng"][mask] == [splitmix_key(123), 2]).all()
    assert (batch.arrays["elapsed"][mask] == 0).all()
    assert (batch.arrays["episode_length"][mask] == 0).all()
    for name, array in batch.arrays.items():
        np.testing.assert_array_equal(array[~mask], before[name][~mask], err_msg=name)


def test_seed_key_is_splitmix():
    # SplitMix64 from 1234567: the published test vector's first output
    assert splitmix_key(1234567) == 6457827717110365317
    batch = Batch(2)
    batch.core.reset(np.array([1234567, 0], np.uint64))
    assert batch.arrays["rng"][:, 0].tolist() == [6457827717110365317, splitmix_key(0)]


# ---- what is refused -------------------------------------------------------------------


def test_arrays_are_checked():
    batch = Batch(8)
    for name in ("state", "rewards", "actions", "last_metrics", "mask"):
        for wrong in (None, batch.arrays[name][:4], np.zeros(3, np.uint8)):
            arrays = dict(batch.arrays)
            arrays[name] = wrong
            with pytest.raises(ValueError, match=name):
                _core.Vec(batch.library, 8, arrays=arrays)
    arrays = dict(batch.arrays, rewards=np.zeros(16, np.float32)[::2])
    with pytest.raises(ValueError, match="C-contiguous"):
        _core.Vec(batch.library, 8, arrays=arrays)
    readonly = batch.arrays["rewards"].copy()
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        _core.Vec(batch.library, 8, arrays=dict(batch.arrays, rewards=readonly))


@pytest.mark.parametrize("worlds", [0, -1, 2**31])
def test_number_of_worlds_is_checked(worlds):
    batch = Batch(2)
    with pytest.raises(ValueError, match="worlds"):
        _core.Vec(batch.library, worlds, arrays=batch.arrays)


def test_reset_and_range_arguments_are_checked():
    core = Batch(8).core
    with pytest.raises(TypeError, match="seeds"):
        core.reset(np.zeros(8, np.int64))
    with pytest.raises(ValueError, match="seeds"):
        core.reset(np.zeros(7, np.uint64))
    with pytest.raises(TypeError, match="mask"):
        core.reset(None, np.zeros(8, np.int8))
    for lo, hi in ((-1, 3), (0, 9), (5, 4)):
        with pytest.raises(ValueError, match="range"):
            core.step_range(lo, hi)
    with pytest.raises(CallOrderError, match="draw"):
        core.draw(0, np.zeros((4, 4, 3), np.uint8))


def test_closed_vec_refuses():
    core = Batch(4).core
    core.close()
    core.close()
    for call in (lambda: core.step(None), lambda: core.reset(), lambda: core.capsule):
        with pytest.raises(ClosedError):
            call()


def test_capsules_keep_their_owner_alive():
    batch = Batch(4)
    capsule = batch.core.capsule
    described = batch.library.describe()
    kernels = dict.fromkeys(("step", "observe", "reset", "mask", "metrics"), 1)
    again = _core.Library.from_capsule(_core.Description(described, kernels).capsule)
    del batch
    assert again.describe() == described
    assert "headrace.hr_vec" in repr(capsule)
    with pytest.raises(EnvDefinitionError, match="no capsule"):
        _core.Library.from_capsule(capsule)


def test_library_errors(tmp_path):
    missing = tmp_path / "none.so"
    with pytest.raises(EnvDefinitionError, match=r"none\.so cannot be loaded"):
        _core.Library(missing)
    with pytest.raises(EnvDefinitionError, match="defines no environment"):
        _core.Library(_core.__file__, source="mine.c")


def test_description():
    told = Batch(1, AGENTS=2, LEAVING=1).library.describe()
    assert told["name"] == "drift"
    assert told["agents"] == 2
    assert told["mask_size"] == 3
    assert told["metric_names"] == ["clock", "low_byte"]
    assert told["has_present"] and told["has_mask"] and not told["has_draw"]
    assert [field["name"] for field in told["obs_fields"]] == ["seen", "clock"]
    assert told["action_fields"][0]["choices"] == 3
