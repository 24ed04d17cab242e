"""Environments written in Python and compiled by Numba, to the same kernel ABI as C.

define.py     what the author writes: numba_env, field, discrete, array
maths.py      what the author's functions may call; plain Python, compiled with them
layout.py     the class, checked and laid out as structs
source.py     the functions, found in their file and made ready to compile
types.py      how Numba sees a world: records, parameters, the generator
kernels.py    range kernels around the functions, in LLVM's terms
build.py      functions and kernels to machine code
loading.py    from a file or a class to a Library; the cache
drawing.py    `draw`, which stays plain Python
checking.py   the checked build
"""

from __future__ import annotations

from . import maths
from .define import array, discrete, field, numba_env

__all__ = ["array", "discrete", "field", "maths", "numba_env"]
