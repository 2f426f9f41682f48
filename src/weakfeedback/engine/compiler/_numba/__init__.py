"""The only place that imports Numba and llvmlite, and the only one with inner names of them and of NumPy.

What stands here may be gone in the next version of any of them. Nothing outside this folder knows it. Where one part
is missing, another takes its place: methods are compiled as Numba does it (``parts``), numbers are drawn by calls of
NumPy (``stream``), references are counted (``borrowed``), nothing is kept on disk (``diskcache``). Where more is
missing, nothing is compiled: to import this package raises ``CannotLower``, and policies run in the interpreter.
"""

import importlib

from weakfeedback.engine.compiler.fingerprint import CannotLower

NEEDED = ("functions", "kinds", "structs", "borrowed", "stream", "teams")

try:
    for _name in NEEDED:
        importlib.import_module(f"{__name__}.{_name}")
except (ImportError, AttributeError) as error:
    _words = " ".join(str(error).split())
    raise CannotLower(f"this version of Numba or NumPy cannot be used: {_words}") from None
