"""What headrace raises when the user, not headrace, made a mistake.

Each message is one sentence that names what was wrong and what to do; the command line prints
it as it is. Every class is also the built-in exception that Python itself would raise there.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Base of all errors that are a user's to mend."""


class ArgumentError(HeadraceError, ValueError):
    """An argument has a value that cannot be used."""


class ArgumentTypeError(HeadraceError, TypeError):
    """An argument has the wrong type or dtype."""


class AttributeNameError(HeadraceError, AttributeError):
    """An attribute or parameter of an environment does not exist."""


class CallOrderError(HeadraceError, RuntimeError):
    """A call came too early, too late or twice."""


class ClosedError(CallOrderError):
    """A call on something that was closed."""


class CheckError(HeadraceError, AssertionError):
    """An HR_CHECK of the environment's author failed (checked builds only)."""


class EnvDefinitionError(HeadraceError, ValueError):
    """A library was loaded but does not define a usable environment."""


class CompileError(HeadraceError, RuntimeError):
    """An environment's source could not be compiled, or nothing is there to compile it.

    The first line is a sentence; the compiler's own message follows where there is one.
    """


class MissingPackageError(HeadraceError, ImportError):
    """An environment or a policy needs a Python package that is not installed."""


class CacheError(HeadraceError, OSError):
    """No folder can be written in which compiled environments could be kept."""


class WorkerError(HeadraceError, RuntimeError):
    """A worker process raised, ended or hung; its `__cause__` is what an environment raised."""


class ConformanceError(HeadraceError, AssertionError):
    """A vector environment breaks a rule of Gymnasium's contract."""


def kind_of(value: object) -> str:
    """The type of a value with its article, for a sentence: "an int", "a str"; "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
