"""Measures the agent of a run: the returns of whole episodes, chosen before they are played."""

from __future__ import annotations

import dataclasses
import shlex
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine._core import MAX_THREADS
from ..engine.errors import HeadraceError
from ..engine.vector import VecEnv
from ._native import StopFlag
from .batch import Codec
from .config import TrainConfig, label
from .environments import AnyVecEnv, environments, name_of, whole_worlds
from .parts import check_policy, make_player, native_policy
from .policy import PolicySpec, TensorError
from .rollout import Stopped, check_masks
from .run import LAST, Run, RunError, Tensors
from .seeds import EVALUATION, world_seeds
from .settings import check, required, setting
from .trust import check_env, check_wrappers

Returns = NDArray[np.float64]

MAX_ENVS = 256  # rows that play at once
MAX_STEPS = 100_000  # longest episode that is waited for


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """What to measure and how."""

    run: str = required("the folder of the run, as train printed it")
    episodes: int = setting(100, "how many episodes are played", low=1)
    seed: int = setting(
        0,
        "seed of the episodes; they differ from those of training whatever it is",
        low=0,
        high=2**63 - 1,
    )
    sample: bool = setting(False, "draw actions from the policy instead of taking the likeliest")
    checkpoint: str = setting(LAST, "the checkpoint to load: last, best, or its number of steps")
    threads: int | None = setting(
        None, "threads that step (default: every usable CPU)", low=1, high=MAX_THREADS
    )
    env: str | None = setting(
        None,
        "the environment's file, where the run has one of your own with which nobody has trained "
        "on this computer, or which has changed since",
    )
    policy: str | None = setting(
        None, "the policy's file, net.py:Net, where the run has one of your own"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint", str(self.checkpoint))  # a number will do
        check(self)


@dataclasses.dataclass(frozen=True)
class EvalResult:
    """The returns of an agent over whole episodes."""

    env: str
    run: str
    checkpoint: int  # step after which the policy was saved
    episodes: int  # fewer than asked for where agents took no part in some
    sample: bool  # False: the likeliest action each time
    seed: int
    return_mean: float
    return_std: float  # standard deviation between episodes
    return_min: float
    return_max: float
    length_mean: float  # steps
    return_target: float | None  # the run's
    seconds: float  # wall time


@dataclasses.dataclass(frozen=True)
class Agent:
    """The policy of a run and the environments it is to act in, just reset."""

    trained: TrainConfig  # the run's configuration
    checkpoint: int  # step after which the policy was saved
    vec: AnyVecEnv
    player: Any  # has the methods of policy.Player


def load_agent(
    config: EvalConfig,
    rows: int,
    autoreset_mode: str = "SameStep",
    module: Any = None,
    source: Any = None,
    verb: str = "eval",
) -> Agent:
    """The agent that `config` names, in `rows` environments, rounded up to whole worlds.

    Args:
        module, source: policy and environment of a run that was given objects of Python.
        verb: of the command line, for messages.

    Raises:
        RunError: no run there, no such checkpoint, or a damaged one.
        ConfigError: the run's policy or environment is code, which must be given again.
    """
    folder = Run.open(config.run)
    trained, _ = folder.read_config()
    check_policy(trained, config.policy if module is None else trained.policy)
    quoted = shlex.quote(str(folder.path))
    given = config.env if source is None else label(source)
    check_env(trained.env, given, f"headrace {verb} {quoted} --env {{env}}")
    check_wrappers(trained.wrappers)
    step = folder.find(config.checkpoint)
    tensors = folder.load_policy(step)
    rows = whole_worlds(trained, rows, source)
    vec = environments(
        trained, rows, config.threads, config.seed, EVALUATION, autoreset_mode, source=source
    )
    try:
        player = _fitting_player(trained, vec, tensors, folder.checkpoint_path(step), module)
        return Agent(trained, step, vec, player)
    except BaseException:
        vec.close()
        raise


def evaluate(run: str, **given: Any) -> EvalResult:
    """Plays whole episodes with the agent of the run in folder `run`.

    Every environment plays its first k episodes, k being the same for all: an agent that often
    fails early does not look worse, nor one that fails late better, because of which episodes
    happened to finish first.

    Args:
        run: the folder of the run.
        **given: fields of `EvalConfig`. `policy` and `env` may also be the objects of Python with
            which the run was trained.

    Raises:
        ConfigError: a setting that does not exist or does not fit.
        RunError: no run there, no such checkpoint, or a damaged one.
        HeadraceError: episodes that do not end.
    """
    started = time.perf_counter()
    module, source = (
        None if isinstance(given.get(name), (str, Path, type(None))) else given.pop(name)
        for name in ("policy", "env")
    )
    config = EvalConfig(run=str(run), **given)
    agent = load_agent(config, min(config.episodes, MAX_ENVS), module=module, source=source)
    with closing(agent.vec):
        returns, lengths = play(
            agent.vec, agent.player, config.episodes, config.seed, sample=config.sample
        )
    trained = agent.trained
    return EvalResult(
        env=trained.env,
        run=config.run,
        checkpoint=agent.checkpoint,
        episodes=len(returns),
        sample=config.sample,
        seed=config.seed,
        return_mean=float(returns.mean()),
        return_std=float(returns.std()),
        return_min=float(returns.min()),
        return_max=float(returns.max()),
        length_mean=float(lengths.mean()),
        return_target=trained.target,
        seconds=time.perf_counter() - started,
    )


def _fitting_player(
    trained: TrainConfig, vec: AnyVecEnv, tensors: Tensors, checkpoint: Path, module: Any
) -> Any:
    """The run's policy with its tensors; RunError when they are another's."""
    if trained.policy == "native":
        _check_fit(native_policy(trained, Codec(vec).spec), tensors, checkpoint)
        return make_player(trained, vec, tensors)
    try:
        return make_player(trained, vec, tensors, module)
    except TensorError as error:
        raise RunError(
            f"{checkpoint / 'policy.safetensors'} does not fit this run: {error}"
        ) from None


def _check_fit(policy: PolicySpec, tensors: Tensors, checkpoint: Path) -> None:
    """RunError unless the tensors are a policy of this shape."""
    shapes: dict[str, tuple[int, ...]] = {name: shape for name, _, shape in policy.tensors}
    if "obs.mean" in tensors or "obs.scale" in tensors:
        shapes |= {"obs.mean": (policy.features,), "obs.scale": (policy.features,)}
    for name, shape in shapes.items():
        found = tensors.get(name)
        if found is None or found.shape != shape or found.dtype != np.float32:
            got = "missing" if found is None else f"{found.dtype} {list(found.shape)}"
            raise RunError(
                f"{checkpoint / 'policy.safetensors'} does not fit this run: tensor {name!r} is "
                f"{got}, expected float32 {list(shape)}"
            )


def play(
    vec: AnyVecEnv,
    player: Any,
    episodes: int,
    seed: int,
    *,
    sample: bool = False,
    stop: StopFlag | None = None,
) -> tuple[Returns, Returns]:
    """Returns and lengths, float64 [episodes] each: the first episode of every row, then the
    second of every row, and so on; without those in which a row took no part.

    vec: just reset; player: see Agent; stop: breaks off once it is requested, with Stopped; the
    others: see EvalConfig.
    """
    tally = _Tally(vec, quota=-(-episodes // vec.num_envs))
    arrays, obs = vec.buffers.arrays, vec.buffers.obs
    key = int(world_seeds(seed, 1, EVALUATION)[0])
    step = 0
    while tally.played.min() < tally.quota:
        if stop is not None and stop.requested:
            raise Stopped
        there = np.array(arrays.get("present", True), np.bool_)
        mask = arrays.get("mask")
        if mask is not None and isinstance(vec, VecEnv):  # others have none
            check_masks(vec.spec_, mask, there, step)
        actions = player.act(obs, mask, greedy=not sample, seed=key, step=step)
        _, rewards, terminated, truncated, _ = vec.step(actions)
        _check_rewards(vec, rewards, step)
        step += 1
        done = terminated | truncated
        tally.add(there, rewards, done)
        player.ended(done)
        if tally.longest() >= MAX_STEPS:
            raise HeadraceError(
                f"{int((tally.played < tally.quota).sum())} of {vec.num_envs} episodes had not "
                f"ended after {MAX_STEPS} steps; give the environment a time limit (.max_steps)"
            )
    there = ~np.isnan(tally.lengths.ravel())
    if not there.any():
        raise HeadraceError(f"no agent of environment {name_of(vec)!r} took part in any episode")
    returns, lengths = tally.returns.ravel()[there], tally.lengths.ravel()[there]
    return returns[:episodes], lengths[:episodes]


class _Tally:
    """The first `quota` episodes of every row.

    Attributes:
        returns, lengths: float64 [quota, rows]; NaN where a row took no part in an episode of its
            world.
        played: episodes that each row has had, int64 [rows].
    """

    def __init__(self, vec: AnyVecEnv, quota: int) -> None:
        rows = vec.num_envs
        self.quota = quota
        self.returns, self.lengths = (np.zeros((quota, rows)) for _ in range(2))
        self.played = np.zeros(rows, np.int64)
        self._rows, self._agents = np.arange(rows), vec.agents
        self._world_over = vec.buffers.arrays.get("world_over")
        self._total, self._length = np.zeros(rows), np.zeros(rows, np.int64)
        self._waited = np.zeros(rows, np.int64)  # steps since the row's last end
        self._had = np.zeros(rows, np.bool_)  # an end since its world began

    def add(self, there: NDArray[np.bool_], rewards: NDArray[Any], done: NDArray[np.bool_]) -> None:
        """One step: who took part, and what came of it, [rows] each."""
        self._total += rewards
        self._length += there
        self._waited += 1
        self._had |= done
        self._end(done, self._total, self._length)
        if self._world_over is not None:
            over = np.repeat(self._world_over, self._agents)
            nothing = np.full(len(over), np.nan)
            self._end(over & ~self._had, nothing, nothing)
            self._had &= ~over

    def _end(self, rows: NDArray[np.bool_], totals: NDArray[Any], lengths: NDArray[Any]) -> None:
        ended = self._rows[rows & (self.played < self.quota)]
        self.returns[self.played[ended], ended] = totals[ended]
        self.lengths[self.played[ended], ended] = lengths[ended]
        self.played[ended] += 1
        self._total[rows], self._length[rows], self._waited[rows] = 0.0, 0, 0

    def longest(self) -> int:
        """Steps of the longest episode that is waited for."""
        return int(self._waited[self.played < self.quota].max(initial=0))


def _check_rewards(vec: AnyVecEnv, rewards: NDArray[Any], step: int) -> None:
    """HeadraceError for the first reward that is not finite."""
    bad = ~np.isfinite(rewards)
    if bad.any():
        row = int(bad.argmax())
        raise HeadraceError(
            f"environment {name_of(vec)!r}: the reward of row {row} is {rewards[row]} at step "
            f"{step}"
        )
