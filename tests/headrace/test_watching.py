"""Agents that remember are told of the ends of episodes where they are watched, in videos and in
the terminal; evaluations have tests of their own."""

from contextlib import closing

import numpy as np
import pytest

import headrace
from headrace.cli_play import PlayFlags, Watched
from headrace.recording import watch
from headrace.trainers.agent import load_agent
from headrace.trainers.evaluate import EvalConfig

LENGTH = 5  # of every episode


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("watching") / "run")
    settings = {"memory": "mingru", "hidden": (8, 8), "steps": 1, "horizon": 4, "target": None}
    headrace.train("cartpole", run_dir=folder, params={"max_steps": LENGTH}, **settings)
    return folder


def spied(vec, player):
    """Notes, whenever the agent acts in a running episode: the step of the episode, and whether
    anything is remembered."""
    noted, act_in = [], player.act_in
    arrays = vec.buffers.arrays

    def spy(given, **options):
        if not arrays["world_over"][0]:
            noted.append((int(arrays["elapsed"][0]), bool(np.any(player._state))))
        return act_in(given, **options)

    player.act_in = spy
    return noted


def expected(episodes):
    return [(step, step > 0) for _ in range(episodes) for step in range(LENGTH)]


def test_while_recording(run):
    config = EvalConfig(run=run, episodes=4)
    agent = load_agent(config, 1, config.seed, autoreset_mode="NextStep")
    with closing(agent.vec):
        noted = spied(agent.vec, agent.player)
        frames = list(watch(agent, config))
    assert noted == expected(4)
    assert len(frames) == 4 * (LENGTH + 1)  # the start of each, and what each step leads to


def test_while_playing(run):
    game = Watched(PlayFlags(agent=run))
    with closing(game.vec):
        noted = spied(game.vec, game._agent.player)
        for _ in range(3 * (LENGTH + 1) - 1):
            game.step()
        assert noted == expected(3)
        game.restart()  # the last one is over
        game.step()
        game.step()
        game.restart()  # in the middle of an episode
        game.step()
    assert noted == [*expected(3), (0, False), (1, True), (0, False)]
