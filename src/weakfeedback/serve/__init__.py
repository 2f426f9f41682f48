"""The service: many named learners behind HTTP, everything on disk before it is acknowledged.

::

    request --> app (gate: host, token, limits) --> api (models) --> Service
                                                                        |  one learner at a time, under its lock
                                                                        v
                                              Learner: a live object whose journal queues rows
                                                                        |  rows, and a future that waits for them
                                                                        v
                                              Committer (a thread): BEGIN; all that waits; COMMIT
                                                                        |
    answer  <-----------------------------------------------------------+  only now

It stands on `weakfeedback.live` (what learns) and `weakfeedback.journal` (what is stored), and adds names, HTTP and
one commit for all who wait. `Service` is the core: routes and other front ends call its coroutines.
"""
