"""Where a run's metrics go besides metrics.jsonl: TensorBoard, Weights & Biases.

Their packages are imported where a run asks for them, and nowhere else.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from .config import TrainConfig
from .settings import ConfigError

PACKAGES = ("tensorboard", "wandb")  # each a setting, an extra and a package of the same name


class Logger(Protocol):
    """Takes lines of metrics."""

    def write(self, line: Mapping[str, Any]) -> None:
        """One line, by the names of docs/metrics.md."""
        ...

    def close(self) -> None:
        """After the last line."""
        ...


def require_loggers(config: TrainConfig) -> None:
    """ConfigError in one sentence where a run asks for a package that is not installed."""
    for name in PACKAGES:
        if getattr(config, name) and importlib.util.find_spec(name) is None:
            raise ConfigError(
                f"{name} is true, but the package {name} is not installed: pip install "
                f"'headrace[{name}]', or train with --no-{name}"
            )


@contextmanager
def open_loggers(config: TrainConfig, folder: Path, steps: int) -> Iterator[tuple[Logger, ...]]:
    """The loggers that a run asks for, until the block is left.

    Args:
        config: of the run; which loggers, and what they are told of it.
        folder: of the run.
        steps: where it goes on; what was logged of later ones counts no more.
    """
    require_loggers(config)
    with ExitStack() as stack:
        loggers: list[Logger] = []
        if config.tensorboard:
            loggers.append(TensorBoard(folder / "tensorboard", steps))
            stack.callback(loggers[-1].close)
        if config.wandb:
            loggers.append(WeightsAndBiases(config, folder))
            stack.callback(loggers[-1].close)
        yield tuple(loggers)


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """What in a line is a number, but for the step it belongs to."""
    return {
        name: float(value)
        for name, value in line.items()
        if name != "steps" and isinstance(value, (int, float))
    }


class TensorBoard:
    """Event files, one for each time that the run was trained on."""

    def __init__(self, folder: Path, steps: int) -> None:
        """steps: events of later ones, from before a resume, are not shown any more."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event = Event
        self._writer = EventFileWriter(str(folder), flush_secs=10)
        if steps > 0:
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=steps, session_log=start))

    def write(self, line: Mapping[str, Any]) -> None:
        """See Logger."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=n, simple_value=v) for n, v in numbers(line).items()]
        event = self._event(
            wall_time=time.time(), step=int(line["steps"]), summary=Summary(value=values)
        )
        self._writer.add_event(event)

    def close(self) -> None:
        """See Logger."""
        self._writer.close()


class WeightsAndBiases:
    """A run of W&B of the folder's name. Project, entity and mode are what the package's own
    environment variables say (WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE=offline)."""

    def __init__(self, config: TrainConfig, folder: Path) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "headrace",
            name=folder.resolve().name,
            id=_lasting_id(folder / "wandb-id.txt"),
            resume="allow",
            dir=str(folder),
            config={**dataclasses.asdict(config), "params": dict(config.params)},
        )

    def write(self, line: Mapping[str, Any]) -> None:
        """See Logger."""
        self._run.log(numbers(line), step=int(line["steps"]))

    def close(self) -> None:
        """See Logger."""
        self._run.finish()


def _lasting_id(file: Path) -> str:
    """The id in the file; a new one, written there, at first."""
    if not file.is_file():
        file.write_text(uuid.uuid4().hex)
    return file.read_text().strip()
