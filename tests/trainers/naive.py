"""Plain NumPy twins of the trainer's kernels, float64 where it matters, and policies of any shape.

Rows are rows here: arrays are [rows, features], not tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.engine.spec import EnvSpec
from headrace.trainers.policy import PolicySpec

U32 = np.uint64(0xFFFFFFFF)
SIZES = {"float32": 4, "uint8": 1, "int8": 1, "int16": 2, "int32": 4}


class _Described:
    """Stands for a compiled environment: only its description."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told

    def describe(self) -> dict[str, Any]:
        return self.told


def field(name, dtype="float32", shape=(), choices=0, low=-1.0, high=1.0):
    """A member of Obs or Action; `choices` makes it discrete."""
    kind = "discrete" if choices else "box"
    return {
        "name": name, "kind": kind, "dtype": dtype, "shape": shape, "low": low, "high": high,
        "choices": choices,
    }  # fmt: skip


def _struct(fields):
    """The fields with their offsets, widest first as a struct without padding has them."""
    at, placed = 0, []
    for f in sorted(fields, key=lambda f: -SIZES[f["dtype"]]):
        placed.append({**f, "offset": at})
        at += SIZES[f["dtype"]] * int(np.prod(f["shape"], dtype=int))
    order = [f["name"] for f in fields]
    placed.sort(key=lambda f: order.index(f["name"]))
    return placed, -(-at // 4) * 4


def make_spec(obs, actions, *, masked=False, agents=1) -> EnvSpec:
    """An EnvSpec of these fields (see `field`) that no C file stands behind."""
    obs, obs_size = _struct(obs)
    actions, action_size = _struct(actions)
    choices = [f["choices"] * int(np.prod(f["shape"], dtype=int)) for f in actions]
    told = {
        "name": "made", "source_hash": "", "agents": agents, "max_steps": 0,
        "obs_fields": obs, "action_fields": actions, "obs_size": obs_size,
        "action_size": action_size, "params": [], "metric_names": [], "state_size": 4,
        "params_size": 0, "mask_size": sum(choices) if masked else 0, "has_present": False,
        "has_draw": False, "checked": False,
    }  # fmt: skip
    return EnvSpec.from_library(_Described(told))


def make_policy(
    features, heads, hidden=(16,), *, activation="tanh", separate=False, memory="none", masked=False
):
    """A policy over `features` floats; heads: sizes of choices, 0 for a Gaussian."""
    actions = [
        field(f"a{k}", "int32" if size else "float32", choices=size) for k, size in enumerate(heads)
    ]
    spec = make_spec([field("x", shape=(features,))], actions, masked=masked)
    return PolicySpec.from_env(spec, hidden, activation, separate, memory)


# ---- forward -----------------------------------------------------------------------------


def named(policy, params):
    """Parameters by name, as views of the flat array."""
    return {
        name: params[offset : offset + int(np.prod(shape))].reshape(shape)
        for name, offset, shape in policy.tensors
    }


def trunk(policy, tensors, name, x):
    """Inputs of every layer of a trunk, the last entry being its output."""
    layers = [x]
    for k in range(len(policy.trunk)):
        z = layers[-1] @ tensors[f"{name}.{k}.weight"].T + tensors[f"{name}.{k}.bias"]
        layers.append(np.tanh(z) if policy.activation == "tanh" else np.maximum(z, 0))
    return layers


def forward(policy, params, x):
    """Outputs [rows, outputs], the value last."""
    t = named(policy, np.asarray(params, np.float64))
    x = np.asarray(x, np.float64)
    names = ("policy_trunk", "value_trunk") if policy.separate else ("trunk", "trunk")
    parts = [
        trunk(policy, t, name, x)[-1] @ t[f"{head}.weight"].T + t[f"{head}.bias"]
        for name, head in zip(names, ("policy", "value"), strict=True)
    ]
    return np.concatenate(parts, 1)


def sigmoid(x):
    """1 / (1 + e^-x)"""
    return 1.0 / (1.0 + np.exp(-x))


def mingru(before, began, live, gate, candidate):
    """One step of a minimal gated recurrent unit (Feng et al. 2024), all [rows, size], began and
    live [rows]: what is remembered after it."""
    before = np.where(began[:, None], 0.0, before)
    new = np.where(candidate >= 0, candidate + 0.5, sigmoid(candidate))
    z = sigmoid(gate)
    return np.where(live[:, None], (1 - z) * before + z * new, before)


def unroll(policy, params, x, state, began, live):
    """Outputs [T, rows, outputs] of a policy with a memory for x [T, rows, features], and what it
    remembers at the end; state [rows, size], began and live [T, rows]."""
    t = named(policy, np.asarray(params, np.float64))
    outputs = []
    for step in range(len(x)):
        hidden = trunk(policy, t, "encoder.layers", np.asarray(x[step], np.float64))[-1]
        given = hidden @ t["core.input.weight"].T + t["core.input.bias"]
        state = mingru(state, began[step], live[step], *np.split(given, 2, axis=1))
        parts = [
            state @ t[f"heads.{n}.weight"].T + t[f"heads.{n}.bias"] for n in ("policy", "value")
        ]
        outputs.append(np.concatenate(parts, 1))
    return np.stack(outputs), state


def by_step(rows, name):
    """A column of a rollout's rows, in the order of its tiles, as [T, rows, ...]; one agent."""
    column = rows[name]
    blocks = column.reshape(-1, rows["horizon"], 64, *column.shape[1:])
    return np.moveaxis(blocks, 1, 0).reshape(rows["horizon"], -1, *column.shape[1:])


def by_tile(steps):
    """The inverse of `by_step`."""
    blocks = steps.reshape(len(steps), -1, 64, *steps.shape[2:])
    return np.moveaxis(blocks, 0, 1).reshape(-1, *steps.shape[2:])


def began(rows):
    """Where an episode begins, [T, rows]."""
    done = by_step(rows, "done") > 0
    return np.concatenate([np.zeros_like(done[:1]), done[:-1]])


def outputs(policy, params, rows):
    """Outputs of a rollout's rows, the value last."""
    if not policy.state_size:
        return forward(policy, params, rows["obs"])
    live = by_step(rows, "valid") > 0
    obs = by_step(rows, "obs")
    return by_tile(unroll(policy, params, obs, rows["states"], began(rows), live)[0])


def log_softmax(logits, mask):
    """Log-probabilities; -inf where masked."""
    logits = np.where(mask, logits, -np.inf)
    top = logits.max(1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))


def logp_and_entropy(policy, params, out, actions, mask):
    """Joint log-probability of `actions` [rows, heads] and joint entropy, [rows]."""
    t = named(policy, np.asarray(params, np.float64))
    log_stds = t.get("log_std", t.get("heads.log_std"))
    logp, entropy = np.zeros(len(out)), np.zeros(len(out))
    at = column = number = 0
    for k, head in enumerate(policy.heads):
        if head.size:
            own = mask[:, column : column + head.size] if mask is not None else np.True_
            logs = log_softmax(out[:, at : at + head.size], own)
            p = np.exp(logs)
            logp += logs[np.arange(len(out)), actions[:, k].astype(int)]
            entropy -= np.where(p > 0, p * np.where(p > 0, logs, 0), 0).sum(1)
            column += head.size
        else:
            log_std = log_stds[number]
            z = (actions[:, k] - out[:, at]) * np.exp(-log_std)
            logp += -0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)
            entropy += log_std + 0.5 * np.log(2 * np.pi * np.e)
            number += 1
        at += head.outputs
    return logp, entropy


# ---- loss and gradient -------------------------------------------------------------------


def loss_sums(
    policy, params, rows, *, clip, vf_clip, advantage_mean=0.0, advantage_scale=1.0, weight_max=5.0
):
    """Sums over valid rows: policy loss, value loss, entropy, KL (k3), clipped rows.

    With rows["proximal"] the objective is decoupled (Hilton et al. 2021): the ratio is taken to
    the proximal policy, and rows are weighed by proximal / behaviour, at most weight_max."""
    out = outputs(policy, params, rows)
    logp, entropy = logp_and_entropy(policy, params, out, rows["actions"], rows["mask"])
    proximal = rows.get("proximal")
    log_ratio = logp - (rows["logp"] if proximal is None else proximal)
    ratio = np.exp(log_ratio)
    advantage = (rows["advantage"] - advantage_mean) * advantage_scale
    surrogate = -np.minimum(ratio * advantage, np.clip(ratio, 1 - clip, 1 + clip) * advantage)
    if proximal is not None:
        surrogate = surrogate * np.minimum(weight_max, np.exp(proximal - rows["logp"]))
    error = (out[:, -1] - rows["ret"]) ** 2
    if vf_clip > 0:
        bounded = rows["value"] + np.clip(out[:, -1] - rows["value"], -vf_clip, vf_clip)
        error = np.maximum(error, (bounded - rows["ret"]) ** 2)
    sums = np.stack(
        [surrogate, 0.5 * error, entropy, ratio - 1 - log_ratio, np.abs(ratio - 1) > clip], 1
    )
    return sums[rows["valid"] > 0].sum(0)


def loss(policy, params, rows, *, vf_coef, ent_coef, **options):
    """The mean loss over valid rows."""
    sums = loss_sums(policy, params, rows, **options)
    return (sums[0] + vf_coef * sums[1] - ent_coef * sums[2]) / (rows["valid"] > 0).sum()


def gradient(policy, params, rows, indices, **options):
    """Central differences of the loss by the parameters `indices`."""
    params = np.asarray(params, np.float64)
    found = np.zeros(len(indices))
    for k, index in enumerate(indices):
        step = 1e-5
        up, down = params.copy(), params.copy()
        up[index] += step
        down[index] -= step
        difference = loss(policy, up, rows, **options) - loss(policy, down, rows, **options)
        found[k] = difference / (2 * step)
    return found


# ---- the rest ----------------------------------------------------------------------------


def folded(reward, done, bootstrap, valid):
    """What happens to a row that is away, as if it had happened with its last valid step."""
    reward, done, bootstrap = np.array(reward, np.float64), np.array(done), np.array(bootstrap)
    for row in range(reward.shape[1]):
        before = None
        for t in range(len(reward)):
            if valid[t, row]:
                before = t
            elif before is not None and not done[before, row]:
                reward[before, row] += reward[t, row]
                done[before, row], bootstrap[before, row] = done[t, row], bootstrap[t, row]
    return reward, done, bootstrap


def gae(reward, value, done, bootstrap, valid, last, gamma, gae_lambda):
    """Generalised advantage estimation, row by row."""
    reward, done, bootstrap = folded(reward, done, bootstrap, valid)
    steps, rows = reward.shape
    advantage = np.zeros((steps, rows))
    for row in range(rows):
        after, carried = last[row], 0.0
        for t in reversed(range(steps)):
            if not valid[t, row]:
                continue
            if done[t, row]:
                after, carried = bootstrap[t, row], 0.0
            delta = reward[t, row] + gamma * after - value[t, row]
            carried = delta + gamma * gae_lambda * carried
            advantage[t, row] = carried
            after = value[t, row]
    return advantage, np.where(valid > 0, advantage + value, 0.0)


def vtrace(reward, value, done, bootstrap, valid, last, ratio, gamma, gae_lambda, rho_max, c_max):
    """V-trace in the n-step form of Espeholt et al. 2018, equation 1, step by step and row by
    row: v_s = V_s + sum over t >= s of gamma^(t-s) (c_s .. c_(t-1)) rho_t delta_t, up to the
    episode's end; the advantage is reward + gamma (lambda v' + (1 - lambda) V') - V."""
    reward, done, bootstrap = folded(reward, done, bootstrap, valid)
    steps, rows = reward.shape
    advantage, target = np.zeros((steps, rows)), np.zeros((steps, rows))
    for row in range(rows):
        live = [t for t in range(steps) if valid[t, row]]
        if not live:
            continue
        after = [value[t, row] for t in live[1:]] + [last[row]]
        after = [bootstrap[t, row] if done[t, row] else v for t, v in zip(live, after, strict=True)]
        rho = [min(rho_max, ratio[t, row]) for t in live]
        c = [gae_lambda * min(c_max, ratio[t, row]) for t in live]
        delta = [reward[t, row] + gamma * v - value[t, row]
                 for t, v in zip(live, after, strict=True)]  # fmt: skip
        excess = []  # v - V
        for s in range(len(live)):
            total, factor = 0.0, 1.0
            for t in range(s, len(live)):
                total += factor * rho[t] * delta[t]
                if done[live[t], row]:
                    break
                factor *= gamma * c[t]
            excess.append(total)
        for s, t in enumerate(live):
            target[t, row] = value[t, row] + excess[s]
            later = 0.0 if done[t, row] or s + 1 == len(live) else excess[s + 1]
            advantage[t, row] = delta[s] + gamma * gae_lambda * later
    return advantage, target


def threefry(key, c0, c1):
    """Threefry-2x32, 20 rounds: two uint32 arrays from a (low, high) key and counters."""
    k = [np.uint64(key[0]), key[1].astype(np.uint64)]
    k.append(k[0] ^ k[1] ^ np.uint64(0x1BD11BDA))
    turns = [[13, 15, 26, 6], [17, 29, 16, 24]]
    a, b = (np.uint64(c0) + k[0]) & U32, (np.uint64(c1) + k[1]) & U32
    for group in range(5):
        for turn in turns[group % 2]:
            a = (a + b) & U32
            b = ((b << np.uint64(turn)) | (b >> np.uint64(32 - turn))) & U32
            b ^= a
        a = (a + k[(group + 1) % 3]) & U32
        b = (b + k[(group + 2) % 3] + np.uint64(group + 1)) & U32
    return a.astype(np.uint32), b.astype(np.uint32)


def words(key, rows, step, pair):
    """The random words of rows 0 .. rows-1 for one pair of draws."""
    high = np.uint32(key >> 32) ^ np.arange(rows, dtype=np.uint32)
    return threefry((key & 0xFFFFFFFF, high), step & 0xFFFFFFFF, (step >> 32) << 16 | pair)


def unit(word):
    """Uniform in [0, 1): a multiple of 2^-24."""
    return (word >> np.uint32(8)).astype(np.float64) * 2.0**-24


def adam(params, grad, m, v, step, lr, betas, eps):
    """One Adam step as torch.optim.Adam takes it; returns params, m, v."""
    m = betas[0] * m + (1 - betas[0]) * grad
    v = betas[1] * v + (1 - betas[1]) * grad**2
    root = np.sqrt(v / (1 - betas[1] ** step)) + eps
    return params - lr * m / (1 - betas[0] ** step) / root, m, v


def encode(spec, structs):
    """Features [rows, features] of Obs structs, field by field."""
    parts = []
    for f in spec.obs_fields:
        values = structs[f.name].reshape(len(structs), -1)
        if f.kind == "discrete":
            hot = values[:, :, None] == np.arange(f.choices)
            parts.append(hot.reshape(len(structs), -1).astype(np.float64))
        else:
            greatest = max(abs(f.low), abs(f.high))
            divides = f.dtype != "float32" and 0 < greatest <= 65535
            parts.append(values.astype(np.float64) / (greatest if divides else 1.0))
    return np.concatenate(parts, 1)


def normalized_rows(x, mean, scale, clip):
    """(x - mean) * scale within [-clip, clip], one number at a time."""
    made = np.empty_like(x)
    for (r, c), number in np.ndenumerate(x):
        y = np.float32(np.float32(number - mean[c]) * scale[c])
        made[r, c] = max(-clip, min(clip, y)) if y == y else y
    return made


def sums_of_rows(x, valid, centre):
    """Sums of x - centre and of its square over the valid rows, [2, features]."""
    sums = np.zeros((2, x.shape[1]))
    for row, counts in zip(x.astype(np.float64), valid, strict=True):
        if counts > 0:
            away = row - centre
            sums += np.stack((away, away * away))
    return sums
