"""`headrace.train`: a PPO run from its settings to its result, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .metrics import Line
from .ppo import PPO, TrainResult
from .progress import Observer
from .run import LAST

Callback = Callable[[Line], Any]


def train(
    env: Any = None,
    *,
    resume: str | Path | None = None,
    checkpoint: str | int = LAST,
    observer: Observer | None = None,
    callbacks: Iterable[Callback] = (),
    **given: Any,
) -> TrainResult:
    """Trains a PPO agent on `env` until the target or the step budget is reached.

    Args:
        env: a shipped environment ("cartpole"), a file ("my_env.c"), a Python environment
            ("gymnasium:LunarLander-v3"), a class or function that makes one, or a list of
            functions. May be left out with `resume`, unless it is an object of Python, or a file
            that was never trained with on this computer, or has changed since.
        resume: the folder of a run to continue. Only steps, target, threads, devices, evaluations
            and how checkpoints are kept may then be given; and `policy`, which must be, where it
            is a file or an object of yours, and `wrappers`, where `env` would have to be: opening
            a run executes nothing.
        checkpoint: with `resume`: from which one, "last", "best" or its number of steps; the
            later ones go at the first that is saved.
        observer: called with a `Progress` about ten times a second.
        callbacks: each is called after every update with its metrics, by the names of
            docs/metrics.md; one that returns False ends the run, as if its steps were used up.
            Where one raises, a checkpoint is saved before the exception goes on.
        **given: fields of `TrainConfig`. They come before the environment's preset. `policy` may
            also be a torch module, or a function of (observation_space, action_space) that makes
            one.

    Returns:
        The figures of the run; its weights lie in `<run>/checkpoints/<step>`.

    Raises:
        ConfigError: a setting that does not exist or does not fit.
        RunError: a run folder that is in the way, missing or damaged.
        HeadraceError: the environment cannot be compiled, or gave a NaN while training.
        TrainingInterrupted: Ctrl-C or SIGTERM; a checkpoint was saved.
    """
    called = tuple(callbacks)
    with PPO(env, resume=resume, checkpoint=checkpoint, **given) as ppo:
        for _ in ppo.updates(observer):
            if called:
                metrics = ppo.metrics
                for callback in called:
                    if callback(metrics) is False:
                        ppo.stop()
        return ppo.result()
