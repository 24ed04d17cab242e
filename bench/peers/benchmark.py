"""`headrace bench peers`: its flags, and the ratios that matter."""

from __future__ import annotations

import dataclasses
import difflib

from ...flags import UsageError
from ...trainers.settings import setting
from ..benchmark import Announce, Benchmark, RepeatFlags, Report
from ..results import Ratio, Result
from . import ours
from .comparing import compare
from .drivers.protocol import SOLVE, STEP, TRAIN_128, TRAIN_128_4, TRAIN_TWO
from .installing import tell
from .table import NAMES, OURS


@dataclasses.dataclass(frozen=True)
class PeersFlags(RepeatFlags):
    """The flags of `headrace bench peers`."""

    repeats: int = setting(5, "how often everything is measured", low=5, high=1000)
    seeds: int = setting(5, "how many seeds the time to solve is taken over", low=1, high=1000)
    only: str | None = setting(None, f"some of them, joined by commas: {','.join(NAMES)}")
    reinstall: bool = setting(False, "make the peers' virtual environments anew")


def chosen(only: str | None) -> list[str]:
    """The names that were asked for, headrace always; UsageError for one that there is not."""
    wanted = [name.strip() for name in (only or ",".join(NAMES)).split(",")]
    for name in wanted:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
            raise UsageError(f"--only: unknown peer {name!r}; {hint}")
    return [name for name in NAMES if name in wanted or name == OURS]


def ratios(results: list[Result]) -> list[Ratio]:
    """headrace against each peer in each group: above 1 it is faster."""
    found = []
    groups = (
        (STEP, ours.KERNEL, "stepping, kernel: the speed of"),
        (STEP, ours.VECENV, "stepping, VecEnv.step: the speed of"),
        (TRAIN_128, ours.TRAINING_OURS, "training, 1×128, 1 epoch: the speed of"),
        (TRAIN_128_4, ours.TRAINING_OURS, "training, 1×128, 4 epochs: the speed of"),
        (TRAIN_TWO, ours.TRAINING_OURS, "training, two 64×64, 4 epochs: the speed of"),
        (SOLVE, ours.TRAINING_OURS, "time to solve: faster than"),
    )
    mine = (ours.KERNEL, ours.VECENV, ours.TRAINING_OURS)
    for group, impl, sentence in groups:
        figures = {each.impl: each for each in results if each.name == group and each.value}
        own = figures.get(impl)
        for other, figure in figures.items():
            if own is not None and other not in mine:
                factor = figure.over(own) if group == SOLVE else own.over(figure)
                found.append((f"{sentence} {other}", factor))
    return found


def _report(flags: PeersFlags, announce: Announce) -> Report:
    found = compare(
        chosen(flags.only),
        rounds=flags.repeats,
        seconds=0.2 if flags.quick else 0.8,
        seeds=min(flags.seeds, 2) if flags.quick else flags.seeds,
        again=flags.reinstall,
        tell=tell,
        announce=announce,
    )
    return Report("CartPole: headrace and its peers, each at its best", found, ratios(found))


BENCHMARK = Benchmark(
    "peers",
    "Measures headrace beside Gymnasium, EnvPool, Stable-Baselines3, PufferLib and PureJaxRL-style "
    "training on gymnax, on CartPole: stepping, training the same policy, and the time to solve "
    "it. Each peer is installed into a virtual environment of its own, once, and measured at the "
    "fastest of several settings.",
    PeersFlags,
    "headrace bench peers --out bench/results/peers.json",
    _report,
)
