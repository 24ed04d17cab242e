"""PPO for a loop of one's own: a run that is trained one update at a time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..engine.errors import ClosedError
from .begin import Objects, begun, resumed
from .config import TrainConfig, label
from .interrupt import Interruption, TrainingInterrupted
from .loggers import open_loggers
from .metrics import Averages, Line, MetricsLog
from .progress import Observer, Progress, Shown
from .rollout import Stopped
from .run import LAST, Run
from .saving import Checkpoints
from .session import Session, Update
from .settings import ConfigError


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What a training run came to. None stands for what did not happen."""

    env: str  # the environment as it was named
    seed: int
    steps: int  # actions that agents took
    frames: int | None  # of the game, where one step is several; None where that is not known
    seconds: float  # wall time of training alone
    setup_seconds: float  # everything before it, compiling included
    sps: float  # steps per second
    return_mean: float | None  # of the last 100 finished episodes, in order of step and row
    return_target: float | None
    solved: bool  # return_mean reached the target
    solved_seconds: float | None  # training time until it did
    solved_steps: int | None  # steps until it did
    run: str  # the run's folder


class PPO:
    """A PPO run, trained by a loop of one's own:

        with headrace.PPO("cartpole", seed=1) as ppo:
            for metrics in ppo:
                print(metrics["steps"], metrics["episode/return"])

    Each turn is one update: a rollout was collected and learned from. The loop ends at the target
    or when the steps are used up; the run's folder is written as `headrace.train` does. Ctrl-C
    ends the update, saves, and raises `TrainingInterrupted` (a KeyboardInterrupt) from the loop.
    """

    def __init__(
        self,
        env: Any = None,
        policy: Any = None,
        config: TrainConfig | Mapping[str, Any] | None = None,
        *,
        resume: str | Path | None = None,
        checkpoint: str | int = LAST,
        **settings: Any,
    ) -> None:
        """Sets up everything; nothing is trained yet.

        Args:
            env: a shipped environment ("cartpole"), a file ("my_env.c"), one in Python
                ("gymnasium:LunarLander-v3"), a class or function that makes one, or a list of
                functions. May be left out with `config`, and with `resume`, see `train`.
            policy: "native", "torch", "net.py:Net", a torch module, or a function of
                (observation_space, action_space) that makes one.
            config: a TrainConfig, which counts as it is, without the environment's preset; or
                settings by name, which come before the preset.
            resume: the folder of a run to continue.
            checkpoint: with `resume`: from which one, "last", "best" or its number of steps; the
                later ones go at the first that is saved.
            **settings: fields of `TrainConfig`; they come before everything else.

        Raises:
            ConfigError: a setting that does not exist or does not fit.
            RunError: a run folder that is in the way, missing or damaged.
            HeadraceError: the environment cannot be compiled or made.
        """
        started = time.perf_counter()
        base = config if isinstance(config, TrainConfig) else None
        given = {**({} if base or config is None else dict(config)), **settings}  # type: ignore[arg-type]
        if policy is not None:
            given["policy"] = policy
        if env is None and base is not None:
            env = base.env
        self._session = _session(env, given, resume, str(checkpoint), base)
        self._last: Update | None = None
        self._loop: Generator[None, None, None] = _nothing()  # that is under way
        self._evaluation: dict[str, float] = {}  # made after the last update
        self._checkpoints = Checkpoints(self._session, resumed=resume is not None)
        self._stopping = self._closed = False
        self._setup_seconds = time.perf_counter() - started

    # ---- where it stands -------------------------------------------------------------------

    @property
    def config(self) -> TrainConfig:
        """Every setting, as it counts."""
        return self._session.config

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self._session.run.path

    @property
    def steps(self) -> int:
        """Actions that agents have taken since the run began."""
        return self._session.steps

    @property
    def version(self) -> int:
        """Updates since the run began."""
        return int(self._session.learner.version)

    @property
    def solved(self) -> bool:
        """Whether the target was reached."""
        return self._session.solved_steps is not None

    @property
    def metrics(self) -> Line:
        """Where the run stands and what the last update did, by the names of docs/metrics.md."""
        last = self._last
        if last is None:
            return Averages(self._session.seconds, self.steps).line(*self._where())
        seconds, steps, reading = last.began
        averages = Averages(seconds, steps, self._session.stopwatch, reading)
        averages.add(*last[:4])
        return averages.line(*self._where())

    def _where(self) -> tuple[Any, ...]:
        """What a line of metrics says besides averages."""
        session = self._session
        where = session.seconds, session.steps, session.frames, self.version
        return *where, session.episodes, session.environment_metrics(), self._evaluation

    def result(self) -> TrainResult:
        """The figures of the run so far."""
        session = self._session
        return TrainResult(
            env=session.config.env,
            seed=session.config.seed,
            steps=session.steps,
            frames=session.frames,
            seconds=session.seconds,
            setup_seconds=self._setup_seconds,
            sps=session.steps / session.seconds if session.seconds > 0 else 0.0,
            return_mean=session.episodes.return_mean,
            return_target=session.config.target,
            solved=self.solved,
            solved_seconds=session.solved_seconds,
            solved_steps=session.solved_steps,
            run=str(session.run.path),
        )

    # ---- training --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Line]:
        """Trains to the end, one update a turn, and saves there; gives `metrics`."""
        for _ in self.updates():
            yield self.metrics

    def updates(self, observer: Observer | None = None) -> Iterator[None]:
        """The same without metrics; observer: called about ten times a second.

        Raises:
            ClosedError: the run was closed.
        """
        if self._closed:
            raise ClosedError(
                f"PPO was closed, at the end of its `with` block or by close(): continue the run "
                f"with headrace.PPO(resume={str(self.run)!r})"
            )
        self._loop.close()
        self._loop = self._updates(observer)
        return self._loop

    def _updates(self, observer: Observer | None) -> Generator[None, None, None]:
        session = self._session
        with (
            Interruption(session.stop) as interruption,
            session.run.open_metrics(session.steps) as file,
            open_loggers(self.config, session.run.path, session.steps) as loggers,
            session.clock.running(),
        ):
            began = session.seconds, session.steps, session.stopwatch
            log, shown = MetricsLog(file, *began, loggers=loggers), Shown(*began)
            try:
                while not (session.over or self._stopping or interruption.requested):
                    if not self._update(log):
                        break
                    if observer is not None:
                        self._show(shown, observer)
                    with session.clock.paused():
                        yield
                if session.over:
                    self._evaluate(log)
            except Stopped:  # nothing of what was broken off is in the session
                pass
            if session.steps > log.steps:
                log.write(*self._where())
            checkpoint = self.save()
            if interruption.requested:
                raise TrainingInterrupted(session.run.path, checkpoint)

    def _update(self, log: MetricsLog) -> bool:
        """One update and what is due after it; False where the target was reached instead."""
        session = self._session
        self._last, self._evaluation = session.update(), {}
        if self._last is None:
            return False
        log.add(*self._last[:4])
        if session.evaluator.due(self._last.began[1], session.steps):
            self._evaluate(log)
        if log.due(session.seconds):
            log.write(*self._where())
        if self._checkpoints.due:
            self.save()
        return True

    def _evaluate(self, log: MetricsLog) -> None:
        """Where there are evaluations: one, a line of metrics, and a checkpoint if it is the
        best. It takes no time of training."""
        session = self._session
        if self.config.eval_every == 0 or self._evaluation:
            return
        with session.clock.paused():
            self._evaluation = session.evaluator(session.learner.weights, session.stop)
        log.write(*self._where())
        self._checkpoints.evaluated(self._evaluation["eval/return"])

    def stop(self) -> None:
        """Ends the loop after the update that is under way."""
        self._stopping = True

    def _show(self, shown: Shown, observer: Observer) -> None:
        """Counts the last update in; calls the observer when it is due or there is an evaluation
        to tell of."""
        assert self._last is not None
        shown.add(*self._last[:4])
        if shown.due(self._session.seconds) or self._evaluation:
            observer(self._progress(shown.line(*self._where())))

    def _progress(self, metrics: Line) -> Progress:
        session, config = self._session, self.config
        return Progress(
            env=config.env,
            steps=session.steps,
            total_steps=config.steps,
            seconds=session.seconds,
            sps=metrics["sps"] or 0.0,
            return_mean=session.episodes.return_mean,
            return_target=config.target,
            metrics=metrics,
        )

    # ---- saving ----------------------------------------------------------------------------

    def save(self) -> Path:
        """Writes a checkpoint of everything that the rest of the run depends on; its folder."""
        return self._checkpoints.save()

    def close(self) -> None:
        """Saves what is not saved yet, and ends the environments and the threads."""
        if self._closed:
            return
        self._closed = True
        self._loop.close()
        try:
            if self._checkpoints.behind:
                self.save()
        finally:
            self._session.close()

    def __enter__(self) -> PPO:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes; without saving where Ctrl-C came twice."""
        if kind is not None and not issubclass(kind, Exception):
            self._session.sound = False
        self.close()


def _nothing() -> Generator[None, None, None]:
    yield from ()


def _session(
    env: Any,
    given: dict[str, Any],
    resume: str | Path | None,
    checkpoint: str,
    base: TrainConfig | None,
) -> Session:
    objects = Objects(_object(env, (str, Path)), _object(given.get("policy"), (str,)))
    name = None if env is None else label(env) if objects.env is not None else str(env)
    if objects.policy is not None:
        given["policy"] = label(objects.policy)
    if resume is not None:
        return resumed(Run.open(resume), name, given, objects, checkpoint)
    if checkpoint != LAST:
        raise ConfigError("checkpoint is of a run that is continued: add --resume RUN")
    if name is None:
        raise ConfigError("env is missing: name a shipped environment or a file of your own")
    return begun(name, given, objects, base)


def _object(value: Any, names: tuple[type, ...]) -> Any:
    """The value unless it is a name."""
    return None if isinstance(value, names) else value
