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


SHIPPED = tuple(
    Shipped(name, Path(__file__).resolve().parent / f"{name}.c", gymnasium_id, max_steps)
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
