"""Wrong actions, which every environment must refuse."""

from __future__ import annotations

import numpy as np

from .jury import Skipped, must_raise
from .trial import Trial

FAR = 10**6  # an action that no environment has, unless its dtype ends before or it has more


def _too_few(trial: Trial) -> None:
    actions = _plain_actions(trial)
    trial.env.reset(seed=trial.seed)
    must_raise(lambda: trial.env.step(actions[:-1]), "one action too few is accepted")


def _too_many(trial: Trial) -> None:
    actions = _plain_actions(trial)
    trial.env.reset(seed=trial.seed)
    more = np.concatenate([actions, actions[:1]])
    must_raise(lambda: trial.env.step(more), "one action too many is accepted")


def _out_of_range(trial: Trial) -> None:
    actions = _plain_actions(trial).copy()
    if actions.dtype.kind not in "iu" or not hasattr(trial.actions, "nvec"):
        raise Skipped("actions are not discrete")
    highest = int(trial.actions.start.flat[0]) + int(trial.actions.nvec.flat[0]) - 1
    beyond = min(max(FAR, highest + 1), int(np.iinfo(actions.dtype).max))
    if beyond <= highest:
        raise Skipped(f"there is no {actions.dtype} above {highest}, the highest action")
    trial.env.reset(seed=trial.seed)
    actions.reshape(-1)[0] = beyond
    must_raise(lambda: trial.env.step(actions), f"action {beyond} is accepted")


def _plain_actions(trial: Trial) -> np.ndarray:
    actions = next(trial.sampled())
    if not isinstance(actions, np.ndarray):
        raise Skipped("actions are nested")
    return actions


WRONG_ACTIONS = {
    "too few actions are refused": _too_few,
    "too many actions are refused": _too_many,
    "actions out of range are refused": _out_of_range,
}
