"""Measures the agent of a run: the returns of whole episodes, chosen before they are played."""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.errors import HeadraceError
from .batch import Codec
from .config import TrainConfig
from .environments import AnyVecEnv, environments, name_of, whole_worlds
from .parts import check_policy, make_player, native_policy
from .policy import PolicySpec, TensorError
from .run import Run, RunError, Tensors
from .seeds import EVALUATION, world_seeds
from .settings import check, required, setting

Returns = NDArray[np.float64]

MAX_ENVS = 256  # rows that play at once
MAX_STEPS = 100_000  # longest episode that is waited for


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """What to measure and how."""

    run: str = required("the folder of the run, as train printed it")
    episodes: int = setting(100, "how many episodes are played", low=1)
    seed: int = setting(
        0, "seed of the episodes; no seed gives those of training", low=0, high=2**63 - 1
    )
    sample: bool = setting(False, "draw actions from the policy instead of taking the likeliest")
    checkpoint: int | None = setting(
        None, "step of the checkpoint to load (default: the newest)", low=0
    )
    threads: int | None = setting(None, "threads that step (default: every usable CPU)", low=1)
    policy: str | None = setting(
        None, "the policy's file, net.py:Net, where the run has one of your own"
    )

    def __post_init__(self) -> None:
        check(self)


@dataclasses.dataclass(frozen=True)
class EvalResult:
    """The returns of an agent over whole episodes."""

    env: str
    run: str
    checkpoint: int  # step after which the policy was saved
    episodes: int
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
    config: EvalConfig, rows: int, autoreset_mode: str = "SameStep", module: Any = None
) -> Agent:
    """The agent that `config` names, in `rows` environments, rounded up to whole worlds.

    Args:
        module: the policy of a run that was given an object of Python.

    Raises:
        RunError: no run there, no such checkpoint, or a damaged one.
        ConfigError: the run's policy is code of the user's, which must be given again.
    """
    folder = Run.open(config.run)
    trained, _ = folder.read_config()
    check_policy(trained, config.policy if module is None else trained.policy)
    step = folder.latest() if config.checkpoint is None else config.checkpoint
    tensors = folder.load_policy(step)
    rows = whole_worlds(trained, rows)
    vec = environments(trained, rows, config.threads, config.seed, EVALUATION, autoreset_mode)
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
        **given: fields of `EvalConfig`. `policy` may also be the torch module, or function that
            makes one, with which the run was trained.

    Raises:
        ConfigError: a setting that does not exist or does not fit.
        RunError: no run there, no such checkpoint, or a damaged one.
        HeadraceError: episodes that do not end.
    """
    started = time.perf_counter()
    module = None
    if not isinstance(given.get("policy"), (str, type(None))):
        module = given.pop("policy")
    config = EvalConfig(run=str(run), **given)
    agent = load_agent(config, min(config.episodes, MAX_ENVS), module=module)
    with closing(agent.vec):
        returns, lengths = _play(agent.vec, agent.player, config)
    trained = agent.trained
    return EvalResult(
        env=trained.env,
        run=config.run,
        checkpoint=agent.checkpoint,
        episodes=config.episodes,
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


def _play(vec: AnyVecEnv, player: Any, config: EvalConfig) -> tuple[Returns, Returns]:
    """Returns and lengths, float64 [episodes] each: the first episode of every row, then the
    second of every row, and so on."""
    rows = np.arange(vec.num_envs)
    quota = -(-config.episodes // vec.num_envs)  # episodes of each row
    played = np.zeros(vec.num_envs, np.int64)
    returns, lengths = (np.zeros((quota, vec.num_envs)) for _ in range(2))
    total, length = np.zeros(vec.num_envs, np.float32), np.zeros(vec.num_envs, np.int64)
    arrays, obs = vec.buffers.arrays, vec.buffers.obs
    key = int(world_seeds(config.seed, 1, EVALUATION)[0])
    step = 0
    while played.min() < quota:
        there = np.array(arrays.get("present", True), np.bool_)
        actions = player.act(obs, arrays.get("mask"), greedy=not config.sample, seed=key, step=step)
        _, rewards, terminated, truncated, _ = vec.step(actions)
        step += 1
        total += np.where(there, rewards, 0.0).astype(np.float32)
        length += there
        done = terminated | truncated
        ended = rows[done & (played < quota)]
        returns[played[ended], ended] = total[ended]
        lengths[played[ended], ended] = length[ended]
        played[ended] += 1
        total[done], length[done] = 0.0, 0
        player.ended(done)
        if length[played < quota].max(initial=0) >= MAX_STEPS:
            raise HeadraceError(
                f"{int((played < quota).sum())} of {vec.num_envs} episodes had not ended after "
                f"{MAX_STEPS} steps; give the environment a time limit (.max_steps)"
            )
    if not np.isfinite(returns).all():
        raise HeadraceError(f"environment {name_of(vec)!r} gave a reward that is no number")
    return returns.ravel()[: config.episodes], lengths.ravel()[: config.episodes]
