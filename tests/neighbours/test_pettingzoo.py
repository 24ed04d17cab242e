"""PettingZoo: our multi-agent environments as its parallel ones, and its environments in ours."""

from __future__ import annotations

import numpy as np
import pytest

import headrace
from headrace.engine.adapters import to_parallel

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")


@pytest.mark.parametrize("name", ["foraging", "connect4"])
def test_ours_passes_its_test(name: str) -> None:
    from pettingzoo.test import parallel_api_test

    env = to_parallel(name)
    parallel_api_test(env, num_cycles=300)
    env.close()


def test_rows_are_agents() -> None:
    env = to_parallel("foraging")
    vec = headrace.make_vec("foraging", 4, autoreset_mode="Disabled")
    by_name, _ = env.reset(seed=3)
    obs, _ = vec.reset(seed=3)
    assert list(by_name) == ["agent_0", "agent_1", "agent_2", "agent_3"]
    for _ in range(10):
        for row, agent in enumerate(env.possible_agents):
            if agent in by_name:
                assert np.array_equal(by_name[agent], obs[row])
        actions = vec.action_space.sample()
        by_name, rewards, *_ = env.step(
            {agent: actions[row] for row, agent in enumerate(env.possible_agents)
             if agent in env.agents}
        )  # fmt: skip
        obs, expected, *_ = vec.step(actions)
        assert [rewards[agent] for agent in rewards] == expected[: len(rewards)].tolist()
    env.close()
    vec.close()


def test_python_environments_need_no_adapter() -> None:
    with pytest.raises(ValueError, match="written in Python"):
        to_parallel("pettingzoo:butterfly.pistonball_v6")


def test_unknown_modules_are_named() -> None:
    with pytest.raises(ValueError, match=r"'pettingzoo:no\.such' is no module"):
        headrace.make_vec("pettingzoo:no.such", 2)
