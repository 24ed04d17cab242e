"""Evaluation: fair episodes, repeatable figures, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.engine.errors import HeadraceError
from headrace.trainers import evaluate as module
from headrace.trainers.run import Run, RunError, RunFolderError
from headrace.trainers.seeds import EVALUATION, world_seeds


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("eval") / "run")
    return headrace.train("cartpole", seed=2, steps=60_000, run_dir=folder, normalize_obs=True).run


def test_result_is_repeatable_and_consistent(run):
    first, second = (headrace.evaluate(run, episodes=30, seed=1) for _ in range(2))
    assert first.return_mean == second.return_mean
    assert first.episodes == 30
    assert first.checkpoint == Run.open(run).latest()
    assert first.return_min <= first.return_mean <= first.return_max
    assert first.return_std >= 0
    assert first.length_mean == first.return_mean  # CartPole pays 1 for each step
    assert headrace.evaluate(run, episodes=30, seed=2).return_mean != first.return_mean


def test_threads_do_not_change_the_figures(run):
    results = [headrace.evaluate(run, episodes=20, threads=n) for n in (1, 2)]
    assert results[0].return_mean == results[1].return_mean


def test_sampling_differs_from_greedy(run):
    greedy = headrace.evaluate(run, episodes=20)
    sampled = headrace.evaluate(run, episodes=20, sample=True)
    assert not greedy.sample
    assert sampled.sample
    assert sampled.return_mean != greedy.return_mean
    assert sampled.return_mean == headrace.evaluate(run, episodes=20, sample=True).return_mean


def test_more_episodes_than_environments_takes_the_first_of_each(run, monkeypatch):
    """With 4 environments, 10 episodes are the first two of each and a third of two of them."""
    monkeypatch.setattr(module, "MAX_ENVS", 4)
    ten = headrace.evaluate(run, episodes=10)
    twelve = headrace.evaluate(run, episodes=12)
    four = headrace.evaluate(run, episodes=4)
    assert ten.episodes == 10
    total = 12 * twelve.return_mean
    assert 10 * ten.return_mean <= total
    assert 4 * four.return_mean <= 10 * ten.return_mean


def test_episodes_are_those_of_a_plain_loop(run):
    """The same environments, stepped by hand with the policy's arithmetic in NumPy."""
    tensors = Run.open(run).load_policy(Run.open(run).latest())
    vec = headrace.make_vec("cartpole", 8, autoreset_mode="SameStep")
    obs, _ = vec.reset(seed=world_seeds(3, 8, EVALUATION))
    lengths, over = np.zeros(8), np.zeros(8, bool)
    while not over.all():
        obs, _, terminated, truncated, _ = vec.step(naive_actions(tensors, obs))
        lengths += ~over
        over |= terminated | truncated
    vec.close()
    result = headrace.evaluate(run, episodes=8, seed=3)
    assert result.length_mean == lengths.mean()
    assert result.return_min == lengths.min()


def naive_actions(tensors, obs):
    """The likeliest of two actions, by the policy's definition: normalise, MLP with tanh."""
    x = np.clip((obs - tensors["obs.mean"]) * tensors["obs.scale"], -10, 10)
    layer = 0
    while f"trunk.{layer}.weight" in tensors:
        x = np.tanh(x @ tensors[f"trunk.{layer}.weight"].T + tensors[f"trunk.{layer}.bias"])
        layer += 1
    return (x @ tensors["policy.weight"].T + tensors["policy.bias"]).argmax(1)


def test_endless_episodes_are_refused(tmp_path, point, monkeypatch):
    monkeypatch.setattr(module, "MAX_STEPS", 200)
    folder = str(tmp_path / "run")
    headrace.train(point, steps=5000, run_dir=folder, params={"speed": 0.0, "max_steps": 0})
    with pytest.raises(HeadraceError, match="not ended after 200 steps"):
        headrace.evaluate(folder, episodes=3)


ENDLESS = """
import gymnasium, numpy as np

class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    reward = {reward}

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        return np.zeros(2, np.float32), self.reward, False, False, {{}}
"""


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ("1.0", r"give the environment a time limit \(--params max_steps=N, or the wrapper Time"),
        ("float('nan')", "environment 'Endless': the reward of row 0 is nan"),
    ],
)
def test_faults_of_python_environments_are_named(tmp_path, monkeypatch, reward, said):
    monkeypatch.setattr(module, "MAX_STEPS", 200)
    file = tmp_path / "endless.py"
    file.write_text(ENDLESS.format(reward="1.0"))
    folder = str(tmp_path / "run")
    headrace.train(f"{file}:Endless", steps=8, num_envs=2, horizon=4, run_dir=folder)
    file.write_text(ENDLESS.format(reward=reward))
    with pytest.raises(HeadraceError, match=said):
        headrace.evaluate(folder, episodes=2, env=f"{file}:Endless")


def test_missing_run_and_checkpoint_are_named(run):
    with pytest.raises(RunFolderError, match="nowhere is no run"):
        headrace.evaluate("nowhere")
    with pytest.raises(RunFolderError, match="has no checkpoint 7; there are: "):
        headrace.evaluate(run, checkpoint=7)


def test_weights_of_another_shape_are_refused(run):
    folder = Run.open(run)
    tensors = folder.load_policy(folder.latest())
    for step, name in enumerate(tensors):
        folder.save(step, {**tensors, name: np.zeros((3, 3), np.float32)}, {}, keep=99)
        with pytest.raises(RunError, match=rf"{name}' is float32 \[3, 3\], expected"):
            headrace.evaluate(run, checkpoint=step)


WORLDS = Path(__file__).parent / "worlds"


def test_agents_that_left_are_told_of_the_end(tmp_path):
    """Ten steps of 1 for the one, three of 2 for the other, which is away when the world ends."""
    run = headrace.train(
        str(WORLDS / "leave.c"), run_dir=str(tmp_path / "r"), steps=1000, num_envs=64, horizon=8
    ).run
    result = headrace.evaluate(run, episodes=8)
    assert (result.episodes, result.return_min, result.return_max) == (8, 6.0, 10.0)
    assert (result.return_mean, result.length_mean) == (8.0, 6.5)


def test_rewards_of_agents_that_are_away_count(tmp_path):
    run = headrace.train(
        str(WORLDS / "turns.c"), run_dir=str(tmp_path / "r"), steps=1000, num_envs=64, horizon=8
    ).run
    result = headrace.evaluate(run, episodes=8)
    assert (result.return_min, result.return_max, result.length_mean) == (-1.0, 1.0, 2.0)
