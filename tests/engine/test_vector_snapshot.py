"""Snapshots: the same future, to the byte; and their refusals."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from batches import MODES, PAIR, SLIDE, SLOPE, WALK, assert_same, leaves

from headrace import make_vec
from headrace.engine.errors import ArgumentError, ArgumentTypeError
from headrace.engine.snapshot import Snapshot
from headrace.engine.vector import VecEnv

ENVS: dict[str, dict[str, Any]] = {"cartpole": {}, WALK: {}, PAIR: {}, SLIDE: {"slope": SLOPE}}


def future(vec: VecEnv, steps: int) -> list[bytes]:
    vec.action_space.seed(1)
    seen = []
    for _ in range(steps):
        obs, *rest, infos = vec.step(vec.action_space.sample())
        arrays = [array for _, array in leaves(obs)] + rest
        seen.append(b"".join(array.tobytes() for array in arrays) + repr(infos).encode())
        if vec.autoreset_mode.value == "Disabled":
            ended = np.repeat(vec.buffers.arrays["pending"], vec.agents)
            if ended.any():
                vec.reset(options={"reset_mask": ended})
    return seen


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env", ENVS)
def test_the_same_thousand_steps_again(env: str, mode: str) -> None:
    vec = make_vec(env, 6, autoreset_mode=mode, **ENVS[env])
    vec.reset(seed=3)
    future(vec, 37)
    snapshot = vec.snapshot()
    expected = future(vec, 1000)
    statistics = vec.statistics()
    obs, _ = vec.restore(snapshot)
    assert_same(obs, vec.spec_.view_observations(snapshot.arrays["obs"]))
    assert future(vec, 1000) == expected
    assert vec.statistics() == statistics


@pytest.mark.parametrize(
    ("name", "value"),
    [("pending", 255), ("terminated", 2), ("present", 128), ("elapsed", -1), ("steps", -3)],
)
def test_damaged_arrays_are_refused(name: str, value: int) -> None:
    vec = make_vec("cartpole", 65)
    vec.reset(seed=1)
    snapshot = vec.snapshot()
    arrays = {key: array.copy() for key, array in snapshot.arrays.items()}
    raw = arrays[name].view(np.uint8) if arrays[name].dtype == np.bool_ else arrays[name]
    raw[64] = value
    damaged = Snapshot.from_bytes(dataclasses.replace(snapshot, arrays=arrays).to_bytes())
    before = vec.snapshot().to_bytes()
    with pytest.raises(ArgumentError, match=f"snapshot is damaged: .*{name!r}"):
        vec.restore(damaged)
    assert vec.snapshot().to_bytes() == before
    arrays = {**snapshot.arrays, "totals": snapshot.arrays["totals"][:-1]}
    with pytest.raises(ArgumentError, match="its array 'totals' is missing or differs"):
        vec.restore(dataclasses.replace(snapshot, arrays=arrays))


def test_into_another_batch_and_through_bytes() -> None:
    vec = make_vec(WALK, 5, slip=[0.0, 0.1, 0.2, 0.3, 0.4])
    vec.reset(seed=8)
    future(vec, 10)
    data = vec.snapshot().to_bytes()
    expected = future(vec, 100)
    other = make_vec(WALK, 5, threads=3)  # never reset, other parameters
    other.restore(Snapshot.from_bytes(data))
    assert other.params["slip"].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert future(other, 100) == expected
    assert other.get_attr("np_random_seed") == (8, 9, 10, 11, 12)


def test_a_snapshot_is_a_copy() -> None:
    vec = make_vec("cartpole", 3)
    vec.reset(seed=0)
    snapshot = vec.snapshot()
    before = {name: array.copy() for name, array in snapshot.arrays.items()}
    future(vec, 5)
    for name, array in snapshot.arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_parameters_come_back() -> None:
    vec = make_vec("cartpole", 3, gravity=5.0)
    vec.reset(seed=0)
    snapshot = vec.snapshot()
    expected = future(vec, 50)
    vec.set_params(gravity=[1.0, 2.0, 3.0])
    vec.restore(snapshot)
    assert vec.params["gravity"] == 5.0
    assert future(vec, 50) == expected


@pytest.mark.parametrize(
    ("env", "kwargs", "words"),
    [
        (WALK, {}, "of the environment 'cartpole' and cannot be restored into 'walk'"),
        ("cartpole", {"num_envs": 4}, "num_envs=3, this environment has 4"),
        (
            "cartpole",
            {"autoreset_mode": "SameStep"},
            "autoreset_mode='NextStep', this .* 'SameStep'",
        ),
        ("cartpole", {"max_steps": 9}, "max_steps=500, this environment has 9"),
    ],
)
def test_refuses_what_does_not_fit(env: str, kwargs: dict[str, Any], words: str) -> None:
    vec = make_vec("cartpole", 3)
    vec.reset(seed=0)
    other = make_vec(env, **{"num_envs": 3, **kwargs})
    with pytest.raises(ArgumentError, match=words):
        other.restore(vec.snapshot())


def test_refuses_other_sources_arrays_and_things() -> None:
    vec = make_vec(SLIDE, 2, slope=SLOPE)
    vec.reset(seed=0)
    snapshot = vec.snapshot()
    with pytest.raises(ArgumentError, match="another version of the source of 'slide'"):
        vec.restore(dataclasses.replace(snapshot, source_hash="0"))
    arrays = {**snapshot.arrays, "rng": snapshot.arrays["rng"][:1]}
    with pytest.raises(ArgumentError, match="its array 'rng' is missing or differs"):
        vec.restore(dataclasses.replace(snapshot, arrays=arrays))
    with pytest.raises(ArgumentTypeError, match="snapshot is a dict: pass what"):
        vec.restore({})
    other = make_vec(SLIDE, 2, slope=SLOPE + 1)
    other.reset(seed=1)
    before = other.snapshot()
    with pytest.raises(ArgumentError, match="another array parameter 'slope'"):
        other.restore(snapshot)
    for name, array in other.snapshot().arrays.items():  # nothing has changed
        np.testing.assert_array_equal(array, before.arrays[name])


@pytest.mark.parametrize("cut", [0, 10, 500])
def test_bytes_that_are_no_snapshot(cut: int) -> None:
    vec = make_vec("cartpole", 2)
    vec.reset(seed=0)
    with pytest.raises(ArgumentError, match="data holds no snapshot"):
        Snapshot.from_bytes(vec.snapshot().to_bytes()[:cut])


def test_bytes_never_hold_code() -> None:
    archive = io.BytesIO()
    np.savez(archive, header=np.array([{"format": 1}], dtype=object))  # pickled
    with pytest.raises(ArgumentError, match="data holds no snapshot"):
        Snapshot.from_bytes(archive.getvalue())
