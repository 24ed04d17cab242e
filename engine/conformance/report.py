"""What a check comes to: a finding for each rule."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConformanceError


@dataclass(frozen=True)
class Finding:
    """One rule and what came of it."""

    rule: str
    passed: bool | None  # None: could not be tried
    detail: str = ""  # why not


@dataclass(frozen=True)
class Report:
    """What `check_vec_env` found; `print(report)` shows one line for each rule."""

    env: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.failed

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The rules that were broken."""
        return tuple(finding for finding in self.findings if finding.passed is False)

    def raise_for_failures(self) -> None:
        """Raises ConformanceError, which names the broken rules, if there are any."""
        if self.failed:
            raise ConformanceError(
                f"{self.env} breaks {len(self.failed)} of {len(self.findings)} rules:\n"
                + "\n".join(f"  {each.rule}: {each.detail}" for each in self.failed)
            )

    def __str__(self) -> str:
        marks = {True: "ok  ", False: "FAIL", None: "skip"}
        lines = [f"{self.env}: {len(self.failed)} of {len(self.findings)} rules broken"]
        for each in self.findings:
            detail = f": {each.detail}" if each.detail else ""
            lines.append(f"  {marks[each.passed]} {each.rule}{detail}")
        return "\n".join(lines)
