"""check_vec_env: tests any vector environment, ours or not, against Gymnasium's contract."""

from __future__ import annotations

import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .errors import ArgumentTypeError, ConformanceError, kind_of

# What reading, stepping or resetting a stranger's environment may raise: anything.
_ANY = Exception


@dataclass(frozen=True)
class Finding:
    """One rule and what came of it."""

    rule: str
    passed: bool | None  # None: could not be tried
    detail: str = ""  # why not


@dataclass(frozen=True)
class Report:
    """What `check_vec_env` found; `print(report)` shows one line for each rule."""

    env: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.failed

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The rules that were broken."""
        return tuple(finding for finding in self.findings if finding.passed is False)

    def raise_for_failures(self) -> None:
        """Raises ConformanceError, which names the broken rules, if there are any."""
        if self.failed:
            raise ConformanceError(
                f"{self.env} breaks {len(self.failed)} of {len(self.findings)} rules:\n"
                + "\n".join(f"  {each.rule}: {each.detail}" for each in self.failed)
            )

    def __str__(self) -> str:
        marks = {True: "ok  ", False: "FAIL", None: "skip"}
        lines = [f"{self.env}: {len(self.failed)} of {len(self.findings)} rules broken"]
        for each in self.findings:
            detail = f": {each.detail}" if each.detail else ""
            lines.append(f"  {marks[each.passed]} {each.rule}{detail}")
        return "\n".join(lines)


class _Broken(Exception):
    """A rule is broken; the message says how."""


class _Skipped(Exception):
    """A rule cannot be tried; the message says why."""


def check_vec_env(
    env: VectorEnv | Callable[[], VectorEnv],
    *,
    steps: int = 200,
    seed: int = 0,
    patience: float = 30.0,
) -> Report:
    """Tests a vector environment against Gymnasium's contract.

    Args:
        env: a vector environment, which is reset, stepped and left open; or a function that
            makes one, with which the rules about the start and the end of its life are tried
            too, and wrong actions on environments of their own.
        steps: random steps of each of the longer trials. Rules about the ends of episodes are
            skipped when none ends in so many.
        seed: of the environment and the actions.
        patience: seconds after which a rule counts as broken because a call does not return.

    Returns:
        A Report; `report.ok` tells whether all is well, `print(report)` shows it.
    """
    make = None if isinstance(env, VectorEnv) else env
    if make is not None and not callable(make):
        raise ArgumentTypeError(
            f"env is {kind_of(env)}: expected a vector environment or a function that makes one"
        )
    made = env if isinstance(env, VectorEnv) else env()
    if not isinstance(made, VectorEnv):
        raise ArgumentTypeError(
            f"env made a {type(made).__name__}, which is no gymnasium.vector.VectorEnv"
        )
    jury = _Jury(patience)
    trial = _Trial(made, steps, seed)
    for rule, check in trial.rules():
        jury.judge(rule, check)
    for rule, wrong in _WRONG_ACTIONS.items():
        if make is None:
            jury.judge(rule, functools.partial(wrong, trial))
        else:
            _Jury(patience, jury.findings).judge(
                rule, functools.partial(_apart, make, wrong, steps, seed)
            )
    if make is not None:
        jury.judge("closing twice is allowed", lambda: _close_twice(made))
        jury.judge("a call after close() raises", lambda: _refuses_when_closed(made))
        _Jury(patience, jury.findings).judge(
            "step() before reset() raises", lambda: _refuses_before_reset(make)
        )
    return Report(repr(made), tuple(jury.findings))


class _Jury:
    """Tries rules, one after the other; after one whose call did not return, none."""

    def __init__(self, patience: float, findings: list[Finding] | None = None) -> None:
        self.patience = patience
        self.findings = [] if findings is None else findings
        self.hangs = False

    def judge(self, rule: str, check: Callable[[], Any]) -> None:
        """Adds what comes of the rule."""
        if self.hangs:
            self.findings.append(Finding(rule, None, "the environment hangs"))
            return
        verdict: list[Finding] = []
        # in a thread, since a stranger's environment may wait forever
        thread = threading.Thread(target=lambda: verdict.append(_try(rule, check)), daemon=True)
        thread.start()
        thread.join(self.patience)
        if not verdict:
            self.hangs = True
            how = f"a call did not return within {self.patience:g} s"
            verdict.append(Finding(rule, False, how))
        self.findings.append(verdict[0])


def _try(rule: str, check: Callable[[], Any]) -> Finding:
    try:
        check()
    except _Skipped as reason:
        return Finding(rule, None, str(reason))
    except _Broken as how:
        return Finding(rule, False, str(how))
    except _ANY as error:
        first = (str(error).splitlines() or [""])[0]
        return Finding(rule, False, f"raised {type(error).__name__}: {first}")
    return Finding(rule, True)


def _apart(make: Callable[[], VectorEnv], check: Any, steps: int, seed: int) -> None:
    """A rule on an environment of its own, which may be unusable afterwards."""
    fresh = make()
    try:
        check(_Trial(fresh, steps, seed))
    finally:
        threading.Thread(target=fresh.close, daemon=True).start()


def _close_twice(env: VectorEnv) -> None:
    env.close()
    env.close()


def _refuses_when_closed(env: VectorEnv) -> None:
    _must_raise(lambda: env.reset(), "reset() after close() did not raise")


def _refuses_before_reset(make: Callable[[], VectorEnv]) -> None:
    fresh = make()
    try:
        actions = fresh.action_space.sample()
        _must_raise(lambda: fresh.step(actions), "step() before the first reset() did not raise")
    finally:
        fresh.close()


class _Trial:
    """The rules for one environment; each is tried from a reset of its own."""

    def __init__(self, env: VectorEnv, steps: int, seed: int) -> None:
        self.env, self.steps, self.seed = env, steps, seed
        self.rows = getattr(env, "num_envs", 0)
        self.agents = getattr(env, "agents", 1)
        self.mode = env.metadata.get("autoreset_mode")

    def rules(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Names of the rules and how to try them."""
        yield "spaces are batches of the single spaces", self.spaces
        yield "metadata names the autoreset mode", self.metadata
        yield "reset returns observations of the space, and a dict", self.reset
        yield "step returns arrays of the right shapes and dtypes", self.arrays
        yield "observations lie in their space", self.observations
        yield "infos have masks", self.masks
        yield "the same seed gives the same life", self.determinism
        yield "another seed gives another life", self.other_seed
        yield "seed s gives environment i the seed s + i", self.seeds
        yield "a list of seeds is one for each environment", self.seed_list
        yield "environments do not depend on each other's actions", self.independence
        yield "what was returned stays as it was", self.copies
        yield "what the caller writes changes nothing", self.writes
        yield "NumPy's global generator is left alone", self.global_random
        yield "episodes are reset as the mode says", self.autoreset
        yield "final observations are given with SameStep", self.final_observations
        yield "options['reset_mask'] resets what it names", self.partial_reset

    # ---- helpers ------------------------------------------------------------------------

    def sampled(self, seed: int = 0) -> Iterator[Any]:
        """Random actions, the same for the same seed."""
        self.env.action_space.seed(self.seed + seed)
        for _ in range(self.steps):
            yield self.env.action_space.sample()

    def stepped(self, actions: Any) -> Any:
        """One step; with Disabled, episodes that ended are reset first."""
        result = self.env.step(actions)
        ended = np.asarray(result[2]) | np.asarray(result[3])
        if self.mode is AutoresetMode.DISABLED and ended.any():
            ended = np.repeat(ended.reshape(-1, self.agents).any(1), self.agents)
            self.env.reset(options={"reset_mask": ended})
        return result

    def life(self, seed: Any, actions: list[Any]) -> list[Any]:
        """Observations, rewards and flags of a reset and some steps, copied."""
        kept = [_copied(self.env.reset(seed=seed)[0])]
        kept += [_copied(self.stepped(action)[:4]) for action in actions]
        return kept

    # ---- rules --------------------------------------------------------------------------

    def spaces(self) -> None:
        env = self.env
        for kind in ("observation", "action"):
            single, batched = (getattr(env, f"{s}{kind}_space") for s in ("single_", ""))
            expected = batch_space(single, env.num_envs)
            _demand(batched == expected, f"{kind}_space is {batched}, not {expected}")

    def metadata(self) -> None:
        told = self.mode
        _demand(
            isinstance(told, AutoresetMode),
            f"metadata['autoreset_mode'] is {told!r}, no gymnasium.vector.AutoresetMode",
        )

    def reset(self) -> None:
        obs, infos = self.env.reset(seed=self.seed)
        _demand(obs in self.env.observation_space, "the first observations are not in the space")
        _demand(isinstance(infos, dict), f"infos are a {type(infos).__name__}")

    def arrays(self) -> None:
        self.env.reset(seed=self.seed)
        _, rewards, terminated, truncated, infos = self.env.step(next(self.sampled()))
        for name, array in (
            ("rewards", rewards),
            ("terminated", terminated),
            ("truncated", truncated),
        ):
            _demand(isinstance(array, np.ndarray), f"{name} is a {type(array).__name__}")
            shape = np.shape(array)
            _demand(shape == (self.rows,), f"{name} has shape {shape}, not ({self.rows},)")
        _demand(rewards.dtype.kind == "f", f"rewards have dtype {rewards.dtype}")
        for name, array in (("terminated", terminated), ("truncated", truncated)):
            _demand(array.dtype == np.bool_, f"{name} has dtype {array.dtype}")
        _demand(isinstance(infos, dict), f"infos are a {type(infos).__name__}")

    def observations(self) -> None:
        self.env.reset(seed=self.seed)
        for step, actions in enumerate(self.sampled()):
            obs = self.stepped(actions)[0]
            inside = obs in self.env.observation_space
            _demand(inside, f"those of step {step} are not in observation_space")

    def masks(self) -> None:
        _, infos = self.env.reset(seed=self.seed)
        self._check_masks(infos)
        for actions in self.sampled():
            self._check_masks(self.stepped(actions)[4])

    def _check_masks(self, infos: dict[str, Any]) -> None:
        for key in infos:
            if not key.startswith("_") and key not in ("env_id", "present"):
                mask: Any = infos.get(f"_{key}")
                _demand(mask is not None, f"infos[{key!r}] has no mask infos['_{key}']")
                _demand(
                    np.shape(mask) == (self.rows,) and np.asarray(mask).dtype == np.bool_,
                    f"infos['_{key}'] is no bool array of shape ({self.rows},)",
                )

    def determinism(self) -> None:
        actions = list(self.sampled())
        one, other = self.life(self.seed, actions), self.life(self.seed, actions)
        for step, (first, second) in enumerate(zip(one, other, strict=True)):
            _demand(_equal(first, second), f"two lives of seed {self.seed} differ at step {step}")

    def other_seed(self) -> None:
        actions = list(self.sampled())[:20]
        one = self.life(self.seed, actions)
        other = self.life(self.seed + 10_000, actions)
        if _equal(one, other):
            raise _Skipped("the environment makes no use of its seed")

    def seeds(self) -> None:
        if self.rows < 2 * self.agents:
            raise _Skipped("there is one environment")
        agents = self.agents
        one = _copied(self.env.reset(seed=self.seed)[0])
        other = _copied(self.env.reset(seed=self.seed + 1)[0])
        _demand(
            _equal(_rows(one, agents, 2 * agents), _rows(other, 0, agents)),
            "environment 1 with seed s does not start as environment 0 with seed s + 1",
        )

    def seed_list(self) -> None:
        worlds = self.rows // self.agents
        one = _copied(self.env.reset(seed=self.seed)[0])
        seeds = [self.seed + i for i in range(worlds)]
        try:
            other = self.env.reset(seed=seeds)[0]  # type: ignore[arg-type]
        except _ANY as error:
            raise _Broken(f"reset(seed=[...]) raised {type(error).__name__}: {error}") from None
        _demand(_equal(one, other), "reset(seed=s) and reset(seed=[s, s + 1, ...]) differ")

    def independence(self) -> None:
        if self.rows < 2 * self.agents:
            raise _Skipped("there is one environment")
        actions = list(self.sampled())
        changed = list(self.sampled(1))
        mixed = [
            _mixed(theirs, own, self.agents) for theirs, own in zip(changed, actions, strict=True)
        ]
        one, other = self.life(self.seed, actions), self.life(self.seed, mixed)
        for step, (first, second) in enumerate(zip(one, other, strict=True)):
            _demand(
                _equal(_rows(first, self.agents, self.rows), _rows(second, self.agents, self.rows)),
                f"other actions of environment 0 changed others at step {step}",
            )

    def copies(self) -> None:
        if getattr(self.env, "copy", True) is False:
            raise _Skipped("the environment was made with copy=False")
        obs, _ = self.env.reset(seed=self.seed)
        before = _copied(obs)
        for actions in list(self.sampled())[:10]:
            result = self.stepped(actions)
            _demand(_equal(obs, before), "observations changed with the next step")
            obs, before = result[:4], _copied(result[:4])

    def writes(self) -> None:
        actions = list(self.sampled())[:20]
        expected = self.life(self.seed, actions)
        obs, _ = self.env.reset(seed=self.seed)
        if getattr(self.env, "copy", True) is False:
            raise _Skipped("the environment was made with copy=False")
        for action, after in zip(actions, expected[1:], strict=True):
            _spoil(obs)
            result = self.stepped(action)
            _demand(_equal(result[:4], after), "writing into observations changed the next step")
            obs = result[0]

    def global_random(self) -> None:
        before = pickle.dumps(np.random.get_state())
        self.life(self.seed, list(self.sampled())[:20])
        _demand(before == pickle.dumps(np.random.get_state()), "np.random was drawn from")

    def autoreset(self) -> None:
        ended = self._until_an_end()
        actions = self.env.action_space.sample()
        obs, rewards, terminated, truncated, _ = ended
        over = self._whole_worlds(terminated | truncated)
        if self.mode is AutoresetMode.DISABLED:
            first = _copied(self.env.reset(options={"reset_mask": over})[0])
            _demand(
                not _equal(_where(first, over), _where(obs, over)),
                "a reset left the final observation in place",
            )
        elif self.mode is AutoresetMode.NEXT_STEP:
            _, rewards, again, cut, _ = self.env.step(actions)
            _demand(not rewards[over].any(), "the step that resets has a reward")
            _demand(not (again | cut)[over].any(), "the step that resets ends an episode")
        else:
            self.env.step(actions)

    def final_observations(self) -> None:
        if self.mode is not AutoresetMode.SAME_STEP:
            raise _Skipped("the mode is another")
        obs, _, terminated, truncated, infos = self._until_an_end()
        over = terminated | truncated
        _demand("final_obs" in infos, "infos have no final_obs where an episode ended")
        _demand("final_info" in infos, "infos have no final_info where an episode ended")
        _demand(
            np.array_equal(infos["_final_obs"], over), "_final_obs does not mark the ended episodes"
        )
        row = int(over.argmax())
        final = infos["final_obs"]
        one = final[row] if _is_objects(final) else _row(final, row)
        inside = one in self.env.single_observation_space
        _demand(inside, f"final_obs of environment {row} is not in single_observation_space")
        over = self._whole_worlds(over)
        if over[row]:
            _demand(not _equal(one, _row(obs, row)), "final_obs is the new episode's observation")

    def partial_reset(self) -> None:
        if self.rows < 2 * self.agents:
            raise _Skipped("there is one environment")
        self.env.reset(seed=self.seed)
        obs = _copied(self.env.step(next(self.sampled()))[0])
        mask = np.zeros(self.rows, np.bool_)
        mask[: self.agents] = True
        after = self.env.reset(options={"reset_mask": mask})[0]
        _demand(
            _equal(_where(after, ~mask), _where(obs, ~mask)),
            "environments that the mask leaves out changed",
        )
        none = np.zeros(self.rows, np.bool_)
        _must_raise(
            lambda: self.env.reset(options={"reset_mask": none}), "an empty mask is accepted"
        )

    def _whole_worlds(self, over: np.ndarray) -> np.ndarray:
        """Rows of the worlds whose agents have all left: only these are reset."""
        return np.repeat(over.reshape(-1, self.agents).all(1), self.agents)

    def _until_an_end(self) -> Any:
        self.env.reset(seed=self.seed)
        for actions in self.sampled():
            result = self.env.step(actions)
            over = np.asarray(result[2]) | np.asarray(result[3])
            if self._whole_worlds(over).any():
                return (*_copied(result[:4]), result[4])
            if self.mode is AutoresetMode.DISABLED and over.any():
                raise _Skipped("agents end apart from each other")
        raise _Skipped(f"no episode ended in {self.steps} steps")


# ---- wrong actions ------------------------------------------------------------------------


def _too_few(trial: _Trial) -> None:
    actions = _plain_actions(trial)
    trial.env.reset(seed=trial.seed)
    _must_raise(lambda: trial.env.step(actions[:-1]), "one action too few is accepted")


def _too_many(trial: _Trial) -> None:
    actions = _plain_actions(trial)
    trial.env.reset(seed=trial.seed)
    more = np.concatenate([actions, actions[:1]])
    _must_raise(lambda: trial.env.step(more), "one action too many is accepted")


def _out_of_range(trial: _Trial) -> None:
    actions = _plain_actions(trial).copy()
    if actions.dtype.kind not in "iu" or not hasattr(trial.env.action_space, "nvec"):
        raise _Skipped("actions are not discrete")
    trial.env.reset(seed=trial.seed)
    actions.reshape(-1)[0] = 10**6
    _must_raise(lambda: trial.env.step(actions), "action 1000000 is accepted")


def _plain_actions(trial: _Trial) -> np.ndarray:
    actions = next(trial.sampled())
    if not isinstance(actions, np.ndarray):
        raise _Skipped("actions are nested")
    return actions


_WRONG_ACTIONS = {
    "too few actions are refused": _too_few,
    "too many actions are refused": _too_many,
    "actions out of range are refused": _out_of_range,
}


# ---- nested arrays ------------------------------------------------------------------------


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _Broken(otherwise)


def _must_raise(call: Callable[[], Any], otherwise: str) -> None:
    try:
        call()
    except _ANY:
        return
    raise _Broken(otherwise)


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _map(function, part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_map(function, part) for part in value)
    return function(value)


def _copied(value: Any) -> Any:
    return _map(np.copy, value)


def _rows(value: Any, low: int, high: int) -> Any:
    return _map(lambda array: array[low:high], value)


def _where(value: Any, mask: np.ndarray) -> Any:
    return _map(lambda array: array[mask], value)


def _row(value: Any, row: int) -> Any:
    return _map(lambda array: array[row], value)


def _mixed(first: Any, others: Any, rows: int) -> Any:
    """The first rows of `first`, the others of `others`; in the structure of both."""
    if isinstance(first, dict):
        return {name: _mixed(first[name], others[name], rows) for name in first}
    if isinstance(first, tuple):
        return tuple(_mixed(a, b, rows) for a, b in zip(first, others, strict=True))
    mixed = np.copy(others)
    mixed[:rows] = first[:rows]
    return mixed


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, (tuple, list)):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_equal(a, b) for a, b in pairs)
    one, other = np.asarray(one), np.asarray(other)
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _spoil(value: Any) -> None:
    def fill(array: Any) -> None:
        if isinstance(array, np.ndarray) and array.flags.writeable:
            array[...] = 1 if array.dtype.kind == "b" else 77

    _map(fill, value)


def _is_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object
