"""Numbers as people read them, and small pictures of them in text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def count(number: float) -> str:
    """A large number with three digits: 8192 is 8.19k."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def frames_beside(steps: int, frames: int | None) -> str:
    """What is said of frames after steps: nothing where they are the same, or unknown."""
    return "" if frames in (None, steps) else f" ({count(frames or 0)} frames)"


def duration(seconds: float) -> str:
    """Seconds as people say them: 0.15 s, 42 s, 3:05, 1:02:03."""
    if seconds < 59.5:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sparkline(values: Sequence[float], width: int, low: float | None = None) -> str:
    """A line of at most `width` blocks whose heights are the values, from `low` (default: the
    lowest) to the highest; neighbours are averaged where there are more values than blocks."""
    shown = resampled(values, min(width, len(values)))
    if not shown:
        return ""
    low, high = min(shown) if low is None else low, max(shown)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in shown)


def resampled(values: Sequence[float], parts: int) -> list[float]:
    """Means of `parts` stretches of the values, as equal as can be."""
    bounds = [k * len(values) // parts for k in range(parts + 1)] if parts > 0 else []
    return [sum(values[lo:hi]) / (hi - lo) for lo, hi in pairwise(bounds)]


class History:
    """A number over a whole run in bounded memory: as it fills up, neighbours are merged."""

    def __init__(self, room: int = 256) -> None:
        self.values: list[float] = []
        self._room = room
        self._stride = 1  # numbers in a value
        self._open: list[float] = []  # numbers that do not make a value yet

    def add(self, number: float) -> None:
        """The number now."""
        self._open.append(number)
        if len(self._open) < self._stride:
            return
        self.values.append(sum(self._open) / len(self._open))
        self._open = []
        if len(self.values) >= self._room:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values = [(first + second) / 2 for first, second in pairs]
            self._stride *= 2
