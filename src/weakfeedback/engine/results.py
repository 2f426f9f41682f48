"""Results of a simulation: flat rows, and a few common summaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.engine.loop import measures_of
from weakfeedback.engine.tables import Damaged, read_table, writer_of
from weakfeedback.files import write_atomically
from weakfeedback.stats import Comparison, paired_comparison, student_interval
from weakfeedback.validate import brief

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

KEY = "weakfeedback"
LABELS = ("policy", "replication", "round")
LARGE = 2**63


class Results:
    """Rows of measures by policy, replication and round.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns policy, replication, round, regret and the measures of the setting; all are cumulative.
    compiled : dict
        For each policy whether it was compiled: True or False.
    reasons : dict
        For each policy that was not compiled, the reason.
    about : dict
        Setting, problem, horizon, seed, and ``sources``: the text of the policies' code.
    """

    def __init__(
        self,
        frame: pd.DataFrame | None,
        compiled: Mapping[str, bool | str],
        about: dict[str, Any],
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        self._frame = frame
        self._tables: tuple[np.ndarray, dict[str, dict[str, np.ndarray]]] | None = None
        # files of earlier versions may have a reason instead of False
        self.compiled = {label: how is True for label, how in compiled.items()}
        self.reasons = {label: how for label, how in compiled.items() if isinstance(how, str)}
        self.reasons.update(reasons or {})
        self.about = about

    @classmethod
    def from_counts(
        cls,
        problem: Any,
        counts: dict[str, np.ndarray],
        marks: np.ndarray,
        compiled: Mapping[str, bool | str],
        about: dict[str, Any],
        policies: dict[str, Any] | None = None,
    ) -> Results:
        """Return the results of counts with shape (replications, marks, counters); rows are made on first use.

        ``compiled`` may have the reason instead of False for a policy that was not compiled.
        A measure that only some of the ``policies`` have, such as the labels bought, is 0 for the others.
        """
        results = cls(None, compiled, about)
        given = policies or {}
        measured = {label: measures_of(problem, given.get(label), table) for label, table in counts.items()}
        names = {name: None for measures in measured.values() for name in measures}
        for measures in measured.values():
            for name in names:
                measures.setdefault(name, np.zeros_like(next(iter(measures.values())), dtype=np.int64))
        results._tables = (marks, measured)
        return results

    @property
    def frame(self) -> pd.DataFrame:
        """Return the rows, made on first use."""
        if self._frame is None:
            assert self._tables is not None
            self._frame = _as_rows(*self._tables)
        return self._frame

    @frame.setter
    def frame(self, rows: pd.DataFrame) -> None:
        self._frame, self._tables = rows, None

    def _get_tables(self) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
        """Return the marks, and for each policy and measure an array (replications, marks)."""
        if self._tables is None:
            self._tables = _as_tables(self.frame)
        return self._tables

    @property
    def policies(self) -> list[str]:
        """Return the labels, in the order given."""
        return list(self._get_tables()[1])

    def values(self, policy: str, measure: str = "regret") -> NDArray[np.float64]:
        """Return an array with one row per replication and one column per mark."""
        _, measured = self._get_tables()
        if policy not in measured:
            raise ValueError(f"policy must be one of {', '.join(measured)}, got {brief(policy)}")
        if measure not in measured[policy]:
            raise ValueError(f"measure must be one of {', '.join(measured[policy])}, got {brief(measure)}")
        return measured[policy][measure].astype(float)

    def final(self, measure: str = "regret") -> pd.DataFrame:
        """Return the mean at the last round with its 95 % Student interval over replications, indexed by policy."""
        import pandas as pd

        rows = []
        for policy in self.policies:
            last = self.values(policy, measure)[:, -1]
            low, high = student_interval(last)
            rows.append((last.mean(), float(low), float(high), last.size))
        index = pd.Index(self.policies, name="policy")
        return pd.DataFrame(rows, index=index, columns=["mean", "low", "high", "replications"])

    def curve(self, measure: str = "regret") -> pd.DataFrame:
        """Return the mean at every mark with its 95 % Student interval: policy, round, mean, low, high."""
        import pandas as pd

        parts = []
        for policy in self.policies:
            values = self.values(policy, measure)
            low, high = student_interval(values)
            columns = {
                "policy": policy,
                "round": self._get_tables()[0],
                "mean": values.mean(axis=0),
                "low": low,
                "high": high,
            }
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    def compare(self, first: str, second: str, measure: str = "regret") -> Comparison:
        """Return the paired difference ``first - second`` at the last round: mean, low, high, p_value."""
        return paired_comparison(
            first, second, self.values(first, measure)[:, -1], self.values(second, measure)[:, -1]
        )

    def plot(self, ax: Axes | None = None, measure: str = "regret") -> Axes:
        """Draw the curves with their 95 % bands and a label at the end of each."""
        from weakfeedback.figures import plot_curves

        return plot_curves(self, ax, measure)

    def __repr__(self) -> str:
        replications = self.frame["replication"].nunique()
        words = [f"{len(self.compiled)} {'policy' if len(self.compiled) == 1 else 'policies'}"]
        words.append(f"{replications} {'replication' if replications == 1 else 'replications'}")
        horizon = self.about.get("horizon")
        if horizon is not None:
            words.append(f"{horizon} rounds")
        return f"<Results of {self.about.get('problem', 'a simulation')}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        from html import escape

        table = self.final().to_html(float_format=lambda value: f"{value:.4g}")
        return f"<p>{escape(repr(self)[1:-1])}; final regret with 95 % intervals:</p>{table}"

    def labelled(
        self, experiment: str, instance: str, parameters: Mapping[str, str], about: dict[str, Any]
    ) -> Results:
        """Return the results with columns that say what each row is of, and more in ``about``."""
        named = self.frame["policy"].astype(str).map(parameters)
        labels: dict[str, Any] = {
            "experiment": experiment,
            "instance": instance or "own",
            "parameters": named,
        }
        frame = self.frame.assign(**labels).astype(dict.fromkeys(labels, "category"))
        return Results(frame, self.compiled, self.about | about, self.reasons)

    def save(self, path: str | Path) -> None:
        """Write the rows as Parquet, in one piece, with the text of the policies' classes among ``about``."""
        write_atomically(Path(path), writer_of_results(self.frame, self.compiled, self.reasons, self.about))

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read what ``save`` wrote; raise a one-line ``ValueError`` for a damaged file or any other file."""
        return cls(*read_results(Path(path)))


def _as_rows(marks: np.ndarray, measured: dict[str, dict[str, np.ndarray]]) -> pd.DataFrame:
    import pandas as pd

    parts = []
    for policy, measures in measured.items():
        replications = next(iter(measures.values())).shape[0]
        columns: dict[str, Any] = {
            "policy": pd.Categorical([policy] * (replications * marks.size), categories=list(measured)),
            "replication": np.repeat(np.arange(replications), marks.size),
            "round": np.tile(marks, replications),
        }
        columns.update((name, values.reshape(-1)) for name, values in measures.items())
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _as_tables(frame: pd.DataFrame) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
    import pandas as pd

    marks = np.sort(frame["round"].unique())
    numbers = [name for name in frame.columns[3:] if pd.api.types.is_numeric_dtype(frame[name])]
    columns = {name: frame[name].to_numpy() for name in numbers}
    measured = {
        policy: {name: values[rows].reshape(-1, marks.size) for name, values in columns.items()}
        for policy, rows in _order_by_policy(frame).items()
    }
    return marks, measured


def _order_by_policy(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return by policy where its rows are, ordered by replication and round."""
    policies, replications, rounds = (frame[name] for name in LABELS)
    order = np.lexsort((rounds.to_numpy(), replications.to_numpy()))
    codes = policies.cat.codes.to_numpy()[order]
    return {policy: order[codes == code] for code, policy in enumerate(policies.cat.categories)}


# -- the file: written with a digest, and checked completely before it is used


def writer_of_results(
    frame: pd.DataFrame, compiled: dict[str, bool], reasons: dict[str, str], about: dict[str, Any]
) -> Callable[[Path], None]:
    """Return a function that writes the rows as Parquet into a file, with the rest as JSON metadata."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    words = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
    text = json.dumps({"version": __version__, "compiled": compiled, "reasons": reasons, "about": about})
    return writer_of(table, {**words, KEY: text})


def read_results(path: Path) -> tuple[pd.DataFrame, dict[str, bool], dict[str, Any], dict[str, str]]:
    """Return rows, ``compiled``, ``about`` and ``reasons`` as written; a one-line ``ValueError`` for any other file."""
    try:
        table, words = read_table(path)
        kept = json.loads(words[KEY])
        compiled, about, reasons = kept["compiled"], kept["about"], kept["reasons"]
        frame = table.replace_schema_metadata(None).to_pandas()
    except OSError as error:
        raise _loading_error(path, error.strerror or "cannot be read") from None
    except Damaged as error:
        raise _loading_error(path, f"damaged, or not a file written by Results.save: {error}") from None
    except (KeyError, TypeError, ValueError, NotImplementedError, RecursionError):
        raise _loading_error(path, "not a file written by Results.save") from None
    wrong = _wrong_words(compiled, reasons, about) or _wrong_rows(frame, compiled)
    if wrong:
        raise _loading_error(path, f"not a file written by Results.save: {wrong}")
    return frame, compiled, about, reasons


def _loading_error(path: Path, reason: str) -> ValueError:
    return ValueError(f"cannot load results from {path}: {reason}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_words(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)


# Keys of ``about`` that pages and tables use; users may add other keys.
KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("horizon", "seed"), _is_count),
    **dict.fromkeys(("setting", "problem", "experiment", "title", "instance", "command"), _is_text),
    **dict.fromkeys(("file", "method", "key", "stands_in_for"), _is_text),
    **dict.fromkeys(("facts", "sources"), _is_table),
    "versions": _is_words,
    "description": _is_pairs,
}


def _wrong_words(compiled: Any, reasons: Any, about: Any) -> str:
    """Return what is wrong with the metadata, or ""."""
    if not isinstance(compiled, dict) or not all(isinstance(how, bool) for how in compiled.values()):
        return "compiled is not a table of policies"
    if not _is_words(reasons) or not reasons.keys() <= compiled.keys():
        return "reasons is not a table of policies"
    if not isinstance(about, dict):
        return "about is not a table"
    if "horizon" not in about:
        return "horizon is missing"
    wrong = [name for name, right in KINDS.items() if name in about and not right(about[name])]
    if wrong:
        return f"{wrong[0]} has the wrong type"
    return "horizon is too large" if about["horizon"] >= LARGE else ""


def _wrong_rows(frame: pd.DataFrame, compiled: dict[str, Any]) -> str:
    """Return what is wrong with the rows, or "": every policy has every mark of every replication once."""
    import pandas as pd

    if not frame.columns.is_unique or tuple(frame.columns[:3]) != LABELS:
        return "it has the wrong columns"
    if "regret" not in frame.columns or not len(frame):
        return "it has no regret"
    if not isinstance(frame["policy"].dtype, pd.CategoricalDtype):
        return "its policies are not categories"
    if (
        any(frame[name].dtype.kind not in "iu" for name in LABELS[1:])
        or frame["regret"].dtype.kind not in "iuf"
    ):
        return "its columns have the wrong types"
    if set(frame["policy"].cat.categories) != set(compiled):
        return "its policies are not those in its metadata"
    marks = np.sort(frame["round"].unique())
    order = _order_by_policy(frame)
    for policy in compiled:
        rows = order[policy]
        if not rows.size or rows.size % marks.size:
            return f"it has not all rows of {brief(policy)}"
        seen = frame["replication"].to_numpy()[rows].reshape(-1, marks.size)
        rounds = frame["round"].to_numpy()[rows].reshape(-1, marks.size)
        if (seen != seen[:, :1]).any() or (np.diff(seen[:, 0]) <= 0).any() or (rounds != marks).any():
            return f"it has not all rows of {brief(policy)}"
    return ""
