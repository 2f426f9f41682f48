"""Numba's compiler with our own stages, and the options with which functions are compiled.

A loop is compiled as a whole. Methods, helpers and draws are parts of it, and are never called from Python.
"""

from typing import Any

from numba.core.compiler import Compiler
from numba.core.typed_passes import NativeLowering, NopythonTypeInference

from weakfeedback.engine.compiler._numba import parts
from weakfeedback.engine.compiler._numba.kinds import FieldKinds


def _replace_lowering(pipelines: Any, lowering: type) -> Any:
    """Replace the last stage of a compiler's pipelines, if the compiler is a known one."""
    for pipeline in pipelines if parts.KNOWN else ():
        pipeline.passes = [
            (lowering, words) if stage is NativeLowering else (stage, words)
            for stage, words in pipeline.passes
        ]
        pipeline.finalize()
    return pipelines


class Whole(Compiler):
    """For a function that has parts."""

    def define_pipelines(self) -> Any:
        return _replace_lowering(super().define_pipelines(), parts.WholeLowering)


class Parted(Compiler):
    """For a function that is a part of others."""

    def define_pipelines(self) -> Any:
        return _replace_lowering(super().define_pipelines(), parts.PartLowering)


class FieldChecked(Parted):
    """For methods and helpers: parts in which fields keep their kinds."""

    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.add_pass_after(FieldKinds, NopythonTypeInference)
            pipeline.finalize()
        return pipelines


LOOP: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,
    "pipeline_class": Whole,
}
DRAW: dict[str, Any] = {
    "error_model": "numpy",
    "pipeline_class": Parted,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
HELPER: dict[str, Any] = {**DRAW, "pipeline_class": FieldChecked}
METHOD: dict[str, Any] = {"forceinline": True, **HELPER}
