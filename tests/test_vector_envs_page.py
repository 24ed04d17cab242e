"""The snippets of docs/vector-envs.md run as they stand, with what they leave to the reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import headrace
from headrace.engine.snapshot import Snapshot

PAGE = Path(__file__).parents[1] / "docs" / "vector-envs.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


class MyEnv(gymnasium.Env):
    """The least that is an environment."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, False, {}


def prepared(block: str) -> list[str]:
    """The lines that can run here: one turn of an endless loop, cartpole for the reader's file."""
    text = block.replace('"my_env.c", 256', '"cartpole", 256')
    text = text.replace("while True:", "for _ in range(3):")
    return text.splitlines()


@pytest.mark.parametrize("at", range(len(BLOCKS)))
def test_the_snippet_runs(at: int) -> None:
    made: list[Any] = []

    class Making:
        """headrace, which keeps what it made, made small and without processes."""

        @staticmethod
        def make_vec(env: Any, rows: int, **settings: Any) -> Any:
            if env == "my_env.py:MyEnv":
                env = f"{__file__}:MyEnv"
            if "LunarLander" in str(env):
                env = "gymnasium:CartPole-v1"
            if "pettingzoo" in str(env):
                pytest.importorskip("pettingzoo")
            python = not isinstance(env, str) or ":" in env
            settings.pop("workers", None)
            if python:
                settings["executor"] = "serial"
            made.append(headrace.make_vec(env, rows, **settings))
            return made[-1]

    vec = headrace.make_vec("cartpole", 1024)
    vec.reset(seed=0)
    names = {
        "headrace": Making, "np": np, "Snapshot": Snapshot, "MyEnv": MyEnv, "make_easy": MyEnv,
        "make_hard": MyEnv, "vec": vec, "policy": lambda obs: np.zeros(len(obs), np.int64),
    }  # fmt: skip
    lines = prepared(BLOCKS[at])
    source = "\n".join("" if line == "import headrace" else line for line in lines)
    exec(compile(source, f"{PAGE.name}, snippet {at}", "exec"), names)
    for each in (vec, *made):
        each.close()


def test_there_are_snippets() -> None:
    assert len(BLOCKS) >= 4
