"""What a run logs: every name once, with its unit and meaning.

docs/metrics.md is this table in prose order; a test keeps both the same.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from .bottleneck import Passed

if TYPE_CHECKING:
    from .bottleneck import Reading, Stopwatch
    from .episodes import EpisodeWindow
    from .learner import LearnStats
    from .loggers import Logger


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number in metrics.jsonl."""

    unit: str
    meaning: str
    healthy: str = ""  # what it looks like when all is well


Line = dict[str, Any]  # numbers, None, and the name of the bottleneck

ENVIRONMENT = "env/"  # before the names of an environment's own metrics

METRICS: dict[str, Metric] = {
    "steps": Metric("steps", "actions that agents have taken since the run began"),
    "frames": Metric(
        "frames",
        "frames of the game that these steps were: steps times the frame skip of ALE and of "
        "Gymnasium's wrappers, those of resets left out; the steps themselves where nothing skips, "
        "null where the skip is random",
    ),
    "version": Metric("updates", "updates of the policy since the run began"),
    "seconds": Metric("s", "time spent training since the run began, setting up left out"),
    "sps": Metric("steps/s", "steps per second since the line before", "steady after the start"),
    "episode/return": Metric(
        "reward",
        "mean return of the last 100 finished episodes; null before the first",
        "rises, by fits and starts",
    ),
    "episode/length": Metric(
        "steps", "mean length of the last 100 finished episodes; null before the first"
    ),
    "episode/count": Metric("episodes", "episodes that have finished since the run began"),
    "loss/policy": Metric(
        "-",
        "PPO's clipped objective, negated, mean since the line before",
        "near 0; it says little by itself",
    ),
    "loss/value": Metric(
        "return²",
        "half the squared error of the value function, mean since the line before",
        "finite; it may rise while returns do",
    ),
    "loss/explained_variance": Metric(
        "share",
        "share of the returns' variance that the values explain, mean likewise; null when all "
        "returns are equal",
        "towards 1; at 0 or below the values are of no use",
    ),
    "policy/entropy": Metric(
        "nats",
        "entropy of the policy, mean since the line before",
        "falls slowly; at 0 early on it explores no more: a higher ent_coef",
    ),
    "policy/kl": Metric(
        "nats",
        "estimated KL divergence of the new policy from the acting one, mean likewise",
        "0.001 to 0.03; above 0.1 updates are too large: a lower lr, fewer epochs",
    ),
    "policy/clip_fraction": Metric(
        "share",
        "share of rows whose probability ratio left the clip range, mean likewise",
        "0.02 to 0.3",
    ),
    "learner/grad_norm": Metric(
        "-",
        "length of the gradient before clipping, mean likewise",
        "steady; max_grad_norm scales down what is longer",
    ),
    "learner/lr": Metric("-", "learning rate of the last update"),
    "async/lag": Metric(
        "updates",
        "updates between the weights that acted and those that learned from it, mean over rows, "
        "likewise; 0 without --async",
        "at most max_lag",
    ),
    "async/lag_max": Metric("updates", "the greatest lag since the line before", "at most max_lag"),
    "async/ess": Metric(
        "share",
        "effective sample size of rows weighed by current / acting policy, share of the rows, "
        "mean likewise; 1 without lag",
        "above 0.8; below 0.5 the rows are too old: a lower max_lag or lr",
    ),
    "eval/return": Metric(
        "reward",
        "mean return of an evaluation's episodes (--eval-every), in the line written after it",
        "near episode/return or above it",
    ),
    "eval/length": Metric("steps", "mean length of these episodes"),
    "eval/episodes": Metric("episodes", "how many they were"),
    "time/environment": Metric(
        "share",
        "share of the workers' time since the line before spent stepping environments, or waiting "
        "for their processes",
    ),
    "time/inference": Metric(
        "share", "the same of the policy that acts: encoding, forward pass, sampling"
    ),
    "time/learn": Metric("share", "the same of updating the policy"),
    "time/wait": Metric(
        "share",
        "the same of waiting for one another: threads without a task, the actor for the learner, "
        "the learner for a rollout; 0 without --async",
        "below 0.2, or 0.5 where actor and learner are side by side",
    ),
    "time/rest": Metric(
        "share",
        "the same of everything else: recording, advantages, logs, checkpoints, Python",
        "below 0.2",
    ),
    "time/bottleneck": Metric(
        "name", "what holds the run up: environment, inference, learner or queue, see below"
    ),
}


class Averages:
    """What was logged since the last line."""

    def __init__(
        self,
        seconds: float,
        steps: int,
        stopwatch: Stopwatch | None = None,
        reading: Reading | None = None,
    ) -> None:
        """`seconds`, `steps`: where the run stands; stopwatch: what the time goes into; reading:
        of it, default: now."""
        self.seconds, self.steps = seconds, steps  # at the last line
        self._stopwatch = stopwatch
        self._reading = stopwatch.read() if stopwatch and reading is None else reading
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
        frames: int | None,
        version: int,
        episodes: EpisodeWindow,
        environment: Mapping[str, float],
        evaluation: Mapping[str, float] | None = None,
    ) -> Line:
        """One line, with the environment's own metrics and those of an evaluation made just now;
        starts to average anew."""
        passed = seconds - self.seconds
        times = self._times(passed)
        line: Line = {
            "steps": steps,
            "frames": frames,
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
            line |= times
        line |= evaluation or {}
        line |= {ENVIRONMENT + name: value for name, value in environment.items()}
        self.seconds, self.steps = seconds, steps
        self._start_line()
        return line

    def _times(self, passed: float) -> Line:
        """What became of the time since the line before."""
        if self._stopwatch is None or self._reading is None:
            return {}
        before, self._reading = self._reading, self._stopwatch.read()
        loop = Passed(passed, self._collect, self._learn)
        shares = self._stopwatch.shares(before, self._reading, loop)
        return {f"time/{name}": value for name, value in shares._asdict().items()}


class MetricsLog(Averages):
    """metrics.jsonl: averages over the updates since the last line, and when the next is due.

    Lines come closer together early in a run, where things change fast: after a fiftieth of
    the time that has passed, but at least 0.02 s and at most 10 s apart.
    """

    def __init__(
        self,
        file: IO[str],
        seconds: float,
        steps: int,
        stopwatch: Stopwatch | None = None,
        loggers: Sequence[Logger] = (),
    ) -> None:
        """Appends to `file`; loggers: get the same lines; the others are those of Averages."""
        super().__init__(seconds, steps, stopwatch)
        self._file, self._loggers = file, loggers
        self._due = seconds + _gap(seconds)

    def due(self, seconds: float) -> bool:
        """Whether a line should be written now, `seconds` into training."""
        return seconds >= self._due

    def write(self, seconds: float, *where: Any) -> Line:
        """Writes one line, arguments as `line` has them, and returns it."""
        line = self.line(seconds, *where)
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        for logger in self._loggers:
            logger.write(line)
        self._due = seconds + _gap(seconds)
        return line


def _gap(seconds: float) -> float:
    return min(max(seconds / 50, 0.02), 10.0)


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
