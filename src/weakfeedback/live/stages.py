"""Stages of a cascade: callables and fitted classifiers, called on one sample or on some rows of many."""

from __future__ import annotations

import contextvars
import inspect
import numbers
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.lazy import Later
from weakfeedback.live.answers import PLAIN, Scored, labels_of, short
from weakfeedback.validate import integer

asyncio: Any = Later("asyncio")  # whoever needs it has imported it

MOST = 10_000  # stages
WHOLES = {"stage": "cascade", "model": "router"}  # what stages and models form together


class Rows:
    """The samples of a batch: a list, an array, a data frame or a sparse matrix."""

    def __init__(self, X: Any, name: str = "X") -> None:
        iterable: bool = np.iterable(X)
        if isinstance(X, (str, bytes, dict)) or not iterable:
            raise ValueError(f"{name} must be a sequence of samples, got {short(X)}")
        table = hasattr(X, "shape")
        self._X: Any = X if table or isinstance(X, (list, tuple)) else list(X)
        self.size: int = X.shape[0] if table else len(self._X)

    def __getitem__(self, row: int) -> Any:
        return self._X.iloc[row] if hasattr(self._X, "iloc") else self._X[row]

    def some(self, rows: Sequence[int]) -> Any:
        """Return the samples in these rows, in a container of the same kind."""
        if hasattr(self._X, "iloc"):
            return self._X.iloc[list(rows)]
        if hasattr(self._X, "shape"):
            return self._X[list(rows)]
        return [self._X[row] for row in rows]


class Elsewhere:
    """A stage that runs elsewhere, and cannot be called here."""

    elsewhere = True
    asynchronous = False
    gives_chances = False

    def __init__(self, index: int) -> None:
        self.index = index

    def one(self, *_: Any) -> Any:
        """Raise: the stage runs elsewhere."""
        raise ValueError("the stages run elsewhere: use decide() and feedback()")

    many = one


class Stage:
    """One stage of a cascade, or one model of a router; ``noun`` says which.

    ``target`` is a callable that takes one sample (and, if it has a parameter ``earlier``, the tuple of the earlier
    stages' labels), or a fitted classifier with ``predict``. If ``scored`` is true, a classifier with
    ``predict_proba`` gives its labels with their probabilities.
    """

    elsewhere = False

    def __init__(self, index: int, target: Any, timeout: float | None, scored: bool, noun: str) -> None:
        self.index, self.name, self._whole = index, f"{noun}s[{index}]", WHOLES[noun]
        predicts = callable(getattr(target, "predict", None))
        unfitted = predicts and isinstance(target, type)  # the class instead of an object
        if unfitted or not (predicts or callable(target)):
            raise ValueError(
                f"{self.name} must be a callable or a fitted classifier with predict, got {short(target)}"
            )
        if predicts:
            _refuse_unfitted(self.name, target)
        self.asynchronous = not predicts and (
            inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)
        )
        self.target = target
        self._predicts = predicts
        self.gives_chances = scored and predicts and _has_chances(target)
        self._sees_earlier = not predicts and _has_parameter_earlier(target)
        self._timeout = timeout
        self._simple = not predicts and not self._sees_earlier  # called with the sample only

    def one(self, x: Any, outputs: Sequence[Any]) -> Any:
        """Return the output for one sample; ``outputs`` are those of the earlier stages."""
        if self._timeout is not None:
            result = self._call_in_time(lambda: self._call(x, outputs))
        elif self._simple:
            result = self.target(x)
        else:
            result = self._call(x, outputs)
        if type(result) not in PLAIN and inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise ValueError(f"{self.name} is asynchronous: use `await {self._whole}.acall(x)`")
        return result

    def many(self, samples: Rows, rows: Sequence[int], outputs: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """Yield the output for each of the rows; a classifier is called once for all of them."""
        if self._predicts:
            given = samples.some(rows)
            yield from self._call_in_time(lambda: self._predict(given, len(rows)))
        else:
            for row, seen in zip(rows, outputs):
                yield self.one(samples[row], seen)

    def each(self, samples: Rows, rows: list[int], outputs: Sequence[Sequence[Any]] = ()) -> list[Any]:
        """Return the output or the failure of each row; a classifier is called once for all rows, and fails for all."""
        found: list[Any] = []
        try:
            if self._predicts and rows:
                return list(self.many(samples, rows, ()))
        except Exception as error:
            return [Failed(error)] * len(rows)
        for place, row in enumerate(rows):
            try:
                found.append(self.one(samples[row], outputs[place] if outputs else ()))
            except Exception as error:
                found.append(Failed(error))
        return found

    async def one_async(self, x: Any, outputs: Sequence[Any]) -> Any:
        """Return the output for one sample; synchronous code runs in its own thread."""
        try:
            async with asyncio.timeout(self._timeout) as clock:
                if self.asynchronous:
                    return await self._call(x, outputs)
                outcome = await asyncio.wrap_future(in_thread(lambda: self._call(x, outputs)))
                result = result_of(outcome)
                return await result if inspect.isawaitable(result) else result
        except TimeoutError:
            if clock.expired():
                raise self._too_late() from None
            raise

    def _call(self, x: Any, outputs: Sequence[Any]) -> Any:
        if self._predicts:
            return self._predict(_one_row(x), 1)[0]
        return self.target(x, earlier=tuple(labels_of(outputs))) if self._sees_earlier else self.target(x)

    def _predict(self, given: Any, size: int) -> list[Any]:
        labels = self._labels(self.target.predict(given), size)
        if not self.gives_chances:
            return labels
        known = np.asarray(self.target.classes_).tolist()
        table = np.asarray(self.target.predict_proba(given), dtype=float)
        if table.shape != (size, len(known)):
            raise ValueError(
                f"{self.name}.predict_proba must give a table of shape {(size, len(known))}, a column for "
                f"each of classes_, gave {table.shape}"
            )
        # not the most probable label: some classifiers decide differently
        places = {label: place for place, label in enumerate(known)}
        chances = table.tolist()
        return [
            Scored(label, row[places[label]], dict(zip(known, row))) if label in places else label
            for label, row in zip(labels, chances)
        ]

    def _labels(self, predicted: Any, size: int) -> list[Any]:
        plain = isinstance(predicted, np.ndarray) and predicted.ndim == 1
        labels = predicted.tolist() if plain and predicted.dtype.kind in "biufUSO" else list(predicted)
        if len(labels) != size:
            raise ValueError(f"{self.name}.predict must give {size} labels, gave {len(labels)}")
        return labels

    def _call_in_time(self, call: Callable[[], Any]) -> Any:
        if self._timeout is None:
            return call()
        future = in_thread(call)
        if not wait([future], timeout=self._timeout).done:
            raise self._too_late()
        return result_of(future.result())

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"{self.name} took longer than {self._timeout:g} s")


@dataclass(slots=True)
class Failed:
    """Stands for the output of a failed call."""

    error: Exception


def call_each(stages: Sequence[Any], calls: Iterable[int], x: Any, seen: dict[int, Any]) -> None:
    """Call stages in turn; ``seen`` has the outputs so far, and gets theirs."""
    for k in calls:
        seen[k] = stages[k].one(x, seen.values())


def make_models(models: Any, timeout: float | None) -> list[Any]:
    """Return the models of a router, as `make_stages` returns stages."""
    return make_stages(models, timeout, noun="model")


def make_stages(stages: Any, timeout: float | None, scored: bool = False, noun: str = "stage") -> list[Any]:
    """Return the stages of a cascade, validated; a number means that many stages that run elsewhere."""
    if isinstance(stages, numbers.Integral) and not isinstance(stages, (bool, np.bool_)):
        return [Elsewhere(index) for index in range(integer(f"{noun}s", stages, 1, MOST))]
    if not isinstance(stages, (list, tuple)) or not stages:
        raise ValueError(
            f"{noun}s must be a list of at least one callable or classifier, or their number, got {short(stages)}"
        )
    return [Stage(index, target, timeout, scored, noun) for index, target in enumerate(stages)]


def elsewhere_or_async(stages: list[Any]) -> bool:
    """Whether a plain call of these stages may be refused."""
    return stages[0].elsewhere or any(stage.asynchronous for stage in stages)


def _refuse_unfitted(name: str, target: Any) -> None:
    """Reject a scikit-learn model that is not fitted; other models cannot be checked before they are called."""
    validation = sys.modules.get("sklearn.utils.validation")
    if validation is None or not hasattr(target, "get_params"):
        return
    from sklearn.exceptions import NotFittedError

    try:
        validation.check_is_fitted(target)
    except NotFittedError:
        raise ValueError(f"{name} must be fitted, got {short(target)}: call its fit first") from None
    except TypeError:  # it has no ``fit``, so it needs no fitting
        return


def _has_chances(target: Any) -> bool:
    """Return whether a classifier gives the probability of every label; one with several outputs does not."""
    known = getattr(target, "classes_", None)
    return callable(getattr(target, "predict_proba", None)) and known is not None and np.ndim(known) == 1


def _has_parameter_earlier(target: Any) -> bool:
    try:
        parameter = inspect.signature(target).parameters.get("earlier")
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return parameter is not None and parameter.kind in by_name


def _one_row(x: Any) -> Any:
    """Return one sample as a table with one row, for classifiers."""
    if isinstance(x, (str, bytes, dict)):
        return [x]
    if hasattr(x, "to_frame"):  # a pandas Series: the names of the columns must not be lost
        return x.to_frame().T.infer_objects()
    if not isinstance(x, np.ndarray) and len(getattr(x, "shape", ())) == 2:
        if x.shape[0] != 1:
            raise ValueError(f"x must be one sample, got a table of shape {x.shape}: use predict(X)")
        return x
    return np.asarray(x).reshape(1, -1)


def in_thread(call: Callable[[], Any]) -> Future[tuple[Any, BaseException | None]]:
    """Run ``call`` in a thread that does not keep the interpreter alive."""
    future: Future[tuple[Any, BaseException | None]] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        # An exception is passed as a value: a future refuses some kinds, such as StopIteration.
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = (context.run(call), None)
        except BaseException as error:
            outcome = (None, error)
        if future.set_running_or_notify_cancel():
            future.set_result(outcome)

    threading.Thread(target=work, daemon=True, name="weakfeedback stage").start()
    return future


def result_of(outcome: tuple[Any, BaseException | None]) -> Any:
    """Return what the call returned, or raise what it raised."""
    value, error = outcome
    if error is not None:
        raise error
    return value
