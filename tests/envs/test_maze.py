"""Maze: every maze is a spanning tree; the view, the walls, the places to be found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace

SIZE, VIEW = 11, 5
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])


def parts(vec: Any, size: int = SIZE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walls [worlds, size, size], the agents' and the goals' places [worlds, 2]."""
    state = vec.state.view(np.int8)
    cells = state[:, : size * size].reshape(-1, size, size)
    return cells != 0, state[:, size * size :][:, :2].astype(int), state[:, -2:].astype(int)


def reachable(floor: np.ndarray) -> int:
    """Cells that a walk from the first cell of the floor reaches."""
    seen = {tuple(np.argwhere(floor)[0])}
    waiting = list(seen)
    while waiting:
        row, column = waiting.pop()
        for down, right in MOVES:
            place = (row + down, column + right)
            if floor[place] and place not in seen:
                seen.add(place)
                waiting.append(place)
    return len(seen)


@pytest.mark.parametrize("size", [5, SIZE, 21])
def test_mazes_are_spanning_trees(size: int) -> None:
    vec = headrace.make_vec("maze", 40, SIZE=size)
    vec.reset(seed=0)
    walls, agents, goals = parts(vec, size)
    places = ((size - 1) // 2) ** 2
    assert walls[:, [0, -1]].all()
    assert walls[:, :, [0, -1]].all()
    for world, floor in enumerate(~walls):
        assert floor[1::2, 1::2].all()
        # as many openings as a tree has edges, and all connected: exactly one way everywhere
        assert floor.sum() == places + places - 1 == reachable(floor)
        assert floor[tuple(agents[world])]
        assert floor[tuple(goals[world])]
        assert tuple(agents[world]) != tuple(goals[world])
    assert len({floor.tobytes() for floor in walls}) > 30 or size == 5


def expected_view(walls: np.ndarray, agent: np.ndarray, goal: np.ndarray, view: int) -> np.ndarray:
    around = np.full((SIZE + view, SIZE + view), -1)
    half = view // 2
    around[half : half + SIZE, half : half + SIZE] = np.where(walls, -1, 0)
    around[half + goal[0], half + goal[1]] = 1
    return around[agent[0] : agent[0] + view, agent[1] : agent[1] + view]


@pytest.mark.parametrize("view", [1, VIEW, 7])
def test_steps_against_a_reference(view: int) -> None:
    vec = headrace.make_vec("maze", 30, VIEW=view)
    vec.reset(seed=4)
    random = np.random.default_rng(5)
    found = 0
    for _ in range(300):
        walls, agents, goals = (each.copy() for each in parts(vec))
        actions = random.integers(0, 4, 30)
        obs, rewards, terminated, truncated, _ = vec.step(actions)
        to = agents + MOVES[actions]
        free = ~walls[np.arange(30), to[:, 0], to[:, 1]]
        to = np.where(free[:, None], to, agents)
        reached = (to == goals).all(axis=1)
        _, now, hidden = parts(vec)
        np.testing.assert_array_equal(now, to)
        np.testing.assert_array_equal(rewards, reached)
        assert ((hidden == goals).all(axis=1) == ~reached).all()
        assert not (terminated.any() or truncated.any())
        for world in range(30):
            seen = expected_view(walls[world], now[world], hidden[world], view)
            np.testing.assert_array_equal(obs[world], seen)
        found += int(reached.sum())
    assert found > 3


def test_time_limit_truncates() -> None:
    vec = headrace.make_vec("maze", 2, SIZE=5)
    vec.reset(seed=0)
    for step in range(1, 101):
        _, _, terminated, truncated, _ = vec.step([0, 0])
        assert not terminated.any()
        assert truncated.all() == (step == 100)


@pytest.mark.parametrize("size", [4, 3, 129])
def test_sizes_are_checked(size: int) -> None:
    with pytest.raises(ValueError, match=f"SIZE is {size}: give an odd number from 5 to 127"):
        headrace.make_vec("maze", 1, SIZE=size)


def test_frame_shows_agent_and_place() -> None:
    vec = headrace.make_vec("maze", 1)
    vec.reset(seed=0)
    colors = {tuple(color) for color in np.unique(vec.draw(0).reshape(-1, 3), axis=0)}
    assert {(86, 182, 194), (232, 184, 72), (64, 70, 84)} <= colors
