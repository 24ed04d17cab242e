"""The README does what it says: its commands, its example, its environment, its first screen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
sys.path.insert(0, str(ROOT / "tools"))

import check_wheel  # noqa: E402
import readme_command  # noqa: E402
import readme_table  # noqa: E402


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_first_screen() -> None:
    """One sentence, a measured table, install, a runnable example, what it is not."""
    screen = "\n".join(README.splitlines()[:30])
    for part in (readme_table.BEGIN, readme_table.END, "pip install", "```python", "It is not"):
        assert part in screen


def test_commands() -> None:
    assert (
        readme_command.command("install", README) == "pip install -e . && headrace train cartpole"
    )
    assert readme_command.command("test", README) == "pip install -e '.[test]' && pytest"
    with pytest.raises(SystemExit, match="no command that ends in"):
        readme_command.command("test", "pip install headrace")


def test_python_example_runs(tmp_path: Path) -> None:
    (example,) = blocks("python")
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert float(done.stdout) > 0


def test_environment_of_ones_own(tmp_path: Path) -> None:
    """The C file compiles, moves as it says, and trains: staying near 0 beats random walking."""
    (source,) = blocks("c")
    path = tmp_path / "walk.c"
    path.write_text(source)
    envs = headrace.make_vec(path, 2, speed=0.5)
    start = envs.reset(seed=0)[0].copy()
    obs, rewards, *_ = envs.step(np.array([1, 0]))
    np.testing.assert_allclose(obs, start + np.array([[0.5], [-0.5]]), rtol=1e-6)
    np.testing.assert_allclose(rewards, -np.abs(obs[:, 0]), rtol=1e-6)
    envs.close()
    result = headrace.train(path, steps=200_000, seed=1, run_dir=str(tmp_path / "run"))
    assert result.return_mean is not None
    assert result.return_mean > -40  # a random walk over 200 steps comes to about -180


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert [each for each in targets if not (ROOT / each).exists()] == []


def result(name: str, impl: str, threads: int, median: float | None, note: str = "") -> dict:
    return {
        "name": name,
        "env": "cartpole",
        "impl": impl,
        "threads": threads,
        "value": median,
        "median": median,
        "repeats": 7,
        "note": note,
    }


def test_table_is_made_of_the_figures() -> None:
    machine = {"cpu": "Some CPU", "cores": 2}
    env = [
        result("kernel-4096", "headrace kernel", 1, 200e6),
        result("kernel-4096", "headrace kernel", 2, 390e6),
        result("vecenv-4096", "headrace VecEnv (copy=False)", 1, 150e6),
        result("vecenv-copy-4096", "headrace VecEnv (copy=True)", 1, 100e6),
        result("vecenv-1024", "Gymnasium CartPoleVectorEnv", 1, 5e6),
        result("vecenv-16", "Gymnasium SyncVectorEnv", 1, 5e4),
        result("vecenv", "EnvPool", 0, None, "not installed"),
    ]
    train = [
        result("train-64", "headrace", 2, 5.5e6),
        result("train-128", "headrace", 2, 3.25e6),
        result("solve-preset", "headrace", 2, 0.156, "return 475, 10 of 10 seeds"),
    ]
    lines = readme_table.table(
        {"machine": machine, "results": env}, {"machine": machine, "results": train}
    ).splitlines()
    assert "Some CPU, 2 cores" in lines[0]
    assert "| Step: headrace, kernel | 1 | 200 | 40 |" in lines
    assert "| Step: Gymnasium, `SyncVectorEnv` | 1 | 0.05 | 0.01 |" in lines
    assert "| Train: headrace, 1×64 policy | 2 | 5.5 | 1.1 |" in lines
    assert lines[-1].startswith("| **Solved** (return 475), median of 7 seeds | 2 |")
    assert "**0.16 s**" in lines[-1]


def test_environments_are_made_of_the_figures() -> None:
    solved = "return 18, 3 of 3 seeds solved"
    missed = "return 200, 2 of 3 seeds solved"
    found = [
        ("pong", "solve", 0.514, solved),
        ("pong", "solve-steps", 2.5e6, solved),
        ("pong", "greedy", 19.25, solved),
        ("pong", "sampled", 18.5, solved),
        ("lander", "solve", 1.0, missed),
        ("lander", "greedy", 150.0, missed),
        ("lander", "sampled", 140.0, missed),
        ("maze", "train", 4e6, "no target: all the steps of the preset"),
    ]
    results = [
        {"env": env, "name": name, "median": median, "impl": "headrace", "note": note}
        for env, name, median, note in found
    ]
    speeds = {"pong": 30e6, "lander": 5e6, "maze": 4e6, "snake": 1e6}
    kernels = [
        {**result("kernel-4096", "headrace kernel", threads, speed / threads), "env": env}
        for env, speed in speeds.items()
        for threads in (1, 2)
    ]
    machine = {"cpu": "Some CPU", "cores": 2}
    lines = readme_table.environments_table(
        {"machine": machine, "results": results}, {"machine": machine, "results": kernels}
    ).splitlines()
    assert "Some CPU, 2 cores" in lines[0]
    assert lines[2:] == [
        "| lander | C | 5 | 200 | 2 of 3 seeds | - | 150 | 140 |",
        "| maze | Numba | 4 | - | - | - | - | - |",
        "| pong | C | 30 | 18 | 0.51 s | 2.5 M | 19.2 | 18.5 |",
    ]


def test_table_replaces_only_itself() -> None:
    text = f"before\n{readme_table.BEGIN}\nold\n{readme_table.END}\nafter\n"
    new = readme_table.replaced(text, "new")
    assert new == f"before\n{readme_table.BEGIN}\nnew\n{readme_table.END}\nafter\n"
    assert readme_table.replaced(new, "new") == new


def test_wheel_check_sees_what_is_missing() -> None:
    names = sorted(check_wheel.expected())
    names += [f"{stem}.abi3.so" for stem in check_wheel.extensions()]
    names += [f"headrace/envs/_prebuilt/{n}.base.so" for n in check_wheel.environments()]
    names += ["headrace-0.1.0.dist-info/licenses/LICENSE"]
    assert check_wheel.problems(names) == []
    assert "headrace/engine/include/headrace.h" in names
    assert {"headrace/engine/_core.abi3.so", "headrace/trainers/_native.abi3.so"} <= set(names)
    assert check_wheel.problems([n for n in names if not n.endswith("headrace.h")]) == [
        "headrace/engine/include/headrace.h is missing"
    ]
    assert check_wheel.problems([n for n in names if "cartpole.base" not in n]) == [
        "environment cartpole is not prebuilt"
    ]
    assert check_wheel.problems([*names, "engine/vector.py"]) == [
        "engine/vector.py does not belong there"
    ]
