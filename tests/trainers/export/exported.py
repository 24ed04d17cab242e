"""Running what was exported: ONNX models by onnxruntime or onnx's own reference, C headers by
the machine's C and C++ compilers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from headrace.trainers.codec import Codec
from headrace.trainers.encoding import divisors_of
from headrace.trainers.export.ports import Port, ports_of
from headrace.trainers.spaces import leaf_arrays

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]
COMPILERS = {"c": ["cc", "-std=c99"], "c++": ["c++", "-std=c++11", "-x", "c++"]}


def available(language: str) -> bool:
    """Whether the machine has this compiler."""
    return shutil.which(COMPILERS[language][0]) is not None


def compiled(header: Path, body: str, language: str = "c") -> ctypes.CDLL:
    """A shared library of a few lines that use the header."""
    source = header.with_name(f"use_{language.replace('+', 'p')}.c")
    source.write_text(f'#include "{header.name}"\n{body}')
    library = source.with_suffix(".so")
    command = [*COMPILERS[language], *STRICT, "-shared", "-fPIC", str(source), "-o", str(library)]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library.resolve()))  # else an earlier one of this name


class Header:
    """A header that acts for batches."""

    def __init__(
        self, file: Path, n: str, codec: Codec, mask_size: int, state_size: int, language: str = "c"
    ) -> None:
        """n: begins its names."""
        self._ports = ports_of(codec, divisors_of(codec.spec), members=True)
        self._mask, self._state = mask_size, state_size
        self._outputs = sum(p.features for port in self._ports.action for p in port.pieces) + 1
        mask = "mask ? mask + k * MASK : NULL, ".replace("MASK", str(self._mask))
        body = f"""
        #ifdef __cplusplus
        extern "C"
        #endif
        void use(int rows, const {n}_obs *obs, const uint8_t *mask, float *state,
                 {n}_action *action, float *out) {{
            for (int k = 0; k < rows; k++)
                {n}_act(obs + k, {mask if self._mask else ""}
                        {f"state + k * {self._state}, " if self._state else ""}action + k,
                        out + k * {n.upper()}_OUTPUTS);
            (void)mask; (void)state;
        }}
        int obs_size(void) {{ return (int)sizeof({n}_obs); }}
        """.replace(
            "int obs_size", 'extern "C" int obs_size' if language == "c++" else "int obs_size"
        )
        self._library = compiled(file, body, language)
        self.obs_dtype = _struct(self._ports.observation)
        assert self._library.obs_size() == self.obs_dtype.itemsize

    def __call__(self, arrays: list[np.ndarray], mask: Any, state: np.ndarray) -> list[np.ndarray]:
        """Actions by port of observations by port; state is updated in place."""
        rows = len(arrays[0])
        obs = np.zeros(rows, self.obs_dtype)
        for name, array in zip(self.obs_dtype.names or (), arrays, strict=True):
            obs[name] = array
        action = np.zeros(rows, _struct(self._ports.action))
        out = np.zeros((rows, self._outputs), np.float32)
        mask = None if mask is None else np.ascontiguousarray(mask)
        given = (None if a is None else a.ctypes.data_as(ctypes.c_void_p)
                 for a in (obs, mask, state, action, out))  # fmt: skip
        self._library.use(rows, *given)
        assert np.isfinite(out).all()
        return [action[name] for name in action.dtype.names or ()]


def _struct(ports: tuple[Port, ...]) -> np.dtype:
    return np.dtype([(f"m{k}", port.dtype, port.shape) for k, port in enumerate(ports)], align=True)


class Model:
    """An ONNX model that acts for batches."""

    def __init__(self, file: Path, *, reference: bool = False) -> None:
        import onnx

        model = onnx.load(str(file))
        self.inputs = [entry.name for entry in model.graph.input]
        self.outputs = [entry.name for entry in model.graph.output]
        if reference:
            from onnx.reference import ReferenceEvaluator

            self._session: Any = ReferenceEvaluator(model)
        else:
            import onnxruntime

            self._session = onnxruntime.InferenceSession(str(file))

    def __call__(self, arrays: list[np.ndarray], mask: Any, state: np.ndarray) -> list[np.ndarray]:
        """Actions by port; state is updated in place."""
        names = [name for name in self.inputs if name.startswith("obs")]
        given = dict(zip(names, arrays, strict=True))
        if "mask" in self.inputs:
            given["mask"] = mask
        if "state" in self.inputs:
            given["state"] = state
        found = dict(zip(self.outputs, self._session.run(None, given), strict=True))
        if "next_state" in found:
            state[:] = found["next_state"]
        return [array for name, array in found.items() if name.startswith("action")]


def by_space(codec: Codec, obs: Any) -> list[np.ndarray]:
    """The arrays of a batch of observations, as an ONNX model takes them."""
    if codec.parts is not None:
        return [np.ascontiguousarray(a) for a in leaf_arrays(obs)]
    arrays = list(obs.values()) if isinstance(obs, dict) else [obs]
    return [np.ascontiguousarray(array) for array in arrays]


def by_member(codec: Codec, obs: Any) -> list[np.ndarray]:
    """The same as a header takes them."""
    if codec.parts is not None:
        return by_space(codec, obs)
    structs = codec.pack(obs).view(codec.spec.obs_dtype).reshape(-1)
    return [structs[field.name] for field in codec.spec.obs_fields]
