"""Builds the extension modules and the prebuilt environments; all else is in pyproject.toml.

What is built is found by globbing, so that a new C file or environment needs no line here:

    headrace.engine._core      engine/_core.pyx + engine/core/*.c, and engine/core/arch/*.c
                               once per instruction-set level (-DHR_ARCH=<level>)
    headrace.engine.processes._board  engine/processes/_board.pyx
    headrace.trainers._native  trainers/_native.pyx + trainers/csrc/*.c and trainers/csrc/arch/*.c,
                               likewise
    envs/_prebuilt/NAME.LEVEL.so   envs/NAME.c or NAME.pyx, likewise once per level

Levels are x86-64 (`base`), x86-64-v3 and x86-64-v4 on x86-64, and `base` alone elsewhere or where
the compiler does not know the others; the code picks one at run time. `-march=native` never is.
CC, CFLAGS and ARCHFLAGS are honoured. An object is compiled again only when its source, a header
that it includes or its command changed.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)

COMMON_FLAGS = ["-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
SOURCE_FLAGS = ["-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden", *COMMON_FLAGS]
ARCH_FLAGS = [*SOURCE_FLAGS, "-ffp-contract=fast"]
ENV_FLAGS = ["-std=c11", *COMMON_FLAGS, "-ffp-contract=off"]
LEVEL_FLAGS = {
    "base": [],
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
INCLUDES = ["engine", "engine/include", "engine/core", "trainers", "trainers/csrc"]


@dataclass(frozen=True)
class Unit:
    """One object file to compile."""

    source: Path
    object: Path
    flags: tuple[str, ...]


def compiler_command() -> list[str]:
    """The C compiler: $CC, else the one that built this Python when it is there, else cc."""
    if os.environ.get("CC"):
        command = shlex.split(os.environ["CC"])
    else:
        command = shlex.split(sysconfig.get_config_var("CC") or "cc")
        if shutil.which(command[0]) is None:
            command = ["cc"]
    return command + shlex.split(os.environ.get("ARCHFLAGS", ""))


def levels(command: list[str], scratch: Path) -> list[str]:
    """The instruction-set levels that this compiler can build for its target."""
    probe = scratch / "probe.c"
    scratch.mkdir(parents=True, exist_ok=True)
    probe.write_text(
        "#if !defined(__x86_64__)\n#error not x86-64\n#endif\nint probe(int i) { return i; }\n"
    )
    found = ["base"]
    for level in ("v3", "v4"):
        flags = [*LEVEL_FLAGS[level], "-c", str(probe), "-o", str(probe.with_suffix(".o"))]
        if subprocess.run([*command, *flags], capture_output=True, check=False).returncode == 0:
            found.append(level)
    return found


def is_fresh(unit: Unit, command_line: str) -> bool:
    """Whether the object was made by this very command from files that have not changed since."""
    record, depfile = unit.object.with_suffix(".cmd"), unit.object.with_suffix(".d")
    if not (unit.object.exists() and record.exists() and depfile.exists()):
        return False
    if record.read_text() != command_line:
        return False
    made = unit.object.stat().st_mtime_ns
    inputs = depfile.read_text().replace("\\\n", " ").split(":", 1)[1]
    for name in shlex.split(inputs):
        if not os.path.exists(name) or os.stat(name).st_mtime_ns >= made:
            return False
    return True


def compile_unit(command: list[str], unit: Unit, force: bool, verbose: bool) -> None:
    """Compiles one object; raises SystemExit with the compiler's own message."""
    unit.object.parent.mkdir(parents=True, exist_ok=True)
    depfile = unit.object.with_suffix(".d")
    full = [*command, *unit.flags, *shlex.split(os.environ.get("CFLAGS", ""))]
    full += ["-MMD", "-MF", str(depfile), "-c", str(unit.source), "-o", str(unit.object)]
    line = shlex.join(full)
    if not force and is_fresh(unit, line):
        return
    if verbose:
        print(line, flush=True)
    if subprocess.run(full, check=False).returncode != 0:
        raise SystemExit(f"error: compiling {unit.source} failed")
    unit.object.with_suffix(".cmd").write_text(line)


def compile_all(command: list[str], units: Iterable[Unit], force: bool, verbose: bool) -> None:
    """Compiles with as many processes as this one may use cores."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as executor:
        for _ in executor.map(lambda unit: compile_unit(command, unit, force, verbose), units):
            pass


def put(source: Path, target: Path) -> None:
    """Copies into place by a rename, so that a process that has the old file loaded keeps it."""
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy(source, partial)
    partial.replace(target)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One build at a time in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def engine_compile_module() -> types.ModuleType:
    """engine/compile.py as headrace.engine.compile, without importing the unbuilt package."""
    parents = {"headrace": ROOT / "headrace", "headrace.engine": ROOT / "engine"}
    for name, folder in parents.items():
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    try:
        return importlib.import_module("headrace.engine.compile")
    finally:
        for name in [n for n in sys.modules if n == "headrace" or n.startswith("headrace.")]:
            del sys.modules[name]


class BuildExt(build_ext):
    """build_ext with objects per instruction-set level, and the prebuilt environments."""

    def run(self) -> None:
        with locked(ROOT / "build"):
            super().run()
            self.build_environments()

    def build_extensions(self) -> None:
        from Cython.Build import cythonize

        self.command = compiler_command()
        self.scratch = Path(self.build_temp).resolve()
        self.levels = levels(self.command, self.scratch)
        translated = cythonize(
            [Extension(ext.name, list(ext.sources)) for ext in self.extensions],
            build_dir=str(self.scratch / "cython"),
            compiler_directives={"language_level": 3},
            quiet=True,
        )
        sources = {ext.name: ext.sources for ext in translated}
        for ext in self.extensions:
            ext.sources = sources[ext.name]
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        units = [unit for source in ext.sources for unit in self.units(ext, Path(source))]
        compile_all(self.command, units, bool(self.force), bool(self.verbose))
        ext.extra_objects = [str(unit.object) for unit in units]
        ext.depends = list(ext.extra_objects)
        ext.sources = []
        super().build_extension(ext)

    def units(self, ext: Extension, source: Path) -> list[Unit]:
        """The objects of one source: one, or one per level for those in a folder `arch`."""
        defines = [f"-DHR_HAVE_{level.upper()}" for level in self.levels if level != "base"]
        includes = [f"-I{path}" for path in ext.include_dirs]
        folder = self.scratch / ext.name
        if source.parent.name == "arch":
            return [
                Unit(
                    source,
                    folder / f"{source.stem}.{level}.o",
                    (*ARCH_FLAGS, *LEVEL_FLAGS[level], f"-DHR_ARCH={level}", *defines, *includes),
                )
                for level in self.levels
            ]
        flags = SOURCE_FLAGS
        if (ROOT / source).resolve().is_relative_to(self.scratch):  # written by Cython
            flags = ["-w", *COMMON_FLAGS, *(f"-I{path}" for path in self.include_dirs)]
        return [Unit(source, folder / f"{source.stem}.o", (*flags, *defines, *includes))]

    def copy_extensions_to_source(self) -> None:
        build_py = self.get_finalized_command("build_py")
        for ext in self.extensions:
            inplace, regular = self._get_inplace_equivalent(build_py, ext)
            put(Path(regular), Path(inplace))

    def build_environments(self) -> None:
        """Compiles envs/*.c and *.pyx for each level into envs/_prebuilt of the tree or build."""
        sources = [path for path in sorted(Path("envs").iterdir()) if path.suffix in (".c", ".pyx")]
        compiling = engine_compile_module()
        target = ROOT / "envs" if self.inplace else Path(self.build_lib) / "headrace" / "envs"
        scratch = self.scratch / "envs"
        units = [
            Unit(
                self.c_source(source, compiling),
                scratch / f"{source.stem}.{level}.o",
                (
                    *ENV_FLAGS,
                    *LEVEL_FLAGS[level],
                    "-Iengine/include",
                    *(compiling.cython_env.flags() if source.suffix == ".pyx" else []),
                    f'-DHR_SOURCE_HASH="{compiling.source_hash(ROOT / source, {})}"',
                ),
            )
            for source in sources
            for level in self.levels
        ]
        compile_all(self.command, units, bool(self.force), bool(self.verbose))
        for unit in units:
            library = unit.object.with_suffix(".so")
            link = [*self.command, "-shared", str(unit.object), "-o", str(library), "-lm"]
            subprocess.run(link, check=True)
            put(library, target / "_prebuilt" / library.name)

    def c_source(self, source: Path, compiling: types.ModuleType) -> Path:
        """The file itself, or the C that a Cython environment is translated to."""
        if source.suffix == ".c":
            return source
        c_file = self.scratch / "envs" / f"{source.stem}.pyx.c"
        compiling.cython_env.translate_to(ROOT / source, c_file, ROOT / "engine" / "include")
        return c_file


def extensions() -> list[Extension]:
    """The extension modules whose .pyx is there."""
    import numpy

    table = {
        "headrace.engine._core": ("engine/_core.pyx", ["engine/core/*.c", "engine/core/arch/*.c"]),
        "headrace.engine.processes._board": ("engine/processes/_board.pyx", []),
        "headrace.trainers._native": (
            "trainers/_native.pyx",
            ["trainers/csrc/*.c", "trainers/csrc/arch/*.c"],
        ),
    }
    found = []
    for name, (pyx, patterns) in table.items():
        sources = sorted(str(path) for pattern in patterns for path in Path().glob(pattern))
        if Path(pyx).exists():
            include_dirs = [*INCLUDES, numpy.get_include()]
            found.append(
                Extension(name, [pyx, *sources], include_dirs=include_dirs, libraries=["m"])
            )
    return found


def packages() -> list[str]:
    """The packages of pyproject.toml's package-dir table and the packages inside them."""
    roots = {f"headrace.{folder}": folder for folder in ("engine", "envs", "trainers", "bench")}
    roots["headrace"] = "headrace"
    inner = (
        f"{name}.{package}" for name, folder in roots.items() for package in find_packages(folder)
    )
    return [*roots, *inner]


setup(packages=packages(), ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
