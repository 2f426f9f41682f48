"""The one place where tests look inside live objects: everything here is private, and may change with them."""

import contextlib


def core(thing):
    """What decides and learns."""
    return thing._core


def waiting(thing):
    """Its open decisions: id -> what was decided."""
    return core(thing).ledger.waiting


def decided(thing, id):
    """What was decided under an open id."""
    return core(thing).ledger.decided(id)


def answered(thing):
    """The answers that it remembers one by one: id -> content."""
    return core(thing).ledger._answered


def next_id(thing):
    return core(thing).ledger.next


def decide(thing, *context):
    """Decide without waiting for a journal: the id, and what was decided."""
    return core(thing).decide(context)


def counts(thing):
    return core(thing).counts


def set_counts(thing, counts):
    core(thing).counts = counts


def prices(thing):
    return core(thing).terms.prices


def rng(thing):
    return core(thing).rng


def set_rng(thing, rng):
    core(thing).rng = rng


def seed(thing):
    return core(thing).seed


def stages(thing):
    return thing._stages


def kept(thing):
    """What it keeps of its last decisions, to explain them."""
    return dict(core(thing).kept)


def lock(thing):
    return core(thing).lock


def set_lock(thing, lock):
    core(thing).lock = lock


def features(thing, context):
    """The context of a decision as the object uses it: its length, and its features."""
    return thing.context_of(None, context)


def fix(thing, context):
    """What the first context fixes."""
    core(thing).run(core(thing)._resize, context)


def tell(thing, id, output):
    """Tell the next output of an open round, and learn nothing yet: the round after it."""
    return thing._advance(id, decided(thing, id), output)


def journal(thing):
    return thing._journal


def flush(thing):
    thing._journal.flush()


def last_seq(thing):
    """The number of the last event of its journal."""
    return thing._journal.log.last_seq


def snapshot(thing):
    """Take a snapshot now."""
    thing._journal.snapshot()


def kill(thing):
    """End as a killed process does: nothing is written any more, and the file is free."""
    thing._journal.store.close()


def replace_snapshot(thing, replacement):
    """Let ``replacement(take)`` run whenever a snapshot is taken."""
    take = thing._journal.snapshot
    thing._journal.snapshot = lambda: replacement(take)


def replace_wait(thing, replacement):
    """Let ``replacement(wait)`` run whenever a call waits for the disk."""
    wait = thing._wait
    thing._wait = lambda *call: replacement(lambda: wait(*call))


def interrupt_commit(thing, call):
    """Let an exception come after a change is committed and before its event is queued."""

    def interrupted(row):
        del thing._journal.put
        raise KeyboardInterrupt

    thing._journal.put = interrupted
    with contextlib.suppress(KeyboardInterrupt):
        call()
        raise AssertionError("the call was not interrupted")


def bind(thing):
    """Let the game take the methods of its policy again."""
    core(thing).game.bind(core(thing).driver)


def replace_method(thing, method, function):
    """Let a function take the place of a method of the policy of a router."""
    names = {"select": "select", "start": "start", "update_pairs": "update", "cancel": "free"}
    setattr(core(thing).game, names[method], function)
