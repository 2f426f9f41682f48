"""The only place that imports Numba and llvmlite, and the only one that uses private names of them and of NumPy.

These names may disappear in the next version of any of them. Nothing outside this folder uses them. Where one part
is missing, there is a fallback: methods are compiled by Numba's own pipeline (``parts``), numbers are drawn by calls of
NumPy (``stream``), references are counted (``borrowed``), nothing is kept on disk (``diskcache``). Where more is
missing, nothing is compiled: importing this package raises ``CannotLower``, and policies run in the interpreter.
"""

import importlib

from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.plaintext import one_line

NEEDED = ("functions", "kinds", "structs", "borrowed", "stream", "teams")

try:
    for _name in NEEDED:
        importlib.import_module(f"{__name__}.{_name}")
except (ImportError, AttributeError) as error:
    raise CannotLower(f"this version of Numba or NumPy cannot be used: {one_line(str(error))}") from None
