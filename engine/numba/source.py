"""An author's functions, found in their file and made ready to compile.

Three things change on the way. A float, written in the function or a constant of its module, is
float32: what NumPy makes of it next to a float32, where Numba would turn the whole expression into
float64 (np.float64(0.1) stays what it says). Plain functions that it calls are compiled with it.
And `assert` is left out, except in checked builds. What a function depends on is hashed, so that
machine code can be kept.
"""

from __future__ import annotations

import ast
import builtins
import copy
import difflib
import functools
import hashlib
import inspect
import linecache
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import EnvDefinitionError


@dataclass(frozen=True)
class Function:
    """A function of an environment and the text it was written as."""

    function: types.FunctionType
    node: ast.FunctionDef
    name: str  # "Snake.step"

    @property
    def where(self) -> str:
        """Its file and line."""
        return f"{self.filename}:{self.node.lineno}"

    @property
    def filename(self) -> str:
        return self.function.__code__.co_filename

    @property
    def arguments(self) -> list[str]:
        return [argument.arg for argument in self.node.args.args]


@dataclass
class Prepared:
    """A function ready to compile: its definition, and the values of the names in it."""

    origin: Function
    tree: ast.FunctionDef
    values: dict[str, Any] = field(default_factory=dict)  # Prepared for functions

    def realise(self, wrap: Callable[[Any], Any]) -> Callable[..., Any]:
        """The Python function itself; functions that it calls have gone through `wrap`."""
        return _realise(self, wrap, {})

    def fingerprint(self) -> str | None:
        """A digest of all that its machine code depends on; None when that cannot be known."""
        digest = hashlib.sha256()
        for part in _described(self, set()):
            if part is None:
                return None
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()


def class_location(cls: type) -> str:
    """File and line of a class."""
    try:
        return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return cls.__module__


def find(value: Any, name: str) -> Function | None:
    """The function behind an attribute of a class, None when it is none.

    Raises:
        EnvDefinitionError: its source cannot be read.
    """
    function = value.__func__ if isinstance(value, staticmethod) else value
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno:
                return Function(function, node, name)
    raise EnvDefinitionError(
        f"the source of {name} cannot be read: write the environment in a file"
    )


def refuse_writes(function: Function, short: str, constant: set[str]) -> None:
    """Raises at the first assignment to a member of an argument that is only read."""
    for node in ast.walk(function.node):
        for target in _targets(node):
            root: ast.expr = target
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if root is not target and isinstance(root, ast.Name) and root.id in constant:
                raise EnvDefinitionError(
                    f"{function.filename}:{target.lineno}: {short} writes to "
                    f"{ast.unparse(target)}, but {root.id} is only to be read there"
                )


def refuse_unknown_members(function: Function, members: Mapping[str, Collection[str]]) -> None:
    """Raises at the first member that an argument does not have; `members` by argument."""
    for node in ast.walk(function.node):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        if not isinstance(owner, ast.Name) or owner.id not in members:
            continue
        known = members[owner.id]
        if node.attr not in known:
            close = difflib.get_close_matches(node.attr, known, 1)
            has = ", ".join(known) or "no members"
            raise EnvDefinitionError(
                f"{function.filename}:{node.lineno}: {owner.id} has no {node.attr!r}: "
                + (f"did you mean {close[0]!r}?" if close else f"it has {has}")
            )


def refuse_calls(function: Function, names: Collection[str]) -> None:
    """Raises at the first call of a built-in function that needs the interpreter."""
    for node in ast.walk(function.node):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in names
            and node.func.id not in function.function.__globals__
        ):
            raise EnvDefinitionError(
                f"{function.filename}:{node.lineno}: {node.func.id} cannot be called in "
                f"{function.name}, which is compiled and runs without the interpreter"
            )


def prepare(function: Function, *, checked: bool) -> Prepared:
    """checked: keep assertions.

    Raises:
        EnvDefinitionError: a name in it is not defined.
    """
    return _prepare(function, checked, {})


# ---- trees ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _tree(filename: str) -> ast.Module:
    linecache.checkcache(filename)
    try:
        return _parsed("".join(linecache.getlines(filename)))
    except SyntaxError:  # changed since it was loaded
        return ast.Module([], [])


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        waiting = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        waiting = [node.target]
    else:
        return
    while waiting:
        target = waiting.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            waiting += target.elts
        else:
            yield target


def _prepare(function: Function, checked: bool, known: dict[types.CodeType, Prepared]) -> Prepared:
    code = function.function.__code__
    if code in known:
        return known[code]
    prepared = known[code] = Prepared(function, function.node)
    rewriter = _Rewriter(prepared, checked, known)
    copied = copy.deepcopy(function.node)
    copied.decorator_list, copied.returns = [], None
    for argument in ast.walk(copied.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    prepared.tree = rewriter.visit(copied)
    return prepared


class _Rewriter(ast.NodeTransformer):
    """Makes floats float32, names what is called, and drops assertions."""

    def __init__(
        self, prepared: Prepared, checked: bool, known: dict[types.CodeType, Prepared]
    ) -> None:
        self._prepared = prepared
        self._checked = checked
        self._known = known
        function = prepared.origin.function
        stored = {
            node.id
            for node in ast.walk(prepared.origin.node)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        inner = {node.arg for node in ast.walk(prepared.origin.node) if isinstance(node, ast.arg)}
        self._local = stored | inner
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._scope = {**vars(builtins), **function.__globals__}
        self._scope |= {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is float:
            value = np.float32(node.value)
            return self._named(f"{value!s}f", value, node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        wide = self._resolved(node.func) in (np.float64, float)
        if (
            wide
            and len(node.args) == 1
            and not any(isinstance(each, ast.Name) for each in ast.walk(node.args[0]))
        ):
            node.func = self.visit(node.func)
            return node
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        value = self._resolved(node)
        if type(value) is float or isinstance(value, types.FunctionType):
            return self._named(ast.unparse(node), self._converted(value, ast.unparse(node)), node)
        if value is not _UNKNOWN:  # part of what the code depends on
            self._prepared.values[f"value of {ast.unparse(node)}"] = value
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        # a tuple looked up by a variable is a table: as an array it cannot raise an IndexError
        table = _table(self._resolved(node.value))
        if table is not None and not isinstance(node.slice, ast.Constant):
            name = f"table {ast.unparse(node.value)}"
            node.value = self._named(name, table, node.value)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._local or node.id in self._prepared.values:
            return node
        if node.id not in self._scope:
            origin = self._prepared.origin
            raise EnvDefinitionError(
                f"{origin.filename}:{node.lineno}: {origin.name} uses {node.id!r}, which is not "
                "defined"
            )
        value = self._scope[node.id]
        if getattr(builtins, node.id, None) is not value:
            self._prepared.values[node.id] = self._converted(value, node.id)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return self.generic_visit(node) if self._checked else ast.copy_location(ast.Pass(), node)

    def _named(self, name: str, value: Any, node: ast.expr) -> ast.expr:
        self._prepared.values[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _resolved(self, node: ast.AST) -> Any:
        """The value of a name, or of an attribute of a module; _UNKNOWN for all else."""
        if isinstance(node, ast.Name) and node.id not in self._local:
            return self._scope.get(node.id, _UNKNOWN)
        if isinstance(node, ast.Attribute):
            owner = self._resolved(node.value)
            if isinstance(owner, types.ModuleType):
                return getattr(owner, node.attr, _UNKNOWN)
        return _UNKNOWN

    def _converted(self, value: Any, name: str) -> Any:
        if type(value) is float:
            return np.float32(value)
        if type(value) is tuple:
            return tuple(self._converted(each, name) for each in value)
        if isinstance(value, types.FunctionType):
            function = find(value, name)
            assert function is not None
            return _prepare(function, self._checked, self._known)
        return value


_UNKNOWN = object()


def _table(value: Any) -> np.ndarray | None:
    """A tuple of numbers, or of such tuples, as an array; None for anything else."""
    if type(value) is not tuple or not value:
        return None
    try:
        table = np.array(value)
    except ValueError:  # ragged
        return None
    if table.dtype.kind not in "biuf":
        return None
    return table.astype(np.float32) if table.dtype == np.float64 else table


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


# ---- functions --------------------------------------------------------------------------


def _realise(
    prepared: Prepared, wrap: Callable[[Any], Any], made: dict[int, Any]
) -> Callable[..., Any]:
    function = prepared.origin.function
    values: dict[str, Any] = {"__name__": function.__module__, "__builtins__": builtins}
    module = ast.Module([prepared.tree], [])
    exec(compile(ast.fix_missing_locations(module), prepared.origin.filename, "exec"), values)
    result = values[prepared.tree.name]
    result.__qualname__ = function.__qualname__
    made[id(prepared)] = wrap(result)
    for name, value in prepared.values.items():
        if isinstance(value, Prepared):
            if id(value) not in made:
                _realise(value, wrap, made)
            value = made[id(value)]
        values[name] = value
    return result


def _described(prepared: Prepared, seen: set[int]) -> Iterator[str | None]:
    """Parts of the fingerprint; None among them for a value that says nothing of itself."""
    seen.add(id(prepared))
    yield prepared.origin.name
    yield ast.dump(prepared.tree)
    for name in sorted(prepared.values):
        value = prepared.values[name]
        yield name
        if hasattr(value, "py_func"):  # compiled by the author
            inner = find(value.py_func, name)
            value = None if inner is None else prepare(inner, checked=True)
        if isinstance(value, Prepared):
            if id(value) not in seen:
                yield from _described(value, seen)
        else:
            yield _value_text(value)


def _value_text(value: Any) -> str | None:
    if isinstance(value, (int, float, str, bool, np.generic, np.dtype)) or value is None:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (tuple, list)):
        parts = [_value_text(each) for each in value]
        return None if None in parts else f"{type(value).__name__} {parts}"
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype!r} {value.shape} {digest}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} {getattr(value, '__version__', '')}"
    if isinstance(value, (type, types.BuiltinFunctionType, np.ufunc)):
        return f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', None)}"
    return None
