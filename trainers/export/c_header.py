"""A policy as one C header that needs nothing: C99, C11 or C++, weights in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from .network import Cell, ChannelsFirst, Conv, Dense, Floats, Network
from .ports import Piece, Port, Ports

_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    **{f"{u}int{bits}": f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)},
}
_HELPERS = Path(__file__).with_name("helpers.h")
_RESERVED = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl "
    "concept const const_cast consteval constexpr constinit continue decltype default delete "
    "do double dynamic_cast else enum explicit export extern false float for friend goto if "
    "inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq "
    "private protected public register reinterpret_cast requires restrict return short signed "
    "sizeof static static_assert static_cast struct switch template this thread_local throw "
    "true try typedef typeid typename typeof union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq".split()
)
WIDTH = 96


def header_of(ports: Ports, network: Network, *, mask_size: int, name: str, about: str) -> str:
    """The header's text.

    Args:
        ports: of the environment.
        name: begins every name in it: an identifier.
        about: sentences for its first comment.
    """
    return "\n".join(_Header(ports, network, mask_size, name, about).lines())


def identifier(text: str) -> str:
    """The text as a name that C and C++ accept."""
    found = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not found or found[0].isdigit():
        found = f"_{found}" if found else "policy"
    return f"{found}_" if found in _RESERVED else found


class _Header:
    """The parts of the text, in order."""

    def __init__(
        self, ports: Ports, network: Network, mask_size: int, name: str, about: str
    ) -> None:
        self._ports, self._network = ports, network
        self._mask_size, self._name, self._about = mask_size, name, about
        self._members = [_unique([port.name for port in each]) for each in _both(ports)]

    def lines(self) -> Iterator[str]:
        guard = f"{self._name.upper()}_H"
        yield from self._comment()
        yield from (f"#ifndef {guard}", f"#define {guard}", "")
        yield from ("#include <math.h>", "#include <stddef.h>", "#include <stdint.h>", "")
        yield from self._types()
        yield from self._weights()
        yield from self._helpers()
        yield from self._act()
        yield from ("", f"#endif /* {guard} */", "")

    def _comment(self) -> Iterator[str]:
        about = self._about.replace("*/", "* /")
        yield f"/* {about}"
        yield " *"
        yield " * Written by headrace export. It depends on nothing and keeps nothing, so that any"
        yield " * number of threads may use it. */"

    # ---- types ----

    def _types(self) -> Iterator[str]:
        n, net = self._name, self._network
        yield from self._struct("obs", self._ports.observation, self._members[0])
        yield from self._struct("action", self._ports.action, self._members[1])
        yield "enum {"
        yield f"    {n.upper()}_OUTPUTS = {net.outputs}, /* logits and means, then the value */"
        yield f"    {n.upper()}_MASK = {self._mask_size}, /* bytes of a mask; 0: none */"
        yield f"    {n.upper()}_STATE = {net.state_size} /* floats that it remembers; 0: none */"
        yield "};"
        yield ""

    def _struct(self, what: str, ports: tuple[Port, ...], members: list[str]) -> Iterator[str]:
        yield "typedef struct {"
        for port, member in zip(ports, members, strict=True):
            axes = "".join(f"[{size}]" for size in port.shape)
            yield f"    {_TYPES[port.dtype]} {member}{axes};{_explained(port)}"
        yield f"}} {self._name}_{what};"
        yield ""

    # ---- weights ----

    def _arrays(self) -> Iterator[tuple[str, Floats]]:
        net = self._network
        if net.obs_mean is not None and net.obs_scale is not None:
            yield from (("mean", net.obs_mean), ("scale", net.obs_scale))
        for t, tower in enumerate(net.towers):
            for k, layer in enumerate(tower):
                for part in ("weight", "bias"):
                    array = getattr(layer, part, None)
                    if array is not None:
                        yield f"{part}_{t}_{k}", array

    def _weights(self) -> Iterator[str]:
        for name, array in self._arrays():
            yield f"static const float {self._name}__{name}[{array.size}] = {{"
            yield from _wrapped(array)
            yield "};"
        yield ""

    def _helpers(self) -> Iterator[str]:
        """The functions that these layers need, under names of their own."""
        layers = [layer for tower in self._network.towers for layer in tower]
        wanted = {"dense"} | {_kind(layer) for layer in layers}
        if self._network.obs_mean is not None:
            wanted.add("normalise")
        if any(piece.choices for port in self._ports.action for piece in port.pieces):
            wanted.add("likeliest")
        if {"mingru", "gru", "lstm"} & wanted:
            wanted |= {"sigmoid", "recalled"} if {"gru", "lstm"} & wanted else {"sigmoid"}
        text = _HELPERS.read_text()
        for chunk in text.split("\n/// ")[1:]:
            title, _, body = chunk.partition("\n")
            if title.strip() in wanted:
                yield body.strip().replace("POLICY", self._name)
                yield ""

    # ---- the one function ----

    def _act(self) -> Iterator[str]:
        n, net = self._name, self._network
        told = ["/* The likeliest action for *obs, into *action."]
        if self._mask_size:
            told += [f" * mask: {n.upper()}_MASK bytes, 0 for what is not allowed, or NULL."]
        if net.state_size:
            told += [f" * state: {n.upper()}_STATE floats, 0 where an episode begins; updated."]
        told += [f" * outputs: {n.upper()}_OUTPUTS floats, or NULL. */"]
        yield from told
        given = [f"const {n}_obs *obs"]
        given += ["const uint8_t *mask"] if self._mask_size else []
        given += ["float *state"] if net.state_size else []
        given += [f"{n}_action *action", "float *outputs"]
        yield f"static inline void {n}_act({given[0]},"
        indent = " " * len(f"static inline void {n}_act(")
        yield from (f"{indent}{each}," for each in given[1:-1])
        yield f"{indent}{given[-1]}) {{"
        body = [*self._encode(), *self._forward(), *self._decode()]
        yield f"    float x[{net.features}], out[{n.upper()}_OUTPUTS];"
        yield from (f"    {line}" if line else "" for line in body)
        yield "}"

    def _encode(self) -> Iterator[str]:
        feature = 0
        for port, member in zip(self._ports.observation, self._members[0], strict=True):
            at = 0
            for piece in port.pieces:
                yield from _encoded(port, member, piece, at, feature)
                at, feature = at + piece.size, feature + piece.features
        if self._network.obs_mean is not None:
            clip = _number(self._network.obs_clip)
            n = self._name
            yield f"{n}__normalise({self._network.features}, {n}__mean, {n}__scale, {clip}, x);"

    def _forward(self) -> Iterator[str]:
        output = 0
        for t, tower in enumerate(self._network.towers):
            yield "{"
            given, size = "x", self._network.features
            for k, layer in enumerate(tower):
                last = k == len(tower) - 1
                result = f"out + {output}" if last else f"y{k}"
                size = _size(layer, size)
                if not last:
                    yield f"    float y{k}[{size}];"
                yield f"    {self._call(layer, t, k, given, result)}"
                given = result
            output += size
            yield "}"
        yield "if (outputs != NULL)"
        yield f"    for (int k = 0; k < {self._name.upper()}_OUTPUTS; k++) outputs[k] = out[k];"

    def _call(self, layer: object, t: int, k: int, given: str, result: str) -> str:
        n = self._name
        weight, bias = f"{n}__weight_{t}_{k}", f"{n}__bias_{t}_{k}"
        if isinstance(layer, Dense):
            out, inner = layer.weight.shape
            kind = {"": 0, "tanh": 1, "relu": 2}[layer.activation]
            return f"{n}__dense({out}, {inner}, {weight}, {bias}, {kind}, {given}, {result});"
        if isinstance(layer, Conv):
            out, channels, kernel, _ = layer.weight.shape
            sizes = f"{out}, {channels}, {layer.height}, {layer.width}, {kernel}, {layer.stride}"
            return f"{n}__conv({sizes}, {weight}, {bias}, {given}, {result});"
        if isinstance(layer, ChannelsFirst):
            sizes = f"{layer.height * layer.width}, {layer.channels}"
            return f"{n}__channels_first({sizes}, {given}, {result});"
        assert isinstance(layer, Cell)
        own = (
            "" if layer.weight is None else f"{weight}, {'NULL' if layer.bias is None else bias}, "
        )
        return f"{n}__{layer.kind}({layer.size}, {own}{given}, state, {result});"

    def _decode(self) -> Iterator[str]:
        output = masked = 0
        for port, member in zip(self._ports.action, self._members[1], strict=True):
            at = 0
            for piece in port.pieces:
                yield from self._decoded(port, member, piece, at, output, masked)
                at, output = at + piece.size, output + piece.features
                masked += piece.features if piece.choices else 0

    def _decoded(
        self, port: Port, member: str, piece: Piece, at: int, output: int, masked: int
    ) -> Iterator[str]:
        kind = _TYPES[port.dtype]
        if not piece.choices:
            for k in range(piece.size):
                place = _place("action", port, member, at + k)
                yield f"{place} = ({kind}){_bounded(f'out[{output + k}]', piece)};"
            return
        for k in range(piece.size):
            place = _place("action", port, member, at + k)
            first = k * piece.choices
            own = f"mask == NULL ? NULL : mask + {masked + first}" if self._mask_size else "NULL"
            best = f"{self._name}__likeliest({piece.choices}, out + {output + first}, {own})"
            start = f"{piece.start[k]} + " if piece.start[k] else ""
            yield f"{place} = ({kind})({start}{best});"


def _both(ports: Ports) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    return ports.observation, ports.action


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in map(identifier, names):
        number, own = 2, name
        while own in found:
            own, number = f"{name}_{number}", number + 1
        found.append(own)
    return found


def _explained(port: Port) -> str:
    kinds = {(piece.choices, piece.start) for piece in port.pieces}
    if len(kinds) != 1 or not port.pieces[0].choices:
        return ""
    piece = port.pieces[0]
    first = piece.start[0]
    return f" /* {first} to {first + piece.choices - 1} */" if len(set(piece.start)) == 1 else ""


def _place(struct: str, port: Port, member: str, at: int) -> str:
    """An element of a member."""
    if port.shape == ():
        return f"{struct}->{member}"
    if len(port.shape) == 1:
        return f"{struct}->{member}[{at}]"
    index = np.unravel_index(at, port.shape)
    return f"{struct}->{member}" + "".join(f"[{int(k)}]" for k in index)


def _encoded(port: Port, member: str, piece: Piece, at: int, feature: int) -> Iterator[str]:
    """Elements from `at` on of a member, into x from `feature` on."""
    kind = _TYPES[port.dtype]
    from_ = f"((const {kind} *)&obs->{member})[{at} + k]" if port.shape else f"obs->{member}"
    if not piece.choices:
        scale = "" if piece.divisor == 1.0 else f" * (1.0f / {_number(piece.divisor)})"
        if piece.size == 1:
            value = f"(float){_place('obs', port, member, at)}{scale}"
            yield f"x[{feature}] = {value};"
        else:
            yield f"for (int k = 0; k < {piece.size}; k++)"
            yield f"    x[{feature} + k] = (float){from_}{scale};"
        return
    if len(set(piece.start)) == 1:
        yield f"for (int k = 0; k < {piece.size}; k++)"
        yield f"    for (int j = 0; j < {piece.choices}; j++)"
        test = f"(long){from_} == j + {piece.start[0]}L"
        yield f"        x[{feature} + k * {piece.choices} + j] = {test} ? 1.0f : 0.0f;"
        return
    for k, start in enumerate(piece.start):
        place = _place("obs", port, member, at + k)
        yield f"for (int j = 0; j < {piece.choices}; j++)"
        first = feature + k * piece.choices
        yield f"    x[{first} + j] = (long){place} == j + {start}L ? 1.0f : 0.0f;"


def _bounded(value: str, piece: Piece) -> str:
    low, high = np.isfinite(piece.low), np.isfinite(piece.high)
    if low:
        value = f"fmaxf({value}, {_number(piece.low)})"
    return f"fminf({value}, {_number(piece.high)})" if high else value


def _kind(layer: object) -> str:
    names = {Dense: "dense", Conv: "conv", ChannelsFirst: "channels_first"}
    return layer.kind if isinstance(layer, Cell) else names[type(layer)]


def _size(layer: object, size: int) -> int:
    """Numbers that come out of a layer."""
    if isinstance(layer, Dense):
        return len(layer.bias)
    if isinstance(layer, Conv):
        return len(layer.bias) * layer.out_height * layer.out_width
    return layer.size if isinstance(layer, Cell) else size


def _number(value: float) -> str:
    """A float as C has it, with every bit of it."""
    text = f"{np.float32(value):.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def _wrapped(array: Floats) -> Iterator[str]:
    line = "   "
    for text in map(_number, array.ravel().tolist()):
        if len(line) + len(text) + 2 > WIDTH:
            yield line
            line = "   "
        line += f" {text},"
    yield line
