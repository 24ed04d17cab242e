"""Where the time of training goes: arithmetic by hand, and one real profile."""

from __future__ import annotations

import pytest

from headrace.bench.stages import Profile, flops, profile
from headrace.engine.resolve import resolve
from headrace.trainers.policy import PolicySpec


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # 4→64 then 64→2 and 64→1: forward 2, weights' gradient 2, input's gradient 2 (not of 4→64)
        ({"hidden": (64,)}, 4 * (4 * 64) + 6 * (64 * 3)),
        ({"hidden": (64, 32)}, 4 * (4 * 64) + 6 * (64 * 32 + 32 * 3)),
        ({"hidden": (8,), "separate": True}, 2 * 4 * (4 * 8) + 6 * (8 * 3)),
    ],
)
def test_flops_of_a_row(settings: dict, expected: int) -> None:
    assert flops(PolicySpec.from_env(resolve("cartpole").spec, **settings)) == expected


def test_shares_add_up_to_the_threads_time() -> None:
    stages = dict.fromkeys(
        [
            "env",
            "encode",
            "forward",
            "sample",
            "record",
            "advantage",
            "learn_forward",
            "loss",
            "backward",
            "optimizer",
        ],
        0.1,
    )
    known = Profile({**stages, "env": 0.5}, thread_seconds=4.0, rows=1000, flops_per_row=300)
    shares = known.shares()
    assert shares["environment"] == pytest.approx(0.125)
    assert shares["forward"] == pytest.approx(0.1)
    assert shares["loss and backward"] == pytest.approx(0.05)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert known.learner_flops() == pytest.approx(1e6)


def test_a_real_profile() -> None:
    found = profile("cartpole", {"hidden": (32,)}, steps=50_000, threads=1)
    shares = found.shares()
    assert found.rows >= 50_000
    assert min(shares["environment"], shares["forward"], shares["loss and backward"]) > 0
    assert sum(shares.values()) == pytest.approx(1.0)
    assert 0 <= shares["rest"] < 1
