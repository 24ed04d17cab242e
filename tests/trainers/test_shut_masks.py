"""A mask that allows nothing is named where an agent plays, as it is where one trains."""

from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import headrace
from headrace.trainers.agent import AgentConfig, load_agent
from headrace.trainers.rollout import MaskError, check_masks

SHUT = str(Path(__file__).parent / "worlds" / "shut.c")


@pytest.fixture
def shut(tmp_path):
    """A run whose environment allows nothing at step 3 of its episodes, since it was trained."""
    folder = tmp_path / "r"
    headrace.train(SHUT, steps=1, horizon=2, target=None, run_dir=str(folder))
    config = folder / "config.toml"
    assert "shut = -1" not in config.read_text()
    config.write_text(config.read_text().replace("[params]\n", "[params]\nshut = 3\n"))
    return str(folder)


@pytest.mark.parametrize("sample", [False, True])
def test_evaluating_names_row_and_step(shut, sample):
    with pytest.raises(MaskError, match="'shut': the action mask of row 0 allows no action at st"):
        headrace.evaluate(shut, sample=sample)


def test_so_does_playing_as_in_a_video_or_in_the_terminal(shut):
    agent = load_agent(AgentConfig(shut), 2, autoreset_mode="NextStep")
    with closing(agent.vec) as vec:
        for step in range(3):
            vec.step(agent.player.act_in(vec, step=step))
        with pytest.raises(MaskError, match="mask of row 0 allows no action at step 3"):
            agent.player.act_in(vec, step=3)
        vec.buffers.arrays["pending"][:] = True  # the next step only resets: no action counts
        agent.player.act_in(vec, step=3)


def test_only_agents_that_act_count_and_every_element_must_allow_something():
    spec = headrace.make_vec(str(Path(SHUT).with_name("pick.c")), 64).spec_
    mask = np.ones((4, spec.mask_size), np.bool_)
    mask[2, 3:7] = False  # the first finger
    there = np.array([True, True, False, True])
    check_masks(spec, mask, there, 5)
    with pytest.raises(MaskError, match="row 2 allows no action at step 5"):
        check_masks(spec, mask, np.bool_(True), 5)


class Short(gymnasium.Env):
    """Episodes of two steps in Python; a step takes no action of its own kind after the end."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.ones(2, np.float32), 1.0, self.steps == 2, False, {}


def test_rows_of_python_environments_that_will_be_reset_remember_what_they_did(tmp_path):
    run = headrace.train(
        Short, steps=1, horizon=2, num_envs=3, target=None, memory="mingru",
        run_dir=str(tmp_path / "r"),
    ).run  # fmt: skip
    agent = load_agent(AgentConfig(run), 3, autoreset_mode="NextStep", source=Short)
    with closing(agent.vec) as vec:
        for step in range(4):
            before = agent.player._state.copy()
            _, _, terminated, _, _ = vec.step(agent.player.act_in(vec, step=step))
            assert np.all(terminated) == (step == 1)
            changed = (agent.player._state != before).any(1)
            assert np.all(changed == (step != 2))  # where the step only resets
