"""headrace and Gymnasium as contenders in this process."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from ...engine.cpus import available_cpus
from ...engine.make import make_vec
from ...engine.vector import VecEnv
from ...trainers.begin import preset_of
from ...trainers.config import configure
from ...trainers.environments import environments
from ...trainers.episodes import EpisodeWindow
from ...trainers.parts import make_parts, make_source
from ...trainers.seeds import TRAINING
from ..batches import (
    ACTION_BATCHES,
    Batch,
    gymnasium_numpy,
    gymnasium_sync,
    headrace_batch,
    stepper,
    transitions_per_row,
)
from ..runs import trained
from ..sweep import kernel_step
from .drivers.protocol import (
    RECORDED_ENVS,
    SOLVE,
    STEP,
    TRAIN_128,
    TRAIN_128_4,
    TRAIN_TWO,
    Case,
    Desk,
    Running,
)

ENV = "cartpole"
SIZES = ((256, 32), (2048, 32), (1024, 64), (512, 128))  # environments, steps of a rollout
ONE: dict[str, Any] = {"hidden": (128,)}
TWO: dict[str, Any] = {"hidden": (64, 64), "separate": True}  # a stack each for policy and value
# Peers normalise neither observations nor rewards for CartPole.
ALIKE = {"normalize_obs": False, "normalize_reward": False}
VECENV, KERNEL, TRAINING_OURS = "headrace VecEnv.step", "headrace kernel", "headrace"
NUMPY, SYNC = "Gymnasium CartPoleVectorEnv", "Gymnasium SyncVectorEnv"


def headrace_desk() -> Desk:
    """headrace: stepping by size and threads, training, solving."""
    many = available_cpus()
    shapes = [(n, t) for n in (4096, 16384, 65536) for t in sorted({1, many})]
    cases = [
        *(_vecenv(*shape) for shape in shapes),
        *(_kernel(*shape) for shape in shapes),
        *(_training(TRAIN_128, n, t, ONE | {"epochs": 1}) for n, t in SIZES),
        *(_training(TRAIN_128_4, n, t, ONE | {"epochs": 4}) for n, t in SIZES),
        *(_training(TRAIN_TWO, n, t, TWO | {"epochs": 4}) for n, t in SIZES[:2]),
        Case("solve", SOLVE, TRAINING_OURS, "the preset", many, solve=_solve),
    ]
    return Desk((), headrace_batch(RECORDED_ENVS, 1, copy=True), cases)


def gymnasium_desk() -> Desk:
    """Gymnasium: its NumPy CartPole by size, and its loop over single environments."""
    small = _batch(partial(gymnasium_numpy, 1024), "1024 environments", f"{NUMPY}, 1024")
    numpy = [
        _batch(partial(gymnasium_numpy, n), f"{n} environments", NUMPY)
        for n in (4096, 16384, 65536)
    ]
    sync = _batch(partial(gymnasium_sync, 16), "16 environments", SYNC)
    return Desk(("gymnasium", "numpy"), gymnasium_numpy(RECORDED_ENVS), [small, *numpy, sync])


def _batch(make_batch: Any, setting: str, impl: str) -> Case:
    def make() -> Running:
        batch: Batch = make_batch()
        env = batch.make()
        env.reset(seed=0)
        share = transitions_per_row(env, batch)
        return Running(share * batch.num_envs, stepper(env, batch), close=env.close)

    return Case(f"{impl}, {setting}", STEP, impl, setting, 1, make)


def _vecenv(num_envs: int, threads: int) -> Case:
    setting = f"{num_envs} environments, {threads} threads, copy=False"
    case = _batch(partial(headrace_batch, num_envs, threads, copy=False), setting, VECENV)
    return Case(case.name, STEP, VECENV, setting, threads, case.make)


def _kernel(num_envs: int, threads: int) -> Case:
    """The engine's step without the Python of VecEnv.step."""

    def make() -> Running:
        executor = "serial" if threads == 1 else "threads"
        made = make_vec(
            ENV, num_envs, executor=executor, threads=threads, autoreset_mode="SameStep", seed=0
        )
        env = cast(VecEnv, made)  # native: never processes
        env.reset()
        rng = np.random.default_rng(1)
        actions = [rng.integers(0, 2, num_envs).astype(np.int32) for _ in range(ACTION_BATCHES)]
        step = kernel_step(env)

        def run(count: int) -> None:
            for index in range(count):
                step(actions[index % ACTION_BATCHES])

        return Running(num_envs, run, close=env.close)

    setting = f"{num_envs} environments, {threads} threads"
    return Case(f"{KERNEL}, {setting}", STEP, KERNEL, setting, threads, make)


def _training(group: str, rows: int, horizon: int, policy: dict[str, Any]) -> Case:
    """The loop of `headrace train` without its run folder."""
    threads = available_cpus()
    sizes = {"num_envs": rows, "horizon": horizon, "threads": threads}
    config = configure(ENV, preset_of(ENV), {**sizes, **ALIKE, **policy})

    def make() -> Running:
        vec = environments(config, rows, threads, config.seed, TRAINING)
        _, collector, learner, _ = make_parts(config, vec)  # whose pool is that of vec
        source = make_source(config, collector, learner)
        episodes, steps = EpisodeWindow(), 0

        def run(count: int) -> None:
            nonlocal steps
            for _ in range(count):
                rollout = source.take()
                steps += rollout.steps
                episodes.add(rollout.episode_returns, rollout.episode_lengths)
                source.learn(rollout, lr=config.lr, ent_coef=config.ent_coef)

        def close() -> None:
            source.close()
            vec.close()

        return Running(rows * config.horizon, run, lambda: (episodes.return_mean, steps), close)

    hidden = "×".join(map(str, config.hidden))
    setting = (
        f"{'two stacks of ' * config.separate}{hidden}, {rows} environments × {config.horizon} "
        f"steps, {config.minibatches} minibatches, {config.epochs} epochs"
    )
    return Case(f"{group}-{rows}-{config.horizon}", group, TRAINING_OURS, setting, threads, make)


def _solve(seed: int, target: float) -> dict[str, Any]:
    result = trained(ENV, seed=seed, target=target)
    return {
        "seconds": result.solved_seconds,
        "steps": result.steps,
        "return": result.return_mean,
    }
