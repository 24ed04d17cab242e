"""headrace: environments in C, batched and trained with PPO at the speed of the machine.

    import headrace

    envs = headrace.make_vec("cartpole", 1024)     # a gymnasium.vector.VectorEnv
    result = headrace.train("cartpole", seed=1)    # PPO on the CPU, without torch

Importing it registers the shipped environments with Gymnasium ("headrace/CartPole-v1") and
loads neither torch nor numba.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine.check import check
    from .engine.conformance import check_vec_env
    from .engine.errors import HeadraceError
    from .engine.make import make_vec
    from .engine.numba import array, discrete, field, maths, numba_env
    from .engine.registration import register
    from .engine.vector import VecEnv
    from .trainers import nn as nn
    from .trainers.config import TrainConfig
    from .trainers.evaluate import evaluate
    from .trainers.export import export_policy
    from .trainers.inference import LoadedPolicy, load_policy
    from .trainers.ppo import PPO, TrainResult
    from .trainers.train import train

    __version__: str

__all__ = [
    "PPO",
    "HeadraceError",
    "LoadedPolicy",
    "TrainConfig",
    "TrainResult",
    "VecEnv",
    "array",
    "check",
    "check_vec_env",
    "discrete",
    "evaluate",
    "export_policy",
    "field",
    "load_policy",
    "make_vec",
    "maths",
    "numba_env",
    "register",
    "train",
]

# public name: the module that defines it, imported at first use
_HOMES = {
    "HeadraceError": ".engine.errors",
    "LoadedPolicy": ".trainers.inference",
    "PPO": ".trainers.ppo",
    "TrainConfig": ".trainers.config",
    "TrainResult": ".trainers.ppo",
    "VecEnv": ".engine.vector",
    "array": ".engine.numba",
    "check_vec_env": ".engine.conformance",
    "check": ".engine.check",
    "discrete": ".engine.numba",
    "evaluate": ".trainers.evaluate",
    "export_policy": ".trainers.export",
    "field": ".engine.numba",
    "load_policy": ".trainers.inference",
    "make_vec": ".engine.make",
    "maths": ".engine.numba",
    "numba_env": ".engine.numba",
    "register": ".engine.registration",
    "train": ".trainers.train",
}


def _require_engine() -> None:
    """ImportError in one sentence where this folder is not a whole, built package."""
    try:
        built = find_spec(".engine._core", __name__) and find_spec(".trainers._native", __name__)
    except ModuleNotFoundError:
        built = None
    if built is None:
        raise ImportError(
            f"headrace was imported from {Path(__file__).parent}, which holds no compiled engine: "
            "run `pip install -e .` in the root of the repository, or start Python in another "
            "folder to get the headrace that is installed"
        )


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("headrace")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    elif name == "nn":
        if find_spec("torch") is None:
            raise ImportError("headrace.nn needs PyTorch: pip install headrace[torch]")
        value = importlib.import_module(".trainers.nn", __name__)
    else:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__", "nn"})


_require_engine()
importlib.import_module(".envs", __name__)  # registers the shipped environments
