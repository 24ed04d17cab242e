"""Running a C compiler: for a limited time, and what its messages say to an author."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import CompileError

# Seconds that the compiler may take, and then once more without its vectoriser, which some
# sources keep busy for minutes.
PATIENCE = (20.0, 120.0)
_RETRY_FLAG = "-fno-tree-vectorize"
_SLOW = 1.0  # seconds after which a person is told what is going on

_PADDING_HINT = (
    "Structs of an environment may contain no padding, because they are saved and compared byte "
    "by byte: order the members from the largest type to the smallest, or fill the gap with a "
    "member of your own (uint8_t unused[3];)."
)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


def _say_nothing(_sentence: str) -> None:
    pass


# What the command line replaces, to tell a person.
on_warning: Callable[[str], None] = _warn
on_slow: Callable[[str], None] = _say_nothing


def run(command: Sequence[str], source: Path) -> tuple[int, str]:
    """(exit status, what the compiler said); source: what messages call the C file.

    Raises:
        CompileError: it was still busy after PATIENCE, without its vectoriser too.
    """
    for more, patience in zip(([], [_RETRY_FLAG]), PATIENCE, strict=True):
        done = _run_for([*command, *more], source, patience)
        if done is not None:
            return done
    raise CompileError(
        f"{source} keeps the compiler {command[0]} busy for more than {PATIENCE[1]:g} seconds: "
        "give its structs smaller arrays, or set CC to another compiler"
    )


def _run_for(command: list[str], source: Path, patience: float) -> tuple[int, str] | None:
    """None where it was stopped after `patience` seconds."""
    running = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,  # a compiler is several processes, which are to end together
    )
    try:
        try:
            said = running.communicate(timeout=min(_SLOW, patience))[1]
        except subprocess.TimeoutExpired:
            on_slow(f"compiling {source} ...")
            said = running.communicate(timeout=max(patience - _SLOW, 0.0))[1]
        return running.returncode, said
    except subprocess.TimeoutExpired:
        return None
    finally:
        if running.returncode is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()


def explained(source: Path, said: str, sizes: Sequence[str]) -> str:
    """A sentence, with a way out where headrace knows one, and the compiler's message.

    sizes: compile-time sizes that were given, each NAME=VALUE.
    """
    message = _readable(said)
    first = f"{source} does not compile" + (f" with {', '.join(sizes)}" if sizes else "")
    missing = re.search(r"'(\w+_(?:reset|step|observe))' undeclared", message)
    if re.search(r"unknown type name '(hr_\w+|u?int\d+_t|bool)'", message):
        text = source.read_text(errors="replace")
        if not re.search(r"^[ \t]*#[ \t]*include[ \t]*[<\"]headrace\.h[>\"]", text, re.M):
            first += ": #include <headrace.h> is missing at its top"
    elif missing:
        first += (
            f": functions must begin with the name given to HR_ENV, and {missing[1]} is not "
            f"defined in {source.name}"
        )
    hint = f"\n{_PADDING_HINT}" if "padded" in message else ""
    return f"{first}:\n{message}{hint}"


_NOISE = re.compile(
    r"cc1: |compilation terminated|In file included from|\s+from .*[:,]$|collect2: |"
    r"clang: error: linker|\d+ (warning|error)s? (and \d+ errors? )?generated|fatal error: too many"
)
_BLOCK = re.compile(
    r".*: In function '|.*: At top level:|(.*:\d+:\d+: (fatal error|error|warning)|(.*: )?note): "
)
_OUR_FUNCTION = re.compile(r".*: In function 'hr__")
_FOLLOWS = re.compile(
    r".*: error: expression in static assertion is not"
    r"|note: \(skipping |.*: note: (expanded from|expression evaluates)"
)
_REQUIREMENT = re.compile(r"failed due to requirement '.*': ")


def _readable(stderr: str) -> str:
    """The compiler's text without the lines that say nothing to an author.

    Left out are how the headers were included, what headrace's macros look like inside, errors
    that its own functions repeat, and a message that came before.
    """
    lines = [line for line in stderr.splitlines() if not _NOISE.match(line)]
    kept: list[str] = []
    seen: set[str] = set()
    inside, skipping = False, False
    for line in lines:
        if _BLOCK.match(line):
            heading = "In function" in line or "At top level" in line
            note = "note: " in line
            if heading:
                inside = bool(_OUR_FUNCTION.match(line)) and bool(seen)
            skipping = inside or line in seen or bool(_FOLLOWS.match(line)) or (note and skipping)
            if not heading and not note and not skipping:
                seen.add(line)
        if not skipping:
            kept.append(_REQUIREMENT.sub("failed: ", line))
    return "\n".join(kept) or stderr.strip() or "the compiler gave no reason"
