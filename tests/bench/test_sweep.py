"""Every shipped environment, and that one which does something else is not timed."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.bench import bandwidth, stepping, sweep, trajectory
from headrace.bench.check import CheckFailed
from headrace.bench.results import Result
from headrace.bench.shipped import chosen, shipped
from headrace.bench.spread import Spread
from headrace.bench.sweep import KERNEL, STEPPERS, Sweep, bytes_per_step, make, rows_for
from headrace.cli import main
from headrace.engine.resolve import resolve
from headrace.flags import UsageError

ENVS = Path(str(resolve("cartpole").source)).parent


@pytest.mark.parametrize("name", shipped())
def test_environments_do_what_is_on_record(name: str) -> None:
    """Where one was changed on purpose: python tools/record_trajectories.py NAME."""
    rows = rows_for(resolve(name).spec, 128)
    rows = max(rows, trajectory.WORLDS * resolve(name).spec.agents)
    for way, threads in (("kernel", 1), ("step", 2), ("sendrecv", 1)):
        batch = rows // 2 if way == "sendrecv" else None
        with closing(make(name, rows, threads, batch)) as env:
            trajectory.check_trajectory(way, env, STEPPERS[way](env))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("cartpole", "s->theta_dot += p->tau", "s->theta_dot -= p->tau"),
        ("pong", "s->opponent += hr_clamp", "s->opponent -= hr_clamp"),
        ("snake", "s->length += 1", "s->length -= 1"),
    ],
)
def test_a_wrong_sign_is_not_timed(
    name: str,
    right: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = (ENVS / f"{name}.c").read_text()
    assert source.count(right) == 1
    (tmp_path / f"{name}.c").write_text(source.replace(right, wrong))
    monkeypatch.setattr(stepping, "run", lambda **_: [])  # cartpole's own check: test_batches.py
    monkeypatch.setattr(stepping, "ratios", lambda _: [])
    ordinary = sweep.make_vec
    monkeypatch.setattr(
        sweep, "make_vec", lambda _, *a, **k: ordinary(str(tmp_path / f"{name}.c"), *a, **k)
    )
    assert main(["bench", "env", "--quick", "--envs", name, "--json"]) == 1
    captured = capsys.readouterr()
    assert f"{KERNEL}: {name} does not do what is on record" in captured.err
    assert "steps/s" not in captured.err
    assert list(json.loads(captured.out)) == ["error"]


def test_an_environment_without_a_record_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "TRAJECTORIES", {})
    with closing(make("cartpole", 64, 1)) as env, pytest.raises(CheckFailed, match="not on record"):
        trajectory.check_trajectory("kernel", env, STEPPERS["kernel"](env))


def test_every_way_by_rows_and_threads() -> None:
    told: list[tuple[int, int]] = []
    plan = Sweep(5, 0.001, sizes=(1, 4096), threads=(1, 2), announce=lambda *at: told.append(at))
    found = sweep.run(["squared"], plan)
    rows = [(each.name, each.threads) for each in found]
    assert rows == [
        (f"{way}-{size}", threads)
        for size, threads in ((1, 1), (4096, 1), (4096, 2))
        for way in ("kernel", "step", "sendrecv")
    ]
    assert told[-1] == (15, 15)
    assert all(each.repeats == 5 and each.value for each in found)


def test_worlds_are_whole_and_absent_agents_do_not_count() -> None:
    spec = resolve("foraging").spec
    assert rows_for(spec, 1) == spec.agents
    assert 0 < sweep.acting("foraging") <= 1
    assert sweep.acting("cartpole") == 1


def test_several_agents_by_every_way() -> None:
    found = sweep.run(["foraging"], Sweep(5, 0.001, sizes=(64,), threads=(1,)))
    assert [each.name for each in found] == ["kernel-64", "step-64", "sendrecv-64"]
    assert all(each.value for each in found)


def test_bytes_of_a_step() -> None:
    """CartPole: 4 floats of state in and out and as many out again, 1 action of 4 bytes."""
    expected = 2 * 16 + 8 + 2 + 16 + 3 * 4 + 2 * 4 + 4 + 4 * 4
    assert bytes_per_step(resolve("cartpole").spec) == expected


def test_actions_are_allowed_and_the_same_for_every_block() -> None:
    for name in ("pendulum", "cartpole"):
        spec = resolve(name).spec
        actions = trajectory.actions_at(spec, 200, 3)
        (field,) = spec.action_fields
        values = actions[field.name]
        assert np.array_equal(values[:64], values[64:128])
        assert len(np.unique(values)) > 1
        if field.kind == "discrete":
            assert set(np.unique(values)) == set(range(field.choices))
        else:
            assert values.min() >= field.low
            assert values.max() <= field.high


def test_the_limit_is_what_copying_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_bandwidth(sizes: Any, threads: int, **_: Any) -> dict[int, Spread]:
        return {size: Spread.of([1e9 * threads] * 5) for size in sizes}

    monkeypatch.setattr(bandwidth, "copy_bandwidth", copy_bandwidth)
    moved = bytes_per_step(resolve("cartpole").spec)
    rate = Spread.of([0.5e9 / moved] * 5)
    kernels = [
        Result.measured(f"kernel-{size}", KERNEL, "cartpole", 2, rate, "steps/s")
        for size in (64, 4096)
    ]
    found = list(sweep.limits(kernels, Sweep(5, 0.01)))
    shares = {each.name: each.value for each in found if each.unit == "share"}
    assert shares == {"kernel-4096-of-copy": pytest.approx(0.25)}
    assert {each.value for each in found if each.unit == "GB/s"} == {2.0}


def test_copying_is_measured_in_processes_of_their_own() -> None:
    found = bandwidth.copy_bandwidth((1 << 16, 1 << 18), 2, rounds=2, seconds=0.01)
    assert list(found) == [1 << 16, 1 << 18]
    assert all(spread.repeats == 2 and spread.min > 1e8 for spread in found.values())
    assert bandwidth.nearest(300_000) == 1 << 18


def test_names_are_chosen() -> None:
    assert chosen("pong, snake") == ["pong", "snake"]
    assert chosen("all") == shipped()
    for text, complaint in (
        ("pnog", "did you mean pong"),
        ("zzz", "there are acrobot"),
        (",", "empty"),
    ):
        with pytest.raises(UsageError, match=complaint):
            chosen(text)


def test_records_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    path = Path(__file__).parents[2] / "tools" / "record_trajectories.py"
    told = importlib.util.spec_from_file_location("record_trajectories", path)
    assert told is not None
    assert told.loader is not None
    tool = importlib.util.module_from_spec(told)
    told.loader.exec_module(tool)
    out = tmp_path / "trajectories.py"
    shutil.copy(tool.OUT, out)
    monkeypatch.setattr(tool, "OUT", out)
    monkeypatch.setitem(tool.TRAJECTORIES, "cartpole", ("0", "0"))
    assert tool.main(["cartpole"]) == 0
    assert (
        out.read_text() == Path(str(trajectory.__file__)).with_name("trajectories.py").read_text()
    )
