"""Shows a training run on stderr: a live bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from .trainers.progress import Progress

PLAIN_SECONDS = 10.0  # between two plain lines


class Display(Protocol):
    """Something to which a training run reports; also a context manager."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, progress: Progress) -> None: ...


def display() -> Display:
    """The live bar when stderr is a terminal, else plain lines."""
    return LiveDisplay() if sys.stderr.isatty() else PlainDisplay()


class PlainDisplay:
    """One line every `PLAIN_SECONDS` seconds: for logs and pipes."""

    def __init__(self) -> None:
        self._due = time.monotonic() + PLAIN_SECONDS

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PLAIN_SECONDS
            print(summary(progress), file=sys.stderr, flush=True)


class LiveDisplay:
    """rich's progress bar, redrawn only when the training loop reports."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.fields[done]} steps"),
            BarColumn(),
            TextColumn("return [bold]{task.fields[reward]}"),
            TextColumn("[green]{task.fields[speed]} steps/s"),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._bar.add_task(
            "train", total=1.0, done="0", reward="-", speed="-", left=""
        )

    def __enter__(self) -> LiveDisplay:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        self._bar.update(
            self._task,
            completed=min(1.0, progress.steps / progress.total_steps),
            done=count(progress.steps),
            reward=_return(progress),
            speed=count(progress.sps),
            left=f"{duration(seconds_left(progress))} left",
            refresh=True,
        )


def summary(progress: Progress) -> str:
    """A run's state in one line of text."""
    return (
        f"{count(progress.steps)} of {count(progress.total_steps)} steps  "
        f"return {_return(progress)}  {count(progress.sps)} steps/s  "
        f"at most {duration(seconds_left(progress))} left"
    )


def seconds_left(progress: Progress) -> float:
    """Seconds until the step budget is used up, at the present speed."""
    left = max(0, progress.total_steps - progress.steps)
    return left / progress.sps if progress.sps > 0 else 0.0


def count(number: float) -> str:
    """A large number with three digits: 8192 is 8.19k."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Seconds as people say them: 0.15 s, 42 s, 3:05, 1:02:03."""
    if seconds < 59.5:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _return(progress: Progress) -> str:
    return "-" if progress.return_mean is None else f"{progress.return_mean:.4g}"
