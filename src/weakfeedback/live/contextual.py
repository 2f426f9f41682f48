"""A cascade that looks at the sample before it decides how far to go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from weakfeedback.contextual.features import QuadraticFeatures
from weakfeedback.contract.decisions import checked_arm
from weakfeedback.live import storage
from weakfeedback.live.base import Change, Step
from weakfeedback.live.buying import NO_LABEL
from weakfeedback.live.cascade_report import make_report
from weakfeedback.live.context_report import (
    ContextRecord,
    ContextualReport,
    context_explanation,
    make_context_report,
    make_record,
)
from weakfeedback.live.contexts import Contexts
from weakfeedback.live.driver import Examples
from weakfeedback.live.labels import as_array, freeze
from weakfeedback.live.rounds import Answer, Decision
from weakfeedback.live.staged import STATE as COMMON
from weakfeedback.live.staged import Staged
from weakfeedback.live.stages import Rows
from weakfeedback.live.storage import StateError, require
from weakfeedback.settings.catalog import make_policy, option_names, policy_class
from weakfeedback.validate import brief, integer, vector

KEEP = 5000  # default number of observations
STATE: dict[str, type | tuple[type, ...]] = {**COMMON, "contexts": dict, "keep": (int, type(None))}


class ContextualCascade(Staged):
    """Stages of increasing cost whose answers are never checked; learns for which samples to stop at which one.

    As `Cascade`, but how often two stages differ may depend on the sample. It is estimated for each pair of stages by
    a logistic regression on features of a context, a vector of numbers. The context is the sample itself unless given
    separately. This finds the best stage if weak dominance holds at the context (thesis, section 3.3) and the
    features can express the disagreements.

    The first rounds (see ``forced`` of USS-PD) go to the last stage. A context that is not finite, or whose length
    differs from that of the first one, raises ValueError and changes nothing. Safe to use from several threads.

    Parameters
    ----------
    stages, stage_costs, error_cost, combine, compare, timeout
        As for `Cascade`.
    policy : name or policy object
        "USS-PD", "USS-PD-lambdaI", "USS-PD-TS", "Fixed" or "Random" with their options, or an object made for the
        costs ``cumsum(stage_costs) / error_cost`` and the length of the features. "Supervised" is not available: it
        learns from labels, and there are none.
    features : map, optional
        Takes contexts, shape (n, d), and returns their features, shape (n, d'): ``QuadraticFeatures(bound)``, a
        ``PairFeatures``, or your own. If left out, ``QuadraticFeatures(sqrt(d))``, for numbers from -1 to 1. The
        quadratic map refuses contexts whose norm exceeds its bound.
    seed : integer >= 0, SeedSequence or Generator, optional
        As for `Cascade`.
    keep : integer >= 100, or None
        How many observations are kept individually. Older ones are kept together, as the quadratic expansion of
        their likelihood at the estimate of that time. This bounds memory, saved state and the time of a decision. With
        None all are kept: O(t d') numbers. A policy given as an object has its own limit.
    compiled, remember
        As for `Cascade`. With more than a few features use ``compiled=True``: interpreted regressions are slow.

    Examples
    --------
    Two tests that differ only where x > 0: there the second is worth its cost.

    >>> cascade = ContextualCascade([lambda x: False, lambda x: x[0] > 0], stage_costs=[1, 20], error_cost=100, seed=0)
    >>> contexts = np.random.default_rng(0).uniform(-1, 1, size=(800, 1))
    >>> arms = np.array([cascade(x).arm for x in contexts])[400:]
    >>> float(arms[contexts[400:, 0] > 0].mean()), float(arms[contexts[400:, 0] < -0.3].mean())
    (1.0, 0.0)
    """

    kind = "ContextualCascade"
    setting = "contextual"
    form = STATE
    code: ClassVar[tuple[str, ...]] = (*Staged.code, "features")

    def __init__(
        self,
        stages: Sequence[Any] | int,
        stage_costs: Any,
        error_cost: float = 1.0,
        policy: Any = "USS-PD",
        features: Any = None,
        seed: Any = None,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        timeout: float | None = None,
        keep: int | None = KEEP,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stages, stage_costs, error_cost, combine, compare, timeout)
        self._contexts = Contexts(features)
        self._keep = None if keep is None else integer("keep", keep, 100)
        if isinstance(policy, str) and getattr(policy_class("contextual", policy), "sees_truth", False):
            raise ValueError(f"policy must be one that needs no labels, got {brief(policy)}")
        self._named = isinstance(policy, str)
        # The length of the features is not known yet: this policy checks the options, and is replaced later.
        pairs = len(self._stages) * (len(self._stages) - 1) // 2
        make = lambda name, **o: self._made(name, max(1, pairs), o)  # noqa: E731
        self._start(policy, make, seed, options, compiled, remember)

    def _made(self, name: str, dimension: int, options: dict[str, Any]) -> Any:
        told: dict[str, Any] = {"per_pair": True} if self._contexts.per_pair else {}
        if self._keep is not None:
            told["keep"] = self._keep
        known = option_names("contextual", name)
        taken = {option: value for option, value in told.items() if option in known}
        return make_policy("contextual", name, self._costs, dimension, **{**taken, **options})

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        # any length will do: compiled code does not depend on it
        phi, differ = freeze(np.zeros(1)), freeze(np.zeros((1, 1), dtype=np.bool_))
        return {"select": (phi,), "update_pairs": (phi, 0, differ)}, ()

    @property
    def policy(self) -> Any:
        """The policy object itself; None before the first context fixes the number of features."""
        return super().policy if self._contexts.dimension or not self._named else None

    # -- one sample at a time

    def __call__(self, x: Any, context: Any = None) -> Answer:
        """Answer for one sample; its context is ``context`` or, if that is left out, ``x`` itself.

        A stage that raises cancels the decision; nothing is learned from it.
        """
        self._refuse_elsewhere()
        self._refuse_asynchronous()
        return self._answer(x, *self._one(x, context))

    async def acall(self, x: Any, context: Any = None) -> Answer:
        """Answer for one sample, awaiting the stages; synchronous stages run in a thread."""
        self._refuse_elsewhere()
        return await self._answer_async(x, *self._one(x, context))

    # -- many samples

    def predict(self, X: Any, batch_size: int = 256, contexts: Any = None) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size, contexts)])

    def answers(self, X: Any, batch_size: int = 256, contexts: Any = None) -> list[Answer]:
        """Answer for many samples, ``batch_size`` at a time, as `Cascade.answers`.

        The contexts, one row per sample, are X itself if left out. All are checked before the first decision.
        """
        self._refuse_elsewhere()
        self._refuse_asynchronous()
        samples = Rows(X)
        if samples.size == 0:
            return []
        return self._answers(samples, self._many("X", X, contexts, samples.size), batch_size)

    # -- by hand

    def decide(self, x: Any) -> Decision:
        """Decide for a context; call the stages yourself and give their outputs to `feedback`."""
        return self._give_decision(*self._one(x, None))

    def feedback(self, id: int, outputs: Sequence[Any]) -> str:
        """Learn the outputs of stages 0, ..., arm of a decision. Feedback may come at any time and in any order.

        Return "accepted", or "duplicate" if the same feedback was given before. `FeedbackConflict`, `UnknownDecision`
        and ValueError leave everything unchanged.
        """
        return self._feedback(id, outputs, NO_LABEL)

    def warm_start(self, X: Any, outputs: Any) -> int:
        """Learn from logs in which all stages ran: ``outputs`` has a row of K labels per context in X.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing.
        """
        return self._warm_start(outputs, self._many("X", X, None, None))

    def _learn_warm(self, found: list[tuple[Any, Any]], contexts: Sequence[Any] | None) -> None:
        with self._ledger.lock:
            self._recover()
            for inputs, phi in contexts or ():
                self._fix(inputs, phi)
            super()._learn_warm(found, [(phi,) for _, phi in contexts or ()])

    # -- what was learned

    def report(self) -> ContextualReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        with self._ledger.lock:
            self._recover()
            pending = len(self._ledger.pending)
            base = make_report(
                self._label, self._stage_costs, self._error_cost, pending, self._counts, certified=False
            )
            known, policy = self._contexts, self._driver.write_back()
            return make_context_report(base, policy, known.inputs, known.dimension)

    def certificate(self, alpha: float = 0.05) -> NoReturn:
        """Not available: which samples were compared depends on the samples, so nothing is proved for all of them."""
        raise ValueError(
            "certificate is not offered with contexts, which choose the samples that are compared: use the audit of a "
            "Cascade of the same stages"
        )

    def explain(self, id: int) -> str:
        """Explain why a stage was chosen, for the last 1000 decisions made since this object was loaded."""
        record, (stage_costs, error_cost) = self._explained(id)
        return context_explanation(int(id), record, stage_costs, error_cost, self._label, self._how())

    # -- saving

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        stages: Sequence[Any] | int,
        *,
        features: Any = None,
        policy: Any = None,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        compiled: bool = False,
        fresh_ids: bool = False,
    ) -> ContextualCascade:
        """Return the cascade that was saved to ``path``; it decides as if it had never stopped.

        The stages, ``combine``, ``compare`` and a feature map of your own are code and not in the file: pass them
        again. So is a policy of your own: pass a fresh object. A file that cannot be used raises `StateError`.

        The file does not record ids that were issued after it was written. If there may be any (after a crash, or if
        a second object was loaded from the same file), pass ``fresh_ids=True``: ids then continue after a random gap,
        so that a late answer to one of those decisions is refused and not taken for another. `open` does not need this.
        """
        code = {"stages": stages, "features": features, "combine": combine, "compare": compare}
        return cls._load(path, code, policy, compiled, fresh_ids)

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        stages: Sequence[Any] | int | None = None,
        *,
        features: Any = None,
        policy: Any = None,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        compiled: bool = False,
    ) -> ContextualCascade:
        """Return the cascade that gave ``state``; if ``stages`` is left out, they run elsewhere. See `load`."""
        body = storage.checked_copy(state)
        if stages is None:
            stages = storage.count_of(body, "stage_costs")
        code = {"stages": stages, "features": features, "combine": combine, "compare": compare}
        return cls._made_again(body, code, policy, compiled, "the state")

    @classmethod
    def _check_code(cls, body: dict[str, Any], code: dict[str, Any], where: str) -> None:
        super()._check_code(body, code, where)
        form, given = body["contexts"].get("map"), code["features"]
        if isinstance(form, dict) and isinstance(given, QuadraticFeatures):
            if given.bound != form["bound"]:
                raise ValueError(
                    f"features must have the bound {form['bound']:g}, as in {where}, or be left out, got {brief(given)}"
                )
        elif (given is not None) != isinstance(form, str):
            raise ValueError(f"features must be given if and only if it was a map of your own: see {where}")

    @classmethod
    def _arguments_in(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {**super()._arguments_in(body), "keep": body["keep"]}

    def _restore(self, body: dict[str, Any]) -> None:
        self._contexts = Contexts.from_state(body["contexts"], self._contexts.map)
        dimension = self._contexts.dimension
        if dimension and self._named:
            self._drive(self._made(str(self._policy_name), dimension, self._options or {}))
        super()._restore(body)
        policy = self._driver.policy
        history = getattr(policy, "arms", None)
        if getattr(policy, "keeps_history", False) and isinstance(history, np.ndarray):
            if not 0 <= policy.t <= history.size:
                raise StateError("the history contradicts itself")

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "contexts": self._contexts.state(), "keep": self._keep}

    def _encode_decision(self, decided: tuple[int, np.ndarray]) -> dict[str, Any]:
        return {"arm": decided[0], "phi": decided[1].tolist()}

    def _decode_decision(self, data: Any) -> tuple[int, np.ndarray]:
        require("decision", data, {"arm": int, "phi": list})
        phi = freeze(vector("phi", data["phi"], size=self._contexts.dimension))
        return integer("arm", data["arm"], 0, len(self._stages) - 1), phi

    # -- rounds with a context: ``context`` is the length of the context and its features

    def _one(self, x: Any, context: Any) -> tuple[int, np.ndarray]:
        # No lock: the map is user code. If another thread fixes the lengths meanwhile, _fix checks against them.
        found = self._contexts.one("x", x) if context is None else self._contexts.one("context", context)
        self._check_dimension(found[1].size)
        return found[0], freeze(found[1].copy())

    def _many(self, name: str, X: Any, contexts: Any, rows: int | None) -> list[tuple[int, np.ndarray]]:
        given, table = (name, X) if contexts is None else ("contexts", contexts)
        inputs, phi = self._contexts.many(given, table)
        self._check_dimension(phi.shape[1])
        if rows is not None and len(phi) != rows:
            raise ValueError(f"contexts must have {rows} rows, one per sample, got {len(phi)}")
        return [(inputs, freeze(row.copy())) for row in phi]

    def _check_dimension(self, dimension: int) -> None:
        """Reject features that do not fit the given policy object."""
        wanted = dimension if self._named else getattr(self._driver.policy, "dimension", dimension)
        if dimension != wanted:
            raise ValueError(
                f"features must give {wanted} numbers, as the policy's dimension, got {dimension}"
            )

    def _fix(self, inputs: int, phi: np.ndarray) -> None:
        """Fix the lengths to those of the first context, and create the policy."""
        known = self._contexts
        if known.dimension == 0:
            steps: list[Step] = [(known.fix, (inputs, phi.size))]
            if self._named:
                made = self._made(str(self._policy_name), phi.size, self._options or {})
                steps.append((self._install, self._driven(made)))
            change = self._change = Change(None, None)
            self._commit(change, steps)
        elif (inputs, phi.size) != (known.inputs, known.dimension):  # another thread's context came first
            raise ValueError(f"x must have {known.inputs} numbers per context, as the first, got {inputs}")

    def _decide(self, *context: Any, opened: list[int] | None = None) -> tuple[int, Any]:
        inputs, phi = context
        with self._ledger.lock:
            self._recover()
            self._ledger.ensure_room()
            self._fix(inputs, phi)  # the lengths stay fixed even if the decision fails
            return super()._decide(phi, opened=opened)

    def _choose(self, *context: Any) -> tuple[tuple[int, np.ndarray], tuple[ContextRecord, Any]]:
        (phi,) = context
        arm = checked_arm(self._driver.policy, self._select(phi, self._rng), len(self._stages))
        return (arm, phi), (make_record(arm, self._driver.write_back(), phi), self._tariff)

    # -- events of the journal

    def _decision_event(self, decided: tuple[int, np.ndarray]) -> dict[str, Any]:
        return {**super()._decision_event(decided), "inputs": self._contexts.inputs}

    def _context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        return integer("inputs", body["inputs"], 1), freeze(vector("phi", body["phi"]))

    def _decoded(self, body: dict[str, Any]) -> tuple[int, np.ndarray]:
        return self._decode_decision({"arm": body["stage"], "phi": body["phi"]})

    def _warm_event(
        self, sampled: list[np.ndarray], found: list[tuple[Any, Any]], contexts: Sequence[Any] | None
    ) -> dict[str, Any]:
        return {**super()._warm_event(sampled, found, contexts), "inputs": self._contexts.inputs}

    def _warm_contexts(self, body: dict[str, Any]) -> list[tuple[int, np.ndarray]]:
        inputs = integer("inputs", body["inputs"], 1) if body["phi"] else 0
        return [(inputs, freeze(vector("phi", phi))) for phi in body["phi"]]

    def _code(self) -> dict[str, Any]:
        own = self._contexts.state()["map"]
        return {**super()._code(), "features": self._contexts.map if isinstance(own, str) else None}

    @classmethod
    def _arguments_of(cls, state: dict[str, Any]) -> dict[str, Any]:
        return {**super()._arguments_of(state), "keep": state["keep"]}
