"""Whether a VecEnv gives the same bytes with every executor."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np

from ..infos import map_arrays
from ..vector import VecEnv
from .batch import Source
from .experiments import SEVERAL, Note
from .plan import Plan
from .report import FAIL, PASS, Finding

_WORLDS, _STEPS = 130, 48  # two blocks and a bit
_THREADS = 3


def judge_executors(source: Source, note: Note) -> Finding:
    """Steps the same worlds with the serial executor, on threads, and by send and recv."""
    plan = Plan(source.spec, _WORLDS, _STEPS, source.seed + 2)
    expected = _stepped(source, plan, "serial", note)
    for name, found in (
        ("threads", _stepped(source, plan, "threads", note)),
        ("send and recv", _sent(source, plan, note)),
    ):
        bad = (expected != found).any(axis=2)
        if bad.any():
            step, world = (int(i) for i in np.argwhere(bad)[0])
            return Finding(
                "executors",
                FAIL,
                f"{name} gave other bytes than the serial executor",
                world=world,
                step=step + 1,
                seed=source.seed + world,
            )
    return Finding("executors", PASS)


def _vec(source: Source, executor: str, batch_size: int | None = None) -> VecEnv:
    vec = VecEnv(
        source.library,
        source.spec,
        _WORLDS * source.spec.agents,
        executor=executor,
        threads=None if executor == "serial" else _THREADS,
        autoreset_mode="SameStep",
        batch_size=batch_size,
        max_steps=source.max_steps,
        params=source.params,
    )
    vec.reset(seed=source.seed)
    return vec


def _actions(vec: VecEnv, plan: Plan, step: int, worlds: np.ndarray) -> Any:
    """Actions of a step as the action space has them, of some worlds."""
    mask = vec.buffers.arrays.get("mask")
    if mask is not None:
        mask = mask.reshape(_WORLDS, vec.agents, -1)[worlds].reshape(-1, mask.shape[1])
    return map_arrays(np.copy, vec.spec_.view_actions(plan.at(step, mask, worlds)))


def _record(vec: VecEnv, into: np.ndarray, worlds: Any) -> None:
    """State, observation, reward and flags of some worlds, as bytes."""
    arrays = vec.buffers.arrays
    parts = [arrays[name] for name in ("state", "obs", "rewards", "terminated", "truncated")]
    flat = [part.view(np.uint8).reshape(_WORLDS, -1)[worlds] for part in parts]
    into[worlds] = np.concatenate(flat, axis=1)


def _history(source: Source) -> np.ndarray:
    spec = source.spec
    size = spec.state_size + spec.agents * (spec.obs_dtype.itemsize + 6)
    return np.zeros((_STEPS, _WORLDS, size), np.uint8)


def _stepped(source: Source, plan: Plan, executor: str, note: Note) -> np.ndarray:
    """What each world did at each step, uint8 [steps, worlds, bytes]."""
    history, every = _history(source), np.arange(_WORLDS)
    with closing(_vec(source, executor)) as vec:
        for step in range(_STEPS):
            note(SEVERAL, step + 1)
            vec.step(_actions(vec, plan, step, every))
            _record(vec, history[step], slice(None))
    return history


def _sent(source: Source, plan: Plan, note: Note) -> np.ndarray:
    """The same, each world as soon as it is ready."""
    history = _history(source)
    agents = source.spec.agents
    taken = np.zeros(_WORLDS, np.int64)
    with closing(_vec(source, "threads", batch_size=_WORLDS // 2 * agents)) as vec:
        vec.send(_actions(vec, plan, 0, np.arange(_WORLDS)))
        flying = _WORLDS
        while flying:
            note(SEVERAL, int(taken.min()) + 1)
            ready = np.unique(vec.recv()[-1]["env_id"] // agents)
            flying -= len(ready)
            steps = taken[ready]
            for step in np.unique(steps):
                worlds = ready[steps == step]
                _record(vec, history[step], worlds)
                taken[worlds] += 1
                if step + 1 < _STEPS:
                    rows = (worlds[:, None] * agents + np.arange(agents)).ravel()
                    vec.send(_actions(vec, plan, int(step) + 1, worlds), rows)
                    flying += len(worlds)
    return history
