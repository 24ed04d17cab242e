"""From an environment's C file to a shared library in the user's cache.

The name of a cached library is a hash of everything that its content depends on: the source, the
headers (headrace's and the author's own), sizes given as macros, flags, compiler and CPU. So a
library that is there is right, and nothing ever has to be thrown away. Only the standard library
is imported at the top: the package's build loads this file before anything else is there.
"""

from __future__ import annotations

import atexit
import difflib
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from . import compiler as running
from . import cython_env
from .errors import ArgumentError, CacheError, CompileError

INCLUDE_DIR = Path(__file__).resolve().parent / "include"
PREBUILT_DIR = Path(__file__).resolve().parent.parent / "envs" / "_prebuilt"

_FLAGS = (
    "-std=c11 -fno-math-errno -fno-trapping-math -fopenmp-simd -ffp-contract=off "
    "-fPIC -shared -fvisibility=hidden -fmax-errors=5 -ftrack-macro-expansion=0 "
    "-Werror=implicit-function-declaration -Werror=incompatible-pointer-types "
    "-Werror=int-conversion -Werror=return-type"
).split()
_CLANG_FLAGS = {  # what clang calls the flags that only gcc has
    "-fmax-errors=5": "-ferror-limit=5",
    "-ftrack-macro-expansion=0": "-fmacro-backtrace-limit=1",
}
_SANITIZE_FLAGS = (
    "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
).split()
# gives local variables that are never set a value that no other build gives them
_FILL_LOCALS = "-ftrivial-auto-var-init=pattern"

_LEVEL_FEATURES = {  # in /proc/cpuinfo's words; each level includes the one before
    "v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
_LEVELS = ("base", *_LEVEL_FEATURES)

_ATTEMPTS = 5  # at a file that changes meanwhile
_STALE = 3600.0  # seconds after which a folder that a build left behind is nobody's

_INSTALL = "install gcc or clang, or run `pip install headrace[compiler]`"


def build(
    path: str | Path,
    *,
    defines: Mapping[str, int] | None = None,
    checked: bool = False,
    sanitize: bool = False,
) -> Path:
    """The shared library of the environment in a C or Cython file, compiled when it is not cached.

    Args:
        path: the author's source file.
        defines: compile-time sizes, each one that the source declares by `#ifndef NAME`.
        checked: with HR_CHECK, debug information and little optimisation.
        sanitize: with AddressSanitizer and UndefinedBehaviorSanitizer; a process that loads it
            must have been started with the sanitizer's runtime.

    Raises:
        CompileError: the compiler's message, no compiler, or a file that cannot be read.
        ArgumentError: a size that the source does not have, or whose value is no integer.
        CacheError: neither the cache nor a temporary folder can be written.
    """
    source = Path(path).resolve()
    sizes = dict(defines or {})
    for _ in range(_ATTEMPTS):
        library = _build_once(source, sizes, checked, sanitize)
        if library is not None:
            return library
    raise CompileError(f"{source} keeps changing while it is compiled: try again when it does not")


def _build_once(source: Path, sizes: dict[str, int], checked: bool, sanitize: bool) -> Path | None:
    """The library; None when the source changed before the compiler had read all of it."""
    _check_defines(source, sizes)
    compiler = find_compiler()
    if compiler is None:
        raise CompileError(f"{source} cannot be compiled: there is no C compiler here; {_INSTALL}")
    content_hash = source_hash(source, sizes)
    flags = _flags(compiler, checked, sanitize)
    key = [content_hash, *flags, *_compiler_identity(tuple(compiler)), _cpu_identity()]
    if checked or sanitize:  # these contain the author's path, for their reports
        key.append(str(source))
    if source.suffix == ".pyx":
        key += cython_env.identity(INCLUDE_DIR)
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:24]
    library = cache_dir() / f"{source.stem}-{digest}.so"
    if library.exists():
        return library
    macros = [f"-D{name}={value}" for name, value in sizes.items()]
    macros.append(f'-DHR_SOURCE_HASH="{content_hash}"')
    command = [*compiler, *flags, *macros, f"-I{INCLUDE_DIR}"]

    def is_unchanged() -> bool:
        return source_hash(source, sizes) == content_hash

    if source.suffix == ".pyx":
        with cython_env.translated(source, INCLUDE_DIR) as c_file:
            command += cython_env.flags()
            return library if _compile(command, c_file, library, source, is_unchanged) else None
    return library if _compile(command, source, library, source, is_unchanged) else None


def prebuilt(name: str) -> Path | None:
    """The library of the shipped environment `name` that came with the package.

    It is the best one that this CPU runs; None when there is none, when it was built from other
    sources than the ones installed, or when HEADRACE_PREBUILT is 0. HEADRACE_ISA (base, v3 or v4)
    asks for a lesser one.
    """
    if os.environ.get("HEADRACE_PREBUILT") == "0":
        return None
    sources = [PREBUILT_DIR.parent / f"{name}{suffix}" for suffix in (".c", ".pyx")]
    source = next((each for each in sources if each.is_file()), None)
    if source is None:
        return None
    expected = source_hash(source, {}).encode()
    for level in reversed(_usable_levels()):
        library = PREBUILT_DIR / f"{name}.{level}.so"
        if library.is_file() and expected in library.read_bytes():
            return library
    return None


def find_compiler() -> list[str] | None:
    """The command of a C compiler: $CC, else cc, gcc, clang or the ziglang package; or None.

    Raises:
        CompileError: CC names a program that is not there.
    """
    wanted = shlex.split(os.environ.get("CC", ""))
    if wanted:
        found = shutil.which(wanted[0])
        if found is None:
            raise CompileError(
                f"the environment variable CC names {wanted[0]!r}, which is no program on PATH: "
                "correct it or unset it"
            )
        return [found, *wanted[1:]]
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def source_hash(path: str | Path, defines: Mapping[str, int]) -> str:
    """A digest of what an environment is made of: source, headers and sizes, but no flags.

    It depends on contents alone, not on where the files lie.

    Raises:
        CompileError: the file cannot be read.
    """
    digest = hashlib.sha256()
    for header in sorted(INCLUDE_DIR.rglob("*.h")):
        _update(digest, header.relative_to(INCLUDE_DIR).as_posix(), header.read_bytes())
    for name, content in _own_files(Path(path).resolve()):
        _update(digest, name, content)
    for name in sorted(defines):
        _update(digest, name, str(int(defines[name])).encode())
    return digest.hexdigest()


@functools.cache
def _temporary_cache() -> Path:
    """Of this process, which removes it when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@functools.cache
def _warn_of_cache(folder: Path, reason: str) -> None:
    running.on_warning(
        f"compiled environments are kept for this process only: {folder} cannot be used "
        f"({reason}); set HEADRACE_CACHE_DIR to a folder that can be written"
    )


def cache_dir() -> Path:
    """The folder of compiled environments, made when it is not there.

    It is $HEADRACE_CACHE_DIR or else the user's cache folder, and a temporary folder of this
    process where that cannot be written.

    Raises:
        CacheError: there is no folder that can be written.
    """
    wanted = os.environ.get("HEADRACE_CACHE_DIR")
    if wanted:
        folder = Path(wanted).expanduser().absolute()
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("headrace")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as refused:
        try:
            temporary = _temporary_cache()
            _warn_of_cache(folder, str(refused.strerror))
            return temporary
        except OSError:
            raise CacheError(
                f"compiled environments cannot be kept: neither {folder} ({refused.strerror}) nor "
                "a temporary folder can be written; set HEADRACE_CACHE_DIR to a folder that can"
            ) from None


def _update(digest: hashlib._Hash, name: str, content: bytes) -> None:
    for part in (name.encode(), content):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def _own_files(source: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the author's file and of all that it includes in quotes."""
    waiting, seen = [source], {source}
    while waiting:
        file = waiting.pop()
        try:
            content = file.read_bytes()
        except OSError as fault:
            raise CompileError(f"{file} cannot be read: {fault.strerror}") from None
        yield os.path.relpath(file, source.parent), content
        for found in re.findall(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', content, re.MULTILINE):
            included = (file.parent / os.fsdecode(found)).resolve()
            if included not in seen and included.is_file():
                seen.add(included)
                waiting.append(included)


def _check_defines(source: Path, defines: Mapping[str, int]) -> None:
    """Raises where a size is none of the source's, or no integer."""
    if not defines:
        return
    text = b"\n".join(content for _, content in _own_files(source)).decode(errors="replace")
    sizes = sorted(set(re.findall(r"^[ \t]*#[ \t]*ifndef[ \t]+([A-Z]\w*)", text, re.MULTILINE)))
    for name, value in defines.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"size {name} is {value!r}: give an integer")
        if name not in sizes:
            raise unknown_size(source.name, name, sizes, "#ifndef NAME")


class UnknownSizeError(ArgumentError):
    """A compile-time size, `name`, that a file has not got."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name

    def __reduce__(self) -> tuple[type[UnknownSizeError], tuple[str, str]]:
        return UnknownSizeError, (str(self), self.name)


def unknown_size(file: str, name: str, sizes: Iterable[str], form: str) -> UnknownSizeError:
    """For a compile-time size that a file has not got; form: how one is written there."""
    close = difflib.get_close_matches(name, sizes, 1)
    known = f"it has {', '.join(sizes) or 'none'} ({form})"
    hint = f"did you mean {close[0]}?" if close else known
    return UnknownSizeError(f"{file} has no compile-time size {name}: {hint}", name)


def _flags(compiler: list[str], checked: bool, sanitize: bool) -> list[str]:
    # under sanitizers, any optimisation might give a variable that is never set a fitting value
    flags = ["-O0", "-g"] if sanitize else ["-O1", "-g"] if checked else ["-O3"]
    if checked:
        flags.append("-DHR_CHECKED")
    flags.append("-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native")
    flags += _FLAGS
    if sanitize:
        flags += _SANITIZE_FLAGS
        if _can_fill_locals(tuple(compiler)):
            flags.append(_FILL_LOCALS)
    elif sys.platform == "linux":
        flags.append("-Wl,-z,defs")  # a function that nobody defines is an error here
    if any("clang" in line for line in _compiler_identity(tuple(compiler))):
        flags = [_CLANG_FLAGS.get(flag, flag) for flag in flags]
    return flags


@functools.cache
def _compiler_identity(compiler: tuple[str, ...]) -> tuple[str, ...]:
    """The command and what it says about its version."""
    try:
        version = subprocess.run(
            [*compiler, "--version"], capture_output=True, text=True, errors="replace", check=False
        ).stdout
    except OSError as fault:
        raise CompileError(
            f"the C compiler {compiler[0]} cannot be run ({fault.strerror}): {_INSTALL}"
        ) from None
    return (*compiler, version)


@functools.cache
def _can_fill_locals(compiler: tuple[str, ...]) -> bool:
    """Whether the compiler knows that flag (gcc from 12, clang from 8 on)."""
    command = [*compiler, "-Werror", _FILL_LOCALS, "-x", "c", "-E", os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@functools.cache
def _cpu_features() -> tuple[str, frozenset[str]]:
    """(text that tells this CPU's model from others, its features in Linux's words)."""
    text = " ".join(platform.uname())
    features: frozenset[str] = frozenset()
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "CPU implementer", "CPU part"):
                    text = value.strip()
                elif key.strip() in ("flags", "Features"):
                    features = frozenset(value.split())
                elif not line.strip() and features:
                    break
    except OSError:
        pass  # no Linux
    return text, features


def _cpu_identity() -> str:
    model, features = _cpu_features()
    return f"{platform.machine()} {model} {' '.join(sorted(features))}"


def _usable_levels() -> list[str]:
    """Instruction-set levels that this CPU has, the least first."""
    features = _cpu_features()[1]
    levels = ["base"]
    for level, needed in _LEVEL_FEATURES.items():
        if not needed <= features:
            break
        levels.append(level)
    wanted = os.environ.get("HEADRACE_ISA")
    if wanted:
        if wanted not in _LEVELS:
            raise ArgumentError(f"HEADRACE_ISA is {wanted!r}: expected {', '.join(_LEVELS)}")
        levels = [level for level in levels if _LEVELS.index(level) <= _LEVELS.index(wanted)]
    return levels


def _compile(
    command: list[str],
    c_file: Path,
    library: Path,
    source: Path,
    is_unchanged: Callable[[], bool],
) -> bool:
    """Compiles into `library` by a rename, so that nobody ever sees half a file.

    source: what messages call the C file. is_unchanged: asked when the compiler has read it;
    else nothing is kept, since the name of the library would lie, and False is returned.
    """
    try:
        _remove_stale(library.parent)
        with tempfile.TemporaryDirectory(dir=library.parent, prefix=".build-") as folder:
            partial = Path(folder) / "library.so"
            code, said = running.run([*command, str(c_file), "-o", str(partial), "-lm"], source)
            if not is_unchanged():
                return False
            if code == 0:
                partial.replace(library)
                return True
    except OSError as fault:
        raise CacheError(
            f"{source.name} cannot be compiled into {library.parent}: {fault.strerror}"
        ) from None
    sizes = [each[2:] for each in command if re.match(r"-D[A-Z]\w*=-?\d+$", each)]
    raise CompileError(running.explained(source, said, sizes))


def _remove_stale(cache: Path) -> None:
    """Removes what builds left behind that were killed."""
    for folder in cache.glob(".build-*"):
        try:
            if time.time() - folder.stat().st_mtime > _STALE:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # another process was quicker
