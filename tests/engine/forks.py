"""Programs that run in processes of their own, forked from one in which the compiler is ready: each starts at once."""

import json
import textwrap

from tests.rig.processes import ran

BASE = textwrap.dedent(
    """
    import json, os, sys, traceback
    import numba
    import weakfeedback
    from weakfeedback.engine.compiler import lowering

    exec(sys.argv[1])
    for program in json.loads(sys.argv[2]):
        process = os.fork()
        if not process:
            try:
                exec(program)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(process, 0)[1] == 0
    """
)
READY = "numba.njit(lambda x: x + 1.0)(1.0)"


def run_each(programs, cwd, before=READY, **environment):
    """Run ``before`` in the process that is forked, then each program in a fork of it; the lines that they print."""
    environment = {"OPENBLAS_NUM_THREADS": "1", **environment}  # Python warns of forks among threads
    words = ["-W", "error", "-c", BASE, before, json.dumps(programs)]
    out = ran(*words, cwd=cwd, environment=environment)
    assert out.returncode == 0, out.stderr
    assert out.stderr == ""
    return out.stdout.splitlines()
