"""What a simulation measured: flat rows, and the few summaries everybody needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.files import write_atomically
from weakfeedback.stats import Comparison, paired_comparison, student_interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

KEY = b"weakfeedback"


class Results:
    """Rows of measures by policy, replication and round.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns policy, replication, round, regret and the measures of the setting; all are cumulative.
    compiled : dict
        For each policy True, or the reason why it ran in the interpreter.
    about : dict
        Setting, problem, horizon and seed.
    """

    def __init__(self, frame: pd.DataFrame, compiled: dict[str, bool | str], about: dict[str, Any]) -> None:
        self.frame = frame
        self.compiled = compiled
        self.about = about

    @classmethod
    def from_counts(
        cls,
        problem: Any,
        counts: dict[str, np.ndarray],
        marks: np.ndarray,
        compiled: dict[str, bool | str],
        about: dict[str, Any],
    ) -> Results:
        """Turn counts of shape (replications, marks, counters) into rows."""
        import pandas as pd

        parts = []
        for label, table in counts.items():
            replications = table.shape[0]
            columns: dict[str, Any] = {
                "policy": pd.Categorical([label] * (replications * marks.size), categories=list(counts)),
                "replication": np.repeat(np.arange(replications), marks.size),
                "round": np.tile(marks, replications),
            }
            columns.update((name, values.reshape(-1)) for name, values in problem.measures(table).items())
            parts.append(pd.DataFrame(columns))
        return cls(pd.concat(parts, ignore_index=True), compiled, about)

    @property
    def policies(self) -> list[str]:
        """The labels, in the order given."""
        return list(self.frame["policy"].cat.categories)

    def values(self, policy: str, measure: str = "regret") -> np.ndarray:
        """One row per replication, one column per mark."""
        if policy not in self.policies:
            raise ValueError(f"policy must be one of {', '.join(self.policies)}, got {policy!r}")
        if measure not in self.frame.columns[3:]:
            raise ValueError(f"measure must be one of {', '.join(self.frame.columns[3:])}, got {measure!r}")
        rows = self.frame.loc[self.frame["policy"] == policy].sort_values(["replication", "round"])
        return rows[measure].to_numpy(dtype=float).reshape(rows["replication"].nunique(), -1)

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

        rounds = np.sort(self.frame["round"].unique())
        parts = []
        for policy in self.policies:
            values = self.values(policy, measure)
            low, high = student_interval(values)
            columns = {
                "policy": policy,
                "round": rounds,
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

    def save(self, path: str | Path) -> None:
        """Write the rows as Parquet, in one piece."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        text = json.dumps({"version": __version__, "compiled": self.compiled, "about": self.about})
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: text.encode()})
        write_atomically(Path(path), lambda part: pq.write_table(table, part))

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read what ``save`` wrote."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
            kept = json.loads((table.schema.metadata or {})[KEY])
        except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
            word = (
                error.strerror
                if isinstance(error, OSError) and error.strerror
                else "not a file written by Results.save"
            )
            raise ValueError(f"cannot load results from {path}: {word}") from None
        return cls(table.to_pandas(), kept["compiled"], kept["about"])
