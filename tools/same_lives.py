"""CartPole in our batches beside Gymnasium's SyncVectorEnv, step for step, for a million steps.

    python tools/same_lives.py [--steps 1e6] [--executor processes caller serial]

The same seeds and actions, under each autoreset mode: observations, rewards, terminations,
truncations and infos must be equal, to the bit and to the type. The environments tell infos at
some steps, so that there is something to compare. Exit code 1: something differed; it is named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv

import headrace

MODES = ("NextStep", "SameStep", "Disabled")
EXECUTORS: dict[str, dict[str, Any]] = {
    "processes": {"executor": "processes", "workers": 2},
    "caller": {"executor": "processes", "workers": 1, "caller_share": 1},
    "serial": {"executor": "serial"},
}
PARTS = ("observations", "rewards", "terminated", "truncated", "infos")


class Telling(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole that says something now and then."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.count = 0

    def reset(self, **kwargs: Any) -> Any:
        """See gymnasium.Env."""
        self.count = 0
        obs, info = self.env.reset(**kwargs)
        return obs, info | {"begun": True}

    def step(self, action: Any) -> Any:
        """See gymnasium.Env."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        if self.count % 9 == 4 or terminated:
            info = info | {"count": self.count, "pole": {"angle": obs[2], "name": "pole"}}
        return obs, reward, terminated, truncated, info


def transitions(vec: Any, steps: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """What `reset` and each step give; ended rows are reset with a mask where that is asked."""
    obs, infos = vec.reset(seed=seed)
    yield obs, None, None, None, infos
    rng = np.random.default_rng(seed)
    disabled = vec.metadata["autoreset_mode"].value == "Disabled"
    # policies of differing skill, so that episodes differ in length
    skill = np.linspace(0.0, 1.0, vec.num_envs)
    for _ in range(steps):
        wise = (obs[:, 2] + obs[:, 3] > 0).astype(np.int64)
        random = rng.integers(0, 2, vec.num_envs)
        actions = np.where(rng.random(vec.num_envs) < skill, wise, random)
        obs, rewards, terminated, truncated, infos = vec.step(actions)
        yield obs, rewards, terminated, truncated, infos
        if disabled and (ended := terminated | truncated).any():
            obs, infos = vec.reset(options={"reset_mask": ended})
            yield obs, None, None, None, infos


def first_difference(ours: Any, theirs: Any, steps: int, seed: int) -> str | None:
    """Where the two batches first differ, in words; None: nowhere."""
    pairs = zip(transitions(ours, steps, seed), transitions(theirs, steps, seed), strict=True)
    for number, (one, other) in enumerate(pairs):
        for part, got, expected in zip(PARTS, one, other, strict=True):
            if isinstance(got, np.ndarray) and got.dtype == expected.dtype:
                same = got.tobytes() == expected.tobytes()  # quicker, and as strict
            else:
                same = data_equivalence(got, expected) and list(got or ()) == list(expected or ())
            if not same:
                return f"{part} of call {number} are\n{got}\nwhere Gymnasium's are\n{expected}"
    return None


def compare(mode: str, executor: str, steps: int, num_envs: int = 64, seed: int = 7) -> str | None:
    """Runs `steps` steps of all environments together; as `first_difference`."""
    ours = headrace.make_vec(
        Telling, num_envs, autoreset_mode=mode, final_obs="object", **EXECUTORS[executor]
    )
    theirs = SyncVectorEnv([Telling] * num_envs, autoreset_mode=mode)
    with closing(ours), closing(theirs):
        return first_difference(ours, theirs, -(-steps // num_envs), seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=float, default=1e6)
    parser.add_argument("--executor", nargs="+", choices=EXECUTORS, default=list(EXECUTORS))
    asked = parser.parse_args()
    failed = False
    for executor in asked.executor:
        for mode in MODES:
            difference = compare(mode, executor, int(asked.steps))
            failed = failed or difference is not None
            print(f"{executor}, {mode}, {int(asked.steps):,} steps: {difference or 'equal'}")
            sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
