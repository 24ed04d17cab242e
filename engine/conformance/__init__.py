"""check_vec_env: tests any vector environment, ours or not, against Gymnasium's contract."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from ..errors import ArgumentTypeError, kind_of
from .apart import judged_apart
from .jury import Jury, must_raise
from .report import Finding, Report
from .trial import Trial
from .wrong import WRONG_ACTIONS

__all__ = ["Finding", "Report", "check_vec_env"]


def check_vec_env(
    env: VectorEnv | Callable[[], VectorEnv],
    *,
    steps: int = 200,
    seed: int = 0,
    patience: float = 30.0,
) -> Report:
    """Tests a vector environment against Gymnasium's contract.

    Args:
        env: a vector environment, which is reset, stepped and left open; or a function that
            makes one, with which the rules about the start and the end of its life are tried
            too, and wrong actions on environments of their own: on Linux in copies of this process,
            since some end it.
        steps: random steps of each of the longer trials. Rules about the ends of episodes are
            skipped when none ends in so many.
        seed: of the environment and the actions.
        patience: seconds after which a rule counts as broken because a call does not return.

    Returns:
        A Report; `report.ok` tells whether all is well, `print(report)` shows it.
    """
    make = None if isinstance(env, VectorEnv) else env
    if make is not None and not callable(make):
        raise ArgumentTypeError(
            f"env is {kind_of(env)}: expected a vector environment or a function that makes one"
        )
    made = env if isinstance(env, VectorEnv) else env()
    if not isinstance(made, VectorEnv):
        raise ArgumentTypeError(
            f"env made a {type(made).__name__}, which is no gymnasium.vector.VectorEnv"
        )
    jury = Jury(patience)
    trial = Trial(made, steps, seed)
    for rule, check in trial.rules():
        jury.judge(rule, check)
    for rule, wrong in WRONG_ACTIONS.items():
        if make is None:
            jury.judge(rule, functools.partial(wrong, trial))
        else:
            check = functools.partial(_on_another, make, wrong, trial)
            jury.findings.append(judged_apart(rule, check, patience))
    if make is not None:
        jury.judge("closing twice is allowed", lambda: _close_twice(made))
        for rule, refuses in _OUT_OF_ORDER.items():
            jury.findings.append(judged_apart(rule, functools.partial(refuses, make), patience))
    return Report(repr(made), tuple(jury.findings))


def _on_another(make: Callable[[], VectorEnv], check: Any, trial: Trial) -> None:
    """A rule on an environment of its own, which may be unusable afterwards."""
    fresh = make()
    try:
        check(Trial(fresh, trial.steps, trial.seed))
    finally:
        threading.Thread(target=fresh.close, daemon=True).start()  # it may wait for ever


def _close_twice(env: VectorEnv) -> None:
    env.close()
    env.close()


def _refuses_when_closed(make: Callable[[], VectorEnv]) -> None:
    fresh = make()
    fresh.reset()
    fresh.close()
    must_raise(lambda: fresh.reset(), "reset() after close() did not raise")


def _refuses_before_reset(make: Callable[[], VectorEnv]) -> None:
    fresh = make()
    try:
        actions = fresh.action_space.sample()
        must_raise(lambda: fresh.step(actions), "step() before the first reset() did not raise")
    finally:
        fresh.close()


_OUT_OF_ORDER = {
    "a call after close() raises": _refuses_when_closed,
    "step() before reset() raises": _refuses_before_reset,
}
