"""What a driver and `headrace bench peers` say to each other: one JSON object a line.

Asked on stdin, answered on stdout; whatever a library prints goes to stderr.

    {"do": "describe"}                         {"cases": [{case, group, impl, setting, threads}],
                                                "versions": {...}, "next_step": bool}
    {"do": "record", "path": FILE}             {}; FILE.npz holds a run of the task, see `record`;
                                               with "case": NAME one of that case's environments,
                                               with "steps": n so many of them
    {"do": "open", "case": NAME}               {"work": steps of one iteration}
    {"do": "run", "case": NAME, "count": n}    {} after n iterations
    {"do": "score", "case": NAME}              {"return": mean of late episodes, "steps": n}
    {"do": "solve", "case": NAME, "seed": s,   {"seconds": of training or null, "steps": n,
     "target": mean return}                     "return": mean}
    {"do": "close", "case": NAME}              {}

Anything that goes wrong is answered by {"error": sentence}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from ...batches import Array, Batch

STEP, SOLVE = "step", "solve"  # steps per second of random actions; seconds to reach the target
TRAIN_128 = "train-128"  # steps per second of training one hidden layer of 128, 1 epoch
TRAIN_128_4 = "train-128-4-epochs"  # the same, 4 epochs
VEC = "vec"  # steps per second of VEC_ENVS of Gymnasium's CartPole in Python: `bench vec`
TRAIN_TWO = "train-two-64x64"  # the same, policy and value apart, each 64×64, 4 epochs

VEC_ENVS = 64
RECORDED_ENVS, RECORDED_STEPS = 64, 1100  # more than two episodes of 500 steps
BALANCE = np.array([0.1, 0.5, 3.0, 1.0])  # pushing towards the sign of obs @ BALANCE never falls


@dataclass(frozen=True)
class Running:
    """A case that has been set up. `run(n)` does n iterations of `work` steps each."""

    work: float
    run: Callable[[int], object]
    score: Callable[[], tuple[float | None, int]] = lambda: (None, 0)  # (mean return, steps)
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Case:
    """One setting of the peer."""

    name: str
    group: str  # what it is compared in: STEP, a TRAIN or SOLVE
    impl: str  # whose, for people; of several settings of one, the fastest is measured
    setting: str  # for people
    threads: int
    make: Callable[[], Running] | None = None  # of a rate
    solve: Callable[[int, float], dict[str, Any]] | None = None  # (seed, target)
    recorded: Batch | None = None  # environments of its own, where they are not the peer's usual


def serve(packages: Sequence[str], recorded: Batch, cases: Sequence[Case]) -> None:
    """Answers until stdin ends, on the descriptor that is the last argument of the program.

    recorded: RECORDED_ENVS environments of the task.
    """
    answers = os.fdopen(int(sys.argv[-1]), "w", buffering=1)
    desk = Desk(packages, recorded, cases)
    for line in sys.stdin:
        try:
            answer = desk.answer(**json.loads(line))
        except Exception as error:  # whatever a library raises is told, not printed
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


class Desk:
    """Answers the questions above, in a driver or in the process that asks."""

    def __init__(self, packages: Sequence[str], recorded: Batch, cases: Sequence[Case]) -> None:
        self._packages, self._recorded = packages, recorded
        self._cases = {case.name: case for case in cases}
        self._open: dict[str, Running] = {}

    def answer(self, do: str, **given: Any) -> dict[str, Any]:
        """The answer to one question."""
        if do == "describe":
            return self._describe()
        if do == "record":
            own = self._cases[given["case"]].recorded if "case" in given else None
            record(own or self._recorded, given["path"], given.get("steps", RECORDED_STEPS))
            return {}
        name = given["case"]
        case = self._cases[name]
        if do == "open":
            assert case.make is not None
            self._open[name] = case.make()
            return {"work": self._open[name].work}
        if do == "run":
            self._open[name].run(given["count"])
            return {}
        if do == "score":
            mean, steps = self._open[name].score()
            return {"return": mean, "steps": steps}
        if do == "solve":
            assert case.solve is not None
            return case.solve(given["seed"], given["target"])
        if do == "close":
            self._open.pop(name).close()
            return {}
        raise ValueError(f"nothing is called {do!r}")

    def _describe(self) -> dict[str, Any]:
        return {
            "cases": [
                {
                    "case": case.name,
                    "group": case.group,
                    "impl": case.impl,
                    "setting": case.setting,
                    "threads": case.threads,
                }
                for case in self._cases.values()
            ],
            "versions": {name: version(name) for name in self._packages},
            "next_step": self._recorded.next_step,
        }


def record(batch: Batch, path: str, steps: int = RECORDED_STEPS) -> None:
    """Plays so many steps and writes them to a .npz file: obs [T + 1, n, 4], actions,
    rewards, terminated and truncated [T, n].

    One half of the rows acts at random and falls, the other balances until the time limit.
    """
    env = batch.make()
    rng = np.random.default_rng(0)
    reset = env.reset(seed=3) if batch.seedable else env.reset()
    obs: list[Array] = [np.array(reset[0], np.float64).reshape(batch.num_envs, 4)]
    rest: list[tuple[Array, ...]] = []
    skilled = np.arange(batch.num_envs) < batch.num_envs // 2
    for _ in range(steps):
        actions = np.where(skilled, obs[-1] @ BALANCE > 0, rng.integers(0, 2, batch.num_envs))
        actions = actions.astype(batch.action_dtype)
        after, rewards, terminated, truncated, _ = env.step(actions)
        obs.append(np.array(after, np.float64).reshape(batch.num_envs, 4))
        rest.append((actions, np.array(rewards), np.array(terminated), np.array(truncated)))
    env.close()
    actions, rewards, terminated, truncated = (np.stack(each) for each in zip(*rest, strict=True))
    with open(path, "wb") as file:
        np.savez(
            file, obs=np.stack(obs), actions=actions, rewards=rewards,
            terminated=terminated.astype(bool), truncated=truncated.astype(bool),
        )  # fmt: skip
