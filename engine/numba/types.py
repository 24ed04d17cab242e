"""How Numba sees a world: records for the structs, the parameters, the generator.

An author's functions get the addresses of C structs. State, Action, Obs and outcomes are Numba's
own records; Params (whose arrays are a pointer and a length) and the generator are types of ours.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import njit, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
)
from numba.np.numpy_support import from_dtype

from . import random, source
from .layout import OUTCOME, Layout, Param

_WORD, _WIDE = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()

JIT = {"error_model": "numpy", "fastmath": False, "no_cpython_wrapper": True}


def compiled(function: Any) -> Any:
    """A helper in this package, compiled as an author's function is."""
    found = source.find(function, function.__qualname__)
    assert found is not None
    return njit(**JIT)(source.prepare(found, checked=False).realise(njit(**JIT)))


# ---- Params -----------------------------------------------------------------------------


class ParamsType(types.Type):
    """The address of a Params struct; its members are read as attributes."""

    def __init__(self, params: tuple[Param, ...]) -> None:
        self.members = {param.name: param for param in params}
        super().__init__(name=f"Params({', '.join(map(str, params))})")

    def member_type(self, param: Param) -> types.Type:
        scalar = from_dtype(np.dtype(param.dtype))
        return types.Array(scalar, 1, "C", readonly=True) if param.length_offset >= 0 else scalar


class RngType(types.Type):
    """The address of a world's hr_rng."""

    def __init__(self) -> None:
        super().__init__(name="rng")


rng_type = RngType()

register_model(ParamsType)(models.OpaqueModel)
register_model(RngType)(models.OpaqueModel)


@infer_getattr
class _ParamsAttributes(AttributeTemplate):
    key = ParamsType

    def generic_resolve(self, typ: ParamsType, name: str) -> types.Type | None:
        param = typ.members.get(name)
        return None if param is None else typ.member_type(param)


@lower_getattr_generic(ParamsType)
def _read_param(context: Any, builder: Any, typ: ParamsType, value: Any, name: str) -> Any:
    param = typ.members[name]
    member = typ.member_type(param)
    if param.length_offset < 0:
        return builder.load(_at(builder, value, param.offset, context.get_value_type(member)))
    element = context.get_data_type(member.dtype)
    data = builder.load(_at(builder, value, param.offset, element.as_pointer()))
    length = builder.load(_at(builder, value, param.length_offset, _WORD))
    return _array(context, builder, member, data, builder.sext(length, _WIDE))


def _at(builder: Any, base: Any, offset: int, typ: Any) -> Any:
    """Pointer to a `typ` that lies `offset` bytes behind `base`."""
    place = builder.gep(base, [ir.Constant(_WIDE, offset)])
    return builder.bitcast(place, typ.as_pointer())


def _array(context: Any, builder: Any, typ: types.Array, data: Any, length: Any) -> Any:
    """A Numba array over memory of someone else's."""
    array = context.make_array(typ)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(typ.dtype))
    itemsize = context.get_constant(types.intp, size)
    context.populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=[length],
        strides=[itemsize],
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


# ---- from an address --------------------------------------------------------------------


def address_of(target: types.Type, count: int = 1) -> Any:
    """A function that takes an address (a pointer or an integer) for what is there.

    target: a record or one of the types above, or an Array, whose `count` elements are there.
    """

    @intrinsic
    def convert(typing_context: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = arguments[0]
            if isinstance(signature.args[0], types.Integer):
                pointer = builder.inttoptr(pointer, _BYTES)
            if isinstance(target, types.Array):
                length = context.get_constant(types.intp, count)
                return _array(context, builder, target, pointer, length)
            return builder.bitcast(pointer, context.get_value_type(target))

        return target(address), generate

    return convert


def argument_types(layout: Layout) -> dict[str, Any]:
    """What makes of an address what each argument of the author's functions is."""
    records = {
        "a": from_dtype(layout.action),
        "out": from_dtype(OUTCOME),
        "o": from_dtype(layout.obs),
    }
    if layout.agents > 1:
        records = {name: types.Array(each, 1, "C") for name, each in records.items()}
    flags = types.Array(types.boolean, 1, "C")
    converters = {name: address_of(each, layout.agents) for name, each in records.items()}
    converters["p"] = address_of(ParamsType(layout.params))
    converters["s"] = address_of(from_dtype(layout.state))
    converters["rng"] = address_of(rng_type)
    converters["there"] = address_of(flags, layout.agents)
    converters["allowed"] = address_of(flags, layout.agents * layout.mask_size)
    if layout.metrics:
        names = [(name, np.float32) for name in layout.metrics]
        converters["m"] = address_of(from_dtype(np.dtype(names, align=True)))
    return converters


# ---- the generator ----------------------------------------------------------------------

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@intrinsic
def next_bits(typing_context: Any, rng: Any) -> Any:  # noqa: ARG001
    """hr_bits: 64 random bits; the counter grows by one. Threefry-2x32 with 20 rounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        def rotate(x: Any, by: int) -> Any:
            left = builder.shl(x, ir.Constant(_WORD, by))
            return builder.or_(left, builder.lshr(x, ir.Constant(_WORD, 32 - by)))

        def halves(x: Any) -> tuple[Any, Any]:
            high = builder.lshr(x, ir.Constant(_WIDE, 32))
            return builder.trunc(x, _WORD), builder.trunc(high, _WORD)

        place = _at(builder, arguments[0], 8, _WIDE)
        counter = builder.load(place)
        builder.store(builder.add(counter, ir.Constant(_WIDE, 1)), place)
        keys = list(halves(builder.load(_at(builder, arguments[0], 0, _WIDE))))
        keys.append(builder.xor(builder.xor(ir.Constant(_WORD, 0x1BD11BDA), keys[0]), keys[1]))
        a, b = halves(counter)
        a, b = builder.add(a, keys[0]), builder.add(b, keys[1])
        for number in range(1, 6):
            for by in _ROTATIONS[(number - 1) % 2]:
                a = builder.add(a, b)
                b = builder.xor(rotate(b, by), a)
            a = builder.add(a, keys[number % 3])
            b = builder.add(b, keys[(number + 1) % 3])
            b = builder.add(b, ir.Constant(_WORD, number))
        high = builder.shl(builder.zext(b, _WIDE), ir.Constant(_WIDE, 32))
        return builder.or_(high, builder.zext(a, _WIDE))

    return types.uint64(rng), generate


unit = compiled(random.unit)
uniform = compiled(random.uniform)
normal = compiled(random.normal)
randint = compiled(random.randint)


def _method(function: Any) -> Any:
    """Makes `function` a method of the generator, by its name without the underscore."""

    @functools.wraps(function)
    def typed(*arguments: Any) -> Any:  # noqa: ARG001
        return function

    overload_method(RngType, function.__name__[1:])(typed)
    return function


@_method
def _bits(rng: Any) -> Any:
    return next_bits(rng)


@_method
def _unit(rng: Any) -> Any:
    return unit(next_bits(rng))


@_method
def _uniform(rng: Any, low: Any, high: Any) -> Any:
    return uniform(next_bits(rng), low, high)


@_method
def _normal(rng: Any) -> Any:
    return normal(next_bits(rng))


@_method
def _randint(rng: Any, n: Any) -> Any:
    return randint(next_bits(rng), n)


@_method
def _bernoulli(rng: Any, probability: Any) -> Any:
    return unit(next_bits(rng)) < np.float32(probability)


@_method
def _uniforms(rng: Any, values: Any, low: Any, high: Any) -> Any:
    bits = np.uint64(0)
    for k in range(len(values)):
        bits = next_bits(rng) if k % 2 == 0 else bits >> np.uint64(32)
        values[k] = uniform((bits & np.uint64(0xFFFFFFFF)) << np.uint64(32), low, high)


@_method
def _shuffle(rng: Any, values: Any) -> Any:
    for last in range(len(values) - 1, 0, -1):
        pick = randint(next_bits(rng), last + 1)
        value = values[last]
        values[last] = values[pick]
        values[pick] = value
