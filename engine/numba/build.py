"""From an environment's functions to machine code.

Numba compiles each function to LLVM's language, kernels.py adds the loops around them, and LLVM
optimises all of it together, for this CPU, into one object file. What it leaves behind tells
whether a function might raise an exception or allocate memory, which a kernel cannot do.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm
from numba import cfunc, njit, types

from ..errors import EnvDefinitionError
from . import messages, source
from .kernels import Kernels
from .layout import FUNCTIONS, Layout
from .types import JIT, argument_types


def object_code(layout: Layout, offsets: Mapping[str, int]) -> bytes:
    """The object file of the environment's range kernels, for this CPU.

    Raises:
        EnvDefinitionError: at the author's line, for what Numba cannot compile.
    """
    converters = argument_types(layout)
    parts, symbols = [], {}
    for name, function in layout.functions.items():
        if name != "draw":
            text, symbols[name] = _function(function, name, converters)
            parts.append(_inlined(text, everything=name in ("step", "observe")))
    module = llvm.parse_assembly(Kernels(layout, symbols, offsets).text())
    for part in parts:
        module.link_in(part)
    exported = {f"hr_{name}" for name in FUNCTIONS}
    for function in module.functions:
        if not function.is_declaration and function.name not in exported:
            function.linkage = "internal"
    machine = target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    _optimise(module, machine)
    _refuse_left_over(module, layout)
    return machine.emit_object(module)


def target_machine() -> Any:
    """LLVM's machine for this CPU; multiplications and additions are never fused."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )


def _function(
    function: source.Function, name: str, converters: Mapping[str, Any]
) -> tuple[str, str]:
    """(LLVM text, symbol) of one function as a C function of addresses."""
    wrap = njit(**JIT)
    prepared = source.prepare(function, checked=False)
    compiled = wrap(prepared.realise(wrap))
    adapter = adapted(compiled, name, converters)
    signature = types.void(*[types.voidptr] * len(FUNCTIONS[name]))
    with messages.at_the_authors_line(function, name):
        made = cfunc(signature, error_model="numpy")(adapter)
        return made.inspect_llvm(), made.native_name


def adapted(function: Any, name: str, converters: Mapping[str, Any]) -> Any:
    """`function` as a function of addresses."""
    arguments = FUNCTIONS[name]
    values = {f"as_{each}": converters[each] for each in arguments}
    passed = ", ".join(f"as_{each}({each})" for each in arguments)
    values["function"] = function
    exec(f"def adapter({', '.join(arguments)}):\n    function({passed})\n", values)
    return values["adapter"]


def _inlined(text: str, *, everything: bool) -> Any:
    """The module whose wrapper is one function with what it wraps, or with all that is called."""
    text = re.sub(r"^(attributes #\d+ = \{ )noinline( \})", r"\1alwaysinline\2", text, flags=re.M)
    module = llvm.parse_assembly(text)
    if everything:
        for function in module.functions:
            kept_apart = any(b"noinline" in each for each in function.attributes)
            if not function.is_declaration and not kept_apart:
                function.add_function_attribute("alwaysinline")
    return module


def _optimise(module: Any, machine: Any) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    tuning.loop_interleaving = True
    tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


# ---- what must not be left --------------------------------------------------------------

_LIBRARY = re.compile(
    r"llvm\.|mem(cpy|set|move)$|(sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|exp|exp2|expm1|"
    r"log|log2|log10|log1p|pow|sqrt|cbrt|hypot|floor|ceil|trunc|round|rint|nearbyint|fmod|fabs|"
    r"copysign|fma|ldexp|frexp|erf|erfc|tgamma|lgamma)f?$"
)


def _refuse_left_over(module: Any, layout: Layout) -> None:
    """Raises where the optimised code still needs Numba's or Python's runtime."""
    needed = [
        function.name
        for function in module.functions
        if function.is_declaration and not _LIBRARY.match(function.name)
    ]
    if not needed:
        return
    who = layout.cls.__name__
    if any("random_state" in name for name in needed):
        raise EnvDefinitionError(
            f"{messages.place(layout, messages.draws)}: {who} draws from NumPy's or Python's "
            "random numbers: draw from `rng`, whose numbers depend on the world's seed alone"
        )
    raised = _exceptions(module)
    if any(name.startswith(("NRT_Allocate", "NRT_MemInfo")) for name in needed):
        raise EnvDefinitionError(
            f"{messages.place(layout, messages.allocates)}: {who} allocates memory in a function: "
            "keep arrays in the state, and write loops instead of making new arrays or lists"
        )
    if raised:
        raise EnvDefinitionError(messages.may_raise(layout, raised))
    raise EnvDefinitionError(
        f"{layout.where}: {who} uses what compiled environments cannot: "
        f"{', '.join(sorted(needed)[:3])}"
    )


def _exceptions(module: Any) -> list[tuple[type, tuple[Any, ...], tuple[str, str, int] | None]]:
    """(class, arguments, (function, file, line)) of what the code might still raise."""
    found = []
    for variable in module.global_variables:
        if not variable.name.startswith(".const.pickledata"):
            continue
        content = re.search(r' c"((?:[^"\\]|\\.)*)"', str(variable), re.S)
        if content is None:
            continue
        data = re.sub(
            rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), content[1].encode("latin-1")
        )
        try:
            kind, arguments, place = pickle.loads(data)
        except Exception:  # another constant of Numba's
            continue
        found.append((kind, arguments or (), place))
    return found
