"""Compile methods and helpers as parts of the loop that calls them, and optimise the loop alone.

Numba optimises every function and turns it into machine code together with all functions it calls, so that the
innermost function of a call chain is compiled again at every level. Methods and helpers are called only from a
loop: here they stay unoptimised until they are linked into it. The loop is as fast, and compiles in about
60 % of the time.

If Numba lacks one of the internals that this needs, functions are compiled by Numba's own pipeline.
"""

from typing import Any

import numba
from numba.core import codegen, environment
from numba.core.compiler_machinery import register_pass
from numba.core.errors import UnsupportedError
from numba.core.typed_passes import NativeLowering

ENVIRONMENT = "_ZN08NumbaEnv"
UNRESOLVED = ".numba.unresolved$"  # before the name of a function that calls what is being compiled
LIBRARY: Any = getattr(codegen, "JITCodeLibrary", object)
METHODS = ("_optimize_final_module", "_finalize_final_module", "_get_module_for_linking")


def _is_known() -> bool:
    """Whether Numba has all internals that are used here."""
    functions = [getattr(LIBRARY, name, None) for name in METHODS]
    functions.append(getattr(getattr(numba, "_dynfunc", None), "make_function", None))
    functions.append(getattr(environment, "lookup_environment", None))
    return all(map(callable, functions))


KNOWN = _is_known()


class Part(LIBRARY):
    """Code that is linked into its callers and is not compiled on its own."""

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
        _refuse_unresolved(state)
        lowered = state["cr"]
        described = lowered.fndesc
        inner: Any = numba
        # placeholder for the function among the compiler's functions; it has no address and cannot be called
        handle = inner._dynfunc.make_function(
            described.lookup_module(), described.qualname, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(handle, described, [state.library])
        state.reload_init.extend(reload_of(state.library))
        state["cr"] = lowered._replace(cfunc=handle)
        return True


def _refuse_unresolved(state: Any) -> None:
    """Refuse a call that the compiler wants to resolve later: a part has no address of its own."""
    if any(part.name.startswith(UNRESOLVED) for part in state.library._final_module.global_variables):
        raise UnsupportedError(
            "functions that call each other, or themselves with arguments of another kind, are not supported: "
            "write a loop",
            loc=state.func_ir.loc,
        )


def reload_of(library: Any) -> Any:
    """Return what must be repeated when the code of a library is loaded from disk; older versions have none."""
    return getattr(library, "_reload_init", ())


@register_pass(mutates_CFG=True, analysis_only=False)
class WholeLowering(NativeLowering):
    """The last stage of the compilation of a loop, which gives its parts their environments.

    Code needs its environment to print and to raise errors with values in them; the compiler gives it to machine
    code only.
    """

    _name = "weakfeedback_whole_lowering"

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            if variable.name.startswith(ENVIRONMENT):
                found = environment.lookup_environment(variable.name)
                if found is not None:
                    state.library.codegen.set_env(variable.name, found)
        return True
