"""`headrace.load_policy`: a trained policy that acts by itself, without trainer or environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ..engine.errors import ArgumentError
from ..engine.infos import map_arrays
from ..engine.processes.leaves import Leaf, assemble, leaves_of
from .actor import Draw
from .codec import Codec
from .policies import Acting, acting, check_policy
from .policy import PolicySpec
from .rollout import check_masks
from .run import LAST, Run


class LoadedPolicy:
    """A trained policy: observations as its environment gives them in, actions out.

    A loop of an environment in Gymnasium, which also serves policies that remember nothing:

        policy = headrace.load_policy("runs/maze")
        state = policy.initial_state()
        observation, _ = env.reset()
        over = False
        while not over:
            action = policy.act(observation, state)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated

    Attributes:
        observation_space, action_space: of one environment.
        state_size: floats that it remembers of each row; 0: none.
        mask_size: entries of an action mask; 0: the environment has none.
        steps: of training, after which it was saved.
    """

    def __init__(self, codec: Codec, acting: Acting, steps: int, seed: int | None = None) -> None:
        """seed: of the numbers by which actions are drawn, see `act`."""
        self._codec = codec
        self._actor, self._policy, self._weights = acting
        self.observation_space = codec.spec.single_observation_space
        self.action_space = codec.spec.single_action_space
        self.state_size = self._actor.state_size
        self.mask_size = codec.spec.mask_size
        self.steps = steps
        self._leaves = leaves_of(self.observation_space, "observation")
        self._rng = np.random.default_rng(seed)

    def initial_state(self, rows: int | None = None) -> NDArray[np.float32]:
        """What is remembered where episodes begin, float32 [rows, state_size]; of a single
        observation (None) [state_size]."""
        return np.zeros((*(() if rows is None else (rows,)), self.state_size), np.float32)

    def act(
        self,
        observations: Any,
        state: NDArray[np.float32] | None = None,
        *,
        episode_start: Any = None,
        mask: Any = None,
        there: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Actions for a batch of any size, or for a single observation.

        Args:
            observations: of the observation space, each array [rows, *shape]; or a single one.
            state: what `initial_state` gave, which goes on to the next step in place; may be left
                out where the policy remembers nothing.
            episode_start: bool [rows]: whose observation is the first of an episode, so that
                nothing is remembered of the one before. Not needed where `state` is new.
            mask: `info["action_mask"]`, [rows, mask_size], 0 where a choice is not allowed; None:
                all are.
            there: bool [rows], `info["_action_mask"]` or `info["present"]`: whose action counts;
                None: everybody's. The others' masks are not looked at, and they remember what they
                did before.
            deterministic: the likeliest action (as `headrace eval` plays); else one drawn by the
                policy's probabilities.
            rng: by which actions are drawn; default: the policy's own, seeded by `load_policy`.

        Returns:
            Actions of the action space, each array [rows, *shape]; or a single one. Continuous
            ones are clipped to their bounds.

        Raises:
            ArgumentError: an argument whose shape does not fit, or a state that is missing.
            MaskError: the mask of a row whose action counts allows nothing.
        """
        arrays, single = self._arrays(observations)
        rows = len(arrays[0])
        counts = (
            np.ones(rows, np.bool_) if there is None else _of_rows("there", there, rows, single)
        )
        arrays = self._held(arrays, counts, single)
        if rows == 0:
            return self._codec.actions(np.zeros((0, len(self._policy.heads)), np.int32))
        if not counts.all():  # nobody looks at what the others show
            arrays = [
                np.where(_beside(counts, array), array, array.dtype.type(0)) for array in arrays
            ]
        raw = self._codec.pack(assemble(self.observation_space, arrays))
        before = self._before(state, episode_start, rows, single)
        allowed = self._allowed(mask, counts, single)
        key = 0 if deterministic else int((rng or self._rng).integers(2**63))
        draw = Draw(key, np.arange(rows), np.zeros(rows, np.int64), deterministic)
        with _threads_kept(self._policy):
            acted = self._actor.act(self._weights, raw, allowed, before, draw)
        if state is not None and self.state_size:
            after = np.where(counts[:, None], acted.state, before)
            state[...] = after[0] if single else after
        actions = self._codec.actions(acted.actions)
        return map_arrays(lambda array: array[0], actions) if single else actions

    def _arrays(self, observations: Any) -> tuple[list[NDArray[Any]], bool]:
        """The observations' arrays [rows, *shape] in order, and whether it is a single one."""
        values = _given(self.observation_space, observations, "observations")
        given = [(name, _array(name, value)) for name, value in values]
        first = given[0][1].shape
        single = first == self._leaves[0].shape
        rows = () if single else first[:1]
        for (name, array), leaf in zip(given, self._leaves, strict=True):
            if array.shape != (*rows, *leaf.shape) or array.dtype.kind not in "biuf":
                batch = ", ".join(["rows", *map(str, leaf.shape)])
                raise ArgumentError(
                    f"{name} has shape {array.shape} and dtype {array.dtype}: expected numbers of "
                    f"shape {leaf.shape}, or ({batch}) for a batch"
                )
        return [array[None] if single else array for _, array in given], single

    def _held(
        self, arrays: list[NDArray[Any]], there: NDArray[np.bool_], single: bool
    ) -> list[NDArray[Any]]:
        """The arrays in the dtypes of the space; there: bool [rows], whose numbers count.

        Raises:
            ArgumentError: a number that the space cannot hold.
        """
        names = [f"observations{leaf.path}" for leaf in self._leaves]
        return [
            _held(name, array, leaf, there, single)
            for name, array, leaf in zip(names, arrays, self._leaves, strict=True)
        ]

    def _before(self, state: Any, start: Any, rows: int, single: bool) -> NDArray[np.float32]:
        """What is remembered of the rows, [rows, state_size]."""
        if state is None:
            if self.state_size:
                raise ArgumentError(
                    "state is missing: this policy remembers; give it "
                    f"policy.initial_state({'' if single else rows}), the same at every step"
                )
            return np.zeros((rows, 0), np.float32)
        shape = (self.state_size,) if single else (rows, self.state_size)
        if not isinstance(state, np.ndarray) or state.shape != shape or state.dtype != np.float32:
            raise ArgumentError(
                f"state is {getattr(state, 'dtype', type(state).__name__)} {np.shape(state)}: "
                f"expected float32 {shape}, from policy.initial_state"
            )
        before = state.reshape(rows, self.state_size)
        if start is None:
            return before
        began = _of_rows("episode_start", start, rows, single)
        return np.where(began[:, None], np.float32(0.0), before)

    def _allowed(
        self, mask: Any, there: NDArray[np.bool_], single: bool
    ) -> NDArray[np.uint8] | None:
        """The mask as kernels have it, [rows, mask_size]; there: whose action counts."""
        if mask is None:
            return None
        given, rows = _array("mask", mask), len(there)
        shape = (self.mask_size,) if single else (rows, self.mask_size)
        if not self.mask_size:
            raise ArgumentError(f"mask is given, but {self._codec.spec.name!r} has no action masks")
        if given.shape != shape:
            raise ArgumentError(f"mask has shape {given.shape}: expected {shape}")
        allowed = np.ascontiguousarray(given.reshape(rows, -1) != 0).view(np.uint8)
        check_masks(self._codec.spec, allowed, there, None)
        return allowed


@contextmanager
def _threads_kept(policy: Any) -> Iterator[None]:
    """The caller's number of torch's threads is the same afterwards: torch policies set theirs."""
    if isinstance(policy, PolicySpec):
        yield
        return
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def _of_rows(name: str, value: Any, rows: int, single: bool) -> NDArray[np.bool_]:
    """An argument that is bool [rows]; ArgumentError for another shape."""
    given = _array(name, value).astype(np.bool_)
    shape = () if single else (rows,)
    if given.shape != shape:
        raise ArgumentError(f"{name} has shape {given.shape}: expected {shape}")
    return np.broadcast_to(given, rows)


def _array(name: str, value: Any) -> NDArray[Any]:
    """An argument as an array; ArgumentError where its rows differ in length."""
    try:
        return np.asarray(value)
    except ValueError:
        raise ArgumentError(
            f"{name} is no array: its parts differ in shape; give each the same"
        ) from None


def _held(
    name: str, array: NDArray[Any], leaf: Leaf, there: NDArray[np.bool_], single: bool
) -> NDArray[Any]:
    """A leaf's array [rows, *shape] in its dtype, see LoadedPolicy._held."""
    with np.errstate(invalid="ignore", over="ignore"):  # what does not fit is named below
        held = array.astype(leaf.dtype, copy=False)
    bad: Any
    if leaf.dtype.kind == "f":
        bad, expected = np.isnan(held), "a number; a policy makes nothing of a NaN"
    else:
        bad = np.False_ if held is array else held != array
        expected = f"{leaf.dtype}, as its environment gives it"
        if (bounds := _bounds(leaf.space)) is not None:
            bad = bad | (held < bounds[0]) | (held > bounds[1])
            expected = f"a value of {leaf.space}"
    if not bad.any() or not (bad := bad & _beside(there, bad)).any():
        return held
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    place = at[1:] if single else at
    where = f"{list(place)}" if place else ""
    raise ArgumentError(f"{name}{where} is {array[at]}: expected {expected}")


def _bounds(space: spaces.Space) -> tuple[Any, Any] | None:
    """The first and the last value of each element of a choice; None where there is no choice."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        count = space.n if isinstance(space, spaces.Discrete) else space.nvec
        return space.start, space.start + count - 1
    return (0, 1) if isinstance(space, spaces.MultiBinary) else None


def _beside(rows: NDArray[np.bool_], array: NDArray[Any]) -> NDArray[np.bool_]:
    """bool [rows] in a shape that goes with an array [rows, ...]."""
    return rows.reshape(-1, *(1,) * (array.ndim - 1))


def _given(space: spaces.Space, value: Any, name: str) -> Any:
    """(name, value) of the leaves of a nested value, in the order of its space."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            there = (
                f"has {', '.join(map(repr, value))}"
                if isinstance(value, Mapping)
                else (f"is {type(value).__name__}")
            )
            wanted = ", ".join(map(repr, space.spaces))
            raise ArgumentError(f"{name} {there}: expected a dict of {wanted}")
        for key, part in space.spaces.items():
            yield from _given(part, value[key], f"{name}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            raise ArgumentError(f"{name} must be a tuple of {len(space.spaces)}")
        for at, part in enumerate(space.spaces):
            yield from _given(part, value[at], f"{name}[{at}]")
    else:
        yield name, value


def load_policy(
    run: str | Path,
    *,
    checkpoint: str | int = LAST,
    policy: Any = None,
    device: str = "cpu",
    seed: int | None = None,
) -> LoadedPolicy:
    """The policy of the run in folder `run`, to act wherever its observations come from.

    Neither the trainer nor the environment is loaded, and no code: only the run's data is read.

    Args:
        run: the folder of the run.
        checkpoint: "last", "best", or its number of steps.
        policy: where the run has a torch module of your own: its file, "net.py:Net", a module, or
            a function of (observation_space, action_space) that makes one.
        device: where a torch policy acts.
        seed: of the numbers by which actions are drawn; None: other ones each time.

    Raises:
        RunError: no run there, no such checkpoint, a damaged one, or one of another policy.
        ConfigError: the run's policy is code, which must be given.
    """
    folder = Run.open(run)
    trained, _ = folder.read_config()
    module = None if policy is None or isinstance(policy, (str, Path)) else policy
    named = None if policy is None or module is not None else str(policy)
    check_policy(trained, named, module)
    codec = folder.read_environment()
    steps = folder.find(str(checkpoint))
    made = acting(trained, codec.spec, folder, steps, module, device)
    return LoadedPolicy(codec, made, steps, seed)
