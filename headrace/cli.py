"""The command `headrace`: finds the verb, runs it, and turns what went wrong into one sentence.

Exit codes: 0 done, 1 failed, 2 bad arguments, 130 interrupted (after saving), 141 whoever read
stdout went away (as SIGPIPE ends other programs). People read stderr; stdout is for what was asked
for: a table, or one JSON document with --json. A command that fails prints {"error": sentence}
there, one that is interrupted {"interrupted": true, "run": its folder or null}; the sentence stands
on stderr too.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from .output import document_alone, print_json
from .unstuck import unstuck

# verb: (module that holds its `main(argv) -> int`, what it does)
VERBS = {
    "train": (".cli_train", "train an agent on an environment"),
    "eval": (".cli_eval", "measure a trained agent"),
    "export": (".cli_export", "write a policy as an ONNX model or a C header"),
    "plot": (".cli_plot", "draw how runs went, as a picture or as text"),
    "envs": (".cli_envs", "list the environments that ship, or explain one"),
    "new": (".cli_new", "write a small environment and its test, to start from"),
    "check": (".cli_check", "test an environment against the contract"),
    "play": (".cli_play", "play an environment, or watch an agent, in the terminal"),
    "scale": (".cli_scale", "what more replicas buy, and what they cost"),
    "bench": (".bench.cli", "measure speed: bench env, bench train"),
}

DONE, FAILED, BAD_ARGUMENTS, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        print(_usage(), file=sys.stderr)
        return BAD_ARGUMENTS
    verb, rest = arguments[0], arguments[1:]
    if verb in ("-h", "--help"):
        print(_usage())
        return DONE
    if verb == "--version":
        from . import __version__

        print(f"headrace {__version__}")
        return DONE
    if verb not in VERBS:
        return _complain(_unknown_verb(verb), BAD_ARGUMENTS)
    return _run(VERBS[verb][0], rest)


def _run(module: str, argv: list[str]) -> int:
    """Runs a verb; errors that are the user's to mend become one sentence on stderr."""
    from .engine.errors import ArgumentError, ArgumentTypeError, AttributeNameError, HeadraceError

    debug = os.environ.get("HEADRACE_DEBUG", "") not in ("", "0")
    as_json = "--json" in argv
    alone = as_json and not {"-h", "--help"} & set(argv)
    try:
        with (
            document_alone() if alone else nullcontext(),
            _terminable(),
            unstuck(as_json),
            _last_words(argv),
            _told_of_compiling(),
            _told_of_runs(),
        ):
            code = int(importlib.import_module(module, __package__).main(argv))
            sys.stdout.flush()
            return code
    except HeadraceError as error:
        if debug:
            raise
        if isinstance(error, (ArgumentError, ArgumentTypeError, AttributeNameError)):
            return _complain(_flagged(str(error), module), BAD_ARGUMENTS, as_json)
        return _complain(str(error), FAILED, as_json)
    except KeyboardInterrupt as error:
        if debug:
            raise
        run = getattr(error, "run", None)
        told = {"interrupted": True, "run": None if run is None else str(run)}
        return _complain(str(error) or "interrupted", INTERRUPTED, as_json, told)
    except MemoryError as error:
        if debug:
            raise
        sentence = f"not enough memory: {error}; fewer rows or shorter rollouts fit"
        return _complain(sentence, FAILED, as_json)
    except BrokenPipeError:
        # Whoever read stdout went away; Python would complain again when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except SystemExit as stop:  # argparse has printed its help
        return stop.code if isinstance(stop.code, int) else FAILED


@contextmanager
def _terminable() -> Iterator[None]:
    """Meanwhile SIGTERM ends the command as Ctrl-C does, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def stop(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == owner:
            raise KeyboardInterrupt("terminated")
        signal.signal(number, signal.SIG_DFL)  # a forked worker ends as if nobody had asked
        os.kill(os.getpid(), number)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _last_words(argv: list[str]) -> Iterator[None]:
    """Meanwhile a crash in native code ends the process with a sentence."""
    from .engine import _core

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    sources = [word for word in argv if word.partition(":")[0].endswith((".c", ".pyx", ".py"))]
    sentence = (
        "headrace: native code has crashed, most likely in a step of the environment: "
        f"headrace check {shlex.quote(sources[0]) if sources else 'FILE'} looks for the fault\n"
    )
    _core.crash_watch(sentence.encode())
    try:
        yield
    finally:
        _core.crash_unwatch()


@contextmanager
def _told_of_compiling() -> Iterator[None]:
    """Meanwhile a compiler that takes its time, and a cache that cannot be used, are a line."""
    from .engine import compiler

    previous = compiler.on_slow, compiler.on_warning
    compiler.on_slow = compiler.on_warning = _tell
    try:
        yield
    finally:
        compiler.on_slow, compiler.on_warning = previous


@contextmanager
def _told_of_runs() -> Iterator[None]:
    """Meanwhile warnings of headrace's own are a line each."""
    show = warnings.showwarning

    def tell(message: Any, category: Any, *place: Any) -> None:
        if category.__module__.startswith(f"{__package__}."):
            _tell(str(message))
        else:
            show(message, category, *place)

    with warnings.catch_warnings():
        warnings.showwarning = tell  # type: ignore[assignment]
        yield


def _flagged(sentence: str, module: str) -> str:
    """The sentence of a wrong argument, with the verb's flag for the argument that it begins with:
    "num_envs is 3, but ..." is for callers from Python."""
    from .flags import flag
    from .trainers.settings import member, settings

    verb = getattr(importlib.import_module(module, __package__), "VERB", None)
    word = re.match(r"[a-z_]*", sentence)[0]  # type: ignore[index]
    found = settings(verb.settings).get(member(word)) if verb and word else None
    if found is None or found.rule.positional:
        return sentence
    return flag(word) + sentence.removeprefix(word)


def _tell(sentence: str) -> None:
    print(f"headrace: {sentence}", file=sys.stderr)


def _complain(sentence: str, code: int, as_json: bool = False, told: Any = None) -> int:
    """The sentence on stderr and, with --json, one document on stdout."""
    _tell(sentence)
    if as_json:
        print_json({"error": sentence} if told is None else told)
    return code


def _usage() -> str:
    lines = [f"  {verb:<8}{summary}" for verb, (_, summary) in VERBS.items()]
    return "\n".join(
        [
            "usage: headrace VERB ...   (headrace VERB --help explains one)",
            "",
            *lines,
            "",
            "examples: headrace train cartpole",
            "          headrace train my_env.c --steps 5_000_000 --hidden 64,64",
            "          headrace eval runs/cartpole-20260101-120000 --episodes 100",
        ]
    )


def _unknown_verb(verb: str) -> str:
    near = difflib.get_close_matches(verb, VERBS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(VERBS)}"
    return f"unknown verb {verb!r}; {hint}"
