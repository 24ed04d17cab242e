"""Correctness before speed: an environment's first steps, whose every bit is known.

Environments promise the same bits on every build, executor and number of threads. So what
each shipped one does in its first steps is on record (trajectories.py), and a way of stepping
it is only timed when it does the same. An environment that was changed on purpose is recorded
anew by tools/record_trajectories.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.spec import EnvSpec
from .check import CheckFailed
from .trajectories import TRAJECTORIES

WORLDS = 64  # that are on record; where there are fewer, the first of them
STEPS = 128
SEED = 7


def actions_at(spec: EnvSpec, rows: int, step: int) -> NDArray[Any]:
    """The actions of one step, structs [rows]; the same from one world block to the next, and
    on every version of NumPy."""
    block = WORLDS * spec.agents
    found = np.zeros(block, spec.action_dtype)
    for number, field in enumerate(spec.action_fields):
        at = np.arange(block * field.size, dtype=np.uint64)
        bits = _mixed(at + np.uint64(1_000_003 * step + 1_000_000_007 * number))
        if field.kind == "discrete":
            values = (bits % np.uint64(field.choices)).astype(np.int32)
        else:
            unit = (bits >> np.uint64(40)).astype(np.float64) / 2**24
            low, high = max(field.low, -10.0), min(field.high, 10.0)
            values = (low + (high - low) * unit).astype(np.float32)
        found[field.name] = values.reshape(block, *field.shape)
    return np.broadcast_to(found, (-(-rows // block), block)).reshape(-1)[:rows]


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: numbers that look random, the same everywhere."""
    with np.errstate(over="ignore"):
        x = (x + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def digests(env: Any, step: Callable[[NDArray[Any]], object]) -> tuple[str, str]:
    """Of the first world's first steps, and of the first 64 worlds' ("" where there are fewer).

    env: a VecEnv with same-step autoreset; step: steps all its rows once with these Action
    structs and leaves what came of it in its buffers.
    """
    spec = env.spec_
    env.reset(seed=SEED)
    hashes = hashlib.sha256(), hashlib.sha256()
    names = ("obs", "rewards", "terminated", "truncated")
    for number in range(STEPS):
        step(actions_at(spec, env.num_envs, number))
        for worlds, sha in zip((1, WORLDS), hashes, strict=True):
            for name in names:
                sha.update(env.buffers.arrays[name][: worlds * spec.agents].tobytes())
    one, many = (sha.hexdigest()[:16] for sha in hashes)
    return one, many if env.worlds >= WORLDS else ""


def check_trajectory(impl: str, env: Any, step: Callable[[NDArray[Any]], object]) -> None:
    """CheckFailed unless stepping gives what is on record for the environment."""
    name = env.spec_.name
    if name not in TRAJECTORIES:
        raise CheckFailed(
            f"{name}: its first steps are not on record, so that nothing can be timed; "
            f"record them with `python tools/record_trajectories.py {name}`"
        )
    found = digests(env, step)
    if any(got not in ("", known) for got, known in zip(found, TRAJECTORIES[name], strict=True)):
        raise CheckFailed(
            f"{impl}: {name} does not do what is on record for it, so that nothing is timed; "
            "if it was changed on purpose, run "
            f"`python tools/record_trajectories.py {name}`"
        )
