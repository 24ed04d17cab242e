"""`check`: builds an environment, has workers examine it, compares them, and reports."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ..compile import INCLUDE_DIR, build, find_compiler
from ..errors import ArgumentError
from ..numba.define import options_of
from ..params import Parameters
from ..pyfile import split_class
from ..registration import registered
from ..resolve import Resolved, resolve
from .batch import Source, Trace
from .experiments import WORLDS, first_difference, steps_for
from .process import Outcome, run, sanitizer_runtime
from .report import FAIL, PASS, RULES, SKIP, Finding, Report, in_order
from .worker import CHECKED, PLAIN, SANITIZED, Examination, Job

_SANITIZERS = "AddressSanitizer, UBSan"
# judged by comparing runs: what an optimised build alone gets wrong, it got from its memory
_COMPARED = ("state", "addresses", "order", "reset", "snapshot")


def check(
    env: Any,
    *,
    seed: int = 0,
    sanitize: bool = True,
    patience: float = 20.0,
    max_steps: int | None = None,
    **params: Any,
) -> Report:
    """Tests an environment against the contract that executors and trainers rely on.

    The environment runs in processes of its own, so that it may crash or hang: one with the
    build that training uses, one (C and Cython) with AddressSanitizer, UBSan and HR_CHECK, or
    (Numba) with bounds checks. docs/write-an-env.md explains each rule.

    Args:
        env: a registered name, a file, file:Class, or a Numba environment's class.
        seed: world w is given the seed `seed + w`.
        sanitize: False leaves the sanitizers out, which is faster.
        patience: seconds that one call of the environment may take.
        max_steps: time limit in steps in place of the environment's own.
        **params: parameters and, in capitals, compile-time sizes, as for `make_vec`.

    Raises:
        CompileError, EnvDefinitionError: it cannot be built at all.
        ArgumentError: no such environment, parameter or size.
    """
    started = time.perf_counter()
    defines = {name: value for name, value in params.items() if name.isupper()}
    values = {name: value for name, value in params.items() if not name.isupper()}
    if not 0 <= seed < 2**63:
        raise ArgumentError(f"seed is {seed}: give an integer from 0 to 2**63 - 1")
    found = resolve(env, defines=defines)
    Parameters(found.spec, WORLDS, values)  # an error now rather than in a worker
    with tempfile.TemporaryDirectory(prefix="headrace-check-") as folder:
        conduct = _Conduct(found, env, Path(folder), seed, patience, max_steps, defines, values)
        findings = conduct.findings(sanitize)
    return Report(
        env=found.spec.name,
        file=str(found.source),
        language=found.spec.language,
        seed=seed,
        sanitizers=conduct.sanitizers,
        seconds=time.perf_counter() - started,
        findings=findings,
    )


class _Conduct:
    """One check."""

    def __init__(
        self,
        found: Resolved,
        env: Any,
        folder: Path,
        seed: int,
        patience: float,
        max_steps: int | None,
        defines: Mapping[str, int],
        params: Mapping[str, Any],
    ) -> None:
        self.found, self.folder, self.patience = found, folder, patience
        self.source = Source(found.library, found.spec, dict(params), seed, max_steps)
        self.sanitizers = ""
        self._defines = {name: int(value) for name, value in defines.items()}
        self._env, self._cls = _addressed(found, env)
        self._params = ""
        if params:
            self._params = str(folder / "params.npz")
            values: dict[str, Any] = {name: np.asarray(each) for name, each in params.items()}
            np.savez(self._params, **values)
        self._steps = steps_for(self.source)
        self._stop = threading.Event()

    def findings(self, sanitize: bool) -> tuple[Finding, ...]:
        """One finding for each rule."""
        watched = self._watched_kind(sanitize)
        self._build(watched)
        with ThreadPoolExecutor(2) as threads:
            try:
                outcomes = list(threads.map(self._worker, (watched, PLAIN)))
            except BaseException:
                self._stop.set()  # the workers end with whoever asked for them
                raise
        found = self._reconciled(*outcomes)
        if not _broken(found) & {"state", "written", "addresses", "order"}:
            found += self._compared(watched, "numbers" in _broken(found))
        found = [self._with_statics(each) for each in found]
        return in_order(found, self._missing(found, outcomes))

    def _with_statics(self, finding: Finding) -> Finding:
        """The finding with the author's static variables, where such a one may be the cause."""
        if finding.status != FAIL or finding.rule not in ("state", "order", "reset", "snapshot"):
            return finding
        variables = _static_variables(self.found.source)
        if not variables:
            return finding
        named = ", ".join(f"{name} (line {line})" for line, name in variables)
        return dataclasses.replace(finding, details=f"static variables: {named}")

    def _build(self, watched: str) -> None:
        """Compiles what the workers load, so that a fault of the author's shows here."""
        if watched == SANITIZED:
            build(self.found.source, defines=self._defines, checked=True, sanitize=True)
        elif not self._cls:
            build(self.found.source, defines=self._defines, checked=True)

    def _watched_kind(self, sanitize: bool) -> str:
        """The kind of build beside the plain one; says in `sanitizers` what watches it."""
        if self.found.spec.language == "numba":
            self.sanitizers = "Numba's bounds checks"
            return CHECKED
        reason = sanitizer_runtime()[1] if sanitize else "switched off"
        self.sanitizers = f"none ({reason})" if reason else _SANITIZERS
        return CHECKED if reason else SANITIZED

    def _job(self, kind: str, *, whole: bool = True, again: str = "") -> Job:
        stem = f"{kind}{again}"
        return Job(
            env=self._env,
            file=str(self.found.source),
            cls=self._cls,
            kind=kind,
            defines=self._defines,
            params=self._params,
            seed=self.source.seed,
            max_steps=self.source.max_steps,
            steps=self._steps,
            whole=whole,
            result=str(self.folder / f"{stem}.result.json"),
            trace=str(self.folder / f"{stem}.npz"),
            progress=str(self.folder / f"{stem}.progress"),
        )

    def _worker(self, kind: str) -> Outcome:
        return run(self._job(kind), self.patience, self._stop)

    def _trace(self, job: Job) -> Trace | None:
        """The run that a worker recorded; None when it did not get so far."""
        if not Path(job.trace).exists():
            return None
        trace = Trace(self.found.spec, WORLDS, self._steps)
        with np.load(job.trace, allow_pickle=False) as archive:
            trace.actions = archive["actions"]
            trace.parts = {name: archive[name] for name in trace.parts}
        return trace

    # ---- what two processes make of it --------------------------------------------------

    def _reconciled(self, watched: Outcome, plain: Outcome) -> list[Finding]:
        """The findings of both workers.

        What goes wrong in the optimised build alone has its cause in what was not written, or in
        a pointer that was kept, where one was found; a crash that a sanitizer has explained is not
        told twice.
        """
        if watched.death is not None:
            crash = plain.death if plain.death and watched.death.rule != "memory" else None
            return [watched.death, *watched.findings, *([crash] if crash else []), *plain.findings]
        kept = {each.rule for each in watched.findings if each.status == PASS}
        found = [*watched.findings, *([plain.death] if plain.death else [])]
        astray = "addresses" in _broken(watched.findings)
        for each in plain.findings:
            if astray and each.status == FAIL and each.rule in (*_COMPARED, "executors"):
                continue
            if each.status == FAIL and each.rule in _COMPARED and each.rule in kept:
                found.append(self._unset(dataclasses.replace(each, rule="written")))
            else:
                found.append(each)
        return found

    def _compared(self, watched: str, has_nan: bool) -> list[Finding]:
        """Findings from the runs of different processes.

        has_nan: "numbers" is broken, and builds may differ in the bits of a NaN.
        """
        plain, one = self._trace(self._job(PLAIN)), self._trace(self._job(watched))
        if plain is None:
            return []
        if one is not None and first_difference(one, plain) is None:
            return [Finding("processes", PASS)]
        again = self._job(PLAIN, whole=False, again="-again")
        run(again, self.patience, self._stop)
        other = self._trace(again)
        if other is None:
            return []
        examine = Examination(again, self.source, self._class(), lambda *_: None)
        found = examine.difference("processes", plain, other, "in another process")
        if found is not None:
            if _holds_address(plain, other):
                message = f"{found.message}: it holds an address"
                found = dataclasses.replace(found, rule="addresses", message=message)
            return [found]
        if one is not None:
            found = examine.difference("written", plain, one, "between two builds of the same file")
            if found is not None and not (has_nan and _only_nan(found)):
                return [self._unset(found), Finding("processes", PASS)]
        return [Finding("processes", PASS)]

    def _class(self) -> Any:
        """The class of a Numba environment."""
        if not self._cls:
            return None
        from ..numba.loading import classes_in

        return classes_in(self.found.source, self._defines)[self._cls]

    def _unset(self, finding: Finding) -> Finding:
        """The finding with what the compiler warns about: variables that are never set."""
        message = f"{finding.message}: a variable is read that was never set"
        warned = _never_set(self.found.source, self._defines)
        if not warned:
            return dataclasses.replace(finding, message=message)
        line, name = warned
        return dataclasses.replace(
            finding,
            message=f"{message} ({name!r}, says the compiler)",
            file=str(self.found.source),
            line=line,
        )

    def _missing(self, found: list[Finding], outcomes: list[Outcome]) -> dict[str, Finding]:
        """What is said about the rules that nothing was found out about."""
        broken = _broken(found)
        watched_to_the_end = outcomes[0].death is None and "conditions" not in broken
        none = self.sanitizers.startswith("none")
        passed = {
            "build": "" if none else f"with {self.sanitizers}",
            "runs": "",
            "memory": f"guard bytes; sanitizers: {self.sanitizers}" if none else self.sanitizers,
        }
        if watched_to_the_end:
            passed["conditions"] = ""
        missing = {rule: Finding(rule, PASS, remark) for rule, remark in passed.items()}
        cause = next((rule for rule in RULES if rule in broken), "nothing")
        if cause != "runs" and "runs" not in broken and any(each.death for each in outcomes):
            missing["runs"] = Finding("runs", SKIP, f"{cause} is broken")
        for rule in RULES:
            missing.setdefault(rule, Finding(rule, SKIP, f"{cause} is broken"))
        return missing


def _broken(found: Iterable[Finding]) -> set[str]:
    """The rules that are broken."""
    return {each.rule for each in found if each.status == FAIL}


def _only_nan(difference: Finding) -> bool:
    """Whether both values are NaN, with other bits."""
    return re.search(r": -?nan and -?nan$", difference.message) is not None


def _addressed(found: Resolved, env: Any) -> tuple[str, str]:
    """(what another process calls the environment, the class of a Numba environment)."""
    if found.spec.language != "numba":
        known = registered().get(env) if isinstance(env, str) else None
        return (env if known is not None and known.shipped else str(found.source)), ""
    from ..numba.loading import classes_in

    classes = classes_in(found.source, {})
    name = env.__name__ if options_of(env) else split_class(str(env))[1] or next(iter(classes))
    if name not in classes:
        raise ArgumentError(
            f"class {name} is not at the top level of {found.source}, where another process "
            "could find it: move it there"
        )
    return f"{found.source}:{name}", name


def _holds_address(one: Trace, other: Trace) -> bool:
    """Whether the 8 bytes of State in which two traces first differ look like places in a
    process's memory."""
    place = first_difference(one, other)
    if place is None or not place[2].endswith("state"):
        return False
    step, world, part, byte = place
    for trace in (one, other):
        word = trace.parts[part][step, world, byte // 8 * 8 :][:8]
        value = int.from_bytes(word.tobytes(), "little")
        if len(word) < 8 or not 1 << 32 <= value < 1 << 48:
            return False
    return True


def _static_variables(source: Path) -> list[tuple[int, str]]:
    """(line, name) of the variables of a C file that are neither constant nor automatic."""
    if source.suffix != ".c":
        return []
    found = []
    pattern = r"\s*static\s+(?!inline\b|const\b)[\w\s*]*?\b(\w+)\s*(?:\[[^=;]*\]\s*)?[=;]"
    for number, line in enumerate(source.read_text(errors="replace").splitlines(), 1):
        match = re.match(pattern, line)
        if match:
            found.append((number, match[1]))
    return found


def _never_set(source: Path, defines: Mapping[str, int]) -> tuple[int, str] | None:
    """(line, variable) of the compiler's first warning about a variable that is not set."""
    compiler = find_compiler()
    if compiler is None or source.suffix != ".c":
        return None
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    command = [*compiler, "-std=c11", "-O2", "-Wuninitialized", "-Wmaybe-uninitialized", *macros]
    command += [f"-I{INCLUDE_DIR}", "-c", str(source), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    found = re.search(
        rf"^{re.escape(str(source))}:(\d+):.*warning: [‘']([^’']+)[’'].*uninitialized",
        done.stderr,
        re.M,
    )
    return (int(found[1]), found[2]) if found else None
