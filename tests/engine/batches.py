"""Shared by the tests of vector environments: files, drivers, comparisons."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from headrace.engine.single import SingleEnv

WORLDS = Path(__file__).parent / "worlds"
WALK, PAIR, SLIDE, KART = (str(WORLDS / f"{name}.c") for name in ("walk", "pair", "slide", "kart"))
MODES = ("NextStep", "SameStep", "Disabled")
SLOPE = np.array([0.01, -0.02], np.float32)  # for slide.c, whose `slope` has no default


def sync_vec(env: str, num_envs: int, mode: str, **kwargs: Any) -> SyncVectorEnv:
    """Gymnasium's own vector environment over our single one: the reference."""
    return SyncVectorEnv([lambda: SingleEnv(env, **kwargs)] * num_envs, autoreset_mode=mode)


def leaves(value: Any, name: str = "obs") -> Iterator[tuple[str, np.ndarray]]:
    """(name, array) of an observation, or of each member of a dict of them."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], f"{name}.{key}")
    else:
        yield name, np.asarray(value)


def assert_same(ours: Any, theirs: Any, where: Any = slice(None)) -> None:
    """Equal numbers, exactly, at the rows `where`; dtypes of observations included."""
    left, right = list(leaves(ours)), list(leaves(theirs))
    assert [name for name, _ in left] == [name for name, _ in right]
    for (name, a), (_, b) in zip(left, right, strict=True):
        assert a.dtype == b.dtype or a.shape == (), name  # a single discrete one is an int
        assert a.shape == b.shape, name
        np.testing.assert_array_equal(a[where], b[where], err_msg=name)


def assert_same_infos(ours: dict[str, Any], theirs: dict[str, Any], num_envs: int) -> None:
    """Every key says the same of the same environments; a missing key says it of none."""
    keys = {key for key in (*ours, *theirs) if not key.startswith("_")}
    for key in keys:
        none = np.zeros(num_envs, np.bool_)
        mask = ours.get(f"_{key}", none)
        np.testing.assert_array_equal(mask, theirs.get(f"_{key}", none), err_msg=key)
        if not mask.any():
            continue
        if key == "final_obs":
            assert_same_final(ours[key], theirs[key], mask)
        elif isinstance(ours[key], dict):
            assert_same_infos(ours[key], theirs[key], num_envs)
        else:
            assert ours[key].dtype == theirs[key].dtype, key
            np.testing.assert_array_equal(ours[key][mask], theirs[key][mask], err_msg=key)


def assert_same_final(ours: Any, theirs: np.ndarray, mask: np.ndarray) -> None:
    """final_obs, dense or of objects, against Gymnasium's array of objects."""
    for i in np.flatnonzero(mask):
        if isinstance(ours, np.ndarray) and ours.dtype == object:
            assert_same(ours[i], theirs[i], ())
        else:
            assert_same(
                {k: v[i] for k, v in ours.items()} if isinstance(ours, dict) else ours[i],
                theirs[i],
                (),
            )


def rollout(vec: Any, actions: np.ndarray, **reset: Any) -> list[bytes]:
    """Resets, takes actions[t] at step t, and returns the bytes of all that came back."""
    seen = []
    obs, _ = vec.reset(**reset)
    seen.append(b"".join(array.tobytes() for _, array in leaves(obs)))
    for batch in actions:
        obs, *rest, _ = vec.step(batch)
        seen.append(b"".join(array.tobytes() for _, array in leaves(obs)))
        seen[-1] += b"".join(array.tobytes() for array in rest)
    return seen


def forked(work: Callable[[], bool]) -> Callable[[], bool]:
    """Does `work` in a forked child; what is returned waits for it: whether it gave True. A hang
    ends as a failure."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
