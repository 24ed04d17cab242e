"""ActionSlots and EpisodeTotals against their naive twins, on random shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import PAIR, WALK

from headrace import make_vec
from headrace.engine import _core
from headrace.engine._core import NOT_DIRECT, TAKEN, ActionSlots
from headrace.engine.actions import ActionReader
from headrace.engine.errors import ArgumentError


def naive_take(values: np.ndarray, choices: np.ndarray | None) -> int:
    """Flat index of the first number that is not allowed, TAKEN when all are."""
    for i, value in enumerate(values.reshape(-1)):
        if choices is None:
            if np.isnan(value):
                return i
        elif not 0 <= value < choices[i % choices.size]:
            return i
    return TAKEN


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
@pytest.mark.parametrize("seed", range(40))
def test_take_equals_its_twin(dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 200))
    shape = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    members = int(np.prod(shape, dtype=int))
    discrete = dtype != np.float32
    choices = rng.integers(1, 6, members) if seed % 2 else np.full(members, 3)
    before, after = 4 * rng.integers(0, 3, 2)  # bytes around the field
    slots = np.zeros((rows, before + 4 * members + after), np.uint8)
    if discrete:
        values = rng.integers(0, np.broadcast_to(choices, (rows, members))).astype(dtype)
    else:
        values = rng.normal(size=(rows, members)).astype(dtype)
    if seed % 3 == 0:  # one or two that are not allowed
        bad = [-1, 9, -(2**31), 2**31 - 1] if discrete else [np.nan]
        if dtype == np.int64:
            bad += [2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)]
        for _ in range(2):
            values[rng.integers(rows), rng.integers(members)] = rng.choice(np.array(bad, dtype))
    values = values.reshape(rows, *shape)
    field = ActionSlots(slots, int(before), shape, choices if discrete else None)
    targets = None if seed % 4 else rng.permutation(rows)[: max(rows // 2, 1)]
    if targets is not None:
        values = np.ascontiguousarray(values[: len(targets)])
    result = field.take(values, targets)
    assert result == naive_take(values, choices if discrete else None)
    if result == TAKEN:
        expected = np.zeros_like(slots)
        numbers = values.astype(np.int32 if discrete else np.float32).reshape(len(values), -1)
        where = slice(None) if targets is None else targets
        expected[where, before : before + 4 * members] = numbers.view(np.uint8)
        np.testing.assert_array_equal(slots, expected)


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 0],
        np.zeros(3, np.int8),
        np.zeros(3, np.uint32),
        np.zeros(3, np.float32),
        np.zeros(3, ">i4"),
        np.zeros(6, np.int64)[::2],
        np.zeros(4, np.int64),
        np.zeros((3, 1), np.int64),
    ],
)
def test_take_leaves_what_it_cannot_read(values: Any) -> None:
    slots = np.full((3, 4), 7, np.uint8)
    assert ActionSlots(slots, 0, (), [2]).take(values) == NOT_DIRECT
    assert (slots == 7).all()


@pytest.mark.parametrize(
    "arguments",
    [(1, (), [2]), (0, (2,), [2, 2]), (-4, (), [2]), (0, (), [2, 2]), (0, (1,) * 8, [2])],
)
def test_slots_refuse_fields_that_do_not_fit(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError):
        ActionSlots(np.zeros((3, 4), np.uint8), *arguments)


@pytest.mark.parametrize(("env", "num_envs"), [("cartpole", 67), (WALK, 13), (PAIR, 10)])
def test_totals_equal_their_twin(env: str, num_envs: int) -> None:
    vec = make_vec(env, num_envs, autoreset_mode="SameStep")
    vec.reset(seed=0)
    vec.action_space.seed(0)
    arrays = vec.buffers.arrays
    returns, lengths, metrics = [], [], []
    for _ in range(60):
        *_, terminated, truncated, _ = vec.step(vec.action_space.sample())
        over = terminated | truncated
        returns.extend(arrays["last_return"][over].tolist())
        lengths.extend(arrays["last_length"][over].tolist())
        if "last_metrics" in arrays:
            metrics.extend(arrays["last_metrics"][arrays["world_over"]].tolist())
    stats = vec.statistics()
    assert stats["episodes"] == len(returns) > 20
    assert stats["return_mean"] == sum(returns) / len(returns)
    assert stats["length_mean"] == sum(lengths) / len(lengths)
    assert (stats["return_min"], stats["return_max"]) == (min(returns), max(returns))
    for i, name in enumerate(vec.spec_.metric_names):
        assert stats[name] == sum(values[i] for values in metrics) / len(metrics)


def test_totals_do_not_depend_on_threads() -> None:
    """Returns are no integers, so that the order of the sums shows."""
    found = []
    for executor, threads in (("serial", None), ("threads", 2), ("threads", 3)):
        vec = make_vec("pendulum", 9000, executor=executor, threads=threads, max_steps=7)
        vec.reset(seed=3)
        vec.action_space.seed(3)
        for _ in range(16):
            vec.step(vec.action_space.sample())
        found.append(vec.statistics())
        vec.close()
    assert found[0]["episodes"] == 18000
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("threads", [1, 2])
def test_turns_that_do_not_count_episodes_step_alike(threads: int) -> None:
    counting, other = (
        make_vec("pendulum", 9000, executor="threads", threads=threads, max_steps=3)
        for _ in range(2)
    )
    reader = ActionReader(other.spec_, other.buffers.action_slots)
    turns = _core.Turns(other.core, other.pool, reader.direct)
    for vec in (counting, other):
        vec.reset(seed=3)
    counting.action_space.seed(3)
    for _ in range(8):
        actions = counting.action_space.sample()
        counting.step(actions)
        assert turns.step(actions) == 0
    for name, array in counting.buffers.arrays.items():
        np.testing.assert_array_equal(array, other.buffers.arrays[name], name)
    assert counting.statistics()["episodes"] == 18000
    assert other.statistics()["episodes"] == 0
    assert turns.step(np.full((9000, 1), np.nan, np.float32)) == _core.REFUSED
    np.testing.assert_array_equal(
        other.buffers.arrays["elapsed"], counting.buffers.arrays["elapsed"]
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nothing_is_stepped_where_one_action_is_not_allowed(threads: int) -> None:
    vec = make_vec("cartpole", 20_000, executor="threads", threads=threads)
    vec.reset(seed=1)
    good = np.zeros(20_000, np.int64)
    for _ in range(3):  # the first step measures
        vec.step(good)
    before = {name: array.copy() for name, array in vec.buffers.arrays.items()}
    bad = good.copy()
    bad[[19_998, 12_345]] = 2
    with pytest.raises(ArgumentError, match=r"actions\[12345\] is 2"):
        vec.step(bad)
    for name, array in vec.buffers.arrays.items():
        if name != "actions":
            np.testing.assert_array_equal(array, before[name], name)
    vec.step(good)
    assert (vec.buffers.arrays["elapsed"] == 4).all()
    vec.close()
