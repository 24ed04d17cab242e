"""HEADRACE_ISA: the highest instruction-set level that is wanted, for kernels and environments."""

import os
import subprocess
import sys

import pytest

CODE = """
import headrace
from headrace.engine import compile
from headrace.trainers.policy import PolicySpec

print(compile._usable_levels()[-1])
print(PolicySpec.from_env(headrace.make_vec("cartpole", 64).spec_).net.isa)
"""
LEVELS = ("base", "v3", "v4")


def chosen(wanted):
    environment = {name: value for name, value in os.environ.items() if name != "HEADRACE_ISA"}
    environment |= {} if wanted is None else {"HEADRACE_ISA": wanted}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("wanted", [None, *LEVELS])
def test_kernels_keep_to_the_rule_of_environments(wanted):
    environments, kernels = chosen(wanted)
    assert kernels == environments
    if wanted is not None:
        assert LEVELS.index(kernels) <= LEVELS.index(wanted)
