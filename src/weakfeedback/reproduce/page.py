"""The pages of a reproduction: a summary with all claims, and one page per chapter with its tables and experiments."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weakfeedback.engine.results import Results
from weakfeedback.experiments.judge import needed
from weakfeedback.experiments.model import Claim, Experiment, Part, Verdict
from weakfeedback.experiments.userrun import versions
from weakfeedback.figures import sweep_figure
from weakfeedback.plaintext import counted, visible
from weakfeedback.report import tables
from weakfeedback.report.page import (
    VERDICTS,
    Gallery,
    Section,
    page_folder,
    render,
    section_view,
    thin,
    write_page,
)
from weakfeedback.report.sources import Sources, module_of
from weakfeedback.reproduce.headlines import FAILED, HELD, HOLDS, SURPRISED
from weakfeedback.reproduce.medical import SETS
from weakfeedback.reproduce.registry import Chapter, Choice, pattern, replications, short_names
from weakfeedback.reproduce.stored import Manifest

THESIS = "Sequential decision problems with weak feedback"
INDEX = "index.html"
POINTS, FEWEST = 100, 12  # points of a curve on these pages, which have many curves
LARGEST = 2_000_000  # maximum size of a page in bytes
ARGUED = "argued only"


def write_reproduction(
    folder: Path,
    choice: Choice,
    note: Manifest,
    verdicts: Sequence[tuple[Claim, Verdict]],
    results: Mapping[str, Results],
) -> list[Path]:
    """Write the pages and the figures into ``folder``, index.html last; return the paths, index.html first.

    index.html is the summary with all claims; each chapter has a page, and so have the method and the code.
    """
    gallery = Gallery(page_folder(folder), alone=False)
    maker = _Maker(choice, note, verdicts, results, gallery)
    shown = choice.chapters()
    pages = [
        (INDEX, "Summary"),
        *((_address(chapter), f"{chapter.heading}: {chapter.title}") for chapter in shown),
        ("method.html", "How verdicts are made"),
        ("code.html", "Documentation and code"),
    ]
    common = {"pages": pages, "versions": versions()}
    warnings = _warnings(choice, note)
    views, paths = [], []
    for chapter in shown:
        view = maker.chapter(chapter)
        first = len(gallery.figures)
        content = _fit_page(
            gallery.figures[view.pop("figures_from") : first],
            "chapter.html.j2",
            **common,
            here=_address(chapter),
            title=f"{chapter.heading}: {chapter.title}",
            warnings=warnings,
            chapter=view,
        )
        paths.append(write_page(folder, content, _address(chapter)))
        views.append(view)
    how = {"here": "method.html", "title": "How verdicts are made", "how": _explain_method(verdicts)}
    paths.append(write_page(folder, render("method.html.j2", **common, **how), "method.html"))
    code = {"here": "code.html", "title": "Documentation and code", "sources": maker.sources.views()}
    paths.append(write_page(folder, render("code.html.j2", **common, **code), "code.html"))
    _remove_others(folder, {address for address, _ in pages})
    content = render(
        "summary.html.j2",
        **common,
        here=INDEX,
        title=_title(maker.claims.values()),
        words=_describe_run(choice, note, results),
        warnings=warnings,
        summary=_summary(maker.claims),
        columns=_columns(views),
        facts=_facts(choice, note, results),
        tally=_tally(maker.claims.values()),
        claims=list(maker.claims.values()),
        chapters=[{**view, "counts": _counts(view, _columns(views))} for view in views],
    )
    return [write_page(folder, content), *paths, *gallery.paths]


def _fit_page(figures: Sequence[dict[str, Any]], template: str, **words: Any) -> str:
    """Return a page of at most ``LARGEST`` bytes; very large pages get fewer points per curve."""
    points = POINTS
    content = render(template, **words)
    while len(content.encode()) > LARGEST and points > FEWEST:
        points //= 2
        thin(figures, points)
        content = render(template, **words)
    return content


def _address(chapter: Chapter) -> str:
    return f"{chapter.names[0]}.html"


def _remove_others(folder: Path, kept: set[str]) -> None:
    """Remove the pages of chapters that an earlier reproduction in this folder had."""
    for address in (f"{name}.html" for name in short_names()):
        if address not in kept:
            (folder / address).unlink(missing_ok=True)


def _title(claims: Iterable[dict[str, Any]]) -> str:
    """Return the title of the page, which promises no more than was found."""
    outcomes = [claim["outcome"] for claim in claims]
    if not outcomes:
        return f"{THESIS}: experiments without claims"
    held = sum(outcome in HOLDS for outcome in outcomes)
    return f"{THESIS}: {held} of {counted(len(outcomes), 'claim')} reproduced"


def _summary(claims: Mapping[int, dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Return half a page: what holds, what does not, what was unexpected; only what this run shows."""
    outcomes = {number: claim["outcome"] for number, claim in claims.items()}
    counts = Counter(outcomes.values())
    read = f", {counts['with-reading']} of them as interpreted" if counts["with-reading"] else ""
    held, failed = counts["reproduced"] + counts["with-reading"], counts["not-reproduced"]
    parts = [
        ("What holds", f"{counted(held, 'claim')} {'holds' if held == 1 else 'hold'}{read}.", HELD),
        (
            "What does not",
            f"{counted(failed, 'claim')} {'does' if failed == 1 else 'do'} not hold, and "
            f"{counts['inconclusive']} {'is' if counts['inconclusive'] == 1 else 'are'} undecided.",
            FAILED,
        ),
        ("What surprised", "", SURPRISED),
    ]
    made = []
    for heading, count, headlines in parts:
        told = [one for one in headlines if one.true_of(outcomes)]
        sentences = [
            {"words": one.words, "claims": [(n, claims[n]["address"]) for n in one.claims]} for one in told
        ]
        if (count and outcomes) or sentences:
            made.append((heading, count, sentences))
    return made


def _columns(views: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the verdicts that occur, as columns of a table."""
    found = {(word, label) for view in views for word, label, _ in view["tally"]}
    return [pair for pair in [*VERDICTS.items(), ("skipped", ARGUED)] if pair in found]


def _counts(view: dict[str, Any], columns: Sequence[tuple[str, str]]) -> list[int]:
    counts = {(word, label): count for word, label, count in view["tally"]}
    return [counts.get(pair, 0) for pair in columns]


class _Maker:
    """Makes the data for the templates, chapter by chapter."""

    def __init__(
        self,
        choice: Choice,
        note: Manifest,
        verdicts: Sequence[tuple[Claim, Verdict]],
        results: Mapping[str, Results],
        gallery: Gallery,
    ) -> None:
        self.choice, self.note, self.results, self.gallery = choice, note, results, gallery
        self.sources = Sources()
        family = _count_tests(verdicts)
        self.claims = {claim.number: _claim_view(claim, verdict, family) for claim, verdict in verdicts}

    def chapter(self, chapter: Chapter) -> dict[str, Any]:
        """Return a chapter with its tables, claims and experiments."""
        first = len(self.gallery.figures)
        claims = [self.claims[claim.number] for claim in self.choice.claims(chapter)]
        chosen = [
            experiment for experiment in self.choice.experiments if experiment.id in chapter.experiments
        ]
        places: dict[str, list[Experiment]] = {}
        for experiment in chosen:
            places.setdefault(experiment.place, []).append(experiment)
        for claim in claims:
            served = dict.fromkeys(e.place for e in chosen if e.id in claim["experiments"])
            claim["groups"] = [(_anchor(chapter, place), place) for place in served]
            claim["code"] = self.sources.loaded(claim["tested_in"])
            claim["address"] = f"{_address(chapter)}#claim-{claim['number']}"
        return {
            "figures_from": first,
            "address": _address(chapter),
            "number": chapter.number,
            "heading": chapter.heading,
            "title": chapter.title,
            "tally": _tally(claims),
            "tables": [self._table(table) for table in self.choice.tables(chapter)],
            "claims": claims,
            "groups": [self._group(chapter, place, some, claims) for place, some in places.items()],
        }

    def _table(self, table: Any) -> dict[str, Any]:
        read = needed(table, self.results)
        shown = {name: getattr(table, name) for name in ("id", "title", "place", "columns", "note")}
        return {**shown, "rows": [list(row) for row in table.rows(read)]}

    def _group(
        self, chapter: Chapter, place: str, some: list[Experiment], claims: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the experiments of one figure or passage."""
        played = [experiment for experiment in some if experiment.id in self.results]
        common = [note for note in some[0].deviations if all(note in e.deviations for e in some)]
        sweeps: dict[tuple[str, str], list[Experiment]] = {}
        for experiment in played:
            if experiment.swept is not None:
                sweeps.setdefault(experiment.swept, []).append(experiment)
        return {
            "key": _anchor(chapter, place),
            "place": place[0].upper() + place[1:],
            "claims": [c for c in claims if {e.id for e in some}.intersection(c["experiments"])],
            "deviations": [_sentence(note) for note in common],
            "sweeps": [self._sweep(swept, group) for swept, group in sweeps.items()],
            "cards": [self._card(e, common) for e in played if e.swept is None],
            "skipped": [(e.id, self.note.skipped[e.id]) for e in some if e.id in self.note.skipped],
        }

    def _card(self, experiment: Experiment, common: list[str]) -> dict[str, Any]:
        results = self.results[experiment.id]
        results.about["command"] = self._command([experiment.id])
        notes = [_sentence(note) for note in experiment.deviations if note not in common]
        section = Section(experiment.id, experiment.title, results, notes=notes, measures=experiment.measures)
        return {**section_view(section, self.gallery, POINTS), "code": self._code([experiment])}

    def _sweep(self, swept: tuple[str, str], some: list[Experiment]) -> dict[str, Any]:
        """Return one figure for experiments that differ in one number."""
        fact, axis = swept
        by_value = {float(self.results[e.id].about["facts"][fact]): self.results[e.id] for e in some}
        key = (
            pattern([e.id for e in some])[0].rstrip("*-") + f"-by-{re.sub(r'[^a-z0-9]+', '-', fact.lower())}"
        )
        first = some[0]
        figures = []
        for k, measure in enumerate(first.measures):
            name = key if k == 0 else f"{key}-{measure.replace('_', '-')}"
            words = f"Mean {measure} in the last round against {axis}, with 95 % bands"
            figures.append(self.gallery.add(name, sweep_figure(by_value, axis, measure), words))
        repeated = sorted({int(r.final()["replications"].iloc[0]) for r in by_value.values()})
        meta = f"{len(some)} experiments · {first.horizon:,} rounds · {repeated[0]:,} replications · seed {first.seed}"
        return {
            "key": key,
            "title": f"{', '.join(first.policies)} against {axis}",
            "meta": meta,
            "axis": axis,
            "measure": first.measures[0],
            "figures": figures,
            "rows": [
                {"x": value, **row}
                for value in sorted(by_value)
                for row in tables.final_rows(by_value[value], first.measures[0])
            ],
            "command": self._command([e.id for e in some]),
            "code": self._code(some),
        }

    def _code(self, some: Sequence[Experiment]) -> list[tuple[str, str]]:
        """Return links to the code: the policies, then the experiments."""
        policies = [link for e in some for link in self.sources.stored(self.results[e.id].about)]
        makers = [make for e in some for make in e.policies.values()]
        return list(dict.fromkeys([*policies, *self.sources.loaded(map(module_of, makers))]))

    def _command(self, ids: Sequence[str]) -> str:
        return shlex.join(["weakfeedback", "reproduce", "--only", *pattern(ids), *self.note.options])


def _count_tests(verdicts: Sequence[tuple[Claim, Verdict]]) -> int:
    parts = (part for _, verdict in verdicts for part in verdict.parts)
    return sum(not math.isnan(p) for part in parts for p in (part.p_for, part.p_against))


def _claim_view(claim: Claim, verdict: Verdict, family: int) -> dict[str, Any]:
    return {
        "number": claim.number,
        "words": claim.words,
        "lines": claim.lines,
        "how": claim.how,
        "experiments": claim.experiments,
        "tested_in": [module_of(claim.test)] if claim.test else [],
        "outcome": verdict.outcome,
        "label": ARGUED if claim.how == ARGUED else VERDICTS[verdict.outcome],
        "reason": verdict.reason,
        "ours": claim.ours,
        "remains": claim.remains if verdict.outcome == "not-reproduced" else "",
        "deciding": _describe_test(verdict, family),
        "parts": [_part_view(part) for part in verdict.parts],
        "groups": [],
        "code": [],
        "address": "",
        "text": _search_text(claim, verdict),
    }


def _search_text(claim: Claim, verdict: Verdict) -> str:
    """Return the text that a search looks through: as written, not as typeset."""
    label = ARGUED if claim.how == ARGUED else VERDICTS[verdict.outcome]
    words = f"{claim.number} {claim.words} {label} {claim.how} {verdict.reason} {claim.remains} {claim.ours}"
    return visible(" ".join(words.lower().split()))


def _tally(claims: Iterable[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Count the claims by verdict; claims that are only argued are separate from those without data."""
    counts = Counter((claim["outcome"], claim["label"]) for claim in claims)
    labels = [*VERDICTS.items(), ("skipped", ARGUED)]
    return [(word, label, counts[word, label]) for word, label in labels if counts[word, label]]


def _part_view(part: Part) -> dict[str, Any]:
    label = VERDICTS[part.outcome].replace("reproduced", "holds").replace("not holds", "fails")
    return {**dataclasses.asdict(part), "label": label if part.counts else f"{label}, not counted"}


def _describe_test(verdict: Verdict, family: int) -> str:
    """Describe the deciding test in one line."""
    if math.isnan(verdict.p_value):
        return ""
    words = f"The deciding test: estimate {tables.number(verdict.effect)}"
    if not math.isnan(verdict.low):
        words += f" (95 % interval {tables.number(verdict.low)} to {tables.number(verdict.high)})"
    p = tables.p_value(verdict.p_value)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    return f"{words}, {p} after Holm's correction over {family} tests, n = {verdict.n}."


def _anchor(chapter: Chapter, place: str) -> str:
    return f"{chapter.names[0]}-" + re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")


def _sentence(note: str) -> str:
    return note[0].upper() + note[1:] + ("" if note.endswith(".") else ".")


def _describe_run(choice: Choice, note: Manifest, results: Mapping[str, Results]) -> str:
    played = [experiment for experiment in choice.experiments if experiment.id in results]
    rounds = sum(e.horizon * replications(e, note.quick) * len(e.policies) for e in played)
    played_in_all = f"{rounds / 1e6:,.0f} million" if rounds >= 10_000_000 else f"{rounds:,}"
    return (
        f"Every claim of the thesis in its words, with the experiment that tests it and what came out. "
        f"{counted(len(choice.experiments), 'experiment')}, {played_in_all} simulated rounds."
    )


def _warnings(choice: Choice, note: Manifest) -> list[str]:
    found = []
    if note.quick:
        found.append(
            "A quick run: a tenth of the replications, at least 5. Intervals are wider and more claims are "
            "inconclusive than in the full run."
        )
    if not choice.complete():
        found.append(
            f"Only {counted(len(choice.experiments), 'experiment')} of the reproduction: verdicts rest on these alone, "
            "and a claim that needs others too is at best inconclusive."
        )
    missing = [SETS[name] for name, digest in note.data.items() if not digest]
    if missing:
        found.append(
            f"Without the data of {' and '.join(missing)}: breast-cancer data that come with scikit-learn stand in "
            "where an instance plays the same role, and the rest is skipped."
        )
    return found


def _facts(choice: Choice, note: Manifest, results: Mapping[str, Results]) -> list[tuple[str, str]]:
    given = [
        ("Medical data", ", ".join(f"{SETS[k]}: {'yes' if v else 'missing'}" for k, v in note.data.items()))
    ]
    only = [] if choice.complete() else ["--only", *pattern([e.id for e in choice.experiments])]
    command = shlex.join(["weakfeedback", "reproduce", *only, *note.options])
    return [*given, ("Experiments run", f"{len(results)}"), ("Made by", command)]


def _explain_method(verdicts: Sequence[tuple[Claim, Verdict]]) -> list[str]:
    tests = _count_tests(verdicts)
    return [
        "A claim is split into tests, one for each instance or step that it is about. In a simulated claim the value "
        "of every replication is one observation. All policies play on the same worlds, so they are compared by paired "
        "differences, with one-sided t-tests; the intervals shown are Student's, 95 %, two-sided and not corrected.",
        "Each test asks two questions: is the claim supported, and is it contradicted? So equal regret contradicts "
        '"lower" only once the sample is large enough to exclude a difference of 5 %. If neither question is answered, '
        'the part is "inconclusive"; missing evidence never counts as a failure.',
        f"The p-values of all questions of all claims on this page, {tests} of them, are one family, corrected by "
        "Holm's method: with probability at least 95 % none of them is rejected wrongly.",
        "A claim about every instance is not reproduced if one part fails, inconclusive if one part is inconclusive, "
        'and otherwise reproduced. "As interpreted" means that it holds if its words are read as stated. Computed '
        "claims and properties need no test: they hold, or there is a counterexample. Parts marked "
        '"not counted" are shown for comparison and do not change the verdict.',
        "Some interpretations and margins were fixed after a first look at the numbers, among them those of claims 3, "
        "9, 10, 12, 23, 37, 40, 44, 69, 83, 94, 100 and 102: their verdicts are weaker evidence. Comments in the code "
        "give the details.",
        'The line "Ours" says what in a test is not from the thesis: values that it does not print, classifiers, '
        "instances. A verdict that rests on these is also about them. Where a claim is not reproduced, the line "
        '"What remains" says which part of it is true. The theorems of chapter 2 are also in papers with co-authors '
        "(AISTATS 2019, ACML 2020).",
    ]
