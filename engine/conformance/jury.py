"""Trying rules on a stranger's environment, which may raise anything or never return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .report import Finding

# What reading, stepping or resetting a stranger's environment may raise: anything.
ANY = Exception


class Broken(Exception):
    """A rule is broken; the message says how."""


class Skipped(Exception):
    """A rule cannot be tried; the message says why."""


class Jury:
    """Tries rules, one after the other; after one whose call did not return, none."""

    def __init__(self, patience: float, findings: list[Finding] | None = None) -> None:
        self.patience = patience
        self.findings = [] if findings is None else findings
        self.hangs = False

    def judge(self, rule: str, check: Callable[[], Any]) -> None:
        """Adds what comes of the rule."""
        if self.hangs:
            self.findings.append(Finding(rule, None, "the environment hangs"))
            return
        verdict: list[Finding] = []
        # in a thread, since a stranger's environment may wait forever
        thread = threading.Thread(target=lambda: verdict.append(tried(rule, check)), daemon=True)
        thread.start()
        thread.join(self.patience)
        if not verdict:
            self.hangs = True
            how = f"a call did not return within {self.patience:g} s"
            verdict.append(Finding(rule, False, how))
        self.findings.append(verdict[0])


def tried(rule: str, check: Callable[[], Any]) -> Finding:
    """What comes of a rule whose calls return."""
    try:
        check()
    except Skipped as reason:
        return Finding(rule, None, str(reason))
    except Broken as how:
        return Finding(rule, False, str(how))
    except ANY as error:
        first = (str(error).splitlines() or [""])[0]
        return Finding(rule, False, f"raised {type(error).__name__}: {first}")
    return Finding(rule, True)


def demand(holds: bool, otherwise: str) -> None:
    """Breaks the rule, for the reason `otherwise`, unless the condition holds."""
    if not holds:
        raise Broken(otherwise)


def must_raise(call: Callable[[], Any], otherwise: str) -> None:
    """Breaks the rule unless the call raises something."""
    try:
        call()
    except ANY:
        return
    raise Broken(otherwise)
