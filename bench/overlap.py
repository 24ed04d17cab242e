"""`headrace bench overlap`: what asynchrony costs where environments never wait.

Native environments and policies: collecting and learning share one pool of threads either way,
so that there is nothing to win; here is what is lost.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from ..engine.cpus import available_cpus
from ..trainers.train import train
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .results import Ratio, Result
from .timing import Spread

ENVS = ("cartpole", "pong")
WAYS = {"sync": False, "async": True}
HEADRACE = "headrace"


@dataclasses.dataclass(frozen=True)
class OverlapFlags(RepeatFlags):
    """The flags of `headrace bench overlap`."""


def run(*, rounds: int, steps: int, announce: Announce) -> list[Result]:
    """Every preset `rounds` times both ways, in turn, for `steps` steps without a target."""
    speeds: dict[tuple[str, str], list[float]] = {}
    done, total = 0, (rounds + 1) * len(ENVS) * len(WAYS)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):  # the first only warms up
            for env in ENVS:
                for way, asynchronous in WAYS.items():
                    speed = _speed(Path(folder), env, steps, number, asynchronous)
                    if number:
                        speeds.setdefault((env, way), []).append(speed)
                    done += 1
                    announce(done, total)
    note = f"{steps:,} steps of the preset, 1 update of lag at most where asynchronous"
    threads = available_cpus()
    return [
        Result.measured(f"{env}-{way}", HEADRACE, env, threads, Spread.of(s), "steps/s", note)
        for (env, way), s in speeds.items()
    ]


def _speed(folder: Path, env: str, steps: int, seed: int, asynchronous: bool) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as run_dir:
        path = str(Path(run_dir) / "run")
        return train(
            env, seed=seed, steps=steps, target=None, run_dir=path, async_=asynchronous
        ).sps


def ratios(results: list[Result]) -> list[Ratio]:
    """Asynchronous against synchronous."""
    figure = {each.name: each for each in results}
    return [
        (
            f"{env}: the synchronous speed, by --async",
            figure[f"{env}-async"].over(figure[f"{env}-sync"]),
        )
        for env in ENVS
    ]


def report(flags: OverlapFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    found = run(
        rounds=flags.repeats, steps=400_000 if flags.quick else 4_000_000, announce=announce
    )
    return Report("Asynchronous training where nothing waits", found, ratios(found))


BENCHMARK = Benchmark(
    "overlap",
    "Measures what asynchrony costs where environments never wait: CartPole and pong with native "
    "policies, synchronous and asynchronous, in turn.",
    OverlapFlags,
    "headrace bench overlap --out bench/results/overlap.json",
    report,
)
