"""Cython environments: from a .pyx file to C that defines the environment as headrace.h does.

Cython translates the author's file as it is. What it writes is C with other names, so the
descriptor — HR_ENV in a block of C, as in a C environment — is moved to its end, behind aliases
that give the structs and functions the author's names back. The kernels, the checks and the
messages are then headrace.h's own. What makes it a Python module is hidden, so that the compiler
leaves it out: the library needs no Python and is like any other compiled environment.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .errors import CompileError, EnvDefinitionError

_DIRECTIVES = (
    "language_level=3,cdivision=True,boundscheck=False,wraparound=False,initializedcheck=False,"
    "legacy_implicit_noexcept=False,warn.unused=False"
)
_MODULE = "environment"
_STRUCTS = ("Params", "State", "Action", "Obs")


@contextmanager
def translated(source: Path, include_dir: Path) -> Iterator[Path]:
    """A C file for the time being, made of a .pyx file; errors as in `translate`."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        c_file = Path(folder) / f"{source.stem}.c"
        c_file.write_text(translate(source, include_dir))
        yield c_file


def translate_to(source: Path, c_file: Path, include_dir: Path) -> None:
    """Writes the C file of a .pyx file, unless it was made of the same before."""
    key = [*identity(include_dir), hashlib.sha256(source.read_bytes()).hexdigest()]
    mark = f"/* {hashlib.sha256(repr(key).encode()).hexdigest()} */\n"
    if c_file.is_file() and c_file.read_text().startswith(mark):
        return
    c_file.parent.mkdir(parents=True, exist_ok=True)
    c_file.write_text(mark + translate(source, include_dir))


def flags() -> list[str]:
    """What the compiler is told in addition.

    Raises:
        CompileError: Python's own header is not installed.
    """
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").is_file():
        raise CompileError(
            f"Cython environments need Python's headers, and there is no Python.h in {include}: "
            "install them (on Debian and Ubuntu the package python3-dev)"
        )
    return [f"-I{include}"]


def identity(include_dir: Path) -> list[str]:
    """What the translation depends on, beside the author's file."""
    try:
        cython = version("cython")
    except PackageNotFoundError:
        cython = "none"
    files = (include_dir / "headrace.pxd", Path(__file__))
    return [cython, sys.version, *(hashlib.sha256(f.read_bytes()).hexdigest() for f in files)]


def translate(source: Path, include_dir: Path) -> str:
    """The C text of the environment in a .pyx file.

    Raises:
        CompileError: Cython's message at the author's line, or Cython is not installed.
        EnvDefinitionError: there is no descriptor, or a struct or function is missing.
    """
    text = source.read_text(errors="replace")
    start, end = _descriptor(source, text)
    line = text.count("\n", 0, start) + 1
    descriptor = text[start:end]
    _check_declarations(source, text, descriptor)
    c_text = _confined(_translated(source, include_dir))
    place = c_text.find(descriptor)
    if place < 0:
        raise EnvDefinitionError(
            f"{source}:{line}: HR_ENV stands outside a block of C: put it into\n"
            'cdef extern from *:\n    """\n    HR_ENV(...)\n    """'
        )
    c_text = c_text.replace(descriptor, "", 1)
    aliases = _aliases(source, line, c_text, descriptor)
    marked = f'\n#line {line} "{_quoted(source)}"\n'
    return c_text + marked + "".join(aliases) + marked + descriptor + "\n"


def _descriptor(source: Path, text: str) -> tuple[int, int]:
    """Where HR_ENV(...) begins and ends."""
    found = re.search(r"^[ \t]*(HR_ENV)[ \t]*\(", text, re.MULTILINE)
    if found is None:
        raise EnvDefinitionError(
            f"{source} defines no environment: it needs HR_ENV(name, ...) in a block of C at its "
            'end, cdef extern from *: """HR_ENV(...)"""'
        )
    depth = 0
    for place in range(found.end() - 1, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return found.start(1), place + 1
    line = text.count("\n", 0, found.start(1)) + 1
    raise EnvDefinitionError(f"{source}:{line}: HR_ENV( is never closed")


def _check_declarations(source: Path, text: str, descriptor: str) -> None:
    """Structs and functions that must be there, and how the functions are declared."""
    for name in _STRUCTS:
        if not re.search(rf"^c(type)?def\s+(struct|hr_none)\s+{name}\b", text, re.MULTILINE):
            raise EnvDefinitionError(
                f"{source}: there is no struct {name}: declare `cdef struct {name}:`"
                + (" or `ctypedef hr_none Params`" if name == "Params" else "")
            )
    env = re.match(r"HR_ENV\s*\(\s*(\w+)", descriptor)
    if env is None:
        raise EnvDefinitionError(f"{source}: HR_ENV begins with the environment's name")
    for function in ("reset", "step", "observe"):
        if not re.search(rf"^cdef\s.*\b{env[1]}_{function}\s*\(", text, re.MULTILINE):
            raise EnvDefinitionError(
                f"{source}: there is no function {env[1]}_{function}: declare `cdef void "
                f"{env[1]}_{function}(...) noexcept nogil:`"
            )
    declared = r"^cdef\s+(?!extern|struct|class|enum)[^\n(=]*?(\w+)\s*\("
    for found in re.finditer(declared, text, re.MULTILINE):
        head = text[found.end() : text.find(":\n", found.end())]
        ending = head.rpartition(")")[2]
        if re.search(rf"\b{found[1]}\b", descriptor) or found[1].startswith(f"{env[1]}_"):
            for word in ("noexcept", "nogil"):
                if not re.search(rf"\b{word}\b", ending):
                    line = text.count("\n", 0, found.start()) + 1
                    raise EnvDefinitionError(
                        f"{source}:{line}: {found[1]} is not declared {word}: end its first line "
                        "with `noexcept nogil:`"
                    )


def _translated(source: Path, include_dir: Path) -> str:
    """What Cython makes of the file."""
    if importlib.util.find_spec("Cython") is None:
        raise CompileError(
            f"{source} is translated by Cython, which is not installed: "
            "run `pip install 'headrace[cython]'`"
        )
    with tempfile.TemporaryDirectory(prefix="headrace-cython-") as folder:
        # under a name of ours, which Cython builds into the names of all that is declared
        copied, output = Path(folder) / f"{_MODULE}.pyx", Path(folder) / f"{_MODULE}.c"
        copied.write_bytes(source.read_bytes())
        command = [sys.executable, "-m", "cython", "--line-directives", "-X", _DIRECTIVES]
        command += ["-I", str(include_dir), copied.name, "-o", output.name]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, cwd=folder
        )
        if done.returncode != 0 or not output.is_file():
            raise CompileError(f"{source} does not compile:\n{_readable(source, done.stderr)}")
        text = output.read_text()
    return re.sub(
        rf'^(#line \d+ )"[^"\n]*{_MODULE}\.pyx"$',
        lambda found: f'{found[1]}"{_quoted(source)}"',
        text,
        flags=re.M,
    )


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def _readable(source: Path, stderr: str) -> str:
    """The first error of each line: place, message and the line itself."""
    lines = ["", *source.read_text(errors="replace").splitlines()]
    pattern = rf"^(?:.*[\\/])?{_MODULE}\.pyx:(\d+):(\d+): (.+)$"
    first: dict[int, tuple[str, str]] = {}
    for line, column, message in re.findall(pattern, stderr, re.M):
        if not message.startswith(("performance hint", "warning")):
            first.setdefault(int(line), (column, _meant(message)))
    shown = [
        f"{source}:{line}:{column}: {message}\n    {lines[min(line, len(lines) - 1)].strip()}"
        for line, (column, message) in first.items()
    ]
    return "\n".join(shown[:5]) or stderr.strip()[-2000:] or "Cython gave no reason"


def _meant(message: str) -> str:
    struct = re.fullmatch(
        r"Cannot convert '(?:const )?(\w+)(?: const)? \*' to Python object", message
    )
    if struct:
        return f"{struct[1]} has no such member"
    if re.search("without (the )?gil", message, re.I):
        return f"Python cannot be used in a function that is compiled ({message})"
    return message


def _confined(text: str) -> str:
    """No Python module to the outside; padding an error in the author's structs alone."""
    text = text.replace("__Pyx_PyMODINIT_FUNC PyInit_", "static PyObject *PyInit_")
    text = re.sub(
        r"^(#include <headrace\.h>)$",
        '\\1\n#pragma GCC diagnostic ignored "-Wpadded"',
        text,
        count=1,
        flags=re.M,
    )
    return re.sub(
        rf"^struct __pyx_t_\w*_(?:{'|'.join(_STRUCTS)}|Metrics) \{{\n.*?^\}};\n",
        lambda found: (
            '#pragma GCC diagnostic push\n#pragma GCC diagnostic error "-Wpadded"\n'
            f"{found[0]}#pragma GCC diagnostic pop\n"
        ),
        text,
        flags=re.M | re.S,
    )


def _aliases(source: Path, line: int, c_text: str, descriptor: str) -> list[str]:
    """C lines that give structs, functions and constants the author's names."""
    module = f"{len(_MODULE)}{_MODULE}"
    env = re.match(r"HR_ENV\s*\(\s*(\w+)", descriptor)
    assert env is not None  # checked before
    lines = []
    for name in _STRUCTS:
        tag = f"__pyx_t_{module}_{name}"
        kind = "struct " if re.search(rf"^struct {tag} \{{", c_text, re.M) else ""
        lines.append(f"typedef {kind}{tag} {name};\n")
    words = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", descriptor))
    words |= dict.fromkeys(f"{env[1]}_{each}" for each in ("reset", "step", "observe"))
    for word in words:
        for prefix in ("f", "e"):  # functions, enumerators
            name = f"__pyx_{prefix}_{module}_{word}"
            if re.search(rf"\b{name}\b", c_text):
                lines.append(f"#define {word} {name}\n")
    if re.search(rf"^struct __pyx_t_{module}_Metrics \{{", c_text, re.M):
        lines.append(f"#define Metrics __pyx_t_{module}_Metrics\n")
    return [f'#line {line} "{_quoted(source)}"\n{each}' for each in lines]
