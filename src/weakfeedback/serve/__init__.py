"""The service: many named learners behind HTTP, everything on disk before it is acknowledged.

::

    request --> app (gate: host, token, limits) --> api (table of operations) --> Service.decide, ...: operations/
                                                                        |
                                                                        v  steps: each learner under its own lock
                                              Learner: a live object whose changes go to its outbox, as rows
                                                                        |  rows, and a future that waits for them
                                                                        v
                                              Committer (a thread): BEGIN; all waiting rows; COMMIT
                                                                        |
    answer  <-----------------------------------------------------------+  only now

It builds on `weakfeedback.live` (learning) and `weakfeedback.journal` (storage), and adds names, HTTP and one commit
for all waiting requests. `Service` owns the store and lists what can be asked: routes and other front ends call its
coroutines. What a learner's events add up to is in `activity` (the page) and `invoice` (money); `recover` and `verify`
read a store again.
"""
