"""How a round is played here: a call, a coroutine and a batch, for cascades and the router alike.

A decision is a set of stages and the one that answers. Every round goes the same way: decide, call the stages, compare,
learn, wait for the journal. A call, a coroutine and a batch differ only in how they call the stages.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from weakfeedback.lazy import Later
from weakfeedback.live.answers import answers_of, fingerprint, labels_of
from weakfeedback.live.audits import all_rows
from weakfeedback.live.core import Core
from weakfeedback.live.promise import check_reference
from weakfeedback.live.stages import Failed, Rows, call_each
from weakfeedback.plaintext import numbered
from weakfeedback.validate import integer
from weakfeedback.words import Words

log = logging.getLogger("weakfeedback.live")
asyncio: Any = Later("asyncio")  # whoever needs it has imported it


# What the stages of a round have returned so far, and the exceptions of those that failed.
Played = tuple[dict[int, Any], dict[int, Exception]]


def checks_self(terms: Any) -> bool:
    """Whether the reference of a promise is called a second time now and then."""
    promised = getattr(terms, "promise", None)
    return promised is not None and bool(promised.self_check)


class Rounds:
    """Plays rounds with the stages of a live object."""

    _noun: ClassVar[str] = "stage"  # what is called
    _whole: ClassVar[str] = "cascade"  # what they form together
    _done: ClassVar[str] = "the answer is learned"  # what has happened when an answer is returned
    _most: ClassVar[int]  # samples in a batch

    _core: Core
    _game: Any
    _journal: Any
    _stages: list[Any]
    _words: Words
    _source: Any = None  # of labels
    _unready: bool = False  # whether a plain call may be refused
    _failed: frozenset[int] = frozenset()  # stages of which was said that they failed
    _context: Any  # of a request of a group
    _buy: Any  # adds a bought label to a record
    _wait: Any  # for the journal
    _check_self: Any  # calls a reference again, which may not agree with itself
    _check_self_async: Any

    def __repr__(self) -> str:  # of a closed object too
        core, kind = self._core, self._game.kind
        stages, rounds = numbered(len(self._stages), self._noun), numbered(core.counts.rounds, "round")
        return f"<{kind} of {stages}, {core.label}, {rounds}>"

    # -- one sample

    def __call__(self, x: Any, *context: Any, group: Any = None) -> Any:
        """Answer for one sample. A stage that raises cancels the decision; nothing is learned from it.

        With a promise, a request may belong to a ``group``. If another stage than the reference raises, that answers.
        """
        if self._unready:
            self._refuse_call(awaits=False)
        if group is not None:
            context = self._context(group)
        core, game = self._core, self._game
        opened: list[int] = []
        played: Played = ({}, {})
        try:
            id, decided = core.decide(context, opened)
            decided = self._call_in_turn(id, decided, x, played)
            record = self._record(id, decided, *played)
            if self._source is not None and core.run(game.wants, record, core.rng):
                self._buy(record, self._source.ask(x, record.labels))
            self._learn([record])
        except BaseException:
            self._abandon(opened, [played[0]])
            raise
        if self._journal is not None:
            self._journal.wait_paid(self._done)
        if checks_self(core.terms):
            self._check_self(id, x)
        return game.answer(record)

    # The loops below are methods because from Python 3.12 on the jump back of a `while` slips out of a `try`.

    def _call_in_turn(self, id: int, decided: Any, x: Any, played: Played) -> Any:
        """Call the stages that a decision wants, until it wants none; return the decision then."""
        game, stages, (seen, _) = self._game, self._staged(id), played
        calls = game.calls(decided)
        if not game.stepwise:
            if game.spares:
                self._call_sparing(stages, calls, x, played)
            else:
                call_each(stages, calls, x, seen)
            return decided
        while calls:
            for k in calls:
                seen[k] = self._output_of(k, x, seen, decided)
            decided = self._advance(id, decided, seen[calls[-1]])
            calls = game.calls(decided)
        return decided

    def _output_of(self, k: int, x: Any, seen: dict[int, Any], decided: Any) -> Any:
        """Return the output of a stage, or its failure if the round goes on then."""
        try:
            return self._stages[k].one(x, _outputs(seen))
        except Exception as error:
            if not self._game.tolerates(decided, self._core.terms):
                raise
            return Failed(error)

    def _staged(self, id: int) -> list[Any]:
        """Return the stages that a decision is about."""
        return self._stages

    def _call_sparing(self, stages: list[Any], calls: Sequence[int], x: Any, played: Played) -> None:
        """Call the answering model, then the others, whose failures lose only the comparison."""
        seen, failed = played
        rescue = self._game.rescue((*calls[1:], calls[0]), self._core.terms)
        for k in calls:
            try:
                seen[k] = stages[k].one(x, ())
            except Exception as error:
                if k == calls[0] and rescue is None:
                    raise
                failed[k] = error
            if k == calls[0] and failed:
                seen[rescue] = stages[rescue].one(x, ())

    def _advance(self, id: int, before: Any, output: Any) -> Any:
        """Tell the output of a stage; return the round after it."""
        core = self._core
        if isinstance(output, Failed):
            self._say_failed({self._game.calls(before)[-1]: output.error})
        told = self._game.told_of(before, output, core.counts, core.terms)
        after = core.advance(id, before, told, learn=False)
        if after is None:
            raise RuntimeError(f"decision {id} was told or ended by somebody else while it was under way")
        return after

    def _say_failed(self, failed: dict[int, Exception]) -> None:
        """Say once of each stage in the log that it failed, as the answer comes from another one."""
        for k in sorted(failed.keys() - self._failed):
            self._failed |= {k}
            error, name = failed[k], self._game.words.one(k)
            words = f"{name} failed, another {self._noun} answers; this is said once: {type(error).__name__}: {error}"
            log.warning("%s", words)

    def _record(self, id: int, decided: Any, seen: dict[int, Any], failed: dict[int, Exception]) -> Any:
        if self._game.spares:
            return self._game.answered_by(id, decided, seen, failed, self._core.terms)
        return self._game.record(id, decided, list(seen.values()), self._core.terms)

    def _records(self, decisions: list[tuple[int, Any]], played: list[Played]) -> list[Any]:
        """Return the records of a batch. A method: from Python 3.12 on, a list made inside a try can slip out of it."""
        return [self._record(*decision, *one) for decision, one in zip(decisions, played)]

    def _learn(self, records: list[Any]) -> None:
        """Learn rounds; those of which a spared stage failed are cancelled, and single answers teach nothing."""
        core, game = self._core, self._game
        if not game.spares:
            core.learn(records)
            return
        learns = game.learns_failures
        for one in records:
            self._say_failed(one.failed)
        compared = [
            one for one in records if len(one.call) > 1 and not one.rescued and (learns or not one.failed)
        ]
        if compared:
            core.learn(compared)
        for one in records:
            if one.rescued or (one.failed and not learns):
                core.close([one.id], one.cost, reason="a model failed")

    def _abandon(self, ids: list[int], seen: Sequence[dict[int, Any]]) -> None:
        """Cancel decisions whose round failed; their costs stay counted."""
        core = self._core
        core.pending()  # completes the list if the decision was interrupted
        for id, outputs in zip(ids, seen):
            core.close([id], self._game.paid(outputs, core.terms), reason="the round failed")
        with suppress(OSError):  # the caller must see the error that made the round fail
            self._wait()

    # -- the same, awaited

    async def _play_async(self, x: Any, context: tuple[Any, ...]) -> Any:
        self._refuse_call(awaits=True)
        core, game = self._core, self._game
        opened: list[int] = []
        played: Played = ({}, {})
        try:
            id, decided = core.decide(context, opened)
            decided = await self._await_in_turn(id, decided, x, played)
            record = self._record(id, decided, *played)
            if self._source is not None and core.run(game.wants, record, core.rng):
                self._buy(record, await self._source.ask_async(x, record.labels))
            self._learn([record])
        except BaseException:
            self._abandon(opened, [played[0]])
            raise
        if self._journal is not None:
            await asyncio.to_thread(self._journal.wait_paid, self._done)
        if checks_self(self._core.terms):
            await self._check_self_async(id, x)
        return game.answer(record)

    async def _await_in_turn(self, id: int, decided: Any, x: Any, played: Played) -> Any:
        game, (seen, _) = self._game, played
        calls = game.calls(decided)
        if game.spares:
            await self._call_at_once(self._staged(id), calls, x, played)
            return decided
        while calls:
            for k in calls:
                seen[k] = await self._output_of_async(k, x, seen, decided)
            if not game.stepwise:
                break
            decided = self._advance(id, decided, seen[calls[-1]])
            calls = game.calls(decided)
        return decided

    async def _output_of_async(self, k: int, x: Any, seen: dict[int, Any], decided: Any) -> Any:
        try:
            return await self._stages[k].one_async(x, _outputs(seen))
        except Exception as error:
            if not (self._game.stepwise and self._game.tolerates(decided, self._core.terms)):
                raise
            return Failed(error)

    async def _call_at_once(self, stages: list[Any], calls: Sequence[int], x: Any, played: Played) -> None:
        """Call all models at once; failures other than of the answering one lose only the comparison."""
        (seen, failed), tasks = played, dict[int, Any]()
        try:
            for k in sorted(calls):
                tasks[k] = asyncio.ensure_future(stages[k].one_async(x, ()))
            rescue = self._game.rescue((*calls[1:], calls[0]), self._core.terms)
            for k in calls:
                try:
                    seen[k] = await tasks[k]
                except Exception as error:
                    if k == calls[0] and rescue is None:
                        raise
                    failed[k] = error
                if k == calls[0] and failed:
                    seen[rescue] = await stages[rescue].one_async(x, ())
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            raise

    # -- many samples

    def _answers(self, samples: Rows, contexts: Sequence[tuple[Any, ...]], batch_size: Any) -> list[Any]:
        """Answer for many samples, one context each."""
        self._refuse_call(awaits=False)
        found: list[Any] = []
        size = integer("batch_size", batch_size, 1, self._most)
        step = 1 if self._core.ledger.one_at_a_time else size  # a policy that must learn in order
        for start in range(0, samples.size, step):
            rows = range(start, min(start + step, samples.size))
            records = self._answer_batch(samples, contexts, rows)
            found += map(self._game.answer, records)
            if self._journal is not None:
                self._journal.wait_paid(self._done)
            if checks_self(self._core.terms):
                for row, record in zip(rows, records):
                    self._check_self(record.id, samples[row])
        return found

    def _answer_batch(self, samples: Rows, contexts: Sequence[tuple[Any, ...]], rows: range) -> list[Any]:
        core, game = self._core, self._game
        opened: list[int] = []
        played: list[Played] = [({}, {}) for _ in rows]
        seen = [one for one, _ in played]
        try:
            decisions = core.decide_many(contexts[rows.start : rows.stop], opened)
            if game.spares:
                self._call_models(decisions, samples, rows, played)
            else:
                decisions = self._call_stages(decisions, samples, rows, seen)
            records = self._records(decisions, played)
            for row, record in zip(rows, records):
                if self._source is not None and core.run(game.wants, record, core.rng):
                    self._buy(record, self._source.ask(samples[row], record.labels))
            self._learn(records)
        except BaseException:
            self._abandon(opened, seen)
            raise
        return records

    def _call_stages(
        self, decisions: list[tuple[int, Any]], samples: Rows, rows: range, seen: list[dict[int, Any]]
    ) -> list[tuple[int, Any]]:
        """Call each stage on the rows that want it, the earliest first; return the decisions after the last call."""
        game, known = self._game, list(decisions)
        wanted = [set(game.calls(decided)) for _, decided in known]
        while any(wanted):
            k = min(min(stages) for stages in wanted if stages)
            places = [p for p, stages in enumerate(wanted) if k in stages]
            given = samples, [rows[p] for p in places], [_outputs(seen[p]) for p in places]
            spares = game.stepwise and all(game.tolerates(known[p][1], self._core.terms) for p in places)
            stage = self._stages[k]
            for p, output in zip(places, stage.each(*given) if spares else stage.many(*given)):
                seen[p][k] = output
            for p in places:
                wanted[p].discard(k)
                if game.stepwise:
                    id, decided = known[p]
                    known[p] = id, self._advance(id, decided, seen[p][k])
                    wanted[p] = set(game.calls(known[p][1]))
        return known

    def _call_models(
        self, decisions: list[tuple[int, Any]], samples: Rows, rows: range, played: list[Played]
    ) -> None:
        """Call each model on its rows; the last first, as models that answer usually are."""
        stages = self._staged(decisions[0][0])
        for model in reversed(stages):
            places = [p for p, (_, call) in enumerate(decisions) if model.index in call]
            for p, output in zip(places, model.each(samples, [rows[p] for p in places])):
                (seen, failed), call = played[p], decisions[p][1]
                if not isinstance(output, Failed):
                    seen[model.index] = output
                    continue
                rescue = self._game.rescue(call, self._core.terms)
                if call[-1] == model.index and rescue is None:
                    raise output.error
                failed[model.index] = output.error
                if call[-1] == model.index:
                    seen[rescue] = stages[rescue].one(samples[rows[p]], ())

    # -- logs in which all stages ran

    def _warm_rows(self, outputs: Any, contexts: int | None = None) -> tuple[list[Any], Any]:
        """Return the comparisons of each row, and what identifies the call; there may be one context per row."""
        size, K = Rows(outputs, "outputs").size, len(self._stages)
        if contexts is not None and contexts != size:
            raise ValueError(f"outputs must have {contexts} rows, one per context, got {size}")
        found, digests, code = [], [], self._game.code
        for given in all_rows(outputs, K, self._noun):
            found.append(code.difference(answers_of(labels_of(given), code.combine)))
            digests.append(fingerprint(given))
        return found, ("warm_start", fingerprint(digests))

    # -- prices

    def _stated_prices(self) -> tuple[list[float], float | None]:
        """Return the prices of the stages, and of an error if it has one."""
        terms = self._core.terms
        return terms.prices, terms.error_cost if terms.promise is None else terms.promise.error_cost

    # -- refusals

    def _check_reference(
        self, prices: Sequence[float], reference: int | None = None, words: Words | None = None
    ) -> None:
        """Reject prices, or a reference, with which a promise cannot go on."""
        promised, argument = self._core.terms.promise, str(self._core.game.form.counted)
        if promised is not None:
            chosen = promised.reference if reference is None else reference
            check_reference(argument, prices, chosen, self._words if words is None else words)

    def _refuse_call(self, awaits: bool) -> None:
        """Reject a call of stages that cannot be called in this way."""
        self._refuse_elsewhere()
        if not awaits:
            self._refuse_asynchronous()

    def _refuse_asynchronous(self) -> None:
        for stage in self._stages:
            if stage.asynchronous:
                raise ValueError(f"{stage.name} is asynchronous: use `await {self._whole}.acall(x)`")

    def _refuse_elsewhere(self, instead: str = "decide() and feedback(), not a call") -> None:
        if self._stages[0].elsewhere:
            raise ValueError(f"the {self._noun}s run elsewhere: use {instead}")


def _outputs(seen: dict[int, Any]) -> list[Any]:
    """Return the outputs of the stages that did not fail."""
    return [output for output in seen.values() if not isinstance(output, Failed)]
