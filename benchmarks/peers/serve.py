"""What every participant of a comparison does, ours included: get ready for a work, then run it when asked to.

Runs under any Python from 3.8 on, in the environment of a peer: nothing but the standard library here. Requests and
answers are lines of JSON. ``{"work": ..., ...}`` prepares; ``{"run": true}`` answers CPU nanoseconds per round and the
peak of memory so far.
"""

import json
import os
import resource
import sys
import time


def serve(prepare):
    """Answer requests until the input ends; ``prepare(**request)`` returns a function and its number of rounds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not an answer
    run, rounds = None, 1
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "run" in request:
                before = time.process_time()
                run()
                spent = time.process_time() - before
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                answer = {"ns": spent / rounds * 1e9, "peak_mb": round(peak, 1)}
            else:
                run, rounds = prepare(**request)
                answer = {"ready": True, "rounds": rounds}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
