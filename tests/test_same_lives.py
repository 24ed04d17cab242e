"""A short run of tools/same_lives.py, whose long one is run by hand."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import SyncVectorEnv

import headrace

SCRIPT = Path(__file__).parents[1] / "tools" / "same_lives.py"
SPEC = importlib.util.spec_from_file_location("same_lives", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
TOOL: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)


@pytest.mark.parametrize("executor", TOOL.EXECUTORS)
@pytest.mark.parametrize("mode", TOOL.MODES)
def test_transitions_and_infos_are_gymnasiums(mode: str, executor: str) -> None:
    assert TOOL.compare(mode, executor, 20_000) is None


class Late(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Differs from what it wraps in an info of the third step."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if self.env.get_wrapper_attr("count") == 3:
            info = info | {"late": True}
        return obs, reward, terminated, truncated, info


def test_a_difference_is_told() -> None:
    ours = headrace.make_vec(lambda: Late(TOOL.Telling()), 3, executor="serial")
    with closing(ours), closing(SyncVectorEnv([TOOL.Telling] * 3)) as theirs:
        said = TOOL.first_difference(ours, theirs, 10, seed=1)
    assert said is not None
    assert said.startswith("infos of call 3 are")
