"""The command `headrace`: finds the verb, runs it, and turns what went wrong into one sentence.

Exit codes: 0 done, 1 failed, 2 bad arguments, 130 interrupted (after saving). People read
stderr; stdout is for what was asked for: a table, or one JSON document with --json.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

# verb: (module that holds its `main(argv) -> int`, what it does)
VERBS = {
    "train": (".cli_train", "train an agent on an environment"),
    "eval": (".cli_eval", "measure a trained agent"),
    "envs": (".cli_envs", "list the environments that ship, or explain one"),
    "new": (".cli_new", "write a small environment and its test, to start from"),
    "check": (".cli_check", "test an environment against the contract"),
    "play": (".cli_play", "play an environment, or watch an agent, in the terminal"),
    "bench": (".bench.cli", "measure speed: bench env, bench train"),
}

DONE, FAILED, BAD_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130


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
    try:
        return int(importlib.import_module(module, __package__).main(argv))
    except HeadraceError as error:
        if debug:
            raise
        bad = isinstance(error, (ArgumentError, ArgumentTypeError, AttributeNameError))
        return _complain(str(error), BAD_ARGUMENTS if bad else FAILED)
    except KeyboardInterrupt as error:
        if debug:
            raise
        return _complain(str(error) or "interrupted", INTERRUPTED)
    except MemoryError as error:
        if debug:
            raise
        return _complain(f"not enough memory: {error}; fewer rows or shorter rollouts fit", FAILED)
    except BrokenPipeError:
        # Whoever read stdout went away; Python would complain again when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except SystemExit as stop:  # argparse has printed its help
        return stop.code if isinstance(stop.code, int) else FAILED


def _complain(sentence: str, code: int) -> int:
    print(f"headrace: {sentence}", file=sys.stderr)
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
