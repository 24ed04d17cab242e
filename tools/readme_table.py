"""The README's tables of measurements; tools/measured_pages.py writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results"
BEGIN = "<!-- measured: written by tools/measured_pages.py -->"
END = "<!-- end of measured -->"
BEGIN_ENVIRONMENTS = "<!-- environments: written by tools/measured_pages.py -->"
END_ENVIRONMENTS = "<!-- end of environments -->"

Key = tuple[str, str, int]  # name, impl, threads
KERNEL: Key = ("kernel-4096", "headrace kernel", 1)
LANGUAGES = {"c": "C", "pyx": "Cython", "py": "Numba"}  # by suffix
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
        if name == "presets":
            command = f"headrace bench train --envs all --seeds 3 --out {where}"
        raise SystemExit(f"{where} is missing: run `{command}`")
    contents: dict[str, Any] = json.loads(path.read_text())
    return contents


def figures(document: dict[str, Any]) -> dict[Key, dict[str, Any]]:
    """Results by (name, impl, threads), those that could be measured."""
    return {
        (each["name"], each["impl"], each["threads"]): each
        for each in document["results"]
        if each["value"] is not None and each["env"] in ("cartpole", "")
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
    seeds = solved["repeats"] + solved.get("missed", 0)
    lines.append(
        f"| **Solved** ({solved['note'].split(',')[0]}), median of {seeds} seeds "
        f"| {solved['threads']} | | **{solved['median']:.2g} s** |"
    )
    return "\n".join(lines)


def environments_table(presets: dict[str, Any], env: dict[str, Any]) -> str:
    """The table in Markdown: one environment a line, medians over seeds."""
    machine = presets["machine"]
    by_env: dict[str, dict[str, dict[str, Any]]] = {}
    for each in presets["results"]:
        by_env.setdefault(each["env"], {})[each["name"]] = each
    for each in env["results"]:
        if (each["name"], each["impl"], each["threads"]) == KERNEL and each["env"] in by_env:
            by_env[each["env"]]["step"] = each
    lines = [
        f"| on {machine['cpu']}, {machine['cores']} cores | written in | M steps/s, 1 core "
        "| target | reached after | steps | greedy | sampled |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [environment_row(name, by_env[name]) for name in sorted(by_env)]
    return "\n".join(lines)


def environment_row(name: str, figure: dict[str, dict[str, Any]]) -> str:
    """One environment of the table; a dash for what it does not have."""
    cells = [name, language(name)]
    cells.append(f"{figure['step']['median'] / 1e6:.3g}" if "step" in figure else "-")
    if "solve" in figure:
        target, _, seeds = figure["solve"]["note"].partition(", ")
        solved, trained = (int(word) for word in seeds.split() if word.isdigit())
        cells.append(target.removeprefix("return "))
        after = f"{solved} of {trained} seeds"
        cells.append(after if solved < trained else f"{figure['solve']['median']:.2g} s")
    else:
        cells += ["-", "-"]
    steps = figure.get("solve-steps")
    taken = steps["median"] if steps else None
    cells.append("-" if taken is None else f"{taken / 1e6:.2g} M")
    for kind in ("greedy", "sampled"):
        cells.append(f"{figure[kind]['median']:.3g}" if kind in figure else "-")
    return f"| {' | '.join(cells)} |"


def language(env: str) -> str:
    """What a shipped environment is written in."""
    for suffix, name in LANGUAGES.items():
        if (ROOT / "envs" / f"{env}.{suffix}").exists():
            return name
    return "-"


def replaced(text: str, new: str, begin: str = BEGIN, end: str = END) -> str:
    """The README with the table between its marks replaced."""
    head, rest = text.split(begin, 1)
    tail = rest.split(end, 1)[1]
    return f"{head}{begin}\n{new}\n{end}{tail}"


def page(text: str) -> str:
    """The README with its tables made anew."""
    env = load("env")
    text = replaced(text, table(env, load("train")))
    made = environments_table(load("presets"), env)
    return replaced(text, made, BEGIN_ENVIRONMENTS, END_ENVIRONMENTS)
