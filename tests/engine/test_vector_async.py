"""send and recv: whatever the order in which environments come back, each one's life is that
of a stepped batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import PAIR, WALK, leaves

from headrace import make_vec
from headrace.engine.asynchronous import index_of, put, taken
from headrace.engine.errors import ArgumentError, ArgumentTypeError, CallOrderError

STEPS = 40


def script(shape: tuple[int, ...], choices: Any) -> np.ndarray:
    """Actions [num_envs, STEPS, ...]."""
    return np.random.default_rng(3).integers(0, choices, (shape[0], STEPS, *shape[1:]))


def lives(parts: tuple[Any, ...], rows: Any) -> dict[int, bytes]:
    """By environment: the bytes of what one call said of it."""
    obs, rewards, terminated, truncated, infos = parts
    arrays = [array for _, array in leaves(obs)] + [rewards, terminated, truncated]
    arrays += [infos[key] for key in ("action_mask", "present") if key in infos]
    return {int(row): b"".join(a[i].tobytes() for a in arrays) for i, row in enumerate(rows)}


@pytest.mark.parametrize("executor", ["serial", "threads"])
@pytest.mark.parametrize(("n", "batch_size"), [(4, 3), (7, 3), (64, 48), (256, 100)])
@pytest.mark.parametrize("named", [False, True])
def test_environments_take_turns(n: int, batch_size: int, executor: str, named: bool) -> None:
    """Also where they are sent again in ascending order, as `recv` hands them out."""
    vec = make_vec("cartpole", n, executor=executor, batch_size=batch_size)
    vec.reset(seed=0)
    vec.send(np.zeros(n, int))
    steps = np.zeros(n, int)
    for _ in range(60):
        rows = vec.recv()[4]["env_id"]
        steps[rows] += 1
        vec.send(np.zeros(len(rows), int), rows if named else None)
    assert steps.sum() == 60 * batch_size
    assert np.ptp(steps) <= (1 if executor == "serial" else 3)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize(
    ("env", "n", "batch_size"), [("cartpole", 7, 3), (WALK, 6, 1), (PAIR, 8, 4)]
)
@pytest.mark.parametrize("executor", ["serial", "threads"])
@pytest.mark.parametrize("copy", [True, False])
def test_same_lives_as_step(
    env: str, n: int, batch_size: int, mode: str, executor: str, copy: bool
) -> None:
    reference = make_vec(env, n, autoreset_mode=mode)
    shape = reference.action_space.shape
    space = reference.single_action_space
    actions = script(shape, getattr(space, "nvec", getattr(space, "n", None)))
    reference.reset(seed=17)
    expected = [lives(reference.step(actions[:, t]), range(n)) for t in range(STEPS)]

    threads = {"threads": 3} if executor == "threads" else {}
    vec = make_vec(
        env, n, autoreset_mode=mode, executor=executor, batch_size=batch_size, copy=copy, **threads
    )
    vec.reset(seed=17)
    vec.send(actions[:, 0])
    taken = np.zeros(n, int)  # results received by each environment
    while (taken < STEPS).any():
        parts = vec.recv()
        rows = parts[4]["env_id"]
        assert len(rows) <= batch_size
        assert (np.diff(rows) > 0).all()
        for row, life in lives(parts, rows).items():
            assert life == expected[taken[row]][row]
            taken[row] += 1
        again = rows[taken[rows] < STEPS]
        if again.size == rows.size:
            vec.send(actions[rows, taken[rows]])  # without env_ids: those just received
        elif again.size:
            vec.send(actions[again, taken[again]], again)
    vec.step(actions[:, 0])  # nothing is in flight any more
    assert vec.statistics()["episodes"] >= reference.statistics()["episodes"]


def test_final_observations_and_infos_of_the_rows_received() -> None:
    vec = make_vec("cartpole", 4, autoreset_mode="SameStep", batch_size=2, max_steps=2)
    stepped = make_vec("cartpole", 4, autoreset_mode="SameStep", max_steps=2)
    stepped.reset(seed=0)
    vec.reset(seed=0)
    for _ in range(2):
        expected = stepped.step([1, 1, 1, 1])[4]
        vec.send([1, 1, 1, 1], [2, 0, 3, 1])
        parts = [vec.recv(), vec.recv()]
    for *_, infos in parts:
        rows = infos["env_id"]
        assert infos["_final_obs"].tolist() == [True, True]
        np.testing.assert_array_equal(infos["final_obs"], expected["final_obs"][rows])
        assert infos["final_info"] == {}


@pytest.mark.parametrize(("env_ids", "neighbours"), [([2, 3, 4], True), ([1, 3, 4], False)])
@pytest.mark.parametrize("copy", [True, False])
def test_views_only_of_neighbours_and_without_copying(
    env_ids: list[int], neighbours: bool, copy: bool
) -> None:
    vec = make_vec("cartpole", 6, batch_size=3, copy=copy, executor="serial")
    vec.reset(seed=1)
    vec.send(np.ones(3, np.int64), env_ids[::-1])
    obs, rewards, terminated, truncated, infos = vec.recv()
    assert infos["env_id"].tolist() == env_ids
    np.testing.assert_array_equal(obs, vec.buffers.obs[env_ids])
    for got, name in (
        (obs, "obs"), (rewards, "rewards"), (terminated, "terminated"), (truncated, "truncated")
    ):  # fmt: skip
        shared = np.shares_memory(got, vec.buffers.arrays[name])
        assert shared == (neighbours and not copy), name


def test_recv_returns_fewer_only_when_fewer_are_in_flight() -> None:
    vec = make_vec("cartpole", 5, batch_size=3)
    vec.reset(seed=0)
    vec.send([0] * 5)
    sizes = [len(vec.recv()[0]), len(vec.recv()[0])]
    assert sizes == [3, 2]
    with pytest.raises(CallOrderError, match=r"recv\(\) without send\(\)"):
        vec.recv()


def test_some_stay_behind_while_others_go_round() -> None:
    vec = make_vec("cartpole", 4, batch_size=2)
    vec.reset(seed=0)
    for _ in range(5):
        vec.send([0, 1], [1, 3])
        assert vec.recv()[4]["env_id"].tolist() == [1, 3]
    np.testing.assert_array_equal(vec.buffers.arrays["elapsed"], [0, 5, 0, 5])


def test_calls_in_the_wrong_order() -> None:
    vec = make_vec("cartpole", 4, batch_size=2, render_mode="rgb_array")
    vec.reset(seed=0)
    with pytest.raises(CallOrderError, match=r"recv\(\) without send\(\)"):
        vec.recv()
    vec.send([0, 1, 0], [0, 1, 2])
    for call, name in [
        (lambda: vec.step([0] * 4), r"step\(\)"),
        (lambda: vec.reset(), r"reset\(\)"),
        (lambda: vec.snapshot(), r"snapshot\(\)"),
        (lambda: vec.render(), r"render\(\)"),
        (lambda: vec.set_params(gravity=1.0), r"set_params\(\)"),
        (lambda: vec.state, "state"),
    ]:
        with pytest.raises(CallOrderError, match=rf"{name}.* while 3 environments are in flight"):
            call()
    with pytest.raises(CallOrderError, match="environment 1, which is still in flight: recv"):
        vec.send([0, 0], [3, 1])
    vec.send([0], [3])  # the refused send has started nothing
    assert len(vec.recv()[0]) == 2
    assert len(vec.recv()[0]) == 2


@pytest.mark.parametrize(
    ("env_ids", "kind", "words"),
    [
        ([], ArgumentError, r"env_ids has shape \(0,\)"),
        ([[0, 1]], ArgumentError, r"env_ids has shape \(1, 2\)"),
        ([0.0], ArgumentTypeError, "env_ids has dtype float64: expected integers"),
        ([0, 4], ArgumentError, r"env_ids\[1\] is 4: environments are 0 to 3"),
        ([-1], ArgumentError, r"env_ids\[0\] is -1"),
        ([1, 2, 1], ArgumentError, "environment 1 more than once"),
    ],
)
def test_bad_env_ids(env_ids: Any, kind: type[Exception], words: str) -> None:
    vec = make_vec("cartpole", 4)
    vec.reset(seed=0)
    with pytest.raises(kind, match=words):
        vec.send(np.zeros(np.shape(env_ids), int), env_ids)
    with pytest.raises(ArgumentError, match=r"shape \(3,\): expected \(2,\)"):
        vec.send([0, 1, 0], [2, 3])
    with pytest.raises(ArgumentError, match=r"actions\[1\] \(environment 3\) is 2"):
        vec.send([0, 2], [2, 3])


@pytest.mark.parametrize("env_ids", [[0], [1, 2], [0, 1, 2], [1, 0]])
def test_worlds_are_sent_whole(env_ids: list[int]) -> None:
    vec = make_vec(PAIR, 4)
    vec.reset(seed=0)
    with pytest.raises(ArgumentError, match="splits a world: the 2 environments"):
        vec.send([0] * len(env_ids), env_ids)
    vec.send([0, 0], [2, 3])
    assert vec.recv()[4]["env_id"].tolist() == [2, 3]


def test_reset_hands_out_every_row_again() -> None:
    vec = make_vec("cartpole", 4, batch_size=2)
    vec.reset(seed=0)
    vec.send([0, 0], [0, 1])
    vec.recv()
    vec.reset(seed=0)
    vec.send([0, 0, 0, 0])
    assert vec.recv()[4]["env_id"].size == 2


def test_a_send_that_fails_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vec = make_vec("cartpole", 4, batch_size=2)
    vec.reset(seed=0)

    class Refusing:
        def submit(self, worlds: np.ndarray) -> None:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(vec._flight, "_stepper", Refusing())
        with pytest.raises(MemoryError):
            vec.send([0, 0, 0, 0])
    assert vec._flight.in_flight == 0
    vec.send([0, 0, 0, 0])
    assert len(vec.recv()[1]) == 2


@pytest.mark.parametrize("chance", [0.0, 0.02, 0.5, 1.0])
def test_what_slices_take_is_what_the_numbers_take(chance: float) -> None:
    """Whether the rows are one range, a few or many."""
    rng = np.random.default_rng(5)
    array = rng.normal(size=(400, 3))
    left_out = rng.random(400) < chance
    left_out[rng.integers(400)] = False  # at least one is taken
    rows = np.flatnonzero(~left_out)
    index = index_of(rows)
    kinds = {0.0: slice, 0.02: tuple, 0.5: np.ndarray, 1.0: slice}
    assert isinstance(index, kinds[chance])
    np.testing.assert_array_equal(taken(array, index), array[rows])
    assert not np.shares_memory(taken(array, index), array)
    assert np.shares_memory(taken(array, index, copy=False), array) == (kinds[chance] is slice)
    put(array, index, 7.0)
    np.testing.assert_array_equal((array == 7.0).all(axis=1), ~left_out)
