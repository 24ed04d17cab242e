"""Native batches of tests/engine/core/drift.c for the tests of the core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from naive_vec import NaiveVec

from headrace.engine import _core, compile
from headrace.engine.buffers import Buffers
from headrace.engine.spec import EnvSpec

SOURCE = Path(__file__).parent / "core" / "drift.c"


def library(**sizes: int) -> _core.Library:
    """drift.c, compiled with these sizes."""
    return _core.Library(compile.build(SOURCE, defines=sizes))


class Batch:
    """A native batch with its arrays, reset with the seeds 0 .. worlds-1."""

    def __init__(self, worlds: int, *, mode: int = 0, max_steps: int = 0, **sizes: int) -> None:
        self.library = library(**sizes)
        self.spec = EnvSpec.from_library(self.library)
        self.buffers = Buffers(self.spec, worlds)
        self.arrays = self.buffers.arrays
        self.core = _core.Vec(
            self.library, worlds, arrays=self.arrays, autoreset=mode, max_steps=max_steps
        )
        self.seeds = np.arange(worlds, dtype=np.uint64)
        self.core.reset(self.seeds)

    def twin(self, mode: int, max_steps: int, **kwargs: Any) -> NaiveVec:
        """The naive batch that must stay equal to this one."""
        return NaiveVec(self.seeds.tolist(), mode=mode, max_steps=max_steps, **kwargs)

    def act(self, rng: np.random.Generator) -> np.ndarray:
        """Writes random actions; returns them, [rows]."""
        actions = rng.integers(0, 3, len(self.arrays["rewards"]), dtype=np.int32)
        self.buffers.actions[:] = actions
        return actions

    def assert_equals(self, naive: NaiveVec) -> None:
        """Every array of the batch against the naive one."""
        for name, expected in naive.arrays().items():
            ours = self.buffers.obs if name == "obs" else self.arrays[name]
            np.testing.assert_array_equal(ours, expected, err_msg=name)
        rows, final = naive.final_obs()
        np.testing.assert_array_equal(self.buffers.final_obs[rows], final)
