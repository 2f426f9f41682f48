"""From findings to verdicts: one family of p-values, corrected once, then interpreted claim by claim."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from weakfeedback.engine.results import Results
from weakfeedback.experiments.model import Claim, Finding, Part, Run, Table, Verdict, data_of
from weakfeedback.stats import holm


def judge(claims: Iterable[Claim], results: Mapping[str, Results]) -> list[tuple[Claim, Verdict]]:
    """Judge claims by the results of a run, given by experiment id.

    All p-values of all claims judged together, for and against, are one family and are corrected by Holm's
    method. A part holds if its test for the claim rejects, fails if its test against does, and is inconclusive
    otherwise. A claim about every instance is not reproduced if one part fails, inconclusive if one is
    inconclusive, and else reproduced.
    """
    claims = list(claims)
    return conclude(claims, [claim.test(needed(claim, results)) if claim.test else None for claim in claims])


def conclude(
    claims: Sequence[Claim], findings: Sequence[Finding | None], asked: Collection[str] | None = None
) -> list[tuple[Claim, Verdict]]:
    """Return the verdicts of claims from the findings of their tests; the finding is None if a claim is argued only.

    ``asked`` are the ids of the requested experiments, by default all. A claim about every instance cannot be
    reproduced by only some of them, but it can fail; a claim that needs any one part can be reproduced by some, but
    cannot fail.
    """
    raw = [
        p for finding in findings if finding for part in finding.parts for p in (part.p_for, part.p_against)
    ]
    corrected = iter(holm(raw).tolist())
    verdicts = []
    for claim, finding in zip(claims, findings):
        if finding is None:
            verdicts.append((claim, Verdict("skipped", f"Argued only: {claim.why}")))
            continue
        parts = tuple(_decide(part, next(corrected), next(corrected), claim.level) for part in finding.parts)
        left_out = 0 if asked is None else sum(name not in asked for name in claim.experiments)
        verdicts.append((claim, _limit_verdict(claim, finding, _conclude(finding, parts), left_out)))
    return verdicts


def _limit_verdict(claim: Claim, finding: Finding, verdict: Verdict, left_out: int) -> Verdict:
    """Return the verdict when ``left_out`` of the claim's experiments were not requested."""
    final = ("not-reproduced",) if finding.rule == "every" else ("reproduced", "with-reading")
    if not left_out or verdict.outcome in ("skipped", "inconclusive", *final):
        return verdict
    words = (
        f"Undecided by a part of its experiments: {left_out} of {len(claim.experiments)} were not requested."
    )
    return dataclasses.replace(verdict, outcome="inconclusive", reason=f"{words} {verdict.reason}")


def needed(claim: Claim | Table, results: Mapping[str, Results]) -> Run:
    """Return the results that the test of a claim, or a table, reads, as far as available."""
    some = {name: results[name] for name in claim.experiments if name in results}
    return Run(some, data_of(results))


def _decide(part: Part, p_for: float, p_against: float, level: float) -> Part:
    if part.outcome:
        return part
    if p_for <= level:
        return dataclasses.replace(part, outcome="reproduced", p_value=p_for)
    if p_against <= level:
        return dataclasses.replace(part, outcome="not-reproduced", p_value=p_against)
    return dataclasses.replace(part, outcome="inconclusive", p_value=p_for)


def _conclude(finding: Finding, parts: tuple[Part, ...]) -> Verdict:
    by_outcome: dict[str, list[Part]] = {}
    for part in parts:
        if part.counts:
            by_outcome.setdefault(part.outcome, []).append(part)
    holds = by_outcome.get("reproduced", []) + by_outcome.get("with-reading", [])
    fails = by_outcome.get("not-reproduced", [])
    open_ = by_outcome.get("inconclusive", [])
    needed_first, needed_last = (holds, fails) if finding.rule == "any" else (fails, holds)
    if needed_first:
        deciding = needed_first
    elif open_:
        deciding = open_
    else:
        deciding = needed_last
    if not deciding:
        outcome = "skipped"
    elif deciding is holds:
        read = finding.reading or any(part.outcome == "with-reading" for part in holds)
        outcome = "with-reading" if read else "reproduced"
    else:
        outcome = "not-reproduced" if deciding is fails else "inconclusive"
    shown = _pick_deciding(deciding or list(parts), weakest=deciding is holds and finding.rule == "every")
    return Verdict(
        outcome,
        _reason(finding, parts, holds, fails, open_),
        *(shown.effect, shown.low, shown.high, shown.p_value, shown.n),
        parts=parts,
    )


def _pick_deciding(parts: list[Part], weakest: bool) -> Part:
    """Return the part with the largest p-value if all had to hold, else the one with the smallest."""
    known = [part for part in parts if not math.isnan(part.p_value)]
    if not known:
        return parts[0]
    return max(known, key=lambda p: p.p_value) if weakest else min(known, key=lambda p: p.p_value)


def _reason(
    finding: Finding, parts: tuple[Part, ...], holds: list[Part], fails: list[Part], open_: list[Part]
) -> str:
    counted = [part for part in parts if part.counts]
    missing = [part for part in counted if part.outcome == "skipped"]
    sentences = [finding.summary] if finding.summary else []
    if len(counted) > 1:
        sentences.append(f"Holds in {len(holds)} of {len(counted)} parts")
        for word, some in (("fails in", fails), ("undecided in", open_), ("no data for", missing)):
            if some:
                sentences[-1] += f"; {word} {', '.join(part.name for part in some)}"
        sentences[-1] += "."
    elif missing:
        sentences.append(f"No data for {missing[0].name}.")
    elif counted[0].note:
        sentences.append(f"{counted[0].note[0].upper()}{counted[0].note[1:]}.")
    if any("stand-in" in part.note for part in parts):
        sentences.append("Breast-cancer data were used instead of the missing medical data.")
    if finding.reading:
        sentences.append(f"Interpretation: {finding.reading}")
    return " ".join(sentences)
