"""What check_vec_env finds in EnvPool, as docs/neighbours.md says it, where it is installed."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from headrace import check_vec_env

envpool = pytest.importorskip("envpool", reason="envpool is not installed")

# Of version 1.2.5, with what the findings say.
BROKEN = {
    "spaces are batches of the single spaces": "observation_space is Box",
    "reset returns observations of the space, and a dict": "not in the space",
    "observations lie in their space": "not in observation_space",
    "infos have masks": "infos['players'] has no mask",
    # reset(seed=...) does not seed: the seed is an argument of envpool.make
    "the same seed gives the same life": "two lives of seed 0 differ at step 0",
    "seed s gives environment i the seed s + i": "does not start as environment 0",
    "a list of seeds is one for each environment": "differ",
    "environments do not depend on each other's actions": "at step 0",
    "what the caller writes changes nothing": "changed the next step",
    "options['reset_mask'] resets what it names": "size of axis is 1",
    "too few actions are refused": "the process was killed by SIGABRT",
    "too many actions are refused": "one action too many is accepted",
    "actions out of range are refused": "action 1000000 is accepted",
    "a call after close() raises": "did not raise",
}


def test_its_findings() -> None:
    def make() -> Any:
        return envpool.make_gymnasium("CartPole-v1", num_envs=4, seed=0)

    report = check_vec_env(make)
    found = {finding.rule: finding.detail for finding in report.failed}
    if version("envpool") == "1.2.5":
        assert set(found) == set(BROKEN)
        for rule, detail in BROKEN.items():
            assert detail in found[rule]
    kept = {finding.rule for finding in report.findings if finding.passed}
    assert {"metadata names the autoreset mode", "episodes are reset as the mode says"} <= kept
