"""Tests an environment against the contract: `check`.

report.py        rules, findings, the checklist
plan.py          which actions are taken
batch.py         worlds in memory that is filled and guarded
experiments.py   runs that differ in one thing only
rules.py         judgements on what a run did
executors.py     the same bytes with every executor
members.py       from a byte to the name of a struct's member
worker.py        all of it, in a process of its own, with one build
process.py       starts workers; what a crash or a sanitizer says
conduct.py       `check`: builds, workers, comparison, report
"""

from __future__ import annotations

from .conduct import check
from .report import Finding, Report

__all__ = ["Finding", "Report", "check"]
