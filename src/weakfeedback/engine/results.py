"""What a simulation measured: flat rows, and the few summaries everybody needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.engine.loop import measures_of
from weakfeedback.engine.resultfile import read_results, writer_of_results
from weakfeedback.files import write_atomically
from weakfeedback.stats import Comparison, paired_comparison, student_interval
from weakfeedback.validate import brief

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class Results:
    """Rows of measures by policy, replication and round.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns policy, replication, round, regret and the measures of the setting; all are cumulative.
    compiled : dict
        For each policy whether it was compiled: True or False.
    reasons : dict
        For each policy that was not compiled the reason why.
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
        # a reason may stand in the place of False: files of earlier versions have it so
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
        """Results of counts with shape (replications, marks, counters); the rows are made when asked for.

        In ``compiled`` the reason may stand where a policy was not compiled.
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
        """The rows, made when first asked for."""
        if self._frame is None:
            assert self._tables is not None
            self._frame = _as_rows(*self._tables)
        return self._frame

    @frame.setter
    def frame(self, rows: pd.DataFrame) -> None:
        self._frame, self._tables = rows, None

    def _measured(self) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
        """The marks, and for each policy and measure an array (replications, marks)."""
        if self._tables is None:
            self._tables = _as_tables(self.frame)
        return self._tables

    @property
    def policies(self) -> list[str]:
        """The labels, in the order given."""
        return list(self._measured()[1])

    def values(self, policy: str, measure: str = "regret") -> np.ndarray:
        """One row per replication, one column per mark."""
        _, measured = self._measured()
        if policy not in measured:
            raise ValueError(f"policy must be one of {', '.join(measured)}, got {brief(policy)}")
        if measure not in measured[policy]:
            raise ValueError(f"measure must be one of {', '.join(measured[policy])}, got {brief(measure)}")
        return measured[policy][measure].astype(float)

    def final(self, measure: str = "regret") -> pd.DataFrame:
        """Mean of the last round with its 95 % Student interval over replications, indexed by policy."""
        import pandas as pd

        rows = []
        for policy in self.policies:
            last = self.values(policy, measure)[:, -1]
            low, high = student_interval(last)
            rows.append((last.mean(), float(low), float(high), last.size))
        index = pd.Index(self.policies, name="policy")
        return pd.DataFrame(rows, index=index, columns=["mean", "low", "high", "replications"])

    def curve(self, measure: str = "regret") -> pd.DataFrame:
        """Mean at every mark with its 95 % Student interval: policy, round, mean, low, high."""
        import pandas as pd

        parts = []
        for policy in self.policies:
            values = self.values(policy, measure)
            low, high = student_interval(values)
            columns = {
                "policy": policy,
                "round": self._measured()[0],
                "mean": values.mean(axis=0),
                "low": low,
                "high": high,
            }
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    def compare(self, first: str, second: str, measure: str = "regret") -> Comparison:
        """The paired difference ``first - second`` in the last round: mean, low, high, p_value."""
        return paired_comparison(
            first, second, self.values(first, measure)[:, -1], self.values(second, measure)[:, -1]
        )

    def plot(self, ax: Axes | None = None, measure: str = "regret") -> Axes:
        """Draw the curves with their 95 % bands and a label at the end of each."""
        from weakfeedback.report.figures import plot_curves

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

    def save(self, path: str | Path) -> None:
        """Write the rows as Parquet, in one piece, with the text of the policies' classes among ``about``."""
        write_atomically(Path(path), writer_of_results(self.frame, self.compiled, self.reasons, self.about))

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read what ``save`` wrote; a ``ValueError`` of one line if it is damaged or something else."""
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
    measured = {}
    for policy in frame["policy"].cat.categories:
        rows = frame[frame["policy"] == policy].sort_values(["replication", "round"])
        measured[policy] = {name: rows[name].to_numpy().reshape(-1, marks.size) for name in numbers}
    return marks, measured
