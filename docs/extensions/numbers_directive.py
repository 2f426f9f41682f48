"""The directives ``numbers`` and ``curves``: stored results as a table or a figure, read when the site is built.

    ```{numbers} ch2-compare-*
    :policies: USS-TS, USS-UCB
    ```

takes experiments by id or pattern and shows the mean of a measure in the last round, with its 95 % interval, by
experiment and policy. With ``:table: ID`` it shows a table of the reproduction instead, made from these experiments.
``curves`` draws one experiment, with the limit of regret as a dashed line where the problem
has one. Results come from the folder that ``weakfeedback reproduce --out`` writes (the setting
``results_folder``). If they are absent the build fails with one line that says how to make them; without a folder,
as for a page built alone, a line replaces them.
"""

import fnmatch
import shlex
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from weakfeedback.figures import curve_figure
from weakfeedback.report.pictures import draw
from weakfeedback.report.tables import cell
from weakfeedback.reproduce.registry import chapters, experiments, pattern
from weakfeedback.reproduce.stored import Manifest, NotAReproduction, StoredResults, rows_of

MAKE = "make them with `make docs`, or with `weakfeedback reproduce --quick --out {}`"


POINTS = 100  # of a curve
SHARES = ("optimal", "really_equivalent")  # a Student interval may leave [0, 1]; the truth cannot


class Absent(ExtensionError):
    """Stored results that a page needs are missing; the message is one line."""


def words(text):
    """Return the words of an option, separated by semicolons or, if there is none, by commas."""
    mark = ";" if ";" in text else ","
    return [word.strip() for word in text.split(mark) if word.strip()]


class Numbers(SphinxDirective):
    """A table of means with intervals, and a line on what made them."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {
        "policies": words,
        "measure": directives.unchanged,
        "called": directives.unchanged,
        "table": directives.unchanged,
    }

    def run(self):
        """Return the table and its caption."""
        chosen = self.experiments()
        if not self.config.results_folder:
            return [nodes.paragraph(text=f"(Numbers of {self.arguments[0]}: `make docs` fills them in.)")]
        note, kept = stored(self.config.results_folder)
        absent = [e.id for e in chosen if e.id not in note.keys and e.id not in note.skipped]
        if absent:
            raise Absent(
                f"{self.env.docname}: no stored results of {absent[0]} in {self.config.results_folder}; "
                + MAKE.format(self.config.results_folder)
            )
        for name in (e.id for e in chosen if e.id in note.keys):  # new results rebuild the page
            self.env.note_dependency(str(rows_of(Path(self.config.results_folder), name).resolve()))
        measure = self.options.get("measure", "regret")
        labels = self.options.get("policies") or self.all_labels(chosen)
        try:
            shown = [(e, kept[e.id] if e.id in note.keys else None) for e in chosen]
        except NotAReproduction as error:
            raise Absent(f"{self.env.docname}: {error}") from None
        if "table" in self.options:
            return [self.whole_table(shown), self.caption(shown, note, "")]
        table = self.table(shown, labels, measure)
        return [table, self.caption(shown, note, measure)]

    def whole_table(self, shown):
        """Return a table of the reproduction, from the experiments that were played."""
        known = {table.id: table for chapter in chapters() for table in chapter.tables}
        name = self.options["table"]
        if name not in known:
            raise ExtensionError(f"{self.env.docname}: no table is called {name!r}")
        rows = known[name].rows({e.id: results for e, results in shown if results is not None})
        table = build_table(known[name].columns, [[cell(value) for value in row] for row in rows])
        table["classes"].append("words")  # cells may hold sentences
        return table

    def experiments(self):
        """Return the experiments that the argument names, in the order of the thesis."""
        known, named = experiments(), self.arguments[0].split()
        for word in named:
            if not fnmatch.filter(known, word):
                raise ExtensionError(f"{self.env.docname}: no experiment is called {word!r}")
        return [e for name, e in known.items() if any(fnmatch.fnmatchcase(name, word) for word in named)]

    def all_labels(self, chosen):
        return list(dict.fromkeys(label for experiment in chosen for label in experiment.policies))

    def table(self, shown, labels, measure):
        head = ["experiment", *labels]
        rows = [[self.name_of(e, results), *cells(results, labels, measure)] for e, results in shown]
        return build_table(head, rows)

    def name_of(self, experiment, results):
        name = experiment.id.split("-", 1)[1]
        replaced = results is not None and results.about.get("stands_in_for")
        return f"{name} (played on {results.about['instance']})" if replaced else name

    def caption(self, shown, note, measure):
        played = [(e, r) for e, r in shown if r is not None]
        ids = [e.id for e, _ in shown]
        chosen = " ".join(shlex.quote(word) for word in pattern(ids))
        command = ["weakfeedback", "reproduce", *note.options, "--only", chosen]
        rounds = span({r.about["horizon"] for _, r in played})
        repeated = span({r.values(r.policies[0]).shape[0] for _, r in played})
        seeds = ", ".join(str(s) for s in sorted({e.seed for e, _ in played}))
        called = self.options.get("called", f"{measure.replace('_', ' ')}")
        text = (
            f"{rounds} rounds, {repeated} replications, seed {seeds}."
            if "table" in self.options
            else f"Mean {called} after {rounds} rounds with its 95 % interval (Student t over {repeated} replications, "
            f"seed {seeds})."
        )
        text += (
            f" Filled in from stored results when this page was built; made by version {note.version} with "
        )
        paragraph = nodes.paragraph(
            "", "", nodes.Text(text), nodes.literal("", " ".join(command)), nodes.Text(".")
        )
        paragraph["classes"].append("made-by")
        return paragraph


class Curves(Numbers):
    """A figure of the mean of a measure over rounds, drawn as in the pages of a reproduction."""

    def table(self, shown, labels, measure):
        (experiment, results), *others = shown
        if others:
            raise ExtensionError(
                f"{self.env.docname}: curves draws one experiment, {self.arguments[0]} are more"
            )
        if results is None:
            return nodes.paragraph(text=f"({experiment.id}: no data.)")
        _, svg = draw(curve_figure(results, measure, POINTS))
        text = svg.decode()
        picture = text[text.index("<svg") :]  # without the head of a file: it stands inside a page
        alt = f"{measure} over rounds on {self.name_of(experiment, results)}"
        return nodes.raw(
            "", f'<div class="curves" role="img" aria-label="{alt}">{picture}</div>', format="html"
        )


def cells(results, labels, measure):
    """Return one cell per policy."""
    if results is None:
        return ["no data"] + [""] * (len(labels) - 1)
    final = results.final(measure)
    if measure in SHARES:
        final = final.clip(lower=0.0, upper=1.0)
    return [interval(final.loc[label]) if label in final.index else "" for label in labels]


def interval(row):
    """Return mean and interval with as many digits as are significant.

    >>> interval({"mean": 131.43, "low": 124.0, "high": 138.7}), interval({"mean": 0.953, "low": 0.91, "high": 1.0})
    ('131 (124 to 139)', '0.95 (0.91 to 1.00)')
    """
    largest = max(abs(row["low"]), abs(row["high"]))
    digits = 0 if largest >= 100 else 1 if largest >= 10 else 2
    mean, low, high = (f"{row[word]:,.{digits}f}" for word in ("mean", "low", "high"))
    return mean if low == high else f"{mean} ({low} to {high})"


def span(values):
    """Return a number, or the range of several.

    >>> span({100}), span({20, 100})
    ('100', '20 to 100')
    """
    if not values:
        return "no"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def build_table(head, rows):
    """Return a table of words."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    top, body = nodes.thead(), nodes.tbody()
    top += table_row(head)
    body += [table_row(row) for row in rows]
    group += [top, body]
    return nodes.table("", group, classes=["numbers"])


def table_row(words):
    """Return a row of cells."""
    row = nodes.row()
    row += [nodes.entry("", nodes.paragraph(text=word)) for word in words]
    return row


_read = {}


def stored(folder):
    """Return the note and the results of the reproduction in a folder, read once."""
    if folder not in _read:
        try:
            note = Manifest.read(Path(folder))
        except NotAReproduction as error:
            raise Absent(f"the docs show stored results, but {error}; {MAKE.format(folder)}") from None
        _read[folder] = (note, StoredResults(Path(folder), note.keys))
    return _read[folder]


def check_early(app):
    """Fail before any page is read."""
    _read.pop(app.config.results_folder, None)
    if app.config.results_folder:
        stored(app.config.results_folder)


def setup(app):
    """Make the directive known to Sphinx."""
    app.add_config_value("results_folder", "", "env", (str,))
    app.add_directive("numbers", Numbers)
    app.add_directive("curves", Curves)
    app.connect("builder-inited", check_early)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
