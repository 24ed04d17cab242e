"""The folder of a run: configuration, metrics and checkpoints.

    config.toml             the resolved configuration and what was built
    environment.json        its environment's spaces, see interface.py
    metrics.jsonl           one JSON object a line, see metrics.py
    checkpoints/<step>/     see checkpoint.py
    checkpoints/best.json   which of them is the best, and by what

Opening a run only ever reads data: nothing in it is executed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ..engine.errors import HeadraceError
from . import checkpoint, interface
from .checkpoint import RunError, RunFolderError, Tensors
from .codec import Codec
from .config import TrainConfig, read_toml, reject_unknown
from .settings import ConfigError, key, member, replaced, settings

__all__ = ["Best", "Run", "RunError", "RunFolderError", "Tensors"]

BEST, LAST = "best", "last"  # names of checkpoints beside their steps


@dataclasses.dataclass(frozen=True)
class Best:
    """The best checkpoint so far."""

    steps: int  # its number
    score: float  # mean return
    evaluated: bool  # by an evaluation; else of the last 100 episodes of training


@dataclasses.dataclass(frozen=True)
class Run:
    """A run on disk. Use `create` for a new one and `open` for one that is there."""

    path: Path

    @classmethod
    def create(cls, config: TrainConfig, name: str) -> Run:
        """Makes the folder `config.run_dir`, or runs/<name>-<time>, and writes nothing in it.

        Raises RunFolderError when the folder asked for is not empty, RunError when it cannot
        be made.
        """
        if config.run_dir is None:
            return cls(_fresh_folder(Path("runs"), name))
        path = Path(config.run_dir)
        try:
            path.mkdir(parents=True, exist_ok=True)
            empty = not any(path.iterdir())
        except OSError as error:
            raise RunError(
                f"run folder {path} cannot be made: {error.strerror}; choose another place with "
                "--run-dir"
            ) from error
        if not empty:
            raise RunFolderError(
                f"run folder {path} is not empty; name another with --run-dir, or continue the "
                f"run in it with --resume {path}"
            )
        return cls(path)

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in the folder `path`; RunFolderError when there is none."""
        run = cls(Path(path))
        if not (run.path / "config.toml").is_file():
            what = "holds no config.toml" if run.path.is_dir() else "is not a folder"
            raise RunFolderError(f"{path} is no run: it {what}; a run's folder is printed by train")
        return run

    def write_config(self, config: TrainConfig, build: Mapping[str, str]) -> None:
        """Writes config.toml: every setting, and the table [build] of hashes and versions. Where
        one is there already with another [build], that is kept among [[earlier_builds]]."""
        earlier = self._builds_before(build)
        table = {key(item): getattr(config, item) for item in settings(TrainConfig)}
        params = dict(table.pop("params"))
        table.pop("run_dir")
        text = toml_lines(table) + "\n[params]\n" + toml_lines(params)
        text += "\n[build]\n" + toml_lines(build)
        text += "".join("\n[[earlier_builds]]\n" + toml_lines(one) for one in earlier)
        _write_atomically(self.path / "config.toml", text.encode())

    def read_config(self) -> tuple[TrainConfig, dict[str, str]]:
        """(the configuration with run_dir set to this folder, the table [build])."""
        file = self.path / "config.toml"
        table = read_toml(file)
        build = table.pop("build", {})
        table.pop("earlier_builds", None)
        table = {member(name): value for name, value in table.items()}
        known = settings(TrainConfig)
        for name in table:
            old = replaced(name, known)
            if old is not None:
                raise RunError(f"{file} is of an older headrace: {old}; change it there")
        try:
            for name in table:
                reject_unknown(name, known)
            config = TrainConfig(**{**table, "run_dir": str(self.path)})
        except (ConfigError, TypeError) as error:
            raise RunError(f"{file} is damaged: {error}") from None
        return config, build

    def write_environment(self, codec: Codec) -> None:
        """Writes environment.json: what policies need to know of the environment."""
        _write_atomically(self.path / "environment.json", interface.to_json(codec).encode())

    def read_environment(self) -> Codec:
        """What `write_environment` has written. RunError where it is missing or damaged."""
        file = self.path / "environment.json"
        try:
            return interface.from_json(file.read_text())
        except FileNotFoundError:
            raise RunError(
                f"{file} is missing: the run is of a headrace that kept no spaces; "
                f"headrace train --resume {shlex.quote(str(self.path))} writes it"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, HeadraceError) as error:
            raise RunError(f"{file} is damaged: {error}") from None

    def _builds_before(self, build: Mapping[str, str]) -> list[dict[str, str]]:
        """The builds that made the run before this one, the first first."""
        file = self.path / "config.toml"
        if not file.is_file():
            return []
        table = read_toml(file)
        earlier, last = table.get("earlier_builds", []), table.get("build", {})
        return [*earlier, last] if last and last != build else earlier

    def open_metrics(self, step: int) -> IO[str]:
        """metrics.jsonl opened for further lines; those from after `step` are dropped.

        They are there when a run goes on from a checkpoint that is older than its last line.
        """
        file = self.path / "metrics.jsonl"
        if file.exists():
            lines = file.read_text().splitlines(keepends=True)
            kept = [line for line in lines if _step_of(line) <= step]
            _write_atomically(file, "".join(kept).encode())
        return file.open("a", buffering=1)

    def checkpoint_path(self, step: int) -> Path:
        """The folder of the checkpoint after `step` steps."""
        return self.path / "checkpoints" / str(step)

    def checkpoints(self) -> list[int]:
        """The steps at which there are checkpoints, ascending."""
        folder = self.path / "checkpoints"
        if not folder.is_dir():
            return []
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())

    def latest(self) -> int:
        """The step of the newest checkpoint; RunFolderError when there is none."""
        steps = self.checkpoints()
        if not steps:
            raise RunFolderError(f"run {self.path} holds no checkpoint yet")
        return steps[-1]

    def best(self) -> Best | None:
        """The best checkpoint; None where none is known, or it is gone."""
        try:
            best = Best(**json.loads(self._best_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return best if best.steps in self.checkpoints() else None

    def find(self, which: str) -> int:
        """The step of the checkpoint that is called so: "best", "last", or its number.

        Raises:
            RunFolderError: there is none.
        """
        if which == LAST:
            return self.latest()
        if which == BEST:
            best = self.best()
            if best is None:
                raise RunFolderError(
                    f"run {self.path} has no best checkpoint: it was not evaluated, and had not "
                    "finished 100 episodes at any checkpoint; take the last"
                )
            return best.steps
        if not which.isdecimal():
            raise ConfigError(f"checkpoint must be best, last or a number of steps, not {which!r}")
        self._existing(int(which))
        return int(which)

    def save(self, step: int, policy: Tensors, state: Mapping[str, Any], keep: int) -> Path:
        """Writes checkpoint `step` and drops all but the newest `keep` and the best; returns its
        folder.

        `state` is a nested dict of arrays, numbers, texts and None. RunError when the disk
        refuses; older checkpoints stay as they are.
        """
        target = self.checkpoint_path(step)
        checkpoint.write(target, policy, state)
        best = self.best()
        for old in self.checkpoints()[:-keep]:
            if best is None or old != best.steps:
                checkpoint.discard(self.checkpoint_path(old))
        return target

    def forget_after(self, step: int) -> None:
        """Removes the checkpoints of later steps: the run goes on from this one."""
        for each in self.checkpoints():
            if each > step:
                checkpoint.discard(self.checkpoint_path(each))

    def mark_best(self, best: Best) -> None:
        """Notes the best checkpoint, which must be there; the next `save` drops the one before
        it, unless it is among the newest."""
        _write_atomically(self._best_file, json.dumps(dataclasses.asdict(best)).encode())

    @property
    def _best_file(self) -> Path:
        return self.path / "checkpoints" / "best.json"

    def load_policy(self, step: int) -> Tensors:
        """The tensors of checkpoint `step`'s policy by name. RunError for a damaged one."""
        folder = self._existing(step)
        try:
            return checkpoint.read_policy(folder)
        except RunError as error:
            raise self._offering(error, step) from None

    def load_state(self, step: int) -> dict[str, Any]:
        """The state of checkpoint `step`, nested as it was given to `save`. Errors likewise."""
        folder = self._existing(step)
        try:
            return checkpoint.read_state(folder)
        except RunError as error:
            raise self._offering(error, step) from None

    def sweep(self) -> None:
        """Removes what a process that was killed left half done."""
        checkpoint.sweep(self.path / "checkpoints")

    def _offering(self, error: RunError, step: int) -> RunError:
        """The error of a checkpoint, with the one before it."""
        earlier = [each for each in self.checkpoints() if each < step]
        instead = (
            f"the checkpoint before it is {earlier[-1]}: take it with --checkpoint {earlier[-1]}"
            if earlier
            else "the run has no earlier checkpoint"
        )
        return RunError(f"{error}; {instead}")

    def _existing(self, step: int) -> Path:
        folder = self.checkpoint_path(step)
        if not folder.is_dir():
            there = ", ".join(map(str, self.checkpoints())) or "none"
            raise RunFolderError(f"run {self.path} has no checkpoint {step}; there are: {there}")
        return folder


def toml_lines(table: Mapping[str, Any]) -> str:
    """A flat table in TOML; None has no TOML and is left out."""
    return "".join(
        f"{name} = {_toml_value(value)}\n" for name, value in table.items() if value is not None
    )


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml_value(entry) for entry in value) + "]"
    return repr(value)


def _step_of(line: str) -> float:
    """The step of a line of metrics.jsonl; infinite for one that was cut short."""
    try:
        return float(json.loads(line)["steps"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _write_atomically(file: Path, data: bytes) -> None:
    temporary = file.with_name(f".{file.name}-{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"{file} cannot be written: {error.strerror}") from error


def _fresh_folder(parent: Path, name: str) -> Path:
    """parent/<name>-<time>, with -2, -3, … where another run began in the same second."""
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    attempt = 1
    while True:
        path = parent / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if not parent.is_dir():
                raise RunError(f"{parent} is a file: runs cannot be kept in it") from None
            attempt += 1
        except OSError as error:
            raise RunError(
                f"run folder {path} cannot be made: {error.strerror}; choose another place with "
                "--run-dir"
            ) from error
