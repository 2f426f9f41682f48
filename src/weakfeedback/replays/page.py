"""The page of a replay: one file, no scripts, light and dark by the system."""

# ruff: noqa: E501

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from weakfeedback._version import __version__

if TYPE_CHECKING:
    from weakfeedback.replays.run import Replay, Way

STYLE = """
:root{--bg:#f5f7fa;--card:#fff;--ink:#16202c;--quiet:#5a6675;--line:#dfe4ea;--gain:#177245;--limit:#a93226;--dot:#3874a0;
--mark:#e3f4ea;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--bg:#10161d;--card:#19212b;--ink:#e8edf3;--quiet:#9aa7b6;--line:#2c3744;
--gain:#5cc98d;--limit:#f0887d;--dot:#7fb6df;--mark:#17382a}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main,footer{max-width:76rem;margin:0 auto;padding:1rem}h1{font-size:1.5rem;margin:.4rem 0}h2{font-size:1.05rem;margin:0 0 .4rem}
.quiet,footer,caption{color:var(--quiet);font-size:.9rem}.say{font-size:1.35rem;font-weight:650;max-width:60ch;line-height:1.3}
.cards{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:1rem;margin:0 0 1rem;min-width:0}
.big{font-size:1.7rem;font-weight:700;margin:.2rem 0}.gain{color:var(--gain)}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line);text-align:right;
white-space:nowrap}th:first-child,td:first-child{text-align:left}tr.ours{background:var(--mark);font-weight:600}
svg{width:100%;height:auto;display:block}svg text{fill:var(--quiet);font-size:13px}.big small{font-size:1rem;font-weight:500}pre{overflow-x:auto;background:var(--bg);
border:1px solid var(--line);border-radius:.4rem;padding:.7rem}
"""
WIDE, HIGH, LEFT, BELOW = 560, 300, 46, 34


def page_of(found: Replay) -> str:
    """Return the page as HTML."""
    name = f"<code>{escape(found.source)}</code>: " if found.source else ""
    million = 1e6 / found.requests
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Would it save us money?</title><style>{STYLE}</style></head><body><main>
<h1>Would it save us money?</h1>
<p class="quiet">{name}{found.requests:,} requests, {len(found.models)} models, reference {escape(found.reference)}; {found.limit}.
Played in the order of the log; intervals over random orders of it.</p>
<p class="say">{escape(found.headline())}</p>
<p class="quiet">For a million requests like these: {_money(found.promise.spent * million)} instead of
{_money(found.reference_alone * million)}.</p>
<div class="cards">{_promise(found)}{_money_card(found)}{_risk(found)}</div>
<div class="cards"><section class="card"><h2>Money against agreement</h2>
<p class="quiet">Each point is a whole replay. To the right: safer. Down: cheaper.</p>{_frontier(found)}</section>
<section class="card"><h2>How soon does it pay?</h2>
<p class="quiet">Money of each tenth of the requests, share of {escape(found.reference)} alone. The first ones are spent on finding
out.</p>{_course(found.promise)}</section></div>
<section class="card"><h2>Every way to answer these {found.requests:,} requests</h2>{_ways(found)}</section>
{_groups(found)}
<section class="card"><h2>What this replay cannot tell</h2><ul>
<li>Whether two answers <em>mean</em> the same: here they were the same if equal.</li>
<li>Waiting: a cheap model first, then the reference takes longer than the reference alone.</li>
<li>Tomorrow's requests. If they are harder, the reference is called more often; the promise stays, on average over its coins.</li>
<li>Fewer than 1000 requests tell little. You have {found.requests:,}.</li></ul></section>
</main><footer>weakfeedback {__version__}: replayed from recorded answers; nothing was sent anywhere. This page is one file.</footer>
</body></html>
"""


def _money(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{100 * value:.1f}&nbsp;%"


def _promise(found: Replay) -> str:
    way = found.promise
    words = (
        f"At least <b>{100 * found.agree:g}&nbsp;%</b> of the answers as from {escape(found.reference)}."
        if found.agree
        else found.limit
    )
    bound = (
        ""
        if way.differ_at_most is None
        else f" Live it could have certified at most {_share(way.differ_at_most)}, 95&nbsp;% sure, whatever the models do."
    )
    low, high = way.differ_interval
    return f"""<section class="card"><h2>The promise</h2><p>{words}</p><p class="big">{_share(way.differ)} <small>differ</small></p>
<p class="quiet">Counted, as the log holds every answer; {_share(low)} to {_share(high)} over orders.{bound}</p></section>"""


def _money_card(found: Replay) -> str:
    way = found.promise
    saved = found.reference_alone - way.spent
    answers = ", ".join(
        f"{escape(name)} {100 * part:.0f}&nbsp;%"
        for name, part in zip(found.models, way.answered)
        if part >= 0.005
    )
    low, high = way.spent_interval
    return f"""<section class="card"><h2>The money</h2><p class="big{" gain" if saved > 0 else ""}">{_money(abs(saved))}
<small>{"saved" if saved >= 0 else "more"}, {abs(100 * found.saved_share):.0f}&nbsp;%</small></p>
<p>{escape(found.reference)} alone {_money(found.reference_alone)}, with the promise {_money(way.spent)} ({_money(low)} to
{_money(high)} over orders).</p><p class="quiet">Answers: {answers}.</p></section>"""


def _risk(found: Replay) -> str:
    way, alone = found.promise, found.alone[found.models.index(found.reference)]
    worth = ""
    if way.differ > 0 and found.reference_alone > way.spent:
        price = (found.reference_alone - way.spent) / (way.differ * found.requests)
        worth = f"<p>Worth it while a differing answer costs you less than <b>{_money(price)}</b>.</p>"
    if way.errors is None or alone.errors is None:
        return f"""<section class="card"><h2>The risk</h2><p class="big">at most {_share(way.differ)}</p><p>more wrong answers than
{escape(found.reference)}. Whether {escape(found.reference)} is right is not known.</p>{worth}</section>"""
    more = way.errors - alone.errors
    return f"""<section class="card"><h2>The risk</h2><p class="big">{100 * more:+.1f} <small>points more wrong than
{escape(found.reference)}</small></p><p>{_share(way.errors)} wrong against {_share(alone.errors)}. It cannot be more than the
{_share(way.differ)} that differ.</p>{worth}</section>"""


def _frontier(found: Replay) -> str:
    ways = [
        *((f"{100 * level:g} %", way) for level, way in found.frontier),
        *((way.name, way) for way in found.alone),
    ]
    least = min(1.0 - way.differ for _, way in ways)
    least = min(0.8, int(10 * least) / 10)
    most = max(1.0, *(way.spent / found.reference_alone for _, way in ways))

    def x(way: Way) -> float:
        return LEFT + (1.0 - way.differ - least) / (1.0 - least) * (WIDE - LEFT - 70)

    def y(way: Way) -> float:
        return 24 + (1.0 - way.spent / found.reference_alone / most) * (HIGH - BELOW - 24)

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        level = 24 + (1.0 - share / most) * (HIGH - BELOW - 24)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDE}" y1="{level:.1f}" y2="{level:.1f}" stroke="var(--line)"/>'
        )
        parts.append(f'<text x="0" y="{level + 4:.1f}">{100 * share:.0f} %</text>')
    for k in range(5):
        share = least + k * (1.0 - least) / 4
        place = LEFT + k * (WIDE - LEFT - 70) / 4
        parts.append(f'<text x="{place:.1f}" y="{HIGH - 14}" text-anchor="middle">{100 * share:.0f} %</text>')
    line = " ".join(f"{x(way):.1f},{y(way):.1f}" for _, way in found.frontier)
    parts.append(f'<polyline points="{line}" fill="none" stroke="var(--dot)" stroke-width="2"/>')
    for k, (name, way) in enumerate(ways):
        kind = "var(--dot)" if k < len(found.frontier) else "var(--quiet)"
        parts.append(f'<circle cx="{x(way):.1f}" cy="{y(way):.1f}" r="5" fill="{kind}"/>')
        end = ' text-anchor="end"' if k >= len(found.frontier) and x(way) > WIDE / 2 else ""
        shift = -9 if end else 9
        parts.append(
            f'<text x="{x(way) + shift:.1f}" y="{y(way) + (14 if end else -6):.1f}"{end}>{escape(name)}</text>'
        )
    rows = "".join(
        f"<tr><td>{100 * level:g}&nbsp;%</td><td>{_share(1 - way.differ)}</td><td>{_share(way.spent / found.reference_alone)}</td></tr>"
        for level, way in found.frontier
    )
    return f"""<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="Money against agreement; the numbers stand in the table">
{"".join(parts)}</svg><details><summary>The numbers</summary><table><thead><tr><th>promise</th><th>the same</th><th>of the
reference's money</th></tr></thead><tbody>{rows}</tbody></table></details>"""


def _course(way: Way) -> str:
    most = max(1.0, *way.course)
    step = (WIDE - LEFT) / len(way.course)
    bars = "".join(
        f'<rect x="{LEFT + k * step + 3:.1f}" width="{step - 6:.1f}" y="{210 - 180 * share / most:.1f}" '
        f'height="{180 * share / most:.1f}" fill="var(--dot)"/><text x="{LEFT + (k + 0.5) * step:.1f}" '
        f'y="{204 - 180 * share / most:.1f}" text-anchor="middle">{100 * share:.0f}</text>'
        for k, share in enumerate(way.course)
    )
    return f'<svg viewBox="0 0 {WIDE} 220" role="img" aria-label="Money by tenths of the log, in per cent">{bars}</svg>'


def _ways(found: Replay) -> str:
    errors = found.promise.errors is not None
    rows = []
    for way in found.ways():
        low, high = way.spent_interval
        span = f"{_money(low)} to {_money(high)}" if high > low else ""
        cells = [
            _money(way.spent),
            span,
            f"{100 * (1 - way.spent / found.reference_alone):.0f}&nbsp;%",
            _share(way.differ),
        ]
        cells += [_share(way.errors)] if way.errors is not None else []
        cells.append("" if way.differ_at_most is None else _share(way.differ_at_most))
        ours = ' class="ours"' if way is found.promise else ""
        rows.append(
            f"<tr{ours}><td>{escape(way.name)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        )
    head = [
        "way",
        "money",
        "over orders",
        "saved",
        "differ",
        *(["wrong"] if errors else []),
        "certified live",
    ]
    prices = ", ".join(f"{escape(name)} {price:g}" for name, price in zip(found.models, found.prices))
    return f"""<p class="quiet">Prices as given: {prices}.</p><div class="scroll" tabindex="0"><table><thead><tr>
{"".join(f"<th>{word}</th>" for word in head)}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>
<p class="quiet">"Differ" means from {escape(found.reference)}, counted. "Wrong" comes from the truth, which no decision has seen.</p>"""


def _groups(found: Replay) -> str:
    if not found.promise.by_group:
        return ""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{_share(part)}</td></tr>"
        for name, part in found.promise.by_group.items()
    )
    return f"""<section class="card"><h2>By group</h2><p class="quiet">The promise is for all requests together; one group may
differ more.</p><div class="scroll"><table><thead><tr><th>group</th><th>differ</th></tr></thead><tbody>{rows}</tbody></table></div>
</section>"""
