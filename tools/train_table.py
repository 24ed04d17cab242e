"""Trains every preset to its target over seeds 1 to 3 and writes bench/results/environments.json.

python tools/train_table.py                     # every shipped environment, on a quiet machine
python tools/train_table.py pong snake --seeds 10 --out pong-snake.json

For each environment: how fast it steps (random actions, one thread), and where its preset has a
target, how long training takes to reach it, how many steps that is, and what the agent then
returns over 100 episodes in environments it has not trained in: choosing the likeliest action
(`greedy`), and drawing its actions as it did while it was trained (`sampled`).
`tools/readme_table.py` makes the README's table of environments of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import headrace
from headrace.bench import machine, results
from headrace.bench.results import Result
from headrace.bench.timing import Spread
from headrace.engine.cpus import available_cpus
from headrace.engine.registration import registered
from headrace.explain import explain

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench" / "results" / "environments.json"
EPISODES = 100  # of an evaluation


@dataclasses.dataclass(frozen=True)
class Trained:
    """One training of a preset, and the evaluation of its agent."""

    seed: int
    seconds: float  # until the target, or of the whole training
    steps: int  # likewise
    speed: float  # steps per second while training
    solved: bool
    greedy: float  # mean return
    sampled: float  # mean return


def trained(env: str, seed: int) -> Trained:
    """Trains by the preset in a folder that is gone afterwards, and evaluates."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        done = headrace.train(env, seed=seed, run_dir=run)
        greedy, sampled = (
            headrace.evaluate(run, episodes=EPISODES, sample=sample).return_mean
            for sample in (False, True)
        )
    seconds = done.seconds if done.solved_seconds is None else done.solved_seconds
    return Trained(seed, seconds, done.steps, done.sps, done.solved, greedy, sampled)


def measured(env: str, seeds: Sequence[int]) -> Iterator[Result]:
    """The figures of one environment."""
    about = explain(env)
    speed = about["steps_per_second"]
    if speed is not None:
        spread = Spread.of([speed])
        yield Result.measured("step", about["language"], env, 1, spread, "steps/s")
    if about["target"] is None:
        return
    runs = [trained(env, seed) for seed in seeds]
    solved = [each for each in runs if each.solved]
    threads = available_cpus()
    note = f"return {about['target']:g}, {len(solved)} of {len(runs)} seeds solved"
    figures = {
        "train": ("steps/s", [each.speed for each in runs]),
        "greedy": ("return", [each.greedy for each in runs]),
        "sampled": ("return", [each.sampled for each in runs]),
    }
    if solved:
        figures["solve"] = ("s", [each.seconds for each in solved])
        figures["solve-steps"] = ("steps", [float(each.steps) for each in solved])
    else:
        yield Result.missing("solve", about["language"], env, "s", note)
    for name, (unit, values) in figures.items():
        spread = Spread.of(values)
        yield Result.measured(name, about["language"], env, threads, spread, unit, note)


def parsed(argv: list[str]) -> argparse.Namespace:
    shipped = [name for name, known in registered().items() if known.shipped]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="environments (default: all)")
    parser.add_argument("--seeds", type=int, default=3, help="trained with seeds 1 .. SEEDS")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures are written")
    given = parser.parse_args(argv)
    for name in given.names:
        if name not in shipped:
            parser.error(f"{name} does not ship; there are {', '.join(shipped)}")
    if given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}: expected at least 1")
    given.names = given.names or shipped
    return given


def main(argv: list[str]) -> int:
    given = parsed(argv)
    here = machine.describe([])
    here["command"] = shlex.join(["python", "tools/train_table.py", *argv])
    found: list[Result] = []
    for name in given.names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found.extend(measured(name, range(1, given.seeds + 1)))
    results.save(given.out, results.document(here, found))
    named = [dataclasses.replace(each, name=f"{each.env}: {each.name}") for each in found]
    results.print_report("Environments", here, named, [])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
