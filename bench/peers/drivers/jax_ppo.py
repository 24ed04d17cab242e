"""gymnax and PPO as PureJaxRL has it: environments, policy and learner in one compiled program.

One call of the program is UPDATES_PER_CALL updates: collect num_envs x horizon steps, advantages
(GAE), then `epochs` passes over shuffled minibatches. Losses, clipping, initialisation and
optimiser are PPO's usual ones; the network is one hidden stack with two heads, or two stacks.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...batches import Array, Batch
from .protocol import (
    RECORDED_ENVS,
    STEP,
    TRAIN_128,
    TRAIN_128_4,
    TRAIN_TWO,
    Case,
    Running,
    serve,
)

ENV, PARAMS = gymnax.make("CartPole-v1")
PUREJAXRL = "PureJaxRL-style PPO"
STEPS_PER_CALL = 128  # of merely stepping
UPDATES_PER_CALL = 2


@dataclass(frozen=True)
class Settings:
    """Of one training; those not named here are PureJaxRL's for CartPole."""

    widths: tuple[int, ...]
    separate: bool  # value and policy have a hidden stack each
    num_envs: int
    horizon: int
    epochs: int
    minibatches: int = 4
    lr: float = 2.5e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5

    def text(self) -> str:
        """For people."""
        stacks = "two stacks of " if self.separate else ""
        return (
            f"{stacks}{'×'.join(map(str, self.widths))}, {self.num_envs} environments × "
            f"{self.horizon} steps, {self.minibatches} minibatches, {self.epochs} epochs"
        )


# ---- environments ------------------------------------------------------------------------------


def reset(key: Any, num_envs: int) -> Any:
    """(observations [n, 4], states)"""
    return jax.vmap(ENV.reset, in_axes=(0, None))(jax.random.split(key, num_envs), PARAMS)


def step(key: Any, state: Any, action: Any) -> Any:
    """(observations [n, 4], states, rewards, terminated, truncated [n]); ended rows begin anew."""
    keys = jax.random.split(key, action.shape[0])
    stepped = jax.vmap(ENV.step, in_axes=(0, 0, 0, None))(keys, state, action, PARAMS)
    return stepped[:5]


class Recorded:
    """The environments as a vector environment, for the check."""

    def __init__(self) -> None:
        self._key = jax.random.PRNGKey(0)
        self._step = jax.jit(step)
        self._state: Any = None

    def reset(self, seed: int | None = None) -> Any:
        """See gymnasium.vector.VectorEnv."""
        self._key, key = jax.random.split(jax.random.PRNGKey(seed or 0))
        obs, self._state = reset(key, RECORDED_ENVS)
        return np.asarray(obs), {}

    def step(self, actions: Array) -> Any:
        """See gymnasium.vector.VectorEnv."""
        self._key, key = jax.random.split(self._key)
        obs, self._state, *rest = self._step(key, self._state, jnp.asarray(actions))
        return (np.asarray(obs), *(np.asarray(each) for each in rest), {})

    def close(self) -> None:
        """Nothing to close."""


def stepping(num_envs: int) -> Case:
    """Random actions, drawn inside the program."""

    def make() -> Running:
        @functools.partial(jax.jit, donate_argnums=0)
        def many(carry: Any) -> Any:
            def once(carry: Any, _: None) -> Any:
                key, state = carry
                key, act, move = jax.random.split(key, 3)
                action = jax.random.randint(act, (num_envs,), 0, 2)
                obs, state, reward, *_ = step(move, state, action)
                return (key, state), (obs.sum(), reward.sum())

            carry, sums = jax.lax.scan(once, carry, None, STEPS_PER_CALL)
            return carry, jax.tree.map(jnp.sum, sums)

        key, first = jax.random.split(jax.random.PRNGKey(1))
        carry = (key, reset(first, num_envs)[1])

        def run(count: int) -> None:
            nonlocal carry
            for _ in range(count):
                carry, sums = many(carry)
            jax.block_until_ready(sums)

        return Running(num_envs * STEPS_PER_CALL, run)

    text = f"{num_envs} environments, {STEPS_PER_CALL} steps a call, actions drawn inside"
    return Case(f"step-{num_envs}", STEP, "gymnax", text, 0, make)


# ---- policy ------------------------------------------------------------------------------------


def _dense(key: Any, inputs: int, outputs: int, scale: float) -> Any:
    weights = jax.nn.initializers.orthogonal(scale)(key, (inputs, outputs))
    return {"w": weights, "b": jnp.zeros(outputs)}


def _stack(key: Any, widths: tuple[int, ...]) -> Any:
    keys = jax.random.split(key, len(widths))
    sizes = (4, *widths)
    return [_dense(k, sizes[i], sizes[i + 1], 2**0.5) for i, k in enumerate(keys)]


def initial(key: Any, settings: Settings) -> Any:
    """Parameters, orthogonal as PPO's are."""
    keys = jax.random.split(key, 4)
    last = settings.widths[-1]
    params = {
        "hidden": _stack(keys[0], settings.widths),
        "policy": _dense(keys[1], last, 2, 0.01),
        "value": _dense(keys[2], last, 1, 1.0),
    }
    if settings.separate:
        params["critic"] = _stack(keys[3], settings.widths)
    return params


def _through(stack: Any, x: Any) -> Any:
    for layer in stack:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x


def forward(params: Any, obs: Any) -> Any:
    """(log probabilities [n, 2], values [n])"""
    hidden = _through(params["hidden"], obs)
    critic = _through(params["critic"], obs) if "critic" in params else hidden
    logits = hidden @ params["policy"]["w"] + params["policy"]["b"]
    value = critic @ params["value"]["w"] + params["value"]["b"]
    return jax.nn.log_softmax(logits), value[:, 0]


# ---- training ----------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Of a rollout, [horizon, n], or of a minibatch, [rows]."""

    obs: Any
    action: Any
    logp: Any
    value: Any
    reward: Any
    done: Any


class Carry(NamedTuple):
    """What goes from one update to the next. lengths: of the episodes under way [n];
    ended: (sum of the lengths of episodes that ended, how many), of the last call."""

    params: Any
    opt: Any
    state: Any
    obs: Any
    key: Any
    lengths: Any
    ended: Any


def _collect(settings: Settings, carry: Carry) -> tuple[Carry, Rows]:
    def once(carry: Carry, _: None) -> tuple[Carry, Rows]:
        key, act, move = jax.random.split(carry.key, 3)
        logp, value = forward(carry.params, carry.obs)
        action = jax.random.categorical(act, logp)
        taken = jnp.take_along_axis(logp, action[:, None], 1)[:, 0]
        obs, state, reward, terminated, truncated = step(move, carry.state, action)
        done = terminated | truncated
        lengths = carry.lengths + 1
        ended = (carry.ended[0] + (lengths * done).sum(), carry.ended[1] + done.sum())
        rows = Rows(carry.obs, action, taken, value, reward, done)
        lengths = jnp.where(done, 0, lengths)
        return Carry(carry.params, carry.opt, state, obs, key, lengths, ended), rows

    return jax.lax.scan(once, carry, None, settings.horizon)


def _advantages(settings: Settings, rows: Rows, last: Any) -> Any:
    def back(after: Any, row: Rows) -> Any:
        advantage, value = after
        alive = 1.0 - row.done
        delta = row.reward + settings.gamma * value * alive - row.value
        advantage = delta + settings.gamma * settings.gae_lambda * alive * advantage
        return (advantage, row.value), advantage

    start = (jnp.zeros_like(last), last)
    return jax.lax.scan(back, start, rows, reverse=True, unroll=16)[1]


def _loss(params: Any, settings: Settings, rows: Rows, advantage: Any, target: Any) -> Any:
    logp, value = forward(params, rows.obs)
    taken = jnp.take_along_axis(logp, rows.action[:, None], 1)[:, 0]
    ratio = jnp.exp(taken - rows.logp)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - settings.clip, 1.0 + settings.clip)
    policy = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    near = rows.value + jnp.clip(value - rows.value, -settings.clip, settings.clip)
    errors = jnp.maximum((value - target) ** 2, (near - target) ** 2)
    entropy = -(jnp.exp(logp) * logp).sum(1).mean()
    return policy + settings.vf_coef * 0.5 * errors.mean() - settings.ent_coef * entropy


def _update(settings: Settings, optimizer: Any, carry: Carry, _: None) -> tuple[Carry, None]:
    carry, rows = _collect(settings, carry)
    advantage = _advantages(settings, rows, forward(carry.params, carry.obs)[1])
    size = settings.num_envs * settings.horizon
    batch = (rows, advantage, advantage + rows.value)
    flat = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), batch)

    def minibatch(learned: Any, part: Any) -> Any:
        params, opt = learned
        gradient = jax.grad(_loss)(params, settings, *part)
        changes, opt = optimizer.update(gradient, opt)
        return (optax.apply_updates(params, changes), opt), None

    def epoch(learned: Any, key: Any) -> Any:
        order = jax.random.permutation(key, size)
        parts = jax.tree.map(
            lambda x: x[order].reshape(settings.minibatches, -1, *x.shape[1:]), flat
        )
        return jax.lax.scan(minibatch, learned, parts)

    key, shuffle = jax.random.split(carry.key)
    keys = jax.random.split(shuffle, settings.epochs)
    (params, opt), _ = jax.lax.scan(epoch, (carry.params, carry.opt), keys)
    return carry._replace(params=params, opt=opt, key=key), None


def training(settings: Settings) -> Case:
    """The rate of training, and what was learnt meanwhile."""

    def make() -> Running:
        optimizer = optax.chain(
            optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(settings.lr, eps=1e-5)
        )
        update = functools.partial(_update, settings, optimizer)

        @functools.partial(jax.jit, donate_argnums=0)
        def many(carry: Carry) -> Carry:
            carry = carry._replace(ended=(jnp.int32(0), jnp.int32(0)))
            return jax.lax.scan(update, carry, None, UPDATES_PER_CALL)[0]

        key, first, weights = jax.random.split(jax.random.PRNGKey(0), 3)
        obs, state = reset(first, settings.num_envs)
        params = initial(weights, settings)
        lengths = jnp.zeros(settings.num_envs, jnp.int32)
        ended = (jnp.int32(0), jnp.int32(0))
        carry = Carry(params, optimizer.init(params), state, obs, key, lengths, ended)
        work = settings.num_envs * settings.horizon * UPDATES_PER_CALL
        steps, mean = 0, None

        def run(count: int) -> None:
            nonlocal carry, steps, mean
            for _ in range(count):
                carry = many(carry)
                steps += work
            length, episodes = jax.device_get(carry.ended)
            mean = float(length / episodes) if episodes else mean

        return Running(work, run, lambda: (mean, steps))

    name = f"train-{'x'.join(map(str, settings.widths))}{'-separate' * settings.separate}"
    name += f"-{settings.num_envs}-{settings.horizon}-{settings.epochs}"
    group = TRAIN_TWO if settings.separate else TRAIN_128 if settings.epochs == 1 else TRAIN_128_4
    return Case(name, group, PUREJAXRL, settings.text(), 0, make)


def cases() -> list[Case]:
    """Stepping by size; training of the policy that all trainers share, and of PureJaxRL's own."""
    steps = [stepping(num_envs) for num_envs in (4096, 16384)]
    shared = [
        training(Settings((128,), False, num_envs, 32, epochs))
        for epochs in (1, 4)
        for num_envs in (256, 1024, 2048)
    ]
    apart = [training(Settings((64, 64), True, num_envs, 32, 4)) for num_envs in (256, 1024)]
    return steps + shared + apart


if __name__ == "__main__":
    BATCH = Batch("recorded", "gymnax", RECORDED_ENVS, 0, Recorded, next_step=False)
    serve(("gymnax", "jax", "jaxlib", "optax"), BATCH, cases())
    sys.exit(0)
