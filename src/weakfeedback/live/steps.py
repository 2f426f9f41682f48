"""Rounds by hand, for a policy that decides after every answer: begin, and tell each output."""

from __future__ import annotations

import math
from typing import Any

from weakfeedback.live.errors import FeedbackConflict
from weakfeedback.live.games.adaptive import Ask, Lost, Progress, Step, Told, alone
from weakfeedback.live.games.cascade import Answer
from weakfeedback.live.games.promise import is_open
from weakfeedback.live.parts import Part
from weakfeedback.stats import add_up
from weakfeedback.validate import integer


class StepByStep(Part):
    """What a cascade offers whose policy decides after every answer."""

    promised: Any

    def begin(self, group: Any = None) -> Step:
        """Begin a round: run ``step.stage`` and `tell` its output. For a policy that decides after every answer."""
        self._offer("begin")
        id, seen = self._core.decide(self._context(group))
        if self._journal is not None:
            self._give_out(id)
        return Step(id, seen.next)

    def tell(self, id: int, output: Any, stage: int | None = None) -> Step:
        """Tell the output of the stage that was to be run; return the next one to run, or the answer.

        Parameters
        ----------
        id : integer
            The id of the round, from `begin`.
        output : label, `Scored` or `Costed`
            What the stage returned; with a promise an exception says that it failed, and the reference is called.
        stage : integer, optional
            The stage that returned it; by default the stage that was to be run. Pass it wherever a call may be
            repeated: the same output for the same stage then returns the same step, and a different output raises
            `FeedbackConflict`.

        With ``background`` the step may have an answer, which goes out, and a stage, which is called to compare it.
        Nothing is learned from a round that is never finished; `cancel` it, or let it expire. If the last output of a
        finished round is repeated, and the round is not among the last 1000 or is older than this object, the answer
        may hold nothing but the label.
        """
        self._offer("tell")
        wanted = None if stage is None else integer("stage", stage, 0, len(self._stages) - 1)
        content = alone(output).content()
        call = ("tell", str(id), content)
        if not self._owes(call):
            self._tell(id, output, wanted, content)
            self._wait(call)
        return self._step_of(int(id), output, wanted, content)

    def _tell(self, id: int, output: Any, wanted: int | None, content: str) -> None:
        """Let the round go on with an output; do nothing if the call is a repetition."""
        core, game = self._core, self._game
        while True:  # once more if another thread was faster
            known, open_round, asks = core.run(self._known, id)
            earlier = {one.stage: one for one in known[:-1]}
            if open_round is None and wanted in earlier and not asks[-1].more:  # of a finished round
                self._check_same(id, earlier[wanted], content)
                return
            before: Progress | None = core.awaited(id, content)
            if before is None:
                return
            stages = [one.stage for one in before.told]
            repeated = stages[-1] if wanted is None and before.stopped else wanted
            if repeated in stages:
                self._check_same(id, before.told[stages.index(repeated)], content)
                # the process ended before the round was learned
                if before.stopped and repeated == stages[-1]:
                    core.settle(game.record(int(id), before, (), core.terms))
                return
            if before.next is None or (wanted is not None and wanted != before.next):
                due = "none, for the round has stopped" if before.next is None else str(before.next)
                raise ValueError(f"stage must be the one that was to be run ({due}), got {wanted}")
            told = game.told_of(before, output, core.counts, core.terms)
            if core.advance(int(id), before, told, learn=True) is not None:
                return

    def _check_same(self, id: int, told: Told, content: str) -> None:
        if told.content() != content:
            raise FeedbackConflict(
                f"{self._words.one(told.stage)} of decision {id} was told already, with other content"
            )

    def _known(self, id: Any) -> tuple[tuple[Told, ...], Progress | None, tuple[Ask, ...]]:
        """Return the outputs of a round, the round if it is open, and what was asked in it; each as far as known."""
        if type(id) is not int:
            return (), None, ()
        asks, open_round = self._core.kept.get(id, ()), self._core.ledger.waiting.get(id)
        return tuple(ask.told for ask in asks) if open_round is None else open_round.told, open_round, asks

    def _step_of(self, id: int, output: Any, wanted: int | None, content: str) -> Step:
        """Return the next step after an output."""
        told, open_round, asks = self._core.run(self._known, id)
        stages = [one.stage for one in told]
        if wanted in stages[:-1]:
            seen = asks[-1] if open_round is None else open_round
            return Step(id, stages[stages.index(wanted) + 1], self._early(id, seen, wanted, output))
        if open_round is not None:
            return Step(id, open_round.next, self._early(id, open_round, stages[-1], output))
        last = alone(output)
        if not asks or asks[-1].told.content() != content:
            return Step(id, None, Answer(last.label, wanted, math.nan, (), id))  # type: ignore[arg-type]
        if self._goes_out_early(asks[-1].chance) and stages[-1] != asks[-1].first:
            return Step(id, None)  # its answer has gone out already
        told_all = (*[ask.told for ask in asks[:-1]], last._replace(stage=stages[-1]))
        prices = asks[-1].prices
        cost = add_up(prices[one.stage] if one.cost is None else one.cost for one in told_all)
        labels = tuple(None if isinstance(one.label, Lost) else one.label for one in told_all)
        scores = tuple(one.known_score for one in told_all)
        return Step(id, None, Answer(last.label, stages[-1], cost, labels, id, None, scores))

    def _goes_out_early(self, chance: float) -> bool:
        promised = self.promised
        return promised is not None and promised.background and is_open(chance)

    def _early(self, id: int, seen: Progress | Ask, stage: int | None, output: Any) -> Answer | None:
        """Return the answer that goes out before it is compared, if it is the output of this stage."""
        if not self._goes_out_early(seen.chance) or stage != seen.first:
            return None
        last = alone(output)
        cost = self._core.terms.prices[seen.first] if last.cost is None else last.cost
        return Answer(last.label, seen.first, cost, (last.label,), id, None, (last.known_score,))
