"""What cascades with and without contexts offer alike: feedback, new prices, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.cascade.movement import Calibration
from weakfeedback.live.answers import content_of, labelled_content, output_list, short, sorted_pairs
from weakfeedback.live.audits import calibrated
from weakfeedback.live.errors import Refused
from weakfeedback.live.game import View
from weakfeedback.live.games.cascade import RoundRecord, prices_body
from weakfeedback.live.games.comparing import content_of_pairs, first_passing, stop_by_means
from weakfeedback.live.label_source import NO_LABEL, Bought
from weakfeedback.live.parts import Part
from weakfeedback.live.stages import Rows


class Cascading(Part):
    """What all cascades offer beside their rounds."""

    def feedback(self, id: int, outputs: Sequence[Any], label: Any = NO_LABEL) -> str:
        """Learn the outputs of stages 0, ..., arm of a decision. Feedback may come at any time and in any order.

        ``label`` is the truth, bought because `wants_label` returned True. It is part of the content: the same outputs
        with another label, or without one, are a conflict. A label that the policy does not want is refused, because
        labels selected by the user would bias the estimates. A wanted label may be left out.

        Return "accepted", or "duplicate" if the same feedback was given before. `FeedbackConflict`, `UnknownDecision`
        and ValueError leave everything unchanged.
        """
        self._offer("feedback")
        given = output_list("outputs", outputs)
        content = content_of(given)
        if label is not NO_LABEL:
            content = labelled_content(content, label)
        core = self._core
        decided = core.awaited(id, content)
        settled = "duplicate"
        if decided is not None:
            record = self._game.record(int(id), decided, given, core.terms, content)
            if label is not NO_LABEL:
                self._add_label(record, label)
            settled = core.settle(record)
        if self._journal is not None:
            self._wait()
        return settled

    def feedback_pairs(
        self,
        id: int,
        differ: Sequence[tuple[int, int]],
        *,
        far: Sequence[float] | None = None,
        costs: Sequence[float] | None = None,
        label: Any = None,
        digest: str | None = None,
    ) -> str:
        """Learn comparisons that were made elsewhere. Feedback may come at any time and in any order.

        Parameters
        ----------
        id : integer
            The id of the decision.
        differ : pairs (i, j), i < j <= arm
            The stages whose answers differed.
        far : numbers from 0 to 1, optional
            For a cascade with a ``metric``, instead of ``differ`` (which must then be empty): how far apart the pairs
            (0, 1), (0, 2), ..., (1, 2), ... are. USS-mean learns them as they are; others sample from them.
        costs : numbers >= 0, one per stage called, optional
            What the calls cost, if it differs from the stated costs.
        label : bools, one per stage called, or `Costed` of them, optional
            Which of the answers are right according to a bought label; for a policy that wanted it.
        digest : string, optional
            Distinguishes a repeated answer from a conflict; made from the comparisons if left out.

        Draws, counts and result are the same as for `feedback` with such outputs. Return "accepted" or "duplicate", or
        raise as `feedback` does.
        """
        self._offer("feedback_pairs")
        core = self._core
        differ = sorted_pairs(differ)
        content = content_of_pairs(digest, differ, far, costs, label)
        decided = core.awaited(id, content)
        settled = "duplicate"
        if decided is not None:
            record = self._game.record_of_pairs(int(id), decided, core.terms, content, differ, far, costs)
            if label is not None:
                self._add_label(record, Bought.of(label, record.arm))
            settled = core.settle(record)
        self._wait()
        return settled

    def _add_label(self, record: RoundRecord, label: Any) -> None:
        """Add a label to a record, if the policy wants it."""
        if self._game.wants is None:
            words = f"label goes with a policy that buys labels, such as Q-USS, not with {self._label}"
            raise Refused(words, "wrong_label")
        if not self._wants(record):
            words = f"label must be given only when wants_label says so, got {short(label)}"
            raise Refused(words, "wrong_label")
        self._game.labelled(record, label)

    def _wants(self, record: RoundRecord) -> bool:
        wants = self._game.wants
        return wants is not None and bool(self._core.run(wants, record, self._core.rng))

    def recost(self, stage_costs: Any, error_cost: float | None = None) -> None:
        """Continue with new prices; the counts stay. ``error_cost`` stays as it is if left out.

        Only for policies whose statistics do not depend on the costs: USS-TS, USS-UCB, USS-TS-drift, USS-WD,
        USS-mean, USS-PD, USS-PD-TS, Fixed, Random, and for those that decide after every answer, which keep what they
        need to learn again. Other policies raise ValueError, and nothing has changed.
        """
        terms = self._core.terms
        error = self._stated_prices()[1] if error_cost is None else error_cost
        body = prices_body(stage_costs, 1.0 if error is None else error, terms)
        if error is None:
            body["error_cost"] = None
        if not getattr(self._core.driver.policy, "recostable", False):
            raise Refused(f"recost is not for {self._label}: what it has learned depends on the costs")
        self._check_reference(body["stage_costs"])
        self._alter("recost", body)

    def settled(self) -> int:
        """Return the stage at which the policy would stop now if its mean estimates were exact.

        With a policy that decides after every answer, the stage at which most rounds stopped.
        """
        return self._core.view(lambda view: settled_at(view, self._game.stepwise))

    def calibration(self, items: Any, truth: Any, alpha: float = 0.05) -> Calibration:
        """Tell from labels how far the last stage is from calibrated, for ``loss="squared"``.

        Parameters
        ----------
        items : samples
            Fresh ones, drawn like future samples. All stages are run on each of them, and nothing is learned.
        truth : numbers, one per item
        alpha : number between 0 and 1
            How often the intervals may miss the truth.
        """
        self._refuse_asynchronous()
        self._refuse_elsewhere("weakfeedback.cascade.movement.calibration()")
        return calibrated(Rows(items, "items"), truth, alpha, self._stages, self._game.code)


def settled_at(view: View, stepwise: bool) -> int:
    """Return the stage at which a cascade would stop by the means of what it has seen."""
    guess = getattr(view.policy, "best_guess", None)
    if callable(guess):
        return int(guess())
    counts = view.counts
    if stepwise:
        return int(np.argmax(counts.stops))
    if counts.moved is not None:
        return first_passing(view.terms.costs, counts.moved.means(counts.compared))
    return stop_by_means(view.terms.costs, counts.differed, counts.compared)
