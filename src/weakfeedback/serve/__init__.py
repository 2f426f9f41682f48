"""The service: many named learners behind HTTP, everything on disk before it is acknowledged.

::

    request --> app (gate: host, token, limits) --> api (models) --> Service
                                                                        |  each learner under its own lock
                                                                        v
                                              Learner: a live object whose journal is a queue of rows
                                                                        |  rows, and a future that waits for them
                                                                        v
                                              Committer (a thread): BEGIN; all waiting rows; COMMIT
                                                                        |
    answer  <-----------------------------------------------------------+  only now

It builds on `weakfeedback.live` (learning) and `weakfeedback.journal` (storage), and adds names, HTTP and one commit
for all waiting requests. `Service` is the core: routes and other front ends call its coroutines.
"""
