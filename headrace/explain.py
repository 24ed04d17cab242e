"""What there is to know about one environment: for `headrace envs NAME`."""

from __future__ import annotations

import ast
import math
import re
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium import spaces

from .engine.make import make_vec
from .engine.resolve import Resolved, resolve, sizes_of
from .engine.spec import EnvSpec, FieldSpec
from .trainers.begin import preset_of
from .trainers.config import read_preset

_ROWS = 4096
_SECONDS = 0.4  # of stepping


def explain(env: str) -> dict[str, Any]:
    """Spaces, parameters, rules, preset and speed of an environment, for JSON.

    `steps_per_second` is measured here and now: random actions, one thread, about 4096 rows;
    None where parameters without a default keep it from running.
    """
    found = resolve(env)
    spec = found.spec
    preset = preset_of(env)
    settings = read_preset(preset) if preset else {}
    return {
        "name": spec.name,
        "language": spec.language,
        "file": str(found.source),
        "rules": rules(found),
        **spaces_of(spec),
        "agents": spec.agents,
        "target": settings.get("target"),
        "max_steps": spec.max_steps,
        "observation": [_field(field) for field in spec.obs_fields],
        "action": [_field(field) for field in spec.action_fields],
        "params": [
            {"name": p.name, "dtype": p.dtype, "default": p.default, "array": p.is_array}
            for p in spec.params
        ],
        "sizes": sizes_of(found.source),
        "metrics": list(spec.metric_names),
        "masks": bool(spec.mask_size),
        "preset": {name: _plain(value) for name, value in settings.items()},
        "state_bytes": spec.state_size,
        "steps_per_second": _speed(env, spec.agents, any(p.is_array for p in spec.params)),
    }


def spaces_of(spec: EnvSpec) -> dict[str, Any]:
    """Both spaces: as a line to read, and (`*_structure`) as plain values."""
    told: dict[str, Any] = {}
    for name in ("observation_space", "action_space"):
        space = getattr(spec, f"single_{name}")
        told[name] = str(space)
        told[f"{name}_structure"] = structure(space)
    return told


def structure(space: spaces.Space) -> dict[str, Any]:
    """A space in plain values; a bound is one number where all
    elements share it, else nested lists; None stands for no bound."""
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {n: structure(s) for n, s in space.spaces.items()}}
    told = {
        "type": type(space).__name__,
        "shape": list(space.shape or ()),
        "dtype": str(space.dtype),
    }
    if isinstance(space, spaces.Box):
        return {**told, "low": _bounds(space.low), "high": _bounds(space.high)}
    if isinstance(space, spaces.Discrete):
        return {**told, "n": int(space.n), "start": int(space.start)}
    return (
        {**told, "nvec": space.nvec.tolist()} if isinstance(space, spaces.MultiDiscrete) else told
    )


def _bounds(values: np.ndarray) -> Any:
    """A number where all are the same, else nested lists."""
    if values.size and (values == values.flat[0]).all():
        return _finite(values.flat[0].item())
    return _finite(values.tolist())


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value if math.isfinite(value) else None


def rules(found: Resolved) -> str:
    """The comment at the top of the author's file, without its marks."""
    text = found.source.read_text(errors="replace")
    if found.source.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    if found.source.suffix == ".pyx":
        comment = re.match(r'\s*"""(.*?)"""', text, re.S)
    else:
        comment = re.match(r"\s*/\*(.*?)\*/", text, re.S)
    if comment is None:
        return ""
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in comment[1].splitlines()]
    return "\n".join(lines).strip()


def _field(field: FieldSpec) -> dict[str, Any]:
    told: dict[str, Any] = {"name": field.name, "dtype": field.dtype, "shape": list(field.shape)}
    if field.kind == "discrete":
        return {**told, "choices": field.choices}
    bounds = {"low": field.low, "high": field.high}
    return {**told, **{name: v if math.isfinite(v) else None for name, v in bounds.items()}}


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _speed(env: str, agents: int, needs_arrays: bool) -> float | None:
    """Steps of present agents a second."""
    if needs_arrays:
        return None
    rows = max(_ROWS // agents, 1) * agents
    with closing(make_vec(env, rows, executor="serial", autoreset_mode="SameStep", seed=0)) as vec:
        vec.reset()
        vec.action_space.seed(0)
        batches = [vec.action_space.sample() for _ in range(4)]
        acted = vec.buffers.arrays["acted"]
        for actions in batches:
            vec.step(actions)
        steps, calls, started = 0, 0, time.perf_counter()
        while (seconds := time.perf_counter() - started) < _SECONDS:
            vec.step(batches[calls % len(batches)])
            calls += 1
            steps += rows if agents == 1 else int(np.count_nonzero(acted))
    return steps / seconds


# ---- for people -------------------------------------------------------------------------


def explanation(told: dict[str, Any]) -> str:
    """What `explain` gave, as text."""
    agents = f", {told['agents']} agents in a world" if told["agents"] > 1 else ""
    lines = [f"{told['name']}  ({told['language']}{agents}, {told['file']})", ""]
    lines += [*told["rules"].splitlines(), ""] if told["rules"] else []
    lines += _section("observes", [_field_line(field) for field in told["observation"]])
    lines += _section("acts", [_field_line(field) for field in told["action"]])
    lines += _section("parameters", [_param_line(param) for param in told["params"]])
    lines += _section("sizes", [f"{name} = {value}" for name, value in told["sizes"].items()])
    lines += _section("metrics", told["metrics"])
    limit = f"{told['max_steps']} steps" if told["max_steps"] else "none"
    lines += _section("time limit", [limit])
    lines += _section("preset", [f"{n} = {_shown(v)}" for n, v in told["preset"].items()])
    speed = told["steps_per_second"]
    if speed is not None:
        lines += _section("speed", [f"{_count(speed)} steps/s on one core, measured just now"])
    return "\n".join(lines).rstrip()


def _section(title: str, entries: Sequence[str]) -> list[str]:
    return [f"{title if at == 0 else '':<12}{entry}" for at, entry in enumerate(entries)]


def _field_line(field: dict[str, Any]) -> str:
    shape = "".join(f"[{size}]" for size in field["shape"])
    if "choices" in field:
        return f"{field['name']}{shape}: 0 to {field['choices'] - 1}"
    low, high = (
        sign + "infinity" if field[bound] is None else f"{field[bound]:g}"
        for bound, sign in (("low", "-"), ("high", ""))
    )
    return f"{field['name']}{shape}: {low} to {high} ({field['dtype']})"


def _param_line(param: dict[str, Any]) -> str:
    if param["array"]:
        return f"{param['name']}: an array of {param['dtype']}, to be given"
    return f"{param['name']} = {param['default']:g}"


def _shown(value: Any) -> str:
    return ",".join(map(_shown, value)) if isinstance(value, list) else str(value)


def _count(number: float) -> str:
    return f"{number / 1e6:.3g} M" if number >= 1e6 else f"{number / 1e3:.3g} k"
