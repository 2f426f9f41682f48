"""The one place where tests look inside live objects: everything here is private, and may change with them."""

import contextlib


def core(thing):
    return thing._core if hasattr(thing, "_game") else None


def ledger(thing):
    """Its ids, open decisions and answers."""
    return thing._ledger


def waiting(thing):
    """Its open decisions: id -> what was decided."""
    return ledger(thing).waiting


def decided(thing, id):
    """What was decided under an open id."""
    return ledger(thing).decided(id)


def answered(thing):
    """The answers that it remembers one by one: id -> content."""
    return ledger(thing)._answered


def next_id(thing):
    return ledger(thing).next


def decide(thing, *context):
    """Decide without waiting for a journal: the id, and what was decided."""
    return core(thing).decide(context) if core(thing) else thing._decide(*context)


def counts(thing):
    return thing._counts


def set_counts(thing, counts):
    thing._counts = counts


def prices(thing):
    return thing._prices


def rng(thing):
    return core(thing).rng if core(thing) else thing._rng


def set_rng(thing, rng):
    core(thing).rng = rng


def seed(thing):
    return thing._seed


def stages(thing):
    return thing._stages


def kept(thing):
    """What it keeps of its last decisions, to explain them."""
    return dict(thing._records)


def lock(thing):
    return thing._ledger.lock


def set_lock(thing, lock):
    thing._ledger.lock = lock


def features(thing, context):
    """The context of a decision as the object uses it: its length, and its features."""
    return thing._one(None, context)


def fix(thing, context):
    """What the first context fixes."""
    thing._fix(*context)


def tell(thing, id, output):
    """Tell the next output of an open round, and learn nothing yet: the round after it."""
    return thing._shown(id, decided(thing, id), output)


def is_stopped(progress):
    return progress.stopped


def journal(thing):
    return thing._journal


def flush(thing):
    thing._journal.flush()


def last_seq(thing):
    """The number of the last event of its journal."""
    return thing._journal.log.last_seq


def snapshot(thing):
    """Take a snapshot now."""
    thing._journal.snapshot(*(() if core(thing) else (thing,)))


def kill(thing):
    """End as a killed process does: nothing is written any more, and the file is free."""
    thing._journal.store.close()


def replace_snapshot(thing, replacement):
    """Let ``replacement(take)`` run whenever a snapshot is taken."""
    take = thing._journal.snapshot
    thing._journal.snapshot = lambda *live: replacement(lambda: take(*live))


def replace_wait(thing, replacement):
    """Let ``replacement(wait)`` run whenever a call waits for the disk."""
    wait = thing._acknowledge
    thing._acknowledge = lambda *call: replacement(lambda: wait(*call))


def interrupt_commit(thing, call):
    """Let an exception come after a change is committed and before its event is queued."""

    def interrupted(row):
        del thing._journal.put
        if core(thing) is None:
            thing._change.steps[-1] = (thing._journal.put, (row,))
        raise KeyboardInterrupt

    thing._journal.put = interrupted
    with contextlib.suppress(KeyboardInterrupt):
        call()
        raise AssertionError("the call was not interrupted")


def bind(thing):
    """Let it take the methods of its policy again."""
    thing._bind()


def replace_method(thing, method, function):
    """Let a function take the place of a method of the policy of a router."""
    names = {"select": "_select", "start": "_begin", "update_pairs": "_update", "cancel": "_free"}
    setattr(thing, names[method], function)
