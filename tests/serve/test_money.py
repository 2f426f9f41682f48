"""What the page says about money and time: sums that add up, whole axes from the first minute, both sides of it."""

import json
import math
import random
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rig.harness import CASCADE, ROUTER, serving
from tests.rig.server import Process
from tests.serve.test_page import ADAPTIVE, ALLOCATION, CONTEXTUAL, paged, play, text_of

from weakfeedback.client import Client
from weakfeedback.journal import Event
from weakfeedback.serve.activity import Activity
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.page import view
from weakfeedback.serve.page.bars import bars_of, round_top
from weakfeedback.serve.page.calling import calls_of
from weakfeedback.serve.page.money import added_up, headline, other_side, totals
from weakfeedback.serve.page.routes import watch_of

NOW = 1_794_852_245_000_000


@given(st.lists(st.floats(0.0, 1e6), max_size=8), st.integers(0, 6))
def test_rounded_parts_add_up_to_the_rounded_sum(parts, decimals):
    shown = [float(text.replace(",", "")) for text in added_up(parts, decimals)]
    scale = 10**decimals
    assert round(sum(shown) * scale) == round(sum(parts) * scale)
    for part, text in zip(parts, shown):
        assert abs(part - text) <= 1.0 / scale + 1e-9


def decided(watch, at, stage=0):
    watch.see(Event(0, at, "decide", 1, None, {"stage": stage}))
    watch.see(Event(1, at, "feedback", 1, None, {"differ": [], "digest": ""}))


@pytest.mark.parametrize("span", view.SPANS)
@pytest.mark.parametrize("age", [0, 1, 59, 3600, 86_400 * 2, 86_400 * 30])
def test_axes_are_whole_from_the_first_minute(span, age):
    length, step = view.SPANS[span]
    created = NOW - age * 1_000_000
    watch = Activity("cascade", ["a", "b"], [5, 6])
    decided(watch, NOW, 1)
    made = view.charts({"disagreement": None}, watch, span, NOW, created)
    assert len(made["at"]) == length // step
    assert made["to"] - made["from"] == length
    assert made["at"][-1] <= NOW / 1e6 < made["at"][-1] + step  # the running step is there
    for line in made["money"]:
        for at, value in zip(made["at"], line["values"]):
            assert (value is None) == (at + step <= created // 1_000_000)
    assert made["money"][0]["values"][-1] == watch.spent == 11.0
    for line in made["pairs"]:
        assert [x is None for x in line["share"]][:-1] == [True] * (len(made["at"]) - 1)
    assert all(row["at"] for row in view.table_of(made)["rows"])
    bars = bars_of(watch, length, step, NOW, created)
    assert [rect["running"] for rect in bars["rects"]] == [True]
    assert bars["rects"][0]["x"] + bars["rects"][0]["width"] <= 100.0
    assert bars["total"] == "1"
    expected = 100.0 * (created / 1e6 - made["from"]) / length
    assert bars["before"] == pytest.approx(min(max(expected, 0.0), 100.0), abs=0.001)
    assert bool(bars["made"]) == (bars["before"] > 0.0)
    assert len(bars["ticks"]) >= 5
    assert all(0.0 <= tick["x"] <= 100.0 for tick in bars["ticks"])


def test_bars_count_what_was_decided():
    watch, dice, sums = Activity("cascade", ["a", "b", "c"], [1, 2, 3]), random.Random(1), [0, 0, 0]
    for at in sorted(dice.randrange(NOW - 3_000_000_000, NOW) for _ in range(500)):
        stage = dice.randrange(3)
        sums[stage] += 1
        decided(watch, at, stage)
    bars = bars_of(watch, 3600, 60, NOW, NOW - 7_200_000_000)
    assert [entry["count"] for entry in bars["legend"]] == [str(n) for n in sums]
    top = float(bars["grid"][-1]["label"])
    for k, n in enumerate(sums):
        drawn = sum(rect["height"] for rect in bars["rects"] if rect["stage"] == k)
        assert drawn * top / 100.0 == pytest.approx(n, abs=0.01)
    for rect in bars["rects"]:
        assert 0.0 <= rect["y"] <= 100.0
        assert rect["y"] + rect["height"] <= 100.0 + 0.01


@given(st.floats(0.0, 1e9))
def test_the_top_of_an_axis_is_round_and_high_enough(value):
    top = round_top(value)
    assert value <= top <= max(4.0, 5.0 * value)
    assert float(f"{top:.0e}") == top


def report_of(saved, share=0.1, low=0.05, high=0.2, comparisons=100, error=1.0, kind="router"):
    return {
        "name": "support",
        "kind": kind,
        "currency": "USD",
        "spent": 10.0,
        "saved": {"amount": saved, "share": saved / (10.0 + saved), "against": "b alone"},
        "disagreement": [
            {
                "pair": [0, 1],
                "share": share,
                "low": low,
                "high": high,
                "comparisons": comparisons,
                "pays_above": 0.5,
            }
        ],
        "details": {"error_cost": error},
    }


def told(report, stops=(80, 20)):
    watch = Activity("router", ["a", "b"], [1, 2])
    watch.stops, watch.decided = list(stops), sum(stops)
    other = other_side(report, watch, Invoice(2))
    return other, headline(report, watch, other)


def test_the_other_side_stands_beside_the_saving():
    """80 answers of a, of which 10 % differ, at all times between 2.9 and 22.8 %: 2 to 19 answers."""
    other, said = told(report_of(20.0))
    assert (other["about"], other["low"], other["high"], other["of"]) == ("8", "2", "19", "100")
    assert (other["worth"], other["worth_about"]) == ("1.10 USD", "2.50 USD")
    assert (other["net"], other["open"]) == ("1.80 to 38.20 USD", False)
    assert said["rest"] == "instead of 30.00 USD, and about 92 of 100 answers are the same as b\u2019s."
    early = told(report_of(20.0, comparisons=49))[1]
    assert early["rest"] == "instead of 30.00 USD."  # too early to speak of the answers
    other, _ = told(report_of(20.0, error=2.0))
    assert (other["net"], other["open"]) == ("\u221216.40 to 56.40 USD", True)  # grey: nothing is proved


def test_what_was_never_compared_may_all_differ():
    other, _ = told(report_of(20.0, share=None, low=0.0, high=1.0, comparisons=0))
    assert (other["low"], other["high"]) == ("0", "80")
    other, said = told(report_of(-3.0), stops=(0, 100))
    assert other["nothing"]
    assert other["worth"] == ""
    assert said["lost"]
    assert said["rest"] == "where b alone would have cost 7.00 USD."


def test_totals_need_one_currency():
    assert totals([("USD", 1.0, 2.0), ("EUR", 1.0, 1.0)]) is None
    assert totals([]) is None
    found = totals([("USD", 1.0, 2.0), ("USD", 2.0, -3.0)])
    assert (found["spent"], found["saved"], found["alone"], found["lost"]) == (
        "3.00 USD",
        "\u22121.00 USD",
        "2.00 USD",
        True,
    )


@pytest.mark.parametrize(("name", "config"), [("triage", CASCADE), ("mail", ROUTER)])
async def test_the_list_the_page_the_text_and_the_report_say_the_same(tmp_path, name, config):
    """After new prices, cancellations and open decisions, too; without upstream models, at stated prices."""

    async with serving(tmp_path / "s.db") as (service, _):
        call = paged(service)
        await call("PUT", f"/v1/learners/{name}", {**config, "currency": "EUR", "seed": 3})
        await play(call, name, 25)
        field = "prices" if name == "mail" else "stage_costs"
        prices = [2 * x for x in config[field]]
        await call("PATCH", f"/v1/learners/{name}/costs", {field: prices})
        await play(call, name, 25)
        for _ in range(4):
            id = (await call("POST", f"/v1/learners/{name}/decide", {})).data["id"]
            await call("POST", f"/v1/learners/{name}/decisions/{id}/cancel", {"cost": 0.5})
        await call("POST", f"/v1/learners/{name}/decide", {})
        report = (await call("GET", f"/v1/learners/{name}/report")).data
        pages = [text_of(await call("GET", path)) for path in (f"/learners/{name}", "/")]
        text = await service.report_text(name)
        watch = watch_of(service.learners[name])
        report, pages, text, counted = report, pages, text, (watch.spent, watch.saved)
    assert counted == pytest.approx((report["spent"], report["saved"]["amount"]))  # the charts end there
    for page in pages:
        assert view.amount(report["spent"], "EUR") in page
        assert view.amount(abs(report["saved"]["amount"]), "EUR") in page
    assert f"spent {report['spent']:.4g}" in text
    assert math.isfinite(report["spent"])


def test_the_lines_on_the_page_call_the_learner(tmp_path, monkeypatch):
    """The lines for Python, as they stand, against a running service."""
    configs = {
        "triage": CASCADE,
        "mail": {"kind": "router", "models": ["a", "b"], "prices": [1, 20], "agree": 0.9, "seed": 3},
        "asks": ADAPTIVE,
        "patrols": ALLOCATION,
        "looks": CONTEXTUAL,
    }
    made = []

    class Kept(Client):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            made.append(self)

    monkeypatch.setattr("weakfeedback.client.Client", Kept)
    with Process(tmp_path) as server:
        address = f"http://127.0.0.1:{server.port}"
        client = Kept(address)
        for name, config in configs.items():
            client.create(name, **config)
            names = config.get("stages") or config.get("models") or config["arms"]
            lines = dict(calls_of(name, config["kind"], names, address, chat=False, token=False))
            exec(lines["Python"], {})
            assert client.learner(name).report()["rounds"] == 1
            command = lines["curl"].splitlines()[0]
            answer = subprocess.run(command, shell=True, capture_output=True, check=True, text=True).stdout
            assert json.loads(answer)["id"] == 2
        for _ in range(70):  # most decisions are by now for one model alone, and wait for no feedback
            exec(dict(calls_of("mail", "router", names, address, chat=False, token=False))["Python"], {})
        assert client.learner("mail").report()["rounds"] == 72  # with that of curl
        for one in made:
            one.close()
