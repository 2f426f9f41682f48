"""A cascade of scikit-learn classifiers as one classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_random_state, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from weakfeedback.live.cascade import Cascade, decides_within
from weakfeedback.live.stages import Rows
from weakfeedback.settings.catalog import policy_class
from weakfeedback.validate import brief, fraction

BATCH = 64  # samples of the rest that are decided at a time, after every answer


def _have(method: str) -> Callable[[Any], bool]:
    """Whether all stages have a method."""
    return lambda self: all(hasattr(stage, method) for stage in _estimators(self.stages))


class CascadeClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A cascade of classifiers of rising cost: the cheapest one that is good enough answers.

    ``fit`` trains the stages on a part of the data. On the rest all stages answer, and how often two of them differ
    shows where to stop: a later stage is worth its price only if it differs often enough. This step uses no labels, so
    it can continue in production: ``route`` sends new samples through the cascade, as far as the policy decides, and
    keeps learning. ``predict`` learns nothing; it calls only the stage ``stop_``.

    With ``agree`` or ``budget`` (a promise) and with ``policy="USS-A"`` it is decided for every sample, after each
    answer, by what ``predict_proba`` says. On the rest of the data the cascade then decides as it will in production.
    What is promised, and what is saved, is about ``route``: ``predict`` compares nothing, so it answers by the
    reference, or by the stage at which most samples stopped.

    Finding the best stage by disagreement needs weak dominance (thesis, section 2.3), which in general cannot be
    checked without labels. A promise does not need it.

    Parameters
    ----------
    stages : K classifiers, or K pairs (name, classifier)
        In the order in which they are used. A stage that needs only some features can be a pipeline that starts with a
        ``ColumnTransformer``. With names, parameters of a stage can be set as ``name__parameter``.
    stage_costs : K numbers >= 0
        The cost of a call of each stage. Stopping at a stage costs the sum up to it.
    error_cost : number > 0, or None
        What a wrong answer costs, in the same money. One of this, ``agree`` and ``budget`` must be given.
    policy : name, or None
        The policy with which ``route`` decides how far a sample goes: "USS-TS" (None), "USS-UCB", "USS-A" or another
        policy of cascades; with ``agree`` or ``budget`` "Promise" (None).
    agree : number above 1/2 and below 1, or None
        Such as .95: at least this share of the answers of ``route`` are the last stage's, as cheaply as possible.
    budget : number > 0, or None
        Money a sample, on average: as few answers as possible differ from the last stage's.
    prefit : "auto", True or False
        "auto": stages that are already fitted are used as they are. True: all stages must be fitted already. False: all
        are cloned and fitted. If no stage has to be fitted, all data are used to compare the stages and ``fit`` needs
        no labels; these data should not be those that the stages were trained on. Clones are not fitted, so a grid
        search or a cross validation fits all stages, unless you wrap them in ``sklearn.frozen.FrozenEstimator``.
    holdout : number between 0 and 1
        The share of the data that is used to compare the stages, not to train them.
    random_state : int, RandomState or None
        For the split and for the policy.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As usual.
    stages_ : list of fitted classifiers
    stop_ : int
        The stage that answers in ``predict``: the first one from which the later stages differ too rarely to be worth
        their extra cost; with a promise the last one; with another policy that decides after every answer the one at
        which most samples stopped.
    disagreement_ : K x K array
        How often the answers of two stages differed; not with policies that decide after every answer.
    cascade_ : Cascade
        The live object behind ``route``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> stages = [DecisionTreeClassifier(max_depth=1, random_state=0), RandomForestClassifier(20, random_state=0)]
    >>> dear_errors = CascadeClassifier(stages, stage_costs=[1, 5], error_cost=500, random_state=0).fit(X, y)
    >>> cheap_errors = CascadeClassifier(stages, stage_costs=[1, 5], error_cost=5, random_state=0).fit(X, y)
    >>> dear_errors.stop_, cheap_errors.stop_
    (1, 0)
    >>> dear_errors.predict(X[:3])
    array([0, 0, 0])
    """

    stages_: list[Any]
    classes_: np.ndarray
    cascade_: Cascade

    def __init__(
        self,
        stages: Sequence[Any],
        stage_costs: Any,
        error_cost: float | None = None,
        *,
        policy: str | None = None,
        agree: float | None = None,
        budget: float | None = None,
        prefit: bool | str = "auto",
        holdout: float = 0.25,
        random_state: Any = None,
    ) -> None:
        self.stages = stages
        self.stage_costs = stage_costs
        self.error_cost = error_cost
        self.policy = policy
        self.agree = agree
        self.budget = budget
        self.prefit = prefit
        self.holdout = holdout
        self.random_state = random_state

    # -- learning

    def fit(self, X: Any, y: Any = None) -> CascadeClassifier:
        """Fit the stages on a part of the data and learn from the rest, without its labels, where to stop."""
        stages = _estimators(self.stages)
        if self.policy is not None and not isinstance(self.policy, str):
            raise ValueError(f"policy must be the name of a policy, got {brief(self.policy)}")
        if not self._is_stepwise() and hasattr(policy_class("cascade", self._policy()), "wants_label"):
            raise ValueError(f"policy must be one that buys no labels, got {self.policy!r}")
        share = fraction("holdout", self.holdout)
        X, y = indexable(X, y)
        validate_data(self, X, skip_check_array=True)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31))
        # The costs and the policy are checked before anything is fitted.
        self._cascade(len(stages), seed)
        ready = _ready(stages, self.prefit)
        compared, fitted, told = X, list(stages), []
        if not all(ready):
            rows, labels = Rows(X), _labels(y)
            training, rest = _split(labels, share, random)
            told, part = [np.unique(labels)], rows.some(training)
            fitted = [
                stage if kept else clone(stage).fit(part, labels[training])
                for stage, kept in zip(stages, ready)
            ]
            compared = rows.some(rest or training)
        self.stages_ = fitted
        self.classes_ = unique_labels(*told, *(stage.classes_ for stage, kept in zip(stages, ready) if kept))
        self.cascade_ = self._cascade(fitted, seed)
        if self._is_stepwise():
            self.cascade_.predict(compared, BATCH)
        else:
            self.cascade_.warm_start(list(zip(*(stage.predict(compared) for stage in fitted))))
        return self

    def _policy(self) -> str:
        """Return the policy of ``route``."""
        if self.policy is not None:
            return self.policy
        return "USS-TS" if self.agree is None and self.budget is None else "Promise"

    def _is_stepwise(self) -> bool:
        """Whether it is decided after every answer."""
        return decides_within(self._policy(), {})

    def _cascade(self, stages: Any, seed: int) -> Cascade:
        """Return the live cascade. ``stop_`` says where it stops, so prices with an obvious stop are allowed."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "at these prices")
            return Cascade(
                stages,
                self.stage_costs,
                self.error_cost,
                self._policy(),
                seed,
                agree=self.agree,
                budget=self.budget,
                names=[name for name, _ in _name_stages(self.stages)] or None,
            )

    def route(self, X: Any, batch_size: int = 256) -> np.ndarray:
        """Answer new samples by sending each as far as the policy decides, and learn from where the stages differ.

        What the answers cost is in ``report()``. ``stop_`` follows what was learned.
        """
        (X,) = indexable(X)
        self._check(X)
        answers = self.cascade_.predict(X, batch_size)
        return np.asarray(answers, dtype=self.classes_.dtype)

    @property
    def disagreement_(self) -> np.ndarray:
        check_is_fitted(self, "cascade_")
        if self._is_stepwise():
            raise AttributeError(
                f"disagreement_ is not known where {self._policy()} decides after every answer"
            )
        return self.cascade_.report().disagreement

    @property
    def stop_(self) -> int:
        check_is_fitted(self, "cascade_")
        if self._policy().lower() == "promise":
            return len(self.stages_) - 1
        if self._is_stepwise():
            return self.cascade_.settled()
        costs, differ = np.cumsum(self.cascade_.report().stage_costs) / self.error_cost, self.disagreement_
        for stage in range(len(costs) - 1):
            # Stages that were never compared (NaN) are no reason to stop.
            if (costs[stage + 1 :] - costs[stage] > differ[stage, stage + 1 :]).all():
                return stage
        return len(costs) - 1

    def report(self) -> Any:
        """Return what was compared, spent and saved so far; ``print`` it for a table."""
        check_is_fitted(self, "cascade_")
        return self.cascade_.report()

    # -- answering

    def predict(self, X: Any) -> np.ndarray:
        """Return the answers of the stage ``stop_``; nothing is learned."""
        found: np.ndarray = self._choose_stage(X).predict(X)
        return found

    @available_if(_have("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities that the stage ``stop_`` gives to ``classes_``."""
        stage = self._choose_stage(X)
        found = stage.predict_proba(X)
        probabilities = np.zeros((found.shape[0], self.classes_.size))
        probabilities[:, np.searchsorted(self.classes_, stage.classes_)] = found
        return probabilities

    def _choose_stage(self, X: Any) -> Any:
        self._check(X)
        return self.stages_[self.stop_]

    def _check(self, X: Any) -> None:
        check_is_fitted(self, "cascade_")
        columns = getattr(self, "n_features_in_", 0)  # samples that are texts have none
        if columns and getattr(X, "ndim", 2) == 1:
            raise ValueError(
                f"X must have {columns} columns, got one dimension. Reshape your data: X.reshape(1, -1) for a sample"
            )
        validate_data(self, X, reset=False, skip_check_array=True)

    # -- the interface of scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` those of named stages too."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name, stage in _name_stages(self.stages) if deep else ():
            params[name] = stage
            params |= {f"{name}__{key}": value for key, value in stage.get_params(deep=True).items()}
        return params

    def set_params(self, **params: Any) -> CascadeClassifier:
        """Set parameters; ``name=classifier`` replaces a named stage, ``name__parameter`` sets one of its own."""
        if "stages" in params:
            self.stages = params.pop("stages")
        names = [name for name, _ in _name_stages(self.stages)]
        replaced = {name: params.pop(name) for name in names if name in params}
        if replaced:
            self.stages = [(name, replaced.get(name, stage)) for name, stage in _name_stages(self.stages)]
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        stages = [stage for stage in _estimators(self.stages, check=False) if hasattr(stage, "get_params")]
        told = [get_tags(stage) for stage in stages]
        tags.input_tags.sparse = bool(told) and all(tag.input_tags.sparse for tag in told)
        tags.input_tags.allow_nan = bool(told) and all(tag.input_tags.allow_nan for tag in told)
        tags.classifier_tags.multi_class = all(tag.classifier_tags.multi_class for tag in told)
        tags.target_tags.required = not all(_is_fitted(stage) for stage in stages) or self.prefit is False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "cascade_" in state:  # holds locks, which cannot be pickled
            state["cascade_"] = state["cascade_"].state()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "cascade_" in state:
            self.cascade_ = Cascade.from_state(state["cascade_"], self.stages_)


def _name_stages(stages: Any) -> list[tuple[str, Any]]:
    """Return the pairs (name, classifier), none if the stages have no names."""
    listed = list(stages) if isinstance(stages, (list, tuple)) else []
    pairs = [stage for stage in listed if isinstance(stage, tuple) and len(stage) == 2]
    return pairs if len(pairs) == len(listed) else []


def _estimators(stages: Any, check: bool = True) -> list[Any]:
    """Return the classifiers without their names."""
    found = [stage for _, stage in _name_stages(stages)]
    if not found and isinstance(stages, (list, tuple)):
        found = list(stages)
    if not check:
        return found
    if not found:
        raise ValueError(
            f"stages must be a list of classifiers or of pairs (name, classifier), got {brief(stages)}"
        )
    names = [name for name, _ in _name_stages(stages)]
    if not all(isinstance(name, str) and name and "__" not in name for name in names):
        raise ValueError(f"the names of stages must be words without '__', got {brief(names)}")
    if len(set(names)) != len(names) or set(names) & set(CascadeClassifier._get_param_names()):
        raise ValueError(f"the names of stages must differ from each other and from parameters, got {names}")
    for index, stage in enumerate(found):
        if isinstance(stage, type) or not all(hasattr(stage, name) for name in ("fit", "predict")):
            raise ValueError(f"stages[{index}] must be a classifier with fit and predict, got {brief(stage)}")
    return found


def _ready(stages: list[Any], prefit: Any) -> list[bool]:
    """Return which stages are to be used as they are."""
    if not isinstance(prefit, bool) and prefit != "auto":
        raise ValueError(f"prefit must be 'auto', True or False, got {brief(prefit)}")
    fitted = [_is_fitted(stage) for stage in stages]
    if prefit is True and not all(fitted):
        index = fitted.index(False)
        raise NotFittedError(
            f"stages[{index}] must be fitted, as prefit=True says, got {brief(stages[index])}"
        )
    return [False] * len(stages) if prefit is False else fitted


def _is_fitted(stage: Any) -> bool:
    try:
        check_is_fitted(stage)
    except (NotFittedError, TypeError):
        return False
    return hasattr(stage, "classes_")


def _labels(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("y must be given: requires y to be passed, but the target y is None")
    labels: np.ndarray = column_or_1d(y, warn=True)
    check_array(labels, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=0)
    check_classification_targets(labels)
    return labels


def _split(labels: np.ndarray, holdout: float, random: Any) -> tuple[list[int], list[int]]:
    """Return the rows for training and those for comparing; every class has at least one row for training."""
    training, rest = [], []
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        compared = int(holdout * rows.size)
        rest.append(rows[:compared])
        training.append(rows[compared:])
    return sorted(np.concatenate(training).tolist()), sorted(np.concatenate(rest).tolist())
