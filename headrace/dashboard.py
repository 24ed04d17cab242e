"""A training run as a picture in text, for terminals of any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from .figures import History, count, duration, frames_beside, sparkline
from .trainers.progress import Progress, seconds_left

NARROWEST, WIDEST = 28, 100  # columns that are made use of
_LABEL, _NUMBER = 9, 9  # columns of the names at the left, and of the numbers after them
_SHORTEST, _LONGEST = 12, 40  # of a sparkline with text beside it
_SMOOTH_SECONDS = 2.0  # over which the shares of time are averaged
_GAP = "   "

# part of the time: name on the screen, style, and what it looks like without colours
_PARTS = {
    "environment": ("environment", "green", "█"),
    "inference": ("inference", "cyan", "▓"),
    "learn": ("learning", "magenta", "▒"),
    "wait": ("waiting", "yellow", "░"),
    "rest": ("rest", "bright_black", "·"),
}
_ADVICE = {
    "environment": "more threads, or a faster step",
    "inference": "more environments at once, or a smaller network",
    "learner": "fewer epochs, larger minibatches, a smaller network",
    "queue": "a greater --max-lag, or more environments",
}
_BOUND_STYLES = {
    "environment": "green",
    "inference": "cyan",
    "learner": "magenta",
    "queue": "yellow",
}


class Dashboard:
    """What is remembered of a run from one picture to the next."""

    def __init__(self) -> None:
        self._now: Progress | None = None
        self._returns, self._speeds = History(), History()
        self._shares = dict.fromkeys(_PARTS, 0.0)
        self._bounds = dict.fromkeys(_ADVICE, 0.0)
        self._evaluated: float | None = None

    def update(self, progress: Progress) -> None:
        """Takes in where the run stands now."""
        before, self._now = self._now, progress
        passed = progress.seconds - (before.seconds if before else 0.0)
        if progress.return_mean is not None:
            self._returns.add(progress.return_mean)
        self._speeds.add(progress.sps)
        self._evaluated = progress.metrics.get("eval/return", self._evaluated)
        if "time/bottleneck" in progress.metrics:
            self._blend(progress.metrics, passed)

    def _blend(self, metrics: Mapping[str, Any], passed: float) -> None:
        """Averages the shares of time, so that they can be read."""
        first = not any(self._shares.values())
        new = 1.0 if first else min(1.0, passed / _SMOOTH_SECONDS)
        for part in self._shares:
            self._shares[part] += new * (metrics[f"time/{part}"] - self._shares[part])
        for name in self._bounds:
            named = float(metrics["time/bottleneck"] == name)
            self._bounds[name] += new * (named - self._bounds[name])

    @property
    def bottleneck(self) -> str | None:
        """What holds the run up lately."""
        name = max(self._bounds, key=lambda each: self._bounds[each])
        return name if self._bounds[name] > 0 else None

    # ---- the picture -----------------------------------------------------------------------

    def lines(self, width: int, *, height: int = 100, color: bool = True) -> list[Text]:
        """The picture in lines of at most `width` columns, at most `height` of them: what
        matters least goes first."""
        if self._now is None:
            return []
        width = min(max(width, NARROWEST), WIDEST)
        now = self._now
        groups = [
            self._progress(now, width),
            self._fortune(now, width),
            self._time(width, color),
            self._losses(now.metrics, width),
        ]
        groups = [group for group in groups if group]
        spaced = sum(map(len, groups)) + len(groups) - 1 <= height
        found: list[Text] = []
        for group in groups:
            found += [Text(), *group] if found and spaced else group
        return found[:height]

    def _progress(self, now: Progress, width: int) -> list[Text]:
        """How far it is."""
        share = min(1.0, now.steps / now.total_steps)
        frames = frames_beside(now.steps, now.metrics.get("frames"))
        steps = f"{count(now.steps)} of {count(now.total_steps)} steps{frames}"
        left = f"{duration(now.seconds)}{_GAP}at most {duration(seconds_left(now))} left"
        room = width - cell_len(steps) - 2 * len(_GAP) - cell_len(left)
        bar = _bar(share, room if room >= 8 else width)
        if room >= 8:
            return [Text.assemble((steps, "bold"), _GAP, bar, _GAP, (left, "default"))]
        return [bar, *_flow([Text(steps, "bold"), Text(left)], width)]

    def _fortune(self, now: Progress, width: int) -> list[Text]:
        """Return and speed, now and over the run."""
        mean = "none yet" if now.return_mean is None else f"{now.return_mean:.4g}"
        ends = []
        if now.return_target is not None:
            ends.append(f"target {now.return_target:.4g}")
        if self._evaluated is not None:
            ends.append(f"evaluated {self._evaluated:.4g}")
        episodes = now.metrics.get("episode/count")
        length = now.metrics.get("episode/length")
        told = []
        if episodes:
            told.append(f"{count(episodes)} episodes")
        if length is not None:
            told.append(f"{length:.4g} steps each")
        rows = (("return", mean, ends), ("steps/s", count(now.sps), told))
        beside = _GAP.join(max(ends, told, key=lambda items: len(_GAP.join(items))))
        room = min(_LONGEST, width - _LABEL - _NUMBER - len(_GAP) - len(beside))
        lines = []
        for label, value, items in rows:
            head = Text.assemble(_label(label), (value.ljust(_NUMBER), "bold"))
            course = self._course(label, room if room >= _SHORTEST else width - len(head))
            if room >= _SHORTEST:
                lines.append(Text.assemble(head, course, _GAP, _GAP.join(items)))
            else:
                below = [Text(item) for item in items]
                lines += [Text.assemble(head, course), *_flow(below, width, indent=_LABEL)]
        return lines

    def _course(self, label: str, width: int) -> Text:
        """How return or speed went over the run, in `width` columns."""
        width = max(0, width)
        if label == "return":
            line = sparkline(self._returns.values, width)
        else:
            line = sparkline(self._speeds.values, width, low=0.0)
        return Text(line.ljust(width), "blue")

    def _time(self, width: int, color: bool) -> list[Text]:
        """Where the time goes, and what holds the run up."""
        bound = self.bottleneck
        if bound is None:
            return []
        shown = {part: share for part, share in self._shares.items() if share >= 0.005}
        legend = []
        for part, share in shown.items():
            name, style, glyph = _PARTS[part]
            mark = (("■" if color else glyph) + " ", style)
            legend.append(Text.assemble(mark, f"{name} ", (f"{share:.0%}", "bold")))
        verdict = Text.assemble(" " * _LABEL, (f"{bound}-bound", f"bold {_BOUND_STYLES[bound]}"))
        advice = f": {_ADVICE[bound]}"
        if len(verdict) + len(advice) <= width:
            verdict.append(advice, "dim")
        return [
            Text.assemble(_label("time"), _stack(shown, width - _LABEL, color)),
            *_flow(legend, width, indent=_LABEL, gap="  "),
            verdict,
        ]

    def _losses(self, metrics: Mapping[str, Any], width: int) -> list[Text]:
        """What the learner says."""
        rows: dict[str, list[tuple[str, Any, str]]] = {
            "policy": [
                ("loss", metrics.get("loss/policy"), ".3g"),
                ("entropy", metrics.get("policy/entropy"), ".3g"),
                ("KL", metrics.get("policy/kl"), ".2g"),
                ("clipped", metrics.get("policy/clip_fraction"), ".0%"),
            ],
            "value": [
                ("loss", metrics.get("loss/value"), ".3g"),
                ("explained", metrics.get("loss/explained_variance"), ".0%"),
            ],
            "learner": [
                ("gradient", metrics.get("learner/grad_norm"), ".3g"),
                ("rate", metrics.get("learner/lr"), ".3g"),
            ],
        }
        if metrics.get("async/lag_max"):
            rows["async"] = [
                ("lag", metrics.get("async/lag"), ".2f"),
                ("at most", metrics["async/lag_max"], "d"),
                ("ESS", metrics.get("async/ess"), ".0%"),
            ]
        lines = []
        for label, figures in rows.items():
            items = [
                Text.assemble((f"{name} ", "dim"), format(value, form))
                for name, value, form in figures
                if value is not None
            ]
            if items:
                flowed = _flow(items, width, indent=_LABEL)
                lines += [Text.assemble(_label(label), flowed[0][_LABEL:]), *flowed[1:]]
        return lines


def _label(name: str) -> tuple[str, str]:
    return name.ljust(_LABEL), "dim"


def _bar(share: float, width: int) -> Text:
    """A bar of which `share` is full."""
    halves = round(2 * share * width)
    full = "━" * (halves // 2) + "╸" * (halves % 2)
    return Text.assemble((full, "green"), ("─" * (width - len(full)), "bright_black"))


def _stack(shares: Mapping[str, float], width: int, color: bool) -> Text:
    """A bar of several parts that fills `width`."""
    bar, total, done, at = Text(), sum(shares.values()), 0.0, 0
    for part, share in shares.items():
        done += share
        end = round(width * done / total)
        _, style, glyph = _PARTS[part]
        bar.append(("█" if color else glyph) * (end - at), style)
        at = end
    return bar


def _flow(items: Sequence[Text], width: int, *, indent: int = 0, gap: str = _GAP) -> list[Text]:
    """Items side by side, on as many lines as they need."""
    lines: list[Text] = []
    for item in items:
        if lines and len(lines[-1]) + len(gap) + len(item) <= width:
            lines[-1] = Text.assemble(lines[-1], gap, item)
        else:
            lines.append(Text.assemble(" " * indent, item))
    return lines
