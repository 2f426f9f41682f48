"""An OpenAI-compatible proxy whose model is a learner: it finds out which upstream model suffices, without labels.

::

    request --> dialect (chat; messages, responses) --> request (only known fields go upstream)
                                                            |
                                                            v  decider: which models to call, from the Service
                                              chat: one round of a request --> calls --> upstream
                                                            |                               |
                                                            |                               v  stream, answers
    answer  <-- reply (whole, or a stream) -----------------+<-- compare: which answers are the same
                                                            |
                                                            v  decider: feedback, bills
                                              prices, accounts: what it cost, and the baseline alone

`settings` reads its part of the configuration, `mount` joins it to the service, `openapi` to its document;
`fake` has models for demonstrations and tests.
"""
