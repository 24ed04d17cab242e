"""The rules for one environment."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .jury import ANY, Broken, Skipped, demand, must_raise
from .nested import copied, equal, is_objects, mixed_rows, row_of, rows_of, spoil, where


class Trial:
    """The rules for one environment; each is tried from a reset of its own."""

    def __init__(self, env: VectorEnv, steps: int, seed: int) -> None:
        self.env, self.steps, self.seed = env, steps, seed
        self.rows = getattr(env, "num_envs", 0)
        self.actions = _batched_actions(env)
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
        self.actions.seed(self.seed + seed)
        for _ in range(self.steps):
            yield self.actions.sample()

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
        kept = [copied(self.env.reset(seed=seed)[0])]
        kept += [copied(self.stepped(action)[:4]) for action in actions]
        return kept

    # ---- rules --------------------------------------------------------------------------

    def spaces(self) -> None:
        env = self.env
        for kind in ("observation", "action"):
            single, batched = (getattr(env, f"{s}{kind}_space") for s in ("single_", ""))
            expected = batch_space(single, env.num_envs)
            demand(batched == expected, f"{kind}_space is {batched}, not {expected}")

    def metadata(self) -> None:
        told = self.mode
        demand(
            isinstance(told, AutoresetMode),
            f"metadata['autoreset_mode'] is {told!r}, no gymnasium.vector.AutoresetMode",
        )

    def reset(self) -> None:
        obs, infos = self.env.reset(seed=self.seed)
        demand(obs in self.env.observation_space, "the first observations are not in the space")
        demand(isinstance(infos, dict), f"infos are a {type(infos).__name__}")

    def arrays(self) -> None:
        self.env.reset(seed=self.seed)
        _, rewards, terminated, truncated, infos = self.env.step(next(self.sampled()))
        for name, array in (
            ("rewards", rewards),
            ("terminated", terminated),
            ("truncated", truncated),
        ):
            demand(isinstance(array, np.ndarray), f"{name} is a {type(array).__name__}")
            shape = np.shape(array)
            demand(shape == (self.rows,), f"{name} has shape {shape}, not ({self.rows},)")
        demand(rewards.dtype.kind == "f", f"rewards have dtype {rewards.dtype}")
        for name, array in (("terminated", terminated), ("truncated", truncated)):
            demand(array.dtype == np.bool_, f"{name} has dtype {array.dtype}")
        demand(isinstance(infos, dict), f"infos are a {type(infos).__name__}")

    def observations(self) -> None:
        self.env.reset(seed=self.seed)
        for step, actions in enumerate(self.sampled()):
            obs = self.stepped(actions)[0]
            inside = obs in self.env.observation_space
            demand(inside, f"those of step {step} are not in observation_space")

    def masks(self) -> None:
        _, infos = self.env.reset(seed=self.seed)
        self._check_masks(infos)
        for actions in self.sampled():
            self._check_masks(self.stepped(actions)[4])

    def _check_masks(self, infos: dict[str, Any]) -> None:
        for key in infos:
            if not key.startswith("_") and key not in ("env_id", "present"):
                mask: Any = infos.get(f"_{key}")
                demand(mask is not None, f"infos[{key!r}] has no mask infos['_{key}']")
                demand(
                    np.shape(mask) == (self.rows,) and np.asarray(mask).dtype == np.bool_,
                    f"infos['_{key}'] is no bool array of shape ({self.rows},)",
                )

    def determinism(self) -> None:
        actions = list(self.sampled())
        one, other = self.life(self.seed, actions), self.life(self.seed, actions)
        for step, (first, second) in enumerate(zip(one, other, strict=True)):
            demand(equal(first, second), f"two lives of seed {self.seed} differ at step {step}")

    def other_seed(self) -> None:
        actions = list(self.sampled())[:20]
        one = self.life(self.seed, actions)
        other = self.life(self.seed + 10_000, actions)
        if equal(one, other):
            raise Skipped("the environment makes no use of its seed")

    def seeds(self) -> None:
        if self.rows < 2 * self.agents:
            raise Skipped("there is one environment")
        agents = self.agents
        one = copied(self.env.reset(seed=self.seed)[0])
        other = copied(self.env.reset(seed=self.seed + 1)[0])
        demand(
            equal(rows_of(one, agents, 2 * agents), rows_of(other, 0, agents)),
            "environment 1 with seed s does not start as environment 0 with seed s + 1",
        )

    def seed_list(self) -> None:
        worlds = self.rows // self.agents
        one = copied(self.env.reset(seed=self.seed)[0])
        seeds = [self.seed + i for i in range(worlds)]
        try:
            other = self.env.reset(seed=seeds)[0]  # type: ignore[arg-type]
        except ANY as error:
            raise Broken(f"reset(seed=[...]) raised {type(error).__name__}: {error}") from None
        demand(equal(one, other), "reset(seed=s) and reset(seed=[s, s + 1, ...]) differ")

    def independence(self) -> None:
        if self.rows < 2 * self.agents:
            raise Skipped("there is one environment")
        actions = list(self.sampled())
        changed = list(self.sampled(1))
        mixed = [
            mixed_rows(theirs, own, self.agents)
            for theirs, own in zip(changed, actions, strict=True)
        ]
        one, other = self.life(self.seed, actions), self.life(self.seed, mixed)
        for step, (first, second) in enumerate(zip(one, other, strict=True)):
            demand(
                equal(
                    rows_of(first, self.agents, self.rows), rows_of(second, self.agents, self.rows)
                ),
                f"other actions of environment 0 changed others at step {step}",
            )

    def copies(self) -> None:
        if getattr(self.env, "copy", True) is False:
            raise Skipped("the environment was made with copy=False")
        obs, _ = self.env.reset(seed=self.seed)
        before = copied(obs)
        for actions in list(self.sampled())[:10]:
            result = self.stepped(actions)
            demand(equal(obs, before), "observations changed with the next step")
            obs, before = result[:4], copied(result[:4])

    def writes(self) -> None:
        actions = list(self.sampled())[:20]
        expected = self.life(self.seed, actions)
        obs, _ = self.env.reset(seed=self.seed)
        if getattr(self.env, "copy", True) is False:
            raise Skipped("the environment was made with copy=False")
        for action, after in zip(actions, expected[1:], strict=True):
            spoil(obs)
            result = self.stepped(action)
            demand(equal(result[:4], after), "writing into observations changed the next step")
            obs = result[0]

    def global_random(self) -> None:
        before = pickle.dumps(np.random.get_state())
        self.life(self.seed, list(self.sampled())[:20])
        demand(before == pickle.dumps(np.random.get_state()), "np.random was drawn from")

    def autoreset(self) -> None:
        ended = self._until_an_end()
        actions = self.actions.sample()
        obs, rewards, terminated, truncated, _ = ended
        over = self._whole_worlds(terminated | truncated)
        if self.mode is AutoresetMode.DISABLED:
            first = copied(self.env.reset(options={"reset_mask": over})[0])
            demand(
                not equal(where(first, over), where(obs, over)),
                "a reset left the final observation in place",
            )
        elif self.mode is AutoresetMode.NEXT_STEP:
            _, rewards, again, cut, _ = self.env.step(actions)
            demand(not rewards[over].any(), "the step that resets has a reward")
            demand(not (again | cut)[over].any(), "the step that resets ends an episode")
        else:
            self.env.step(actions)

    def final_observations(self) -> None:
        if self.mode is not AutoresetMode.SAME_STEP:
            raise Skipped("the mode is another")
        obs, _, terminated, truncated, infos = self._until_an_end()
        over = terminated | truncated
        demand("final_obs" in infos, "infos have no final_obs where an episode ended")
        demand("final_info" in infos, "infos have no final_info where an episode ended")
        demand(
            np.array_equal(infos["_final_obs"], over), "_final_obs does not mark the ended episodes"
        )
        row = int(over.argmax())
        final = infos["final_obs"]
        one = final[row] if is_objects(final) else row_of(final, row)
        inside = one in self.env.single_observation_space
        demand(inside, f"final_obs of environment {row} is not in single_observation_space")
        over = self._whole_worlds(over)
        if over[row]:
            demand(not equal(one, row_of(obs, row)), "final_obs is the new episode's observation")

    def partial_reset(self) -> None:
        if self.rows < 2 * self.agents:
            raise Skipped("there is one environment")
        self.env.reset(seed=self.seed)
        obs = copied(self.env.step(next(self.sampled()))[0])
        mask = np.zeros(self.rows, np.bool_)
        mask[: self.agents] = True
        after = self.env.reset(options={"reset_mask": mask})[0]
        demand(
            equal(where(after, ~mask), where(obs, ~mask)),
            "environments that the mask leaves out changed",
        )
        none = np.zeros(self.rows, np.bool_)
        must_raise(
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
                return (*copied(result[:4]), result[4])
            if self.mode is AutoresetMode.DISABLED and over.any():
                raise Skipped("agents end apart from each other")
        raise Skipped(f"no episode ended in {self.steps} steps")


def _batched_actions(env: VectorEnv) -> Any:
    """The space of a batch of actions, also where the environment gives that of one."""
    space, single = env.action_space, getattr(env, "single_action_space", None)
    if single is None:
        return space
    batched = batch_space(single, env.num_envs)
    return space if space == batched else batched
