"""What a run logs: every name once, with its unit and meaning.

docs/metrics.md is this table in prose order; a test keeps both the same.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .episodes import EpisodeWindow
    from .learner import LearnStats


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number in metrics.jsonl."""

    unit: str
    meaning: str


Line = dict[str, float | int | None]

ENVIRONMENT = "env/"  # before the names of an environment's own metrics

METRICS: dict[str, Metric] = {
    "steps": Metric("steps", "actions that agents have taken since the run began"),
    "version": Metric("updates", "updates of the policy since the run began"),
    "seconds": Metric("s", "time spent training since the run began, setting up left out"),
    "sps": Metric("steps/s", "steps per second since the line before"),
    "episode/return": Metric(
        "reward", "mean return of the last 100 finished episodes; null before the first"
    ),
    "episode/length": Metric(
        "steps", "mean length of the last 100 finished episodes; null before the first"
    ),
    "episode/count": Metric("episodes", "episodes that have finished since the run began"),
    "loss/policy": Metric("-", "PPO's clipped objective, negated, mean since the line before"),
    "loss/value": Metric(
        "return²", "half the squared error of the value function, mean since the line before"
    ),
    "loss/explained_variance": Metric(
        "share",
        "share of the returns' variance that the values explain, mean likewise; null when all "
        "returns are equal",
    ),
    "policy/entropy": Metric("nats", "entropy of the policy, mean since the line before"),
    "policy/kl": Metric(
        "nats", "estimated KL divergence of the new policy from the acting one, mean likewise"
    ),
    "policy/clip_fraction": Metric(
        "share", "share of rows whose probability ratio left the clip range, mean likewise"
    ),
    "learner/grad_norm": Metric("-", "length of the gradient before clipping, mean likewise"),
    "learner/lr": Metric("-", "learning rate of the last update"),
    "async/lag": Metric(
        "updates",
        "updates between the weights that acted and those that learned from it, mean over rows, "
        "likewise; 0 without --async",
    ),
    "async/lag_max": Metric("updates", "the greatest lag since the line before"),
    "async/ess": Metric(
        "share",
        "effective sample size of rows weighed by current / acting policy, share of the rows, "
        "mean likewise; 1 without lag, null with torch policies",
    ),
    "time/collect": Metric("share", "share of the time since the line before spent collecting"),
    "time/learn": Metric("share", "share of the time since the line before spent learning"),
}


class Averages:
    """What was logged since the last line."""

    def __init__(self, seconds: float, steps: int) -> None:
        """`seconds` and `steps`: where the run stands."""
        self.steps = steps  # at the last line
        self._seconds = seconds
        self._start_line()

    def _start_line(self) -> None:
        self._updates, self._collect, self._learn, self._lr = 0, 0.0, 0.0, 0.0
        self._lag_max = 0
        self._sums = dict.fromkeys(_LEARNED, 0.0)

    def add(self, stats: LearnStats, lr: float, collect: float, learn: float) -> None:
        """Counts one update in: its statistics, its learning rate and the seconds it took."""
        self._updates += 1
        self._collect += collect
        self._learn += learn
        self._lr = lr
        self._lag_max = max(self._lag_max, stats.lag_max)
        sums = self._sums
        for name, attribute in _LEARNED.items():
            sums[name] += getattr(stats, attribute)

    def line(
        self,
        seconds: float,
        steps: int,
        version: int,
        episodes: EpisodeWindow,
        environment: Mapping[str, float],
    ) -> Line:
        """One line, with the environment's own metrics; starts to average anew."""
        passed = seconds - self._seconds
        line: Line = {
            "steps": steps,
            "version": version,
            "seconds": round(seconds, 6),
            "sps": (steps - self.steps) / passed if passed > 0 else None,
            "episode/return": episodes.return_mean,
            "episode/length": episodes.length_mean,
            "episode/count": episodes.count,
        }
        if self._updates:
            means = {name: total / self._updates for name, total in self._sums.items()}
            line |= {name: mean if math.isfinite(mean) else None for name, mean in means.items()}
            line["learner/lr"] = self._lr
            line["async/lag_max"] = self._lag_max
            line["time/collect"] = self._collect / passed if passed > 0 else None
            line["time/learn"] = self._learn / passed if passed > 0 else None
        line |= {ENVIRONMENT + name: value for name, value in environment.items()}
        self._seconds, self.steps = seconds, steps
        self._start_line()
        return line


class MetricsLog(Averages):
    """metrics.jsonl: averages over the updates since the last line, and when the next is due.

    Lines come closer together early in a run, where things change fast: after a hundredth of
    the time that has passed, but at least 0.05 s and at most 10 s apart.
    """

    def __init__(self, file: IO[str], seconds: float, steps: int) -> None:
        """Appends to `file`; `seconds` and `steps` are where the run stands."""
        super().__init__(seconds, steps)
        self._file = file
        self._due = seconds + _gap(seconds)

    def due(self, seconds: float) -> bool:
        """Whether a line should be written now, `seconds` into training."""
        return seconds >= self._due

    def write(self, seconds: float, *where: Any) -> Line:
        """Writes one line, arguments as `line` has them, and returns it."""
        line = self.line(seconds, *where)
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._due = seconds + _gap(seconds)
        return line


def _gap(seconds: float) -> float:
    return min(max(seconds / 100, 0.05), 10.0)


# Averaged over updates: name of the metric, attribute of LearnStats.
_LEARNED = {
    "loss/policy": "policy_loss",
    "loss/value": "value_loss",
    "loss/explained_variance": "explained_variance",
    "policy/entropy": "entropy",
    "policy/kl": "kl",
    "policy/clip_fraction": "clip_fraction",
    "learner/grad_norm": "grad_norm",
    "async/lag": "lag",
    "async/ess": "ess",
}
