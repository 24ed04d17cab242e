"""Evaluations of a run while it is trained, in environments of its own."""

from __future__ import annotations

from typing import Any

from ._native import StopFlag
from .config import TrainConfig
from .environments import AnyVecEnv, environments, reset, whole_worlds
from .evaluate import MAX_ENVS, play
from .player import Player
from .policies import Acting, make_actor
from .seeds import EVALUATION


class Evaluator:
    """Plays whole episodes, greedily, with a run's weights as they are: the same episodes every
    time, those that `evaluate` plays with the run's seed. Its environments are made at the first.
    """

    def __init__(self, config: TrainConfig, policy: Any, source: Any = None) -> None:
        """source: the environment where it is an object of Python."""
        self._config, self._policy, self._source = config, policy, source
        self._vec: AnyVecEnv | None = None

    def due(self, before: int, now: int) -> bool:
        """Whether there is one to be made, `before` and `now` being steps."""
        every = self._config.eval_every
        return every > 0 and now // every > before // every

    def __call__(self, weights: Any, stop: StopFlag) -> dict[str, float]:
        """The metrics of one evaluation.

        Raises:
            HeadraceError: episodes do not end.
            Stopped: the StopFlag was requested.
        """
        config = self._config
        if self._vec is None:
            self._vec = self._made()
        else:
            reset(self._vec, config.seed, EVALUATION)
        vec = self._vec
        actor = make_actor(config, self._policy, config.normalize_obs)
        player = Player(vec, Acting(actor, self._policy, weights))
        returns, lengths = play(vec, player, config.eval_episodes, config.seed, stop=stop)
        return {
            "eval/return": float(returns.mean()),
            "eval/length": float(lengths.mean()),
            "eval/episodes": len(returns),
        }

    def _made(self) -> AnyVecEnv:
        config = self._config
        rows = whole_worlds(config, min(config.eval_episodes, MAX_ENVS), self._source)
        return environments(
            config, rows, config.threads, config.seed, EVALUATION, source=self._source
        )

    def close(self) -> None:
        """Ends the environments."""
        if self._vec is not None:
            self._vec.close()
