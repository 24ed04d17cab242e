"""TorchRL over our batches: its own GymWrapper takes them as they are."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import headrace

pytest.importorskip("torchrl", reason="torchrl is not installed")

STEPS, ROWS = 60, 4


class Recorded(gymnasium.vector.VectorWrapper):
    """Keeps what the batch gave: (where it stood, what a step led to, rewards, terminated)."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.autoreset_mode = env.autoreset_mode  # which TorchRL looks at
        self.kept: list[Any] = []

    def reset(self, **given: Any) -> Any:
        obs, infos = self.env.reset(**given)
        self.obs = obs.copy()  # TorchRL writes final observations into what it gets
        return obs, infos

    def step(self, actions: Any) -> Any:
        before = self.obs
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.obs, led = obs.copy(), obs.copy()
        if "final_obs" in infos:  # SameStep: the observations are of the new episodes
            led[infos["_final_obs"]] = infos["final_obs"][infos["_final_obs"]]
        self.kept.append((before, led, rewards, terminated))
        return obs, rewards, terminated, truncated, infos


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
@pytest.mark.parametrize("env", ["cartpole", "gymnasium:CartPole-v1"])
def test_rollouts_are_our_transitions(env: str, mode: str) -> None:
    """Observation, next observation (the final one where an episode ended), reward and flag."""
    from torchrl.envs.libs.gym import GymWrapper
    from torchrl.envs.utils import check_env_specs

    executor = {"executor": "serial"} if ":" in env else {}
    vec = Recorded(headrace.make_vec(env, ROWS, autoreset_mode=mode, seed=1, **executor))
    wrapped = GymWrapper(vec)
    check_env_specs(wrapped)
    vec.kept = []
    data = wrapped.rollout(STEPS, break_when_any_done=False)
    assert len(vec.kept) == STEPS
    ends = 0
    for t, (obs, led, rewards, terminated) in enumerate(vec.kept):
        now, after = data[:, t], data["next"][:, t]
        assert np.array_equal(now["observation"].numpy(), obs)
        assert np.array_equal(after["observation"].numpy(), led)
        assert np.array_equal(after["reward"][:, 0].numpy(), rewards)
        assert np.array_equal(after["terminated"][:, 0].numpy(), terminated)
        ended = (np.abs(led[:, 0]) > 2.4) | (np.abs(led[:, 2]) > 0.2095)
        assert np.array_equal(terminated, ended)
        ends += int(terminated.sum())
    assert ends >= ROWS
    wrapped.close()


def test_the_next_steps_reset_is_not_its_way() -> None:
    from torchrl.envs.libs.gym import GymWrapper

    with pytest.raises(RuntimeError, match="SAME_STEP or DISABLED"):
        GymWrapper(headrace.make_vec("cartpole", ROWS, autoreset_mode="NextStep"))
