"""Where the time of training goes, and what share of the machine's peak the learner reaches."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from ..engine.vector import VecEnv
from ..trainers.begin import preset_of
from ..trainers.collector import FusedCollector
from ..trainers.config import DEFAULT_NUM_ENVS, TrainConfig, configure
from ..trainers.environments import environments
from ..trainers.learner import NativeLearner
from ..trainers.policies import native_policy
from ..trainers.policy import PolicySpec
from ..trainers.seeds import TRAINING
from .matmul import peak, sgemm_peak
from .results import Result
from .rounds import repeated

ENV, HEADRACE = "cartpole", "headrace"
# What the stages of the native profile count as; the rest is the remaining time of all threads.
GROUPS = {
    "environment": ("env",),
    "forward": ("encode", "forward", "sample", "learn_forward"),
    "loss and backward": ("loss", "backward"),
}
STAGE_NOTE = (
    "of all threads' time; forward is that of collecting and learning, with encoding and sampling; "
    "rest is recording, advantages, the optimiser, waiting and Python"
)
LEARNER = ("learn_forward", "loss", "backward")  # the stages that hold the learner's products


@dataclass(frozen=True)
class Profile:
    """One profiled training: seconds of each stage summed over threads, and the whole."""

    stages: Mapping[str, float]
    thread_seconds: float  # wall time x threads
    rows: int  # rows that the learner went through, epochs counted
    flops_per_row: int  # of the learner's matrix products

    def shares(self) -> dict[str, float]:
        """Share of the threads' time by group, adding up to 1."""
        shares = {
            group: sum(self.stages[stage] for stage in parts) / self.thread_seconds
            for group, parts in GROUPS.items()
        }
        return {**shares, "rest": 1.0 - sum(shares.values())}

    def learner_flops(self) -> float:
        """FLOP/s of one thread while it is in the learner's stages."""
        return self.rows * self.flops_per_row / sum(self.stages[stage] for stage in LEARNER)


def results(widths: Sequence[int], steps: int, repeats: int, threads: int) -> list[Result]:
    """Shares by width, the sgemm peak, and the learner's share of it."""
    jobs: list[Callable[[int], Any]] = [lambda _: sgemm_peak(1)]
    jobs += [partial(_profile, width, steps, threads) for width in widths]
    peaks, *profiled = repeated(jobs, repeats)
    profiles = dict(zip(widths, profiled, strict=True))
    found = []
    for width in widths:
        for group in profiles[width].values[0].shares():
            spread = profiles[width].spread(partial(share_of, group))
            name = f"stage-{width}-{group.replace(' ', '-')}"
            found.append(Result.measured(name, HEADRACE, ENV, threads, spread, "share", STAGE_NOTE))
    top = peak(peaks.spread())
    found.append(top)
    for width in widths:
        rates = profiles[width].spread(lambda each: each.learner_flops() / 1e9)
        found.append(
            Result.measured(
                f"learner-of-peak-{width}",
                HEADRACE,
                ENV,
                threads,
                rates.over(top.spread),
                "share",
                "FLOPs of the matrix products over a thread's time in forward, loss and backward",
            )
        )
    return found


def _profile(width: int, steps: int, threads: int, _: int) -> Profile:
    return profile(ENV, {"hidden": (width,)}, steps, threads)


def share_of(group: str, profiled: Profile) -> float:
    """Of the threads' time."""
    return profiled.shares()[group]


def profile(env: str, settings: Mapping[str, Any], steps: int, threads: int) -> Profile:
    """Trains on a native environment for `steps` with the clocks of the native stages on."""
    config = configure(env, preset_of(env), {**settings, "target": None})
    rows = config.num_envs or DEFAULT_NUM_ENVS
    made = cast(VecEnv, environments(config, rows, threads, 1, TRAINING))
    with closing(made) as vec:
        policy = native_policy(config, vec.spec_)
        collector = FusedCollector(vec, policy, profile=True, **_chosen(FusedCollector, config))
        learner = NativeLearner(policy, vec.pool, profile=True, **_chosen(NativeLearner, config))
        taken, started = 0, time.perf_counter()
        while taken < steps:
            rollout = collector.collect(learner.weights)
            learner.learn(rollout, lr=config.lr, ent_coef=config.ent_coef)
            taken += rollout.steps
        seconds = time.perf_counter() - started
        spent = {
            stage: collector.profile()[stage] + learner.profile()[stage]
            for stage in collector.profile()
        }
    return Profile(spent, seconds * threads, taken * config.epochs, flops(policy))


def steps_of(env: str) -> int:
    """Steps of a profile: some updates, and no more than half a second of an idle machine."""
    config = configure(env, preset_of(env), {})
    rows = config.num_envs or DEFAULT_NUM_ENVS
    return 20 * rows * config.horizon


def flops(policy: PolicySpec) -> int:
    """Floating-point operations of one row's forward and backward matrix products.

    A layer of n weights takes 2n forward, 2n for the gradient of its weights, and 2n for that of
    its input, which the first layer does not need.
    """
    weights = first = 0
    for name, _, shape in policy.tensors:
        if name.endswith("weight"):
            weights += shape[0] * shape[1]
            first += shape[0] * shape[1] * (name.endswith(".0.weight") or not policy.hidden)
    return 6 * weights - 2 * first


def _chosen(owner: type, config: TrainConfig) -> dict[str, Any]:
    """The settings of a run that `owner` takes as arguments by name."""
    names = [
        name
        for name, parameter in inspect.signature(owner).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return {name: getattr(config, name) for name in names if hasattr(config, name)}
