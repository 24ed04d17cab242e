"""What is measured: real environments in small, CPU time, and which replicas are tried."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.bench.scale import measuring
from headrace.bench.scale.choice import Measured, Prices
from headrace.bench.scale.measuring import Setting, cpu_seconds, gpus_of, scale
from headrace.bench.scale.report import Findings, print_findings, whole_document
from headrace.bench.scale.waiting import Waiting
from headrace.bench.spread import Spread
from headrace.bench.timing import Case
from headrace.cli import main
from headrace.trainers.config import TrainConfig


def measured(replicas: int, envs: int, speed: float, cores: float) -> Measured:
    return Measured(replicas, envs, Spread.of([speed] * 5), Spread.of([cores] * 5))


def test_native_environments_are_collected_from() -> None:
    found = scale(
        TrainConfig(env="cartpole", hidden=(8,)), replicas=(2, 1), envs=(64,), rounds=5,
        seconds=0.01, announce=lambda *_: None,
    )  # fmt: skip
    assert [(each.replicas, each.envs) for each in found] == [(1, 64), (2, 64)]
    for each in found:
        assert each.speed.repeats == each.cores.repeats == each.cost.repeats == 5
        assert each.speed.min > 1000
        assert 0 < each.cores.median <= each.replicas + 1.5


def test_python_environments_are_worker_processes() -> None:
    found = scale(
        TrainConfig(env="waiting", hidden=(8,), params=(("latency", 0.001),)), replicas=(2,),
        envs=(2,), rounds=5, seconds=0.02, announce=lambda *_: None,
    )  # fmt: skip
    assert len(found) == 1
    assert 0 < found[0].speed.median < 2000  # each of two workers waits a millisecond a step
    assert found[0].cores.median < 2.0


def test_waiting_sleeps_and_is_cartpole(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    env = Waiting(latency=0.25)
    env.reset(seed=0)
    obs, reward, *_ = env.step(1)
    assert (slept, obs.shape, reward) == ([0.25], (4,), 1.0)
    env.close()


@pytest.mark.parametrize(
    ("env", "gains", "tried"),
    [
        ("cartpole", 2.0, [1, 2, 4]),  # threads: twice the cores is enough
        ("waiting", 1.05, [1, 2, 4]),
        ("waiting", 2.0, [1, 2, 4, 8, 16]),
    ],
)
def test_which_replicas_are_tried(
    env: str, gains: float, tried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def open_(_: Any, config: TrainConfig, replicas: int, envs: int, __: Any) -> Setting:
        opened.append(replicas)
        return Setting(replicas, envs, Case(str(replicas), bool, gains ** len(opened)))

    monkeypatch.setattr(measuring, "_open", open_)
    monkeypatch.setattr(measuring, "_trial", lambda case, _: case.work)
    monkeypatch.setattr(measuring, "available_cpus", lambda: 2)
    settings = measuring._set_up(None, TrainConfig(env=env), None, (4,), None, 1.0)  # type: ignore[arg-type]
    assert opened == tried == [each.replicas for each in settings]


def test_what_is_not_clear_is_measured_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []

    def unclear(found: Any) -> list[Measured]:
        asked.append([each.speed.repeats for each in found])
        return [found[2], found[0]]

    found = scale(
        TrainConfig(env="cartpole", hidden=(8,)), replicas=(1,), envs=(64, 128, 192), rounds=5,
        seconds=0.002, announce=lambda *_: None, unclear=unclear,
    )  # fmt: skip
    assert asked == [[5, 5, 5], [10, 5, 10]]
    assert [each.speed.repeats for each in found] == [15, 5, 15]
    assert [each.cores.repeats for each in found] == [15, 5, 15]


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({}, 0.0),
        ({"policy": "torch"}, 0.0),
        ({"policy": "torch", "device": "cuda:1"}, 1.0),
        ({"policy": "torch", "device": "cuda", "actor_device": "cpu"}, 0.0),
    ],
)
def test_a_gpu_is_priced_where_the_policy_acts_on_it(settings: Any, gpus: float) -> None:
    assert gpus_of(TrainConfig(env="cartpole", **settings)) == gpus


def test_gpu_seconds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a GPU: what would be said of measurements on one."""
    all_ = [
        Measured(1, n, Spread.of([1e6 * n] * 5), Spread.of([0.5] * 5), gpus=1.0) for n in (1, 2)
    ]
    found = Findings.of(all_, 2, Prices(0.0, 0.0, 3600.0), waits=False)
    what = {"env": "x", "policy": "torch 8", "replica": "thread", "device": "cuda", "gpus": 1.0}
    here = {"cpu": "any", "cores": 2, "command": "headrace scale x"}
    contents = whole_document(here, what, found)
    by = {each["name"]: each for each in contents["results"]}
    assert (by["replicas-1-envs-2-gpu"]["value"], by["replicas-1-envs-2-gpu"]["unit"]) == (
        0.5, "GPU-s/M",
    )  # fmt: skip
    assert contents["recommendation"]["envs_per_replica"] == 2
    assert contents["recommendation"]["price_per_million_steps"] == pytest.approx(0.5)
    assert contents["front"][-1]["gpu_seconds_per_million"] == 0.5
    print_findings(here, what, found)
    told = capsys.readouterr().err
    assert "policy torch 8 on cuda" in told
    assert "GPU-s/M" in told
    assert "3600 for a GPU-hour" in told


def test_threads_of_torch_are_apart_from_replicas() -> None:
    pytest.importorskip("torch")
    config = TrainConfig(env="cartpole", policy="torch", hidden=(8,))
    found = scale(
        config, replicas=(1,), envs=(64,), threads=(1, 2), rounds=5, seconds=0.01,
        announce=lambda *_: None,
    )  # fmt: skip
    assert [(each.replicas, each.threads) for each in found] == [(1, 1), (1, 2)]
    assert [each.name for each in found] == [
        "replicas-1-envs-64-threads-1", "replicas-1-envs-64-threads-2",
    ]  # fmt: skip
    assert all(each.speed.min > 100 for each in found)


def test_cpu_time_of_others(tmp_path: Path) -> None:
    own = cpu_seconds([])
    assert own is not None
    (tmp_path / "7").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    fields = ["S"] + ["0"] * 10 + [str(3 * ticks), str(2 * ticks)] + ["0"] * 5
    (tmp_path / "7" / "stat").write_text(f"7 (a (name) here) {' '.join(fields)}\n")
    assert cpu_seconds([7], tmp_path) == pytest.approx(own + 5.0, abs=1.0)
    assert cpu_seconds([7, 8], tmp_path) is None  # no such process, or a system that does not say
    used: list[tuple[float | None, float]] = []

    def run(count: int) -> None:
        used.append((None if count == 1 else 1.0, 2.0))

    setting = Setting(3, 1, Case("", run), used=used)
    assert [setting.once(count, 0)[1] for count in (1, 2)] == [3.0, 0.5]


def test_the_document() -> None:
    all_ = [measured(n, 16, 200.0 * n, 0.02 * n) for n in (1, 2, 4, 8, 16)]
    found = Findings.of(all_, 2, Prices(1.0, 0.05), waits=True)
    what = {"env": "waiting", "policy": "8", "replica": "worker process", "cores": 2, "gpus": 0.0}
    contents = json.loads(json.dumps(whole_document({"cores": 2}, what, found)))
    assert [each["name"] for each in contents["results"][:3]] == [
        "replicas-1-envs-16", "replicas-1-envs-16-cost", "replicas-1-envs-16-busy",
    ]  # fmt: skip
    assert contents["recommendation"]["replicas"] == 16
    assert (
        "16 replicas: 16× (16 … 16) faster than 1 replica for 1× (1 … 1) the core"
        in (contents["recommendation"]["reason"])
    )
    model = contents["model"]
    assert model["serial"] == pytest.approx(0.0, abs=1e-9)
    assert [each["replicas"] for each in model["left_out"]] == [2, 4, 8, 16]
    assert all(abs(each["error"]) < 1e-6 for each in model["left_out"])
    assert model["predictions"][0]["replicas"] == 32
    assert all(each["prediction"] for each in model["predictions"])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "env"),
        (["cartpol"], "cartpole"),
        (["cartpole", "--value-of-hour", "-1"], "--value-of-hour"),
        (["cartpole", "--replicas", "0"], "--replicas"),
        (["cartpole", "--replica", "1"], "--replicas"),
        (["cartpole", "--repeats", "2"], "--repeats"),
        (["cartpole", "--threads", "2"], "--threads is of a torch policy"),
        (["cartpole", "--device", "cuda"], "--device is of a torch policy"),
        (["cartpole", "--policy", "torch", "--threads", "0"], "--threads"),
    ],
)
def test_wrong_arguments(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", *argv]) == 2
    error = capsys.readouterr().err
    assert said in error.lower()
    assert "Traceback" not in error


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headrace.cli_scale.QUICK_SECONDS", 0.01)
    out = tmp_path / "scale.json"
    argv = ["scale", "cartpole", "--quick", "--json", "--out", str(out), "--replicas", "1,2"]
    assert main([*argv, "--envs-per-replica", "64", "--hidden", "8"]) == 0
    said = capsys.readouterr()
    contents = json.loads(said.out)
    assert contents == json.loads(out.read_text())
    assert contents["machine"]["command"].startswith("headrace scale cartpole")
    assert contents["what"]["replica"] == "thread"
    assert "PREDICTED, not measured" in said.err
    assert "for an hour of waiting" in said.err


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from headrace.bench.scale.plot import plot

    all_ = [measured(n, 16, 200.0 * n, 0.02 * n) for n in (1, 2, 4)]
    found = Findings.of(all_, 2, Prices(1.0, 0.05), waits=True)
    plot(found, "waiting", tmp_path / "sub" / "scale.png")
    assert (tmp_path / "sub" / "scale.png").read_bytes()[1:4] == b"PNG"
