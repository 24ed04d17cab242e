"""Shows a training run on stderr: a live picture on a terminal, a plain line now and then
elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

from .figures import count, duration, frames_beside
from .trainers.progress import Progress, seconds_left

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_SECONDS = 10.0  # between two plain lines
DRAWING_SHARE = 0.005  # of the time, at most, that is spent on drawing, but
SELDOM_SECONDS = 2.0  # at least this often


class Display(Protocol):
    """Something to which a training run reports; also a context manager."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, progress: Progress) -> None: ...


def display() -> Display:
    """The live picture when stderr is a terminal that can show it, else plain lines."""
    able = sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"
    wide = (sys.stderr.encoding or "").lower().startswith("utf")
    return LiveDisplay() if able and wide else PlainDisplay()


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
    """The dashboard, redrawn when the training loop reports, and seldom enough to cost nothing;
    it goes away at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        from .dashboard import Dashboard

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._dashboard = Dashboard()
        self._due, self._drawn = 0.0, False

    def __enter__(self) -> LiveDisplay:
        from rich.text import Text

        self._live.start()
        self._live.update(Text("setting up …", "dim"), refresh=True)  # until the first update
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        began = time.perf_counter()
        self._dashboard.update(progress)
        if began < self._due:
            return
        self._live.update(self._picture(progress.env), refresh=True)
        ended = time.perf_counter()
        pause = (ended - began) / DRAWING_SHARE if self._drawn else 0.0  # the first is cold
        self._due, self._drawn = ended + min(SELDOM_SECONDS, pause), True

    def _picture(self, env: str) -> RenderableType:
        from rich.box import ROUNDED
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        width, height = self._console.size
        color = self._console.color_system is not None and not self._console.no_color
        if width < 48:
            return Group(*self._dashboard.lines(width - 1, height=height - 1, color=color))
        from .dashboard import WIDEST

        width = min(width - 1, WIDEST + 4)
        lines = self._dashboard.lines(width - 4, height=height - 3, color=color)
        return Panel(
            Group(*lines),
            box=ROUNDED,
            width=width,
            title=Text.assemble(("headrace", "bold"), (" · ", "dim"), env),
            title_align="left",
            border_style="bright_black",
        )


def summary(progress: Progress) -> str:
    """A run's state in one line of text."""
    mean = progress.return_mean
    bottleneck = progress.metrics.get("time/bottleneck")
    frames = frames_beside(progress.steps, progress.metrics.get("frames"))
    return (
        f"{count(progress.steps)} of {count(progress.total_steps)} steps{frames}  "
        f"return {'-' if mean is None else f'{mean:.4g}'}  {count(progress.sps)} steps/s  "
        f"at most {duration(seconds_left(progress))} left"
        + (f"  {bottleneck}-bound" if bottleneck else "")
    )
