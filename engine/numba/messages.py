"""What Numba says about a function, as one clear message at the author's line."""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import EnvDefinitionError
from .layout import Layout
from .source import Function


@contextmanager
def at_the_authors_line(function: Function, name: str) -> Iterator[None]:
    """Turns Numba's errors into EnvDefinitionError."""
    from numba.core.errors import NumbaError

    try:
        yield
    except NumbaError as fault:
        raise EnvDefinitionError(explained(str(fault), function, name)) from None
    except (NotImplementedError, TypeError, ValueError, AssertionError, KeyError) as fault:
        raise EnvDefinitionError(
            f"{function.where}: Numba cannot compile {name}: {fault}"
        ) from None


def explained(text: str, function: Function, name: str) -> str:
    """file:line, what is wrong, and the line itself."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    places = re.findall(r'lowering ".*" at (.+) \((\d+)\)', plain)
    places = places or re.findall(r'File "([^"]+)", line (\d+)', plain)
    own = [int(line) for file, line in places if _is_file(function.filename, file)]
    line = own[0] if own else function.node.lineno  # the innermost comes first
    shown = linecache.getline(function.filename, line).strip()
    return f"{function.filename}:{line}: in {name}: {_reason(plain)}\n    {shown}"


def may_raise(layout: Layout, raised: list[tuple[type, tuple[Any, ...], Any]]) -> str:
    """The message for code that could end in an exception."""
    kind, arguments, place = raised[0]
    where = f"{place[1]}:{place[2]}" if place else layout.where
    what = f"{kind.__name__}({', '.join(map(repr, arguments))})"
    shown = linecache.getline(place[1], place[2]).strip() if place else ""
    return (
        f"{where}: this may raise {what}, and nothing can be raised while worlds are stepped: "
        "write `assert` for what must hold (it is tested in checked builds), and a loop where the "
        f"sizes of slices are not known beforehand\n    {shown}"
    )


def _is_file(filename: str, shown: str) -> bool:
    return filename == os.path.abspath(shown)


_NOISE = re.compile(
    r"Failed in nopython mode|During: |There are \d+ candidate|Overload|Rejected as|"
    r"with error|File \"|^\s*$|- |raised from|Exception raised|Known signatures|<source|def |"
    r"This error|To see|If you think|See http|Unsupported Python|.*\^"
)


def _reason(plain: str) -> str:
    """The first lines that say something to an author."""
    lines = [line.strip() for line in plain.splitlines()]
    signature = next((line[4:] for line in lines if line.startswith(">>> ")), None)
    for line in lines:
        called = re.match(r"No implementation of function Function\((.+?)\) found", line)
        if called and signature:
            name = re.sub(r"<[\w\s-]*?(\S+?)(?: at .*)?>", r"\1", called[1])
            if name.startswith("_"):  # a method of the generator: types.py
                signature = re.sub(r"^\w+\(rng(, )?", f"rng.{name[1:]}(", signature)
                return f"the generator cannot be called like this: {_simplified(signature)}"
            return f"Numba has no {name} for these types: {_simplified(signature)}"
    kept = [line for line in lines if line and not _NOISE.match(line)]
    return _simplified(kept[0] if kept else plain.strip().splitlines()[0])


def _simplified(text: str) -> str:
    """Types by the names an author knows."""
    text = re.sub(r"Record\((?:[^()]|\([^()]*\))*\)", "record", text)
    text = re.sub(r"Params\((?:[^()]|\([^()]*\))*\)", "the parameters `p`", text)
    text = re.sub(r": (%|i\d+\*).*", "", text)  # what it is called in LLVM
    return text.replace("unicode_type", "str")


_MAKERS = {
    "array", "arange", "copy", "empty", "full", "linspace", "ones", "repeat", "tile", "where",
    "zeros",
}  # fmt: skip


def allocates(node: ast.AST) -> bool:
    """Whether an expression probably makes a new array, list or string."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.removesuffix("_like") in _MAKERS
    return isinstance(node, (ast.List, ast.ListComp, ast.Dict, ast.Set, ast.JoinedStr))


def draws(node: ast.AST) -> bool:
    """Whether an expression is np.random, or a function of Python's random."""
    if isinstance(node, ast.Attribute):
        return node.attr == "random"
    return isinstance(node, ast.Name) and node.id == "random"


def place(layout: Layout, guilty: Callable[[ast.AST], bool]) -> str:
    """File and line of the first guilty expression in a function; else those of the class."""
    for name, function in layout.functions.items():
        if name != "draw":
            for node in ast.walk(function.node):
                if isinstance(node, ast.expr) and guilty(node):
                    return f"{function.filename}:{node.lineno}"
    return layout.where
