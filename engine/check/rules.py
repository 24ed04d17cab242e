"""Each rule's judgement on what a run did."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec import EnvSpec, FieldSpec
from .batch import Memory, Runner, Source, Trace
from .experiments import FILLS, SEVERAL, Note, refuse_failure
from .plan import Plan
from .report import FAIL, PASS, SKIP, WARN, Finding

CHUNK = 64  # steps that are kept, then judged, at a time
_ENOUGH_EPISODES = 8
_FRAMES = ((400, 600), (64, 64), (37, 53), (1, 1))  # height, width


def judge_numbers(source: Source, trace: Trace, first_step: int = 0) -> list[Finding]:
    """The rules "numbers" (no NaN in observations, none and no infinity in rewards) and "space";
    the first of each that is wrong in a trace.

    first_step: steps that were taken before the trace began.
    """
    spec = source.spec
    shape = (trace.steps + 1, trace.worlds, spec.agents)
    acted = np.ones(shape, bool)
    if spec.has_present and "present" in trace.parts:
        acted[1:] = trace.parts["present"][:-1].view(bool).reshape(acted[1:].shape)
    shown = acted.copy()
    found = []
    for part in ("obs", "start_obs"):
        data = trace.parts[part].reshape(*shape, -1)
        for field in spec.obs_fields:
            found += _judge_field(source, trace, part, field, data, shown, first_step)
    rewards = trace.parts["rewards"].view(np.float32).reshape(shape)
    bad = ~np.isfinite(rewards) & acted
    bad[0] = False
    if bad.any():
        step, world, agent = (int(i) for i in np.argwhere(bad)[0])
        whose = f" of agent {agent}" if spec.agents > 1 else ""
        message = f"the reward{whose} is {rewards[step, world, agent]}"
        found.append(_at("numbers", message, source, trace, step, world, first_step))
    broken = {each.rule for each in found}
    return found + [Finding(rule, PASS) for rule in ("numbers", "space") if rule not in broken]


def _judge_field(
    source: Source,
    trace: Trace,
    part: str,
    field: FieldSpec,
    data: np.ndarray,
    shown: np.ndarray,
    first_step: int,
) -> list[Finding]:
    """data: uint8 [steps + 1, worlds, agents, sizeof(Obs)]."""
    dtype = np.dtype(field.dtype)
    raw = data[..., field.offset : field.offset + field.size * dtype.itemsize]
    values = np.ascontiguousarray(raw).view(dtype)  # [steps + 1, worlds, agents, elements]
    found = []
    if dtype.kind == "f" and (bad := np.isnan(values) & shown[..., None]).any():
        found.append(("numbers", bad, "the observation is nan"))
    low, high = (0, field.choices - 1) if field.kind == "discrete" else (field.low, field.high)
    with np.errstate(invalid="ignore"):
        outside = ((values < _bound(low, dtype)) | (values > _bound(high, dtype))) & shown[
            ..., None
        ]
    if outside.any():
        found.append(("space", outside, f"its space is {low:g} to {high:g}"))
    findings = []
    for rule, bad, said in found:
        step, world, agent, element = (int(i) for i in np.argwhere(bad)[0])
        index = np.unravel_index(element, field.shape) if field.shape else ()
        name = f"Obs.{field.name}" + "".join(f"[{int(i)}]" for i in index)
        value = values[step, world, agent, element]
        message = f"{name} is {value}: {said}" if rule == "space" else f"{name} is nan"
        if part == "start_obs":
            message += " (after the reset that followed)"
        if source.spec.agents > 1:
            message += f" (agent {agent})"
        findings.append(_at(rule, message, source, trace, step, world, first_step, name))
    return findings


def _bound(value: float, dtype: np.dtype) -> Any:
    """A bound in the observation's own precision, as its space has it."""
    if dtype.kind in "iu":
        return value
    with np.errstate(over="ignore"):
        return dtype.type(value)


def judge_actions(source: Source, trace: Trace) -> Finding:
    """That somebody can act, and in some way, until the episode is over."""
    spec = source.spec
    shape = (trace.steps + 1, trace.worlds, spec.agents)
    present = trace.parts["present"].view(bool).reshape(shape)
    if spec.mask_size == 0:
        return Finding("actions", PASS, "no masks")
    mask = trace.parts["mask"].view(bool).reshape(*shape, -1)
    column = 0
    for field in spec.action_fields:
        for element in range(field.size):
            allowed = mask[..., column : column + field.choices].any(axis=-1)
            column += field.choices
            bad = present & ~allowed
            if bad.any():
                step, world, agent = (int(i) for i in np.argwhere(bad)[0])
                name = f"Action.{field.name}" + (f"[{element}]" if field.shape else "")
                message = f"the mask allows no value of {name}"
                if spec.agents > 1:
                    message += f" to agent {agent}"
                return _at("actions", message, source, trace, step, world, 0, name)
    return Finding("actions", PASS)


def _at(
    rule: str,
    message: str,
    source: Source,
    trace: Trace,
    step: int,
    world: int,
    first_step: int,
    member: str | None = None,
) -> Finding:
    return Finding(
        rule,
        FAIL,
        message,
        world=world,
        step=first_step + step,
        seed=source.seed + world,
        member=member,
        action=action_of(source.spec, trace, step, world),
    )


def action_of(spec: EnvSpec, trace: Trace, step: int, world: int) -> Any:
    """What world `world` did at `step`, as plain values by name; None at a reset."""
    if step == 0:
        return None
    taken = trace.actions[step, world].view(spec.action_dtype)
    told = {
        name: taken[name].tolist() if spec.agents > 1 else taken[name][0].tolist()
        for name in spec.action_dtype.names or ()
    }
    return next(iter(told.values())) if len(told) == 1 else told


def drive(
    source: Source, note: Note, worlds: int, steps: int, *, singly: bool
) -> tuple[list[Finding], list[tuple[int, bool]]]:
    """Worlds that act at random for many steps.

    singly: one world after the other, so that a crash is that of a known world.

    Returns:
        what was found about numbers and spaces; (steps, whether it was terminated and not
        truncated) of each episode that ended.
    """
    spec = source.spec
    memory = Memory(spec, worlds, exact=False)
    memory.fill(FILLS[0])
    ranges = [(w, w + 1) for w in range(worlds)] if singly else [(0, worlds)]
    lengths: list[tuple[int, bool]] = []
    found: list[Finding] = []
    length = np.zeros(worlds, np.int64)
    runner = Runner(source, memory, _random_plan(source, worlds, 0))
    note(SEVERAL, 0)
    runner.reset()
    for done in range(0, steps, CHUNK):
        runner.plan = _random_plan(source, worlds, done)
        trace = Trace(spec, worlds, CHUNK)
        trace.keep(memory, 0)
        for step in range(CHUNK):
            runner.put_actions(step)
            for lo, hi in ranges:
                note(lo if singly else SEVERAL, done + step + 1)
                runner.step([(lo, hi)], FILLS[0])
                refuse_failure(runner, done + step + 1)  # the next step forgets it
            length += 1
            trace.keep(memory, step + 1)
            over = memory.arrays["world_over"] != 0
            if over.any():
                alone = _terminated_alone(memory)
                lengths += [(int(length[w]), bool(alone[w])) for w in np.flatnonzero(over)]
                length[over] = 0
                runner.restart(over, FILLS[0])
                trace.keep_start(memory, step + 1, over, 0)
            refuse_failure(runner, done + step + 1)
        found += judge_numbers(source, trace, done)
        if any(each.status == FAIL for each in found):
            break
    return found, lengths


def drive_steps(source: Source, most: int) -> int:
    """How many steps a drive takes where states and observations are large."""
    size = source.spec.state_size + source.spec.agents * source.spec.obs_dtype.itemsize
    return int(np.clip((4 << 20) // size, 2, most // CHUNK)) * CHUNK


def _random_plan(source: Source, worlds: int, done: int) -> Plan:
    return Plan(source.spec, worlds, CHUNK, source.seed + 1 + done, random=True)


def _terminated_alone(memory: Memory) -> np.ndarray:
    """Which worlds have a row that was terminated and none that was truncated, bool [worlds]."""
    flags = (memory.arrays[name] != 0 for name in ("terminated", "truncated"))
    terminated, truncated = (np.any(each.reshape(memory.worlds, -1), axis=1) for each in flags)
    return np.logical_and(terminated, np.logical_not(truncated))


def judge_ends(source: Source, lengths: list[tuple[int, bool]], steps: int) -> Finding:
    """Whether a time limit seems to be reported as termination; lengths: (steps, whether it
    terminated and was not truncated) of each random episode."""
    limit = source.spec.max_steps if source.max_steps is None else source.max_steps
    if not lengths:
        if limit > steps:
            return Finding("ends", PASS, f"no random episode ended within {steps} steps")
        if limit == 0:
            return Finding(
                "ends",
                WARN,
                f"no random episode ended within {steps} steps, and there is no time limit: "
                "training learns of no return until one ends (.max_steps = n sets a limit)",
            )
    only = {length for length, _ in lengths}
    count = f"{len(lengths)} random episodes"
    if len(lengths) >= _ENOUGH_EPISODES and all(alone for _, alone in lengths) and len(only) == 1:
        length = only.pop()
        if length == 1:
            return Finding("ends", WARN, f"each of {count} ended with its first step")
        return Finding(
            "ends",
            WARN,
            f"all {count} ended terminated after exactly {length} steps: if that is a time limit, "
            f"it must be truncation (.max_steps = {length}, or out->truncated), or what comes "
            "after it counts as worth nothing",
        )
    return Finding("ends", PASS, f"{count}, {min(only)} to {max(only)} steps" if only else "")


def judge_draw(source: Source, note: Note) -> Finding:
    """Draws some states into frames of several sizes, each an allocation of its own."""
    if not source.spec.has_draw:
        return Finding("draw", SKIP, "there is no draw function")
    memory = Memory(source.spec, 1, exact=True)
    memory.fill(FILLS[0])
    plan = Plan(source.spec, 1, 40, source.seed)
    runner = Runner(source, memory, plan)
    runner.reset()
    for step in range(40):
        if step % 10 == 0:
            for height, width in _FRAMES:
                frames = [np.full((height, width, 3), fill, np.uint8) for fill in FILLS]
                note(0, step)
                before = memory.arrays["state"].copy()
                for frame in frames:
                    runner.vec.draw(0, frame)
                said = None
                if (before != memory.arrays["state"]).any():
                    said = "drawing changed the State"
                elif (frames[0] != frames[1]).any():
                    y, x, _ = (int(i) for i in np.argwhere(frames[0] != frames[1])[0])
                    said = f"pixel ({x}, {y}) of a {width} x {height} frame is not painted"
                if said:
                    return Finding("draw", FAIL, said, world=0, step=step, seed=source.seed)
        runner.put_actions(step)
        note(0, step + 1)
        over = runner.step([(0, 1)], FILLS[0]) != 0
        if over.any():
            runner.restart(over, FILLS[0])
    return Finding("draw", PASS)
