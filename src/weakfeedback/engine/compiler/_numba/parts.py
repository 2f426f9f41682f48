"""Compile methods and helpers as parts of the loop that calls them, and optimise the loop alone.

Numba optimises every function and turns it into machine code, with all functions it calls inside it, so that the
bottom of a chain of calls is compiled again at every link of it. Methods and helpers are never called but from a
loop: here they stay unoptimised until the loop has them all. The loop's code is as fast, and comes in about
60 % of the time.
"""

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import codegen
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering

# Inner parts of the compiler: without them functions are compiled as the compiler does it.
KNOWN = all(
    callable(getattr(codegen.JITCodeLibrary, name, None))
    for name in ("_optimize_final_module", "_finalize_final_module", "_get_module_for_linking")
)
ENVIRONMENT = "_ZN08NumbaEnv"


class Part(codegen.JITCodeLibrary):
    """Code that is linked into that of its callers, and is not code of its own."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """The last stage of a compilation, without the machine code."""

    _name = "weakfeedback_part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        described = lowered.fndesc
        # what stands for the function among the compiler's functions; it has no address and cannot be called
        handle = _dynfunc.make_function(
            described.lookup_module(), described.qualname, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(handle, described, [state.library])
        state.reload_init.extend(getattr(state.library, "_reload_init", ()))  # older compilers have none
        state["cr"] = lowered._replace(cfunc=handle)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class WholeLowering(NativeLowering):
    """The last stage of the compilation of a loop, which hands its parts their environments.

    Code needs its environment to print and to raise errors with values in them; the compiler gives it to machine
    code only.
    """

    _name = "weakfeedback_whole_lowering"

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            if variable.name.startswith(ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    state.library.codegen.set_env(variable.name, environment)
        return True


def with_lowering(pipelines: Any, lowering: type) -> Any:
    """Put another last stage into the pipelines of a compiler."""
    for pipeline in pipelines if KNOWN else ():
        pipeline.passes = [
            (lowering, words) if stage is NativeLowering else (stage, words)
            for stage, words in pipeline.passes
        ]
        pipeline.finalize()
    return pipelines


class Whole(Compiler):
    """Numba's compiler for a function that has parts."""

    def define_pipelines(self) -> Any:
        return with_lowering(super().define_pipelines(), WholeLowering)


class Parted(Compiler):
    """Numba's compiler for a function that is a part of others."""

    def define_pipelines(self) -> Any:
        return with_lowering(super().define_pipelines(), PartLowering)
