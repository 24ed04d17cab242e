"""Range kernels around an author's functions, in LLVM's terms.

The counterpart of headrace/kernels.h. Each author's function is a C function of addresses; a
kernel is a loop over worlds that calls it. The loops get their arrays as `noalias` arguments and
one agent's small State is worked on in a local copy, so that LLVM vectorises across worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir

from .layout import Layout

LOCAL_BYTES = 256  # States up to this size are worked on in a local copy
ARRAYS = ("state", "rng", "actions", "rewards", "terminated", "truncated", "obs")

_POINTER, _I64, _I32 = ir.PointerType(), ir.IntType(64), ir.IntType(32)
_I8, _F32 = ir.IntType(8), ir.FloatType()
_VOID = ir.VoidType()


class Kernels:
    """Builds the module of range kernels of one environment.

    functions: symbol of each author's function; offsets: of the members of hr_batch, in bytes.
    """

    def __init__(
        self, layout: Layout, functions: Mapping[str, str], offsets: Mapping[str, int]
    ) -> None:
        self._layout = layout
        self._offsets = offsets
        self._module = ir.Module("kernels")
        self._functions = {
            name: ir.Function(
                self._module, ir.FunctionType(_POINTER, [_POINTER] * arguments), symbol
            )
            for name, symbol in functions.items()
            for arguments in [{"step": 5}.get(name, 3)]
        }
        self._sizes = {
            "state": layout.state.itemsize,
            "rng": 16,
            "actions": layout.action.itemsize * layout.agents,
            "rewards": 4 * layout.agents,
            "terminated": layout.agents,
            "truncated": layout.agents,
            "obs": layout.obs.itemsize * layout.agents,
        }

    def text(self) -> str:
        """The module's text: functions hr_step, hr_observe and so on, as in abi.h."""
        self._ranged("step", self._step_world)
        self._ranged("observe", self._observe_world)
        self._reset()
        if "present" in self._functions:
            self._flags("present", self._layout.agents)
        if "mask" in self._functions:
            self._flags("mask", self._layout.agents * self._layout.mask_size)
        if "metrics" in self._functions:
            self._metrics()
        return str(self._module)

    # ---- step and observe ---------------------------------------------------------------

    def _ranged(self, name: str, body: Any) -> None:
        """hr_<name>(batch, lo, hi): two loops, for shared Params and for one per world."""
        shared = self._worlds(f"{name}_shared", body, shared=True)
        each = self._worlds(f"{name}_each", body, shared=False)
        function = self._function(f"hr_{name}", [_POINTER, _I64, _I64])
        batch, lo, hi = function.args
        builder = ir.IRBuilder(function.append_basic_block())
        stride = self._member(builder, batch, "params_stride", _I64)
        arguments = [self._member(builder, batch, "params"), stride]
        arguments += [self._member(builder, batch, array) for array in ARRAYS]
        is_shared = builder.icmp_signed("==", stride, ir.Constant(_I64, 0))
        with builder.if_else(is_shared) as (then, otherwise):
            with then:
                builder.call(shared, [*arguments, lo, hi])
            with otherwise:
                builder.call(each, [*arguments, lo, hi])
        builder.ret_void()

    def _worlds(self, name: str, body: Any, *, shared: bool) -> ir.Function:
        function = self._function(
            name, [_POINTER, _I64, *[_POINTER] * len(ARRAYS), _I64, _I64], internal=True
        )
        params, stride, *arrays, lo, hi = function.args
        for pointer in [params, *arrays]:
            pointer.add_attribute("noalias")
        builder = ir.IRBuilder(function.append_basic_block())
        local = self._locals(builder)
        with _loop(builder, lo, hi) as world:
            places = {
                array: _at(builder, base, world, self._sizes[array])
                for array, base in zip(ARRAYS, arrays, strict=True)
            }
            offset = ir.Constant(_I64, 0) if shared else builder.mul(stride, world)
            places["params"] = builder.gep(params, [offset], source_etype=_I8)
            body(builder, places, local)
        builder.ret_void()
        return function

    def _locals(self, builder: ir.IRBuilder) -> dict[str, Any]:
        outcomes = builder.alloca(ir.ArrayType(_I8, 8 * self._layout.agents))
        state = builder.alloca(ir.ArrayType(_I8, self._layout.state.itemsize))
        outcomes.align = state.align = 16
        return {"outcomes": outcomes, "state": state}

    def _step_world(self, builder: ir.IRBuilder, at: dict[str, Any], local: dict[str, Any]) -> None:
        layout, size = self._layout, self._layout.state.itemsize
        copied = layout.agents == 1 and size <= LOCAL_BYTES
        state, outcomes = at["state"], local["outcomes"]
        if copied:
            state = local["state"]
            self._copy(builder, state, at["state"], size)
        self._clear(builder, outcomes, 8 * layout.agents)
        step = self._functions["step"]
        builder.call(step, [at["params"], state, at["actions"], outcomes, at["rng"]])
        if copied:
            self._copy(builder, at["state"], state, size)
        for agent in range(layout.agents):
            for array, typ, place, width in (
                ("rewards", _F32, 0, 4),
                ("terminated", _I8, 4, 1),
                ("truncated", _I8, 5, 1),
            ):
                value = builder.load(_plus(builder, outcomes, 8 * agent + place), typ=typ)
                builder.store(value, _plus(builder, at[array], width * agent))

    def _observe_world(
        self,
        builder: ir.IRBuilder,
        at: dict[str, Any],
        local: dict[str, Any],  # noqa: ARG002
    ) -> None:
        builder.call(self._functions["observe"], [at["params"], at["state"], at["obs"]])

    # ---- the rest -----------------------------------------------------------------------

    def _reset(self) -> None:
        """hr_reset(batch, worlds, count)."""
        function = self._function("hr_reset", [_POINTER, _POINTER, _I64])
        batch, worlds, count = function.args
        builder = ir.IRBuilder(function.append_basic_block())
        with _loop(builder, ir.Constant(_I64, 0), count) as index:
            entry = builder.load(builder.gep(worlds, [index], source_etype=_I32), typ=_I32)
            world = builder.sext(entry, _I64)
            state = self._place(builder, batch, "state", world)
            self._clear(builder, state, self._layout.state.itemsize)
            rng = self._place(builder, batch, "rng", world)
            builder.call(
                self._functions["reset"], [self._params_at(builder, batch, world), state, rng]
            )
        builder.ret_void()

    def _flags(self, name: str, width: int) -> None:
        """hr_<name>(batch, lo, hi, flags): `width` flags per world, cleared before."""
        function = self._function(f"hr_{name}", [_POINTER, _I64, _I64, _POINTER])
        batch, lo, hi, flags = function.args
        builder = ir.IRBuilder(function.append_basic_block())
        with _loop(builder, lo, hi) as world:
            place = _at(builder, flags, world, width)
            self._clear(builder, place, width)
            params = self._params_at(builder, batch, world)
            state = self._place(builder, batch, "state", world)
            builder.call(self._functions[name], [params, state, place])
        builder.ret_void()

    def _metrics(self) -> None:
        """hr_metrics(batch, world, out)."""
        function = self._function("hr_metrics", [_POINTER, _I64, _POINTER])
        batch, world, out = function.args
        builder = ir.IRBuilder(function.append_basic_block())
        self._clear(builder, out, 4 * len(self._layout.metrics))
        params = self._params_at(builder, batch, world)
        state = self._place(builder, batch, "state", world)
        builder.call(self._functions["metrics"], [params, state, out])
        builder.ret_void()

    # ---- small parts --------------------------------------------------------------------

    def _function(self, name: str, types: list[Any], *, internal: bool = False) -> ir.Function:
        function = ir.Function(self._module, ir.FunctionType(_VOID, types), name)
        function.attributes.add("nounwind")
        if internal:
            function.linkage = "internal"
            function.attributes.add("noinline")
        return function

    def _member(self, builder: ir.IRBuilder, batch: Any, name: str, typ: Any = _POINTER) -> Any:
        return builder.load(_plus(builder, batch, self._offsets[name]), typ=typ)

    def _place(self, builder: ir.IRBuilder, batch: Any, array: str, world: Any) -> Any:
        return _at(builder, self._member(builder, batch, array), world, self._sizes[array])

    def _params_at(self, builder: ir.IRBuilder, batch: Any, world: Any) -> Any:
        stride = self._member(builder, batch, "params_stride", _I64)
        params = self._member(builder, batch, "params")
        return builder.gep(params, [builder.mul(stride, world)], source_etype=_I8)

    def _copy(self, builder: ir.IRBuilder, to: Any, source: Any, size: int) -> None:
        self._memory(builder, "llvm.memcpy.p0.p0.i64", to, source, size)

    def _clear(self, builder: ir.IRBuilder, to: Any, size: int) -> None:
        self._memory(builder, "llvm.memset.p0.i64", to, _I8(0), size)

    def _memory(self, builder: ir.IRBuilder, name: str, to: Any, what: Any, size: int) -> None:
        function = self._module.globals.get(name)
        if function is None:
            typ = ir.FunctionType(_VOID, [_POINTER, what.type, _I64, ir.IntType(1)])
            function = ir.Function(self._module, typ, name)
        builder.call(function, [to, what, _I64(size), ir.IntType(1)(0)])


def _plus(builder: ir.IRBuilder, base: Any, offset: int) -> Any:
    return builder.gep(base, [ir.Constant(_I64, offset)], inbounds=True, source_etype=_I8)


def _at(builder: ir.IRBuilder, base: Any, index: Any, size: int) -> Any:
    offset = builder.mul(index, ir.Constant(_I64, size), flags=["nsw"])
    return builder.gep(base, [offset], inbounds=True, source_etype=_I8)


@contextmanager
def _loop(builder: ir.IRBuilder, lo: Any, hi: Any) -> Iterator[Any]:
    """for (world = lo; world < hi; world++), the body written inside the `with`."""
    before, function = builder.block, builder.function
    body = function.append_basic_block("world")
    done = function.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", lo, hi), body, done)
    builder.position_at_end(body)
    world = builder.phi(_I64)
    world.add_incoming(lo, before)
    yield world
    following = builder.add(world, ir.Constant(_I64, 1), flags=["nsw"])
    world.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, hi), body, done)
    builder.position_at_end(done)
