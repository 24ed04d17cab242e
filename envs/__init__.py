"""The environments that ship: importing this registers them by name and with Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..engine.registration import register


@dataclass(frozen=True)
class Shipped:
    """An environment that comes with headrace. Its preset lies beside it: NAME.toml."""

    name: str  # what make_vec and train call it
    path: Path  # its source
    gymnasium_id: str | None  # None: several agents, which Gymnasium has no single form for
    max_steps: int | None  # its time limit, told to Gymnasium


def _source(name: str) -> Path:
    """The environment's file: C, Cython or Numba."""
    folder = Path(__file__).resolve().parent
    found = [folder / f"{name}{suffix}" for suffix in (".c", ".pyx", ".py")]
    return next((path for path in found if path.is_file()), found[0])


SHIPPED = tuple(
    Shipped(name, _source(name), gymnasium_id, max_steps)
    for name, gymnasium_id, max_steps in [
        ("cartpole", "headrace/CartPole-v1", 500),
        ("mountain_car", "headrace/MountainCar-v0", 200),
        ("mountain_car_continuous", "headrace/MountainCarContinuous-v0", 999),
        ("acrobot", "headrace/Acrobot-v1", 500),
        ("pendulum", "headrace/Pendulum-v1", 200),
        ("squared", "headrace/Squared-v0", None),
        ("pong", "headrace/Pong-v0", 5000),
        ("breakout", "headrace/Breakout-v0", 5000),
        ("snake", "headrace/Snake-v0", None),
        ("tetris", "headrace/Tetris-v0", 500),
        ("game_2048", "headrace/Game2048-v0", 10_000),
        ("memory", "headrace/Memory-v0", None),
        ("maze", "headrace/Maze-v0", 484),
        ("inventory", "headrace/Inventory-v0", 100),
        ("lander", "headrace/Lander-v0", 500),
        ("foraging", None, None),
        ("connect4", None, None),
    ]
)

for _env in SHIPPED:
    register(
        _env.name,
        _env.path,
        gymnasium_id=_env.gymnasium_id,
        max_episode_steps=_env.max_steps,
        shipped=True,
    )
