"""Writes the README's tables of measurements from bench/results: never typed by hand.

headrace bench env --out bench/results/env.json
headrace bench train --out bench/results/train.json
python tools/train_table.py
python tools/readme_table.py            # --check only compares
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results"
BEGIN = "<!-- measured: written by tools/readme_table.py -->"
END = "<!-- end of measured -->"
BEGIN_ENVIRONMENTS = "<!-- environments: written by tools/readme_table.py -->"
END_ENVIRONMENTS = "<!-- end of environments -->"

Key = tuple[str, str, int]  # name, impl, threads
YARDSTICK: Key = ("vecenv-1024", "Gymnasium CartPoleVectorEnv", 1)
STEPPING: list[tuple[str, Key]] = [
    ("Step: headrace, kernel", ("kernel-4096", "headrace kernel", 1)),
    ("Step: headrace, `copy=False`", ("vecenv-4096", "headrace VecEnv (copy=False)", 1)),
    ("Step: headrace, `copy=True`", ("vecenv-copy-4096", "headrace VecEnv (copy=True)", 1)),
    ("Step: Gymnasium, NumPy `CartPoleVectorEnv`", YARDSTICK),
    ("Step: Gymnasium, `SyncVectorEnv`", ("vecenv-16", "Gymnasium SyncVectorEnv", 1)),
]
TRAINING = [("Train: headrace, 1×64 policy", "train-64"), ("Train: headrace, 1×128", "train-128")]


def load(name: str) -> dict[str, Any]:
    """The document of a benchmark; SystemExit in one sentence when it has not been run."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        where = path.relative_to(ROOT)
        command = f"headrace bench {name} --out {where}"
        if name == "environments":
            command = "python tools/train_table.py"
        raise SystemExit(f"{where} is missing: run `{command}`")
    contents: dict[str, Any] = json.loads(path.read_text())
    return contents


def figures(document: dict[str, Any]) -> dict[Key, dict[str, Any]]:
    """Results by (name, impl, threads), those that could be measured."""
    return {
        (each["name"], each["impl"], each["threads"]): each
        for each in document["results"]
        if each["value"] is not None
    }


def table(env: dict[str, Any], train: dict[str, Any]) -> str:
    """The table in Markdown: millions of steps per second, threads, and the ratio to Gymnasium."""
    stepping, training = figures(env), figures(train)
    rows = [(text, stepping[key]) for text, key in STEPPING]
    for text, name in TRAINING:
        rows += [(text, each) for key, each in training.items() if key[0] == name]
    yardstick = stepping[YARDSTICK]["median"]
    machine = env["machine"]
    lines = [
        f"| CartPole on {machine['cpu']}, {machine['cores']} cores | threads | M steps/s | × |",
        "|---|--:|--:|--:|",
    ]
    for text, each in rows:
        million, ratio = each["median"] / 1e6, each["median"] / yardstick
        lines.append(f"| {text} | {each['threads']} | {million:.3g} | {ratio:.2g} |")
    solved = next(each for key, each in training.items() if key[0] == "solve-preset")
    lines.append(
        f"| **Solved** ({solved['note'].split(',')[0]}), median of {solved['repeats']} seeds "
        f"| {solved['threads']} | | **{solved['median']:.2g} s** |"
    )
    return "\n".join(lines)


def environments_table(document: dict[str, Any]) -> str:
    """The table in Markdown: one environment a line, medians over seeds."""
    machine = document["machine"]
    by_env: dict[str, dict[str, dict[str, Any]]] = {}
    for each in document["results"]:
        by_env.setdefault(each["env"], {})[each["name"]] = each
    lines = [
        f"| on {machine['cpu']}, {machine['cores']} cores | written in | M steps/s, 1 core "
        "| target | reached after | steps | greedy | sampled |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [environment_row(name, by_env[name]) for name in sorted(by_env)]
    return "\n".join(lines)


def environment_row(name: str, figure: dict[str, dict[str, Any]]) -> str:
    """One environment of the table; a dash for what it does not have."""
    cells = [name, next(iter(figure.values()))["impl"]]
    cells.append(f"{figure['step']['median'] / 1e6:.3g}" if "step" in figure else "-")
    if "solve" not in figure:
        return f"| {' | '.join([*cells, '-', '-', '-', '-', '-'])} |"
    target, _, seeds = figure["solve"]["note"].partition(", ")
    solved, trained = (int(word) for word in seeds.split() if word.isdigit())
    cells.append(target.removeprefix("return "))
    if solved < trained:
        cells.append(f"{solved} of {trained} seeds")
    else:
        cells.append(f"{figure['solve']['median']:.2g} s")
    steps = figure.get("solve-steps")
    cells.append(f"{steps['median'] / 1e6:.2g} M" if steps else "-")
    cells += [f"{figure[kind]['median']:.3g}" for kind in ("greedy", "sampled")]
    return f"| {' | '.join(cells)} |"


def replaced(text: str, new: str, begin: str = BEGIN, end: str = END) -> str:
    """The README with the table between its marks replaced."""
    head, rest = text.split(begin, 1)
    tail = rest.split(end, 1)[1]
    return f"{head}{begin}\n{new}\n{end}{tail}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when the README is out of date")
    check = parser.parse_args().check
    text = README.read_text()
    new = replaced(text, table(load("env"), load("train")))
    environments = environments_table(load("environments"))
    new = replaced(new, environments, BEGIN_ENVIRONMENTS, END_ENVIRONMENTS)
    if check:
        return int(new != text)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
