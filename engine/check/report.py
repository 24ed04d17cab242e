"""What a check found: rules in the order of the report, findings, and the checklist."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

PASS, FAIL, WARN, SKIP = "pass", "fail", "warn", "skip"
_MARKS = {PASS: "✓", FAIL: "✗", WARN: "!", SKIP: "-"}

RULES = {  # name: what is promised when it passes
    "build": "compiles",
    "runs": "returns from every call, without a crash",
    "memory": "touches nothing but its own slots",
    "conditions": "its own conditions hold (HR_CHECK, assert)",
    "numbers": "observations and rewards are numbers",
    "space": "observations lie in their space",
    "written": "writes all that it shows and reads only what was written",
    "state": "keeps all that it remembers in its State",
    "addresses": "keeps no pointers and does not depend on where its memory lies",
    "order": "its worlds depend neither on each other nor on the order of calls",
    "processes": "gives the same bytes in another process",
    "reset": "starts afresh when it is reset",
    "snapshot": "goes on exactly from a snapshot",
    "executors": "gives the same bytes with serial, threads and send/recv",
    "actions": "leaves an agent and an action to choose until the episode ends",
    "ends": "tells its own ends from time limits",
    "draw": "draws into frames of any size",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found out about one rule."""

    rule: str  # a key of RULES
    status: str  # "pass", "fail", "warn" or "skip"
    message: str = ""  # why it failed, is warned about or was skipped; a remark where it passed
    world: int | None = None  # which world, counted from 0
    step: int | None = None  # steps taken since the seed; 0: the first reset
    seed: int | None = None  # of that world
    member: str | None = None  # of a struct: "State.x", "Obs.cell[2][3]"
    action: Any = None  # the last action of that world
    file: str | None = None  # of the author
    line: int | None = None
    details: str = ""  # further lines, as the sanitizer or compiler gave them

    @property
    def where(self) -> str:
        """World, step and seed in words; "" where they are not known."""
        parts = [
            f"{name} {value}"
            for name, value in (("world", self.world), ("step", self.step), ("seed", self.seed))
            if value is not None
        ]
        if self.action is not None:
            parts.append(f"action {self.action}")
        return ", ".join(parts)

    @property
    def place(self) -> str:
        """File and line; "" where they are not known."""
        if self.file is None:
            return ""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of `check`: one finding for each rule, in order.

    Attributes:
        env: name; file: the author's; language: "c", "cython" or "numba".
        seed: world w had the seed `seed + w`.
        sanitizers: what watched the memory: "AddressSanitizer, UBSan" or why nothing did.
        seconds: wall time, compiling included.
    """

    env: str
    file: str
    language: str
    seed: int
    sanitizers: str
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """No rule is broken; there may be warnings."""
        return not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings about broken rules."""
        return tuple(each for each in self.findings if each.status == FAIL)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are warnings."""
        return tuple(each for each in self.findings if each.status == WARN)

    def __getitem__(self, rule: str) -> Finding:
        """The finding about a rule."""
        return next(each for each in self.findings if each.rule == rule)

    def document(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "env": self.env,
            "file": self.file,
            "language": self.language,
            "seed": self.seed,
            "passed": self.passed,
            "sanitizers": self.sanitizers,
            "seconds": self.seconds,
            "rules": [
                {"promise": RULES[each.rule], **dataclasses.asdict(each)} for each in self.findings
            ],
        }

    def text(self) -> str:
        """The checklist for people, one rule a line and what is to say about it below."""
        width = max(map(len, RULES))
        lines = [f"{self.env}  ({self.language}, {self.file})", ""]
        for each in self.findings:
            remark = f"  ({each.message})" if each.status == PASS and each.message else ""
            lines.append(f"  {_MARKS[each.status]} {each.rule:<{width}}  {_line(each)}{remark}")
            if each.status in (FAIL, WARN):
                lines += [f"      {line}" for line in _explained(each)]
        counts = {s: sum(each.status == s for each in self.findings) for s in _MARKS}
        verdict = "passed" if self.passed else "failed"
        warned = f", {counts[WARN]} warned about" if counts[WARN] else ""
        skipped = f", {counts[SKIP]} not judged" if counts[SKIP] else ""
        lines += [
            "",
            f"{verdict}: {counts[PASS]} rules kept, {counts[FAIL]} broken{warned}{skipped} "
            f"({self.seconds:.1f} s)",
        ]
        return "\n".join(lines)


def _line(finding: Finding) -> str:
    if finding.status == SKIP:
        return f"not judged: {finding.message}"
    return RULES[finding.rule]


def _explained(finding: Finding) -> list[str]:
    lines = finding.message.splitlines()
    for text in (finding.where, f"at {finding.place}" if finding.place else ""):
        if text:
            lines.append(text)
    return lines + finding.details.splitlines()


def in_order(found: Iterable[Finding], missing: Mapping[str, Finding]) -> tuple[Finding, ...]:
    """One finding for each rule: the worst there is; `missing` speaks for rules without any."""
    best: dict[str, Finding] = {}
    for each in found:
        rank = (FAIL, WARN, SKIP, PASS).index
        if each.rule not in best or rank(each.status) < rank(best[each.rule].status):
            best[each.rule] = each
    return tuple(best[rule] if rule in best else missing[rule] for rule in RULES)
