"""The page of a replay: one file, no scripts, light and dark by the system."""

# ruff: noqa: E501

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from weakfeedback._version import __version__

if TYPE_CHECKING:
    from weakfeedback.replays.run import Replay, Way

STYLE = """
:root{--bg:#f6f7f9;--card:#fff;--ink:#1b2430;--quiet:#5b6675;--line:#dfe3e8;--gain:#1a6f48;--limit:#b3372f;--dot:#3a76a0;--two:#8b5f9c;
--alone:#9a6a00;--mark:#e3f4ea;--gauge:#cfdbe8;--shade:rgb(20 30 45/14%);color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2028;--ink:#e6eaf0;--quiet:#9aa6b4;--line:#2c343f;--gain:#63c492;
--limit:#ef8a80;--dot:#5b9ccb;--two:#bf9acb;--alone:#e3ab5c;--mark:#17342a;--gauge:#2f4152;--shade:rgb(0 0 0/55%)}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
header{background:var(--card);border-bottom:1px solid var(--line);padding:.7rem 1.5rem;font-weight:650}header span{color:var(--quiet);font-weight:400;margin-left:.8rem}
main,footer{max-width:1240px;margin:0 auto;padding:1.25rem 1.5rem}h1{font-size:1.6rem;line-height:1.2;margin:0}h2{font-size:1.02rem;margin:0 0 .5rem}
p{margin:0 0 .5rem;max-width:78ch}p.wide{max-width:none}.quiet,footer,.under{color:var(--quiet);font-size:.85rem}.under{display:block;font-weight:400}
.say{font-size:1.5rem;line-height:1.35;font-weight:600;max-width:60ch;margin:.9rem 0 1.2rem;text-wrap:pretty}.say em{font-style:normal;color:var(--gain)}
.say small{display:block;font-size:.95rem;font-weight:400;color:var(--quiet);margin-top:.35rem}
.cards,.half{display:grid;gap:1rem;grid-template-columns:repeat(3,minmax(0,1fr))}.half{grid-template-columns:repeat(2,minmax(0,1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem 1.15rem;margin:0 0 1rem;min-width:0}
.big{font-size:1.75rem;font-weight:650;margin:0 0 .25rem;line-height:1.2}.big small{font-size:.95rem;font-weight:500}.gain{color:var(--gain)}
dl{display:grid;grid-template-columns:1fr auto;gap:.25rem .8rem;margin:.6rem 0 .8rem;font-size:.92rem}dt{color:var(--quiet)}dd{margin:0;text-align:right;font-weight:600}
.sum{border-top:1px solid var(--line);padding-top:.25rem;color:var(--ink)}
.gauge{position:relative;height:76px;margin:.9rem 0 .5rem;font-size:.78rem;color:var(--quiet)}.gauge *{position:absolute}.gauge b{position:static;color:var(--ink)}
.gauge span{white-space:nowrap;transform:translateX(-50%)}.gauge .track,.gauge .sure{left:0;top:26px;height:14px;border-radius:7px}
.gauge .track{right:0;background:var(--bg);border:1px solid var(--line)}.gauge .sure{background:var(--gauge)}
.gauge .est{top:23px;width:20px;height:20px;margin-left:-10px;border-radius:50%;background:var(--dot);border:3px solid var(--card)}
.gauge .lim{top:14px;height:36px;border-left:2px dashed var(--limit)}
.plot{position:relative;height:250px;margin:1.3rem .6rem 2rem 3.2rem;font-size:.8rem;color:var(--quiet)}.plot svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.plot>*{position:absolute;white-space:nowrap}.plot .grid{left:0;right:0;border-top:1px solid var(--line)}.plot .y{right:100%;margin-right:.5rem;transform:translateY(50%)}
.plot .x{top:100%;margin-top:.35rem;transform:translateX(-50%)}.plot .p{width:11px;height:11px;margin:0 0 -5px -5px;border-radius:50%;background:var(--card);border:2px solid var(--dot)}
.plot .two{border-color:var(--two)}.plot .alone{border-radius:2px;background:var(--alone);border-color:var(--alone)}.plot .now{background:var(--dot);width:15px;height:15px;margin:0 0 -7px -7px}
.plot .v{top:0;bottom:0;border-left:2px dashed var(--limit)}.plot .l{transform:translateY(50%);background:var(--card);padding:0 .2rem;line-height:1.2}.plot .l.now{width:auto;height:auto;margin:0;background:var(--card);color:var(--ink);font-weight:650}
.plot .promised{color:var(--limit);font-weight:600;top:.6rem;margin-right:.5rem}.bars{height:150px}.bars i{background:var(--dot);bottom:0}
.bars b{transform:translateX(-50%);color:var(--ink)}.legend{list-style:none;margin:0;padding:0;font-size:.85rem;color:var(--quiet)}
.legend i{display:inline-block;width:10px;height:10px;border-radius:50%;margin-right:.5rem}
.scroll{overflow-x:auto;background:linear-gradient(to left,var(--card) 40%,transparent) 100% 0/3rem 100% no-repeat local,linear-gradient(to left,var(--shade),transparent) 100% 0/.8rem 100% no-repeat scroll}.more{display:none;text-align:right;font-size:.8rem;color:var(--quiet)}
table{border-collapse:collapse;width:100%;font-size:.92rem}th,td{padding:.42rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap;font-weight:400;font-variant-numeric:tabular-nums}
thead th{color:var(--quiet);font-size:.8rem}tr>:first-child{text-align:left}tr.ours>*,.scroll tr.ours>:first-child{background:var(--mark);font-weight:600}
pre{overflow-x:auto;background:var(--bg);border:1px solid var(--line);border-radius:8px;padding:.75rem 1rem;font-size:13px;margin:0 0 .6rem}ul,ol{padding-left:1.2rem;margin:0}summary{cursor:pointer;color:var(--quiet)}
@media (max-width:900px){.cards,.half{grid-template-columns:minmax(0,1fr);gap:0}}
@media (max-width:700px){header{padding:.6rem .8rem}main,footer{padding:1rem .8rem}.say{font-size:1.2rem}.more{display:block}.card{padding:.9rem .95rem}
.scroll tr>:first-child{position:sticky;left:0;background:var(--card);white-space:normal;min-width:7.6rem;max-width:8.4rem}.plot{margin-left:2.9rem}.plot .wide{display:none}}
"""
FEW = 20  # per cent of the gauge, at least


def page_of(found: Replay) -> str:
    """Return the page as HTML."""
    name = f"<code>{escape(found.source)}</code>: " if found.source else ""
    million = 1e6 / found.requests
    spent = escape(found.paid(found.promise.spent))
    said = escape(found.headline()).replace(f"cost {spent} instead", f"cost <em>{spent}</em> instead")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Would it save us money?</title><style>{STYLE}</style></head><body><header>weakfeedback<span>replay</span></header><main>
<h1>Would it save us money?</h1>
<p class="quiet wide">{name}{found.requests:,} requests, {len(found.models)} models, reference {escape(found.reference)}; {found.limit}.
Played in the order of the log; intervals over random orders of it.</p>
<p class="say">{said}<small>For a million requests like these: {escape(found.paid(found.promise.spent * million))} instead of
{escape(found.paid(found.reference_alone * million))}.</small></p>
<div class="cards">{_promise(found)}{_money_card(found)}{_risk(found)}</div>
<div class="half"><section class="card"><h2>Money against agreement</h2>
<p class="quiet">Each point is a whole replay. Across: answers the same as {escape(found.reference)}'s, to the right is safer. Up: money,
share of {escape(found.reference)} alone.</p>{_frontier(found)}</section>
<div><section class="card"><h2>How soon does it pay?</h2>
<p class="quiet">Money of each tenth of the requests, share of {escape(found.reference)} alone. The first ones are spent on finding
out.</p>{_course(found.promise)}</section>
<section class="card"><h2>What this replay cannot tell</h2><ul>
<li>Whether two answers <em>mean</em> the same: here they were the same if equal.</li>
<li>Waiting: a cheap model first, then the reference takes longer than the reference alone.</li>
<li>Tomorrow's requests. If they are harder, the reference is called more often; the promise stays, on average over its coins.</li>
<li>Fewer than 1000 requests tell little. You have {found.requests:,}.</li></ul></section></div></div>
<section class="card"><h2>Every way to answer these {found.requests:,} requests</h2>{_ways(found)}</section>
{_groups(found)}{_next(found)}
</main><footer>weakfeedback {__version__}: replayed from recorded answers; nothing was sent anywhere. This page is one file.</footer>
</body></html>
"""


def money(value: float) -> str:
    """Return an amount with three or more digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{100 * value:.1f}&nbsp;%"


def _promise(found: Replay) -> str:
    way = found.promise
    words = found.limit
    if found.agree:
        words = (
            f"At least <b>{100 * found.agree:g}&nbsp;%</b> of the answers as from {escape(found.reference)}."
        )
    low, high = way.differ_interval
    bound = ""
    if way.differ_at_most is not None:
        bound = f" Live it would have estimated {_share(way.differ_estimate or 0.0)} and certified at most {_share(way.differ_at_most)}, 95&nbsp;% sure, whatever the models do."
    return f"""<section class="card"><h2>The promise</h2><p>{words}</p>{_gauge(found)}
<p class="quiet">{_share(way.differ)} differ, {round(way.differ * found.requests):,} of {found.requests:,}: counted, as the log holds every
answer; {_share(low)} to {_share(high)} over orders.{bound}</p></section>"""


def _gauge(found: Replay) -> str:
    """Draw what differs, what could have been certified, and what may differ."""
    way = found.promise
    allowed = 0.0 if not found.agree else 1.0 - found.agree
    sure = way.differ if way.differ_at_most is None else way.differ_at_most
    whole = max(FEW / 100 * 0.5, math.ceil(1.2 * 100 * max(allowed, sure, way.differ)) / 100)
    at = {
        name: 100 * value / whole for name, value in (("est", way.differ), ("sure", sure), ("lim", allowed))
    }
    label = f"Answers that differ: {100 * way.differ:.1f} %"
    limit = (
        f'<i class="lim" style="left:{at["lim"]:.1f}%"></i><span style="left:{at["lim"]:.1f}%;top:-4px;color:var(--limit);font-weight:600">{100 * allowed:g}&nbsp;% may differ</span>'
        if found.agree
        else ""
    )
    apart = at["sure"] - at["est"] > 45
    under = f'<span style="left:{min(max(at["est"], 17), 83):.1f}%;top:54px">counted <b>{_share(way.differ)}</b></span>'
    if way.differ_at_most is not None and apart:
        under += (
            f'<span style="left:{min(at["sure"], 83):.1f}%;top:54px">at most <b>{_share(sure)}</b></span>'
        )
    return f"""<div class="gauge" role="img" aria-label="{label}"><i class="track"></i><i class="sure" style="width:{at["sure"]:.1f}%"></i>{limit}
<i class="est" style="left:{at["est"]:.1f}%"></i><span style="left:0;top:-4px;transform:none">0</span>
<span style="left:100%;top:-4px;transform:translateX(-100%)">{100 * whole:.0f}&nbsp;%</span>{under}</div>"""


def _money_card(found: Replay) -> str:
    way = found.promise
    saved = found.reference_alone - way.spent
    answers = ", ".join(
        f"{escape(name)} {100 * part:.0f}&nbsp;%"
        for name, part in zip(found.models, way.answered)
        if part >= 0.005
    )
    low, high = way.spent_interval
    word = "saved" if saved >= 0 else "more"
    return f"""<section class="card"><h2>The money</h2><p class="big{" gain" if saved > 0 else ""}">{escape(found.paid(abs(saved)))}
<small>{word}, {abs(100 * found.saved_share):.0f}&nbsp;%</small></p>
<dl><dt>{escape(found.reference)} alone</dt><dd>{money(found.reference_alone)}</dd><dt>With the promise</dt><dd>− {money(way.spent)}</dd>
<dt class="sum">{word.capitalize()}</dt><dd class="sum">{money(abs(saved))}</dd></dl>
<p class="quiet">{money(low)} to {escape(found.paid(high))} over orders of the log. Answers: {answers}.</p></section>"""


def _risk(found: Replay) -> str:
    way, alone = found.promise, found.alone[found.models.index(found.reference)]
    worth = ""
    if way.differ > 0 and found.reference_alone > way.spent:
        price = (found.reference_alone - way.spent) / (way.differ * found.requests)
        worth = f"<p>Worth it while a differing answer costs you less than <b>{escape(found.paid(price))}</b>.</p>"
    if way.errors is None or alone.errors is None:
        return f"""<section class="card"><h2>The risk</h2><p class="big">at most {_share(way.differ)}</p><p>more wrong answers than
{escape(found.reference)}. Whether {escape(found.reference)} is right is not known.</p>{worth}</section>"""
    more = 100 * (way.errors - alone.errors)
    points = f"{abs(more):.1f}" if more < 0 else f"{more:+.1f}"
    return f"""<section class="card"><h2>The risk</h2><p class="big">{points} <small>points {"fewer" if more < 0 else "more"} wrong than
{escape(found.reference)}</small></p><p>{_share(way.errors)} wrong against {_share(alone.errors)}. It cannot be more than the
{_share(way.differ)} that differ.</p>{worth}<p class="quiet">Past requests. If tomorrow's are harder, it calls {escape(found.reference)}
more often and saves less; the promise stays.</p></section>"""


def _frontier(found: Replay) -> str:
    """Draw money against agreement; labels are text, so that they can be read on every screen."""
    every = [way for _, way in (*found.frontier, *found.frontier_before)] + found.alone
    least = min(0.95, math.floor(20 * min(1.0 - way.differ for way in every)) / 20)
    most = max(1.0, *(way.spent / found.reference_alone for way in every))

    def place(way: Way) -> tuple[float, float]:
        """Return left and bottom, in per cent."""
        share = (1.0 - way.differ - least) / (1.0 - least)
        return 100 * share, 100 * way.spent / found.reference_alone / most

    parts = [_line(share, most) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    step = next(step for step in (0.01, 0.05, 0.1, 0.25) if (1.0 - least) / step <= 5.01 or step == 0.25)
    parts += [
        f'<span class="x" style="left:{100 - 100 * k * step / (1.0 - least):.1f}%">{100 * (1 - k * step):.0f}&nbsp;%</span>'
        for k in range(int((1.0 - least) / step + 1.01))
    ]
    lines = []
    for ways, colour, dash in (
        (found.frontier_before, "var(--two)", "5 4"),
        (found.frontier, "var(--dot)", "none"),
    ):
        points = " ".join(f"{left:.2f},{100 - up:.2f}" for left, up in (place(way) for _, way in ways))
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" vector-effect="non-scaling-stroke"/>'
        )
    parts.append(
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{"".join(lines)}</svg>'
    )
    if found.agree and found.agree >= least:
        left = 100 * (found.agree - least) / (1.0 - least)
        parts.append(
            f'<i class="v" style="left:{left:.1f}%"></i><span class="promised" style="right:{100 - left:.1f}%">promised {100 * found.agree:g}&nbsp;%</span>'
        )
    for kind, ways in (("two", found.frontier_before), ("", found.frontier)):
        parts += [_point(kind, *place(way)) for _, way in ways]
    for way in found.alone:
        left, up = place(way)
        parts.append(_point("alone", left, up) + _label(escape(way.name), left, up, left > 70))
    left, up = place(found.promise)
    money_share = f"{100 * found.promise.spent / found.reference_alone:.0f}&nbsp;%"
    parts.append(
        _point("now", left, up)
        + _label(f"{money_share}<span class='wide'> of the money</span>", left, up, left > 45, "now")
    )
    rows = "".join(
        f"<tr><td>{100 * level:g}&nbsp;%</td><td>{_share(1 - way.differ)}</td><td>{_share(way.spent / found.reference_alone)}</td>"
        f"<td>{_share(1 - before.differ)}</td><td>{_share(before.spent / found.reference_alone)}</td></tr>"
        for (level, way), (_, before) in zip(found.frontier, found.frontier_before)
    )
    return f"""<div class="plot" role="img" aria-label="Money against agreement; the numbers stand in the table">{"".join(parts)}</div>
<ul class="legend"><li><i style="background:var(--dot)"></i>decided after the cheap answer, by its score</li>
<li><i style="background:var(--two)"></i>decided before the call</li><li><i style="background:var(--alone)"></i>a model alone</li></ul>
<details><summary>The numbers</summary><div class="scroll"><table><thead><tr><th>promise</th><th>the same</th><th>money, of the reference's</th>
<th>before the call: the same</th><th>money</th></tr></thead><tbody>{rows}</tbody></table></div></details>"""


def _line(share: float, most: float) -> str:
    """Draw a line across at a share of the money, with its number."""
    up = f"bottom:{100 * share / most:.1f}%"
    return f'<i class="grid" style="{up}"></i><span class="y" style="{up}">{100 * share:.0f}&nbsp;%</span>'


def _point(kind: str, left: float, up: float) -> str:
    return f'<i class="p {kind}" style="left:{left:.1f}%;bottom:{up:.1f}%"></i>'


def _label(words: str, left: float, up: float, before: bool, kind: str = "") -> str:
    side = f"right:{100 - left + 2.5:.1f}%" if before else f"left:{left + 2.5:.1f}%"
    return f'<span class="l {kind}" style="{side};bottom:{up:.1f}%">{words}</span>'


def _course(way: Way) -> str:
    most = max(1.0, *way.course)
    wide = 100 / len(way.course)
    parts = [_line(share, most) for share in (0.0, 0.5, 1.0)]
    for k, share in enumerate(way.course):
        up = 100 * share / most
        parts.append(
            f'<i style="left:{(k + 0.14) * wide:.1f}%;width:{0.72 * wide:.1f}%;height:{up:.1f}%"></i>'
            f'<b style="left:{(k + 0.5) * wide:.1f}%;bottom:{up + 1:.1f}%">{100 * share:.0f}</b><span class="x" style="left:{(k + 0.5) * wide:.1f}%">{k + 1}</span>'
        )
    label = ", ".join(f"{100 * share:.0f} %" for share in way.course)
    return f'<div class="plot bars" role="img" aria-label="{label}">{"".join(parts)}</div>'


def _ways(found: Replay) -> str:
    errors = found.promise.errors is not None
    rows = []
    for way in found.ways():
        low, high = way.spent_interval
        cells = [
            money(way.spent),
            f"{money(low)} to {money(high)}" if high > low else "–",
            "–"
            if way is found.alone[found.models.index(found.reference)]
            else f"{100 * (1 - way.spent / found.reference_alone):.0f}&nbsp;%".replace("-", "−"),
            _share(way.differ),
            *([_share(way.errors)] if way.errors is not None else []),
            "–" if way.differ_at_most is None else _share(way.differ_at_most),
            money(way.spent * 1e6 / found.requests),
        ]
        ours = ' class="ours"' if way is found.promise else ""
        name, _, under = way.name.partition(", ")
        under = f"decided {under or 'after the cheap answer'}" if name == "promise" else under
        under = "the reference" if name == f"{found.reference} alone" else under
        small = f'<span class="under">{escape(under)}</span>' if under else ""
        rows.append(
            f"<tr{ours}><td>{escape(name)}{small}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        )
    wrong = ["wrong"] if errors else []
    unit = escape(found.currency or "money")
    head = ["way", unit, "over orders", "saved", "differ", *wrong, "certified live", f"{unit} for a million"]
    prices = ", ".join(f"{escape(name)} {price:g}" for name, price in zip(found.models, found.prices))
    truth = ' "Wrong" comes from the truth, which no decision has seen.' if errors else ""
    return f"""<p class="quiet">Prices as given: {prices}{escape(" " + found.currency) if found.currency else ""}.</p><div class="scroll" tabindex="0" role="region" aria-label="All ways, scrolls sideways"><table><thead><tr>
{"".join(f"<th>{word}</th>" for word in head)}</tr></thead><tbody>{"".join(rows)}</tbody></table></div><p class="more" aria-hidden="true">swipe: more columns →</p>
<p class="quiet wide">"Differ" means from {escape(found.reference)}, and is counted: the log holds every answer. "Certified live" is what a learner that sees
only its own comparisons could have proved.{truth} The router and the adaptive rule were told that an error costs {escape(found.paid(found.price_of_error))}; they promise nothing about agreement.</p>"""


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


def _next(found: Replay) -> str:
    """Say what to do with this."""
    level, way = next((one for one in found.frontier if one[0] == 0.98), found.frontier[-1])
    less = 100 * (1 - way.spent / found.reference_alone)
    models, prices = ",".join(found.models), ",".join(f"{price:g}" for price in found.prices)
    file = found.source or "log.csv"
    again = f"weakfeedback replay {file} --models {models} \\\n  --prices {prices} --reference {found.reference} --agree {level:g}"
    limits = [one.split(" = ") for one in found.limit.split(", ")]
    agree = "\n".join(
        f"{name} = {1000 * float(value):g}   # for 1000 requests" if name == "budget" else f"{name} = {value}"
        for name, value in limits
    )
    shadow = f'[[learner]]\nname = "first"\n{agree}\nreference = "{found.reference}"\nshadow = true      # for now\n# and a [[learner.stage]] for each model'
    calls = ", ".join(f"call_{k + 1}" for k in range(len(found.models)))
    listed = ", ".join(f"{price:g}" for price in found.prices)
    program = (
        f"from weakfeedback import Cascade\n\ncascade = Cascade([{calls}], {found.limit.replace(' = ', '=')}, reference={found.reference!r},\n"
        f"                  stage_costs=[{listed}],\n                  names={list(found.models)!r})\n"
        "answer = cascade(request).label\nprint(cascade.report())"
    )
    return f"""<section class="card"><h2>Next steps</h2><ol>
<li><p><b>Ask again</b> with another promise. At {100 * level:g}&nbsp;% it would have been {escape(found.paid(way.spent))}, {abs(less):.0f}&nbsp;%
{"less" if less >= 0 else "more"} than {escape(found.reference)} alone.</p><pre tabindex="0">{escape(again)}</pre></li>
<li><p><b>Look first</b>, on live requests, without risk: <code>weakfeedback serve</code> with a learner in the shadow.</p>
<pre tabindex="0">{escape(shadow)}</pre></li>
<li><p><b>Or in your program</b>, with a function that calls each model:</p><pre tabindex="0">{escape(program)}</pre></li></ol></section>"""
