"""PPO, top to bottom: configure, set up, then collect, learn, log and save."""

from __future__ import annotations

import dataclasses
import re
import shlex
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.errors import ArgumentError
from ..engine.registration import registered
from ..engine.snapshot import Snapshot
from ..engine.vector import VecEnv
from ._native import StopFlag
from .build import build_table
from .config import TrainConfig, configure, reject_unknown
from .environments import AnyVecEnv, default_rows, environment_metrics, environments, name_of
from .episodes import EpisodeWindow
from .interrupt import Interruption, TrainingInterrupted
from .metrics import MetricsLog
from .parts import OBJECT, check_policy, lasting_policy, make_parts, make_source, require_torch
from .rollout import NonFiniteError, Stopped
from .run import Run, RunError, Tensors
from .seeds import TRAINING
from .settings import ConfigError, settings
from .trust import check_env, lasting_env, remember

# What may change when a run is resumed.
RESUMABLE = (
    "steps",
    "target",
    "threads",
    "device",
    "actor_device",
    "checkpoint_seconds",
    "keep_checkpoints",
)
OBSERVER_SECONDS = 0.1  # between two calls of an observer
SLOW_SECONDS = 0.2  # an update that takes longer can be broken off

Kept = tuple[int, Tensors, dict[str, Any]]  # a checkpoint before it is written


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What a training run came to. None stands for what did not happen."""

    env: str  # the environment as it was named
    seed: int
    steps: int  # actions that agents took
    seconds: float  # wall time of training alone
    setup_seconds: float  # everything before it, compiling included
    sps: float  # steps per second
    return_mean: float | None  # of the last 100 finished episodes, in order of step and row
    return_target: float | None
    solved: bool  # return_mean reached the target
    solved_seconds: float | None  # training time until it did
    solved_steps: int | None  # steps until it did
    run: str  # the run's folder


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever shows it."""

    steps: int
    total_steps: int
    seconds: float  # of training so far
    sps: float  # steps per second lately
    return_mean: float | None
    return_target: float | None


Observer = Callable[[Progress], None]


def train(
    env: str | Path | None = None,
    *,
    resume: str | Path | None = None,
    observer: Observer | None = None,
    **given: Any,
) -> TrainResult:
    """Trains a PPO agent on `env` until the target or the step budget is reached.

    Args:
        env: a shipped environment ("cartpole"), a file ("my_env.c") or a Python environment
            ("gymnasium:LunarLander-v3"). May be left out with `resume`, unless it is a file that
            was never trained with on this computer, or has changed since.
        resume: the folder of a run to continue from its newest checkpoint. Only steps, target,
            threads, devices and how checkpoints are kept may then be given; and `policy`, which
            must be, where it is a file or an object of yours: opening a run executes nothing.
        observer: called with a `Progress` about ten times a second.
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
    started = time.perf_counter()
    module = None
    if "policy" in given and not isinstance(given["policy"], str):
        module = given["policy"]
        given["policy"] = OBJECT + getattr(module, "__name__", type(module).__name__)
    if resume is not None:
        session = _resumed(Run.open(resume), env, given, module)
    elif env is not None:
        session = _begun(str(env), given, module)
    else:
        raise ConfigError("env is missing: name a shipped environment or a file of your own")
    with closing(session):
        return session.train(observer, time.perf_counter() - started)


class Session:
    """One run being trained: its environments, policy, collector, learner and counters."""

    run: Run  # where it is kept; set once everything else is there, before `train`

    def __init__(self, config: TrainConfig, vec: AnyVecEnv, module: Any = None) -> None:
        """module: of `make_parts`."""
        self.config, self.vec = config, vec
        self._stop = StopFlag()
        self.policy, self.collector, self.learner, self._pool = make_parts(
            config, vec, module, None if config.async_ else self._stop
        )
        self._source = make_source(config, self.collector, self.learner)
        self.episodes = EpisodeWindow()
        self.steps = 0
        self.seconds = 0.0  # of training so far
        self.solved_seconds: float | None = None
        self.solved_steps: int | None = None

    def build_table(self) -> dict[str, str]:
        """What the run is made with, for its config.toml."""
        source = self.vec.spec_.source_hash if isinstance(self.vec, VecEnv) else ""
        return build_table(source, self.policy.net.isa, torch=self.config.policy != "native")

    def close(self) -> None:
        """Ends the environments and the threads."""
        self._source.close()
        self.vec.close()
        if self._pool is not None:
            self._pool.close()

    def train(self, observer: Observer | None, setup_seconds: float) -> TrainResult:
        """Trains to the end, saves the last checkpoint and sums up."""
        with (
            Interruption(self._stop) as interruption,
            self.run.open_metrics(self.steps) as file,
        ):
            log = MetricsLog(file, self.seconds, self.steps)
            try:
                kept = self._loop(interruption, log, observer)
            except NonFiniteError as error:
                raise self._advised(error) from None
            if self.steps > log.steps:
                self._write(log)
            checkpoint = self.save() if kept is None else self._write_checkpoint(*kept)
            if interruption.requested:
                raise TrainingInterrupted(self.run.path, checkpoint)
        return self._result(setup_seconds)

    def _advised(self, error: NonFiniteError) -> NonFiniteError:
        """The error, with the way to find its cause where that lies in the environment."""
        if error.kind in ("observation", "reward") and isinstance(self.vec, VecEnv):
            where = f"headrace check {shlex.quote(self.config.env)} finds where"
            error.args = (f"{error} (the run's seed is {self.config.seed}); {where}",)
        return error

    def _loop(self, stop: Interruption, log: MetricsLog, observer: Observer | None) -> Kept | None:
        """Collects and learns until the target, the budget or an interruption ends it. Returns
        the state before an update that was broken off and has left the session useless."""
        config, clock = self.config, time.perf_counter
        start = clock() - self.seconds
        save_due = self.seconds + config.checkpoint_seconds
        pace = Pace(self.seconds, self.steps)
        slow = True  # until an update has shown how long it takes
        while self.steps < config.steps and not stop.requested and self.solved_steps is None:
            before = clock()
            lr = self._learning_rate()
            kept = self._keep() if slow else None
            try:
                rollout = self._take(kept)
            except Stopped:
                return kept
            collected = clock()
            self.steps += rollout.steps
            self.episodes.add(rollout.episode_returns, rollout.episode_lengths)
            if self.episodes.reached(config.target):  # by these weights: they stay as they are
                self.seconds = collected - start
                self.solved_seconds, self.solved_steps = self.seconds, self.steps
                break
            try:
                stats = self._source.learn(rollout, lr=lr, ent_coef=config.ent_coef)
            except Stopped:
                return self._back_to(kept)
            learned = clock()
            slow = learned - before > SLOW_SECONDS
            self.seconds = learned - start
            log.add(stats, lr, collected - before, learned - collected)
            if log.due(self.seconds):
                self._write(log)
            if self.seconds >= save_due:
                self.save()
                save_due = self.seconds + config.checkpoint_seconds
            if observer is not None and pace.due(self.seconds):
                observer(self._progress(pace.update(self.seconds, self.steps)))
        return None

    @property
    def _repeats(self) -> bool:
        """Whether a saved state goes on exactly as the session would."""
        return isinstance(self.vec, VecEnv) and self.config.fill == 1 and not self.config.async_

    def _keep(self) -> Kept | None:
        """What `save` would write now, for an update that may be broken off."""
        return self._state() if self._repeats else None

    def _take(self, kept: Kept | None) -> Any:
        """The next rollout; an interruption breaks it off where that loses nothing but time."""
        self._stop.arm(kept is not None or not self._repeats)
        try:
            return self._source.take()
        finally:
            self._stop.arm(kept is not None)  # half an update is worth nothing

    def _back_to(self, kept: Kept | None) -> Kept | None:
        """The counters as they were."""
        if kept is not None:
            _, _, state = kept
            self.steps, self.seconds = state["steps"], state["seconds"]
            self.episodes.load_state_dict(state["episodes"])
        return kept

    def _write(self, log: MetricsLog) -> None:
        """One line of metrics.jsonl."""
        log.write(
            self.seconds,
            self.steps,
            self.learner.version,
            self.episodes,
            environment_metrics(self.vec),
        )

    def _learning_rate(self) -> float:
        """The rate of the next update: falls linearly, by the steps before its rollout."""
        config = self.config
        left = 1.0 - self.steps / config.steps if config.anneal_lr else 1.0
        return config.lr * left

    def save(self) -> Path:
        """Writes a checkpoint of everything that the rest of the run depends on."""
        return self._write_checkpoint(*self._state())

    def _write_checkpoint(self, steps: int, tensors: Tensors, state: Mapping[str, Any]) -> Path:
        return self.run.save(steps, tensors, state, self.config.keep_checkpoints)

    def _state(self) -> Kept:
        """(steps, the policy's tensors, everything else that the rest of the run depends on)"""
        self._source.settle()
        state = {
            "steps": self.steps,
            "seconds": self.seconds,
            "solved_seconds": self.solved_seconds,
            "solved_steps": self.solved_steps,
            "episodes": self.episodes.state_dict(),
            "collector": self.collector.state_dict(),
            "learner": self.learner.state_dict(),
            "waiting": self._source.state_dict(),
        }
        if isinstance(self.vec, VecEnv):  # Python environments cannot be saved
            state["environments"] = np.frombuffer(self.vec.snapshot().to_bytes(), np.uint8)
        return self.steps, self.policy.to_tensors(self.learner.weights), state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues where `save` left off; Python environments begin new episodes."""
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.collector.load_state_dict(state["collector"])
        if isinstance(self.vec, VecEnv):
            self.vec.restore(Snapshot.from_bytes(state["environments"].tobytes()))
        else:
            self.collector.forget_episodes()
        self.learner.load_state_dict(state["learner"])
        self._source.load_state_dict(state.get("waiting", {}))
        self.episodes.load_state_dict(state["episodes"])
        if self.episodes.reached(self.config.target):
            self.solved_seconds = state["solved_seconds"]
            self.solved_steps = state["solved_steps"]

    def _progress(self, sps: float) -> Progress:
        config = self.config
        return Progress(
            self.steps,
            config.steps,
            self.seconds,
            sps,
            self.episodes.return_mean,
            config.target,
        )

    def _result(self, setup_seconds: float) -> TrainResult:
        return TrainResult(
            env=self.config.env,
            seed=self.config.seed,
            steps=self.steps,
            seconds=self.seconds,
            setup_seconds=setup_seconds,
            sps=self.steps / self.seconds if self.seconds > 0 else 0.0,
            return_mean=self.episodes.return_mean,
            return_target=self.config.target,
            solved=self.solved_steps is not None,
            solved_seconds=self.solved_seconds,
            solved_steps=self.solved_steps,
            run=str(self.run.path),
        )


class Pace:
    """When an observer is called next, and how fast the run went since the last time."""

    def __init__(self, seconds: float, steps: int) -> None:
        self._seconds, self._steps = seconds, steps

    def due(self, seconds: float) -> bool:
        """Whether `OBSERVER_SECONDS` have passed since the last call."""
        return seconds - self._seconds >= OBSERVER_SECONDS

    def update(self, seconds: float, steps: int) -> float:
        """Steps per second since the last call; starts to count anew."""
        speed = (steps - self._steps) / (seconds - self._seconds)
        self._seconds, self._steps = seconds, steps
        return speed


def preset_of(env: str | Path) -> Path | None:
    """The preset beside the environment's file: cartpole.toml beside cartpole.c, if it is there."""
    known = registered().get(str(env))
    source = known.path if known else Path(env).expanduser()
    preset = source.with_suffix(".toml")
    return preset if source.suffix and preset.is_file() else None


def _begun(env: str, given: Mapping[str, Any], module: Any) -> Session:
    """A new run: configured, its environments made, its folder with config.toml written."""
    config = configure(lasting_env(env), preset_of(env), given)
    params = tuple(
        (n, str(Path(v).resolve()) if isinstance(v, str) else v) for n, v in config.params
    )
    config = config.replace(policy=lasting_policy(config.policy), params=params)
    if config.policy != "native":
        require_torch(config.policy)
    if config.num_envs is None:
        config = config.replace(num_envs=default_rows(config))
    try:
        vec = _environments(config)
    except ArgumentError as error:
        raise _blamed(error, config, None if "params" in given else preset_of(env)) from None
    try:
        session = Session(config, vec, module)
        session.run = Run.create(config, name_of(vec))
        remember(config.env)
        session.run.write_config(config, session.build_table())
    except BaseException:
        vec.close()
        raise
    return session


def _blamed(error: ArgumentError, config: TrainConfig, preset: Path | None) -> ArgumentError:
    """The error, with the preset's name where a parameter in it is wrong."""
    named = set(re.findall(r"\w+", str(error)))
    if preset is None or not named & {name for name, _ in config.params}:
        return error
    return ConfigError(f"{preset}: {error}")


def _resumed(run: Run, env: str | Path | None, given: dict[str, Any], module: Any) -> Session:
    """A run continued from its newest checkpoint."""
    saved, before = run.read_config()
    check_policy(saved, given.pop("policy", None))
    if env is not None and lasting_env(str(env)) != saved.env:
        raise ConfigError(f"env cannot change when a run is resumed: it is {saved.env}")
    again = f"headrace train {{env}} --resume {shlex.quote(str(run.path))}"
    check_env(saved.env, None if env is None else str(env), again)
    for name in given:
        reject_unknown(name, settings(TrainConfig))
        if name not in RESUMABLE:
            raise ConfigError(
                f"{name} cannot change when a run is resumed; only {', '.join(RESUMABLE)} can"
            )
    config = saved.replace(**given)
    state = run.load_state(run.latest())
    vec = _environments(config)
    try:
        session = Session(config, vec, module)
        session.run = run
        try:
            session.restore(state)
        except (KeyError, TypeError, ValueError) as error:
            checkpoint = run.checkpoint_path(run.latest())
            raise RunError(f"{checkpoint} does not fit its run or is damaged: {error}") from error
        _warn_of_build(before, session.build_table())
        run.write_config(config, session.build_table())
    except BaseException:
        vec.close()
        raise
    return session


def _warn_of_build(before: Mapping[str, str], build: Mapping[str, str]) -> None:
    """Warns where a run goes on with other code, which may change its weights."""
    changed = [name for name, value in build.items() if before and before.get(name) != value]
    if changed:
        warnings.warn(
            f"the run was begun with another build ({', '.join(changed)} changed): it goes on, but "
            "its weights are not those of an uninterrupted run",
            stacklevel=4,
        )


def _environments(config: TrainConfig) -> AnyVecEnv:
    rows = config.num_envs or default_rows(config)
    return environments(config, rows, config.threads, config.seed, TRAINING)
