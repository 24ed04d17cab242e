"""The contract suite over every registered environment: sanitizers, serial, threads, send/recv."""

from __future__ import annotations

import pytest

import headrace  # noqa: F401 (registers the shipped environments)
from headrace.engine.check import check
from headrace.engine.check.process import sanitizer_runtime
from headrace.engine.registration import registered

SHIPPED = [name for name, entry in registered().items() if entry.shipped]
# Rules that are not judged where an environment has nothing of the kind.
OPTIONAL = {"draw"}
# Episodes of one length, and rightly so: the answer to the question ends them.
ONE_LENGTH = {"memory"}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_environment_keeps_every_rule(name):
    report = check(name)
    assert report.passed, report.text()
    warned = {each.rule for each in report.warnings}
    assert warned == ({"ends"} if name in ONE_LENGTH else set()), report.text()
    assert not {each.rule for each in report.findings if each.status == "skip"} - OPTIONAL
    if report.language != "numba" and sanitizer_runtime()[0]:
        assert report.sanitizers == "AddressSanitizer, UBSan"
