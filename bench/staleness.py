"""`headrace bench staleness`: what old weights cost, by lag and by correction.

Every run has the same number of samples. The schedule is fixed (--deterministic), so that each
rollout is collected by weights exactly `lag` updates older than those that learn from it.
"""

from __future__ import annotations

import dataclasses

from ..engine.cpus import available_cpus
from ..trainers.settings import setting
from .benchmark import Announce, Benchmark, Flags, Report
from .results import Ratio, Result
from .runs import trained
from .spread import Spread

LAGS = (0, 1, 4, 16)
CORRECTIONS = ("none", "clip", "vtrace", "decoupled")
STEPS = {"cartpole": 1_000_000, "acrobot": 500_000}  # the outcome depends on it: docs/async.md
HEADRACE = "headrace"


@dataclasses.dataclass(frozen=True)
class StalenessFlags(Flags):
    """The flags of `headrace bench staleness`."""

    quick: bool = setting(False, "a tenth of the steps and one seed: no figures, a trial")
    seeds: int = setting(5, "how many seeds each cell is taken over", low=1, high=1000)


def run(*, seeds: int, share: float, announce: Announce) -> list[Result]:
    """Return at the end of training, over seeds 1 .. seeds; share: of the usual steps."""
    found: list[Result] = []
    total = len(STEPS) * seeds * (1 + (len(LAGS) - 1) * len(CORRECTIONS))
    done = 0
    for env, usual in STEPS.items():
        steps = int(usual * share)
        for lag in LAGS:
            runs: list[float] = []
            for correction in CORRECTIONS:
                if lag > 0 or not runs:  # without lag all corrections are the same
                    runs = []
                    for seed in range(1, seeds + 1):
                        runs.append(_score(env, steps, lag, correction, seed))
                        done += 1
                        announce(done, total)
                found.append(_result(env, steps, lag, correction, runs))
    return found


def _score(env: str, steps: int, lag: int, correction: str, seed: int) -> float:
    """Mean return of the last 100 episodes after `steps` steps."""
    result = trained(
        env,
        seed=seed,
        steps=steps,
        target=None,
        async_=True,
        max_lag=lag,
        deterministic=True,
        correction=correction,
    )
    if result.return_mean is None:
        raise RuntimeError(f"no episode of {env} finished in {steps} steps")
    return result.return_mean


def _result(env: str, steps: int, lag: int, correction: str, scores: list[float]) -> Result:
    note = f"mean of the last 100 episodes after {steps:,} steps, over {len(scores)} seeds"
    if lag == 0:
        note += "; without lag all corrections are one and the same, measured once"
    name = f"{env}-lag{lag}-{correction}"
    return Result.measured(name, HEADRACE, env, available_cpus(), Spread.of(scores), "return", note)


def ratios(results: list[Result]) -> list[Ratio]:
    """The share of the synchronous score that the best correction keeps at each lag.

    Returns below 0 are counted from the worst in the table."""
    found = []
    for env in STEPS:
        figure = {each.name: each for each in results if each.env == env}
        floor = min(0.0, *(score for each in figure.values() for score in each.samples))
        synchronous = _above(floor, figure[f"{env}-lag0-clip"])
        for lag in LAGS[1:] if synchronous.min > 0 else ():
            best = max(CORRECTIONS, key=lambda c: figure[f"{env}-lag{lag}-{c}"].value or floor)
            kept = _above(floor, figure[f"{env}-lag{lag}-{best}"]).over(synchronous)
            found.append((f"of the synchronous return on {env} at lag {lag}, by {best}", kept))
    return found


def _above(floor: float, figure: Result) -> Spread:
    return Spread(figure.samples).map(lambda score: score - floor)


def report(flags: StalenessFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    found = run(
        seeds=1 if flags.quick else flags.seeds,
        share=0.1 if flags.quick else 1.0,
        announce=announce,
    )
    return Report("Return by lag and correction", found, ratios(found))


BENCHMARK = Benchmark(
    "staleness",
    "Measures what old weights cost: return at equal samples for lags of 0, 1, 4 and 16 "
    "updates and each correction, on CartPole and Acrobot.",
    StalenessFlags,
    "headrace bench staleness --out bench/results/staleness.json",
    report,
)
