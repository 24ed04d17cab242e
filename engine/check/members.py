"""From a byte of a struct to the name of its member.

Obs is in the environment's description. State is not: its members are read in the author's
source. Structs have no padding, so that members lie one after the other; where a declaration
cannot be understood, or its size is not the real one, a byte is named by its number.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cython_env
from ..compile import INCLUDE_DIR, find_compiler
from ..errors import HeadraceError
from ..spec import EnvSpec


@dataclass(frozen=True)
class Member:
    """One member of a struct."""

    name: str  # "x", or "player.x" in a nested struct
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int  # bytes
    pointer: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def element(self, byte: int) -> tuple[str, int]:
        """(the element's name with its indices, its offset) of the byte `byte` of the struct."""
        flat = (byte - self.offset) // self.dtype.itemsize
        indices = np.unravel_index(flat, self.shape) if self.shape else ()
        name = self.name + "".join(f"[{int(i)}]" for i in indices)
        return name, self.offset + flat * self.dtype.itemsize


@dataclass(frozen=True)
class Struct:
    """A struct of the author's, as far as its members are known."""

    name: str
    size: int
    members: tuple[Member, ...]

    def at(self, byte: int) -> tuple[str, int, np.dtype | None]:
        """(name, offset, dtype) of the element at a byte: "State.board[3]"."""
        for member in self.members:
            if member.offset <= byte < member.offset + member.nbytes:
                name, offset = member.element(byte)
                return f"{self.name}.{name}", offset, member.dtype
        return f"byte {byte} of {self.name}", byte, None

    def is_pointer(self, byte: int) -> bool:
        """Whether a pointer is declared there."""
        return any(m.pointer and m.offset <= byte < m.offset + m.nbytes for m in self.members)

    def value(self, data: np.ndarray, byte: int) -> str:
        """The element at `byte`, as text; data: uint8 [size]."""
        _, offset, dtype = self.at(byte)
        if dtype is None or self.is_pointer(byte):
            first = offset // 8 * 8 if self.is_pointer(byte) else offset
            width = 8 if self.is_pointer(byte) else 1
            return "0x" + data[first : first + width][::-1].tobytes().hex()
        return str(data[offset : offset + dtype.itemsize].view(dtype)[0].item())


def obs_struct(spec: EnvSpec) -> Struct:
    """The members of Obs."""
    members = (Member(f.name, np.dtype(f.dtype), f.shape, f.offset) for f in spec.obs_fields)
    return Struct("Obs", spec.obs_dtype.itemsize, tuple(members))


def state_struct(spec: EnvSpec, source: Path, defines: Mapping[str, int], cls: Any) -> Struct:
    """The members of State; none where they cannot be found out. cls: of a Numba environment."""
    if cls is not None:
        members = _of_dtype(np.dtype(cls.state), "", 0)
    else:
        members = _of_text(_preprocessed(source, defines))
    known = tuple(members)
    if sum(member.nbytes for member in known) != spec.state_size:
        known = ()
    return Struct("State", spec.state_size, known)


def _of_dtype(dtype: np.dtype, prefix: str, offset: int) -> Iterable[Member]:
    for name in dtype.names or ():
        assert dtype.fields is not None
        kind = dtype.fields[name][0]
        base, shape = kind.subdtype or (kind, ())
        if base.names:
            yield from _nested(_of_dtype(base, "", 0), base.itemsize, prefix + name, shape, offset)
        else:
            yield Member(prefix + name, base, shape, offset)
        offset += kind.itemsize


def _nested(
    inner: Iterable[Member], size: int, name: str, shape: tuple[int, ...], offset: int
) -> Iterable[Member]:
    """The members of a struct, or of each struct of an array."""
    members = list(inner)
    for flat, index in enumerate(np.ndindex(*shape)):
        where = name + "".join(f"[{i}]" for i in index)
        for each in members:
            at = offset + flat * size + each.offset
            yield Member(f"{where}.{each.name}", each.dtype, each.shape, at, each.pointer)


# ---- C ----------------------------------------------------------------------------------

_TYPES = {
    "float": "f4", "double": "f8", "bool": "u1", "_Bool": "u1", "bint": "u1", "char": "i1",
    "signed char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2",
    "int": "i4", "unsigned": "u4", "unsigned int": "u4", "long": "i8", "unsigned long": "u8",
    "long long": "i8", "unsigned long long": "u8", "size_t": "u8", "ssize_t": "i8",
    **{f"int{8 * n}_t": f"i{n}" for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}_t": f"u{n}" for n in (1, 2, 4, 8)},
}  # fmt: skip
_STRUCT = re.compile(
    r"(?P<typedef>typedef\s+)?struct\s*(?P<tag>\w+)?\s*\{(?P<body>[^{}]*)\}\s*(?P<name>\w+)?\s*;"
)
_ALIAS = re.compile(r"typedef\s+(?:struct\s+)?(?P<kind>[\w ]+?)\s+(?P<name>\w+)\s*;")
_ENUM = re.compile(r"enum\s*\w*\s*\{(?P<body>[^{}]*)\}")
_DECLARATION = re.compile(
    r"(?:const\s+|struct\s+)*(?P<kind>[\w ]+?)\s*(?P<rest>\**\s*\w+\s*(\[|$).*)"
)
_Inner = tuple[list[Member], int]  # members and size


def _preprocessed(source: Path, defines: Mapping[str, int]) -> str:
    """The author's source as C without comments and macros; "" where that cannot be had."""
    try:
        compiler = find_compiler()
        if compiler is None:
            return ""
        if source.suffix != ".pyx":
            return _expanded(compiler, source, defines, [])
        with cython_env.translated(source, INCLUDE_DIR) as c_file:
            return _expanded(compiler, c_file, defines, cython_env.flags())
    except HeadraceError:
        return ""


def _expanded(
    compiler: list[str], c_file: Path, defines: Mapping[str, int], flags: list[str]
) -> str:
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    command = [*compiler, "-std=c11", "-E", "-P", *macros, f"-I{INCLUDE_DIR}", *flags, str(c_file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout


def _of_text(text: str) -> list[Member]:
    """The members of the struct State in C declarations; [] where they are not plain."""
    constants = _enumerators(text)
    structs: dict[str, _Inner] = {}
    aliases: dict[str, str] = {}
    for match in re.finditer(f"{_STRUCT.pattern}|{_ALIAS.pattern.replace('name', 'alias')}", text):
        if match["alias"]:
            kind = " ".join(match["kind"].split())
            aliases[match["alias"]] = kind
            if kind in structs:
                structs[match["alias"]] = structs[kind]
            continue
        try:
            found = _body(match["body"], structs, aliases, constants)
        except (KeyError, ValueError, SyntaxError, TypeError):
            continue
        for name in (match["tag"], match["name"]):
            if name:
                structs[name] = found
    return structs.get("State", ([], 0))[0]


def _body(
    body: str,
    structs: Mapping[str, _Inner],
    aliases: Mapping[str, str],
    constants: Mapping[str, int],
) -> _Inner:
    members: list[Member] = []
    at = 0
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        first, *more = declaration.split(",")
        match = re.match(
            r"(?:const\s+|struct\s+)*(?P<kind>[\w ]+?)\s*(?P<rest>\**\s*\w+\s*(\[|$).*)", first
        )
        if match is None:
            raise ValueError(declaration)
        kind = " ".join(match["kind"].split())
        for rest in [match["rest"], *more]:
            name = re.sub(r"\[.*|\W", "", rest)
            shape = tuple(_constant(size, constants) for size in re.findall(r"\[([^\]]*)\]", rest))
            if rest.lstrip().startswith("*"):
                members.append(Member(name, np.dtype("u8"), shape, at, pointer=True))
                at += members[-1].nbytes
            elif kind in structs:
                inner, size = structs[kind]
                members += _nested(inner, size, name, shape, at)
                at += size * math.prod(shape)
            else:
                while kind in aliases and kind not in _TYPES:
                    kind = aliases[kind]
                members.append(Member(name, np.dtype(_TYPES[kind]), shape, at))
                at += members[-1].nbytes
    return members, at


def _enumerators(text: str) -> dict[str, int]:
    known: dict[str, int] = {}
    for match in _ENUM.finditer(text):
        value = -1
        for entry in filter(None, (part.strip() for part in match["body"].split(","))):
            name, _, given = entry.partition("=")
            try:
                value = _constant(given, known) if given else value + 1
            except (KeyError, ValueError, SyntaxError, TypeError):
                break
            known[name.strip()] = value
    return known


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def _constant(text: str, constants: Mapping[str, int]) -> int:
    """The value of an integer expression."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return int(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return constants[node.id]
        if isinstance(node, ast.BinOp):
            return int(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
        if isinstance(node, ast.UnaryOp):
            return int(_OPERATORS[type(node.op)](value(node.operand)))
        raise ValueError(text)

    return value(ast.parse(text.strip(), mode="eval").body)
