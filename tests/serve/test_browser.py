"""The page in a real browser (T9): live, dark and light, narrow, without script, many learners, hostile names."""

import asyncio
import contextlib
import json

import pytest
from tests.rig.chrome import chrome
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER, quick
from tests.rig.processes import until
from tests.rig.sockets import listening

from weakfeedback.serve.models import CONFIG, DecideRequest, FeedbackRequest, TellRequest
from weakfeedback.serve.page import view

HOSTILE = "<script>alert(1)</script>"
LEARNERS = {
    "triage": {**CASCADE, "stages": ["rules", HOSTILE, "expert"], "currency": "<b>EUR"},
    "mail": ROUTER,
    "looks": CONTEXTUAL,
    "asks": {**CASCADE, "kind": "adaptive"},
    "patrols": ALLOCATION,
}
PAGES = ["/", *(f"/learners/{name}" for name in LEARNERS), "/learners/triage/decisions/1", "/docs", "/login"]


async def ask(service, rounds):
    """Rounds of every learner; answers differ now and then."""
    for n in range(rounds):
        for name, config in LEARNERS.items():
            if config["kind"] == "adaptive":
                step = await service.begin(name)
                while step["stage"] is not None:
                    told = TellRequest(output="xy"[n % 4 == step["stage"]], stage=step["stage"])
                    step = await service.tell(name, step["id"], told)
                continue
            context = [n % 5 / 5, 0.3] if config["kind"] == "contextual" else None
            decision = await service.decide(name, DecideRequest(context=context))
            if config["kind"] == "allocation":
                given = FeedbackRequest(observed={"north": float(n % 3 == 0)})
            elif len(decision["call"]) > 1 or config["kind"] != "router":
                given = FeedbackRequest(outputs=["x"] * (len(decision["call"]) - 1) + ["xy"[n % 4 == 0]])
            else:
                continue
            await service.feedback(name, decision["id"], given)


@contextlib.asynccontextmanager
async def loaded(path):
    """A service with a learner of each kind, and a load that goes on."""
    async with listening(path, quick(durability="process")) as (service, address):
        for name, config in LEARNERS.items():
            await service.create(name, CONFIG.validate_python({**config, "seed": 1}))
        await ask(service, 20)

        async def go_on():
            while True:
                await ask(service, 1)
                await asyncio.sleep(0.1)

        load = asyncio.ensure_future(go_on())
        try:
            yield service, address, load
        finally:
            load.cancel()


async def test_the_page_in_a_browser(tmp_path):
    async with loaded(tmp_path / "s.db") as (service, address, load), chrome(tmp_path) as tab:
        await check_all_pages(tab, address)
        await check_live(tab, address)
        await check_narrow(tab, address)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await until(lambda: all(one.committed == one.seq for one in service.learners.values()))
        await check_numbers(tab, service, address)
        await check_week(tab, address)
        await check_without_script(tab, service, address)


async def check_all_pages(tab, address):
    """No complaint, no foreign request, no hostile element, few bytes, in both colours."""
    papers = set()
    for dark in (False, True):
        for path in PAGES:
            await tab.open(address + path, dark=dark)
            if path.startswith("/learners/") and "decisions" not in path:
                await tab.until_true("document.querySelectorAll('.chart canvas').length > 0")
            assert tab.complaints() == [], path
            foreign = [url for url in tab.requests() if not url.startswith((address, "data:"))]
            assert foreign == []
            assert tab.transferred() < 100_000
            assert await tab.run("document.querySelectorAll('script:not([src])').length") == 0
            title = await tab.run("document.querySelector('h1').textContent")
            assert title
        papers.add(await tab.run("getComputedStyle(document.body).backgroundColor"))
        assert len(await tab.picture()) > 5_000
    assert len(papers) == 2


async def check_live(tab, address):
    """Numbers move by themselves, and the charts with them."""
    await tab.open(address + "/learners/triage")
    await tab.until_true("document.getElementById('pulse').textContent === 'live'")
    number = "document.querySelector('#numbers dd').textContent.replace(',', '')"
    before = int(await tab.run(number))
    await tab.until_true(f"Number({number}) > {before}")
    await tab.until_true("Number(document.documentElement.dataset.updates) >= 2")
    # what hovers and what is focused works while it is updated
    await tab.run("document.querySelector('#recent a').focus()")
    before = await tab.run("document.documentElement.dataset.updates")
    await tab.until_true(f"document.documentElement.dataset.updates > {before}")
    assert await tab.run("document.activeElement.textContent") == "why?"
    assert tab.complaints() == []
    await tab.open(address + "/")
    await tab.until_true("Number(document.documentElement.dataset.updates) >= 2")
    assert tab.complaints() == []


async def check_narrow(tab, address):
    """On a phone nothing sticks out."""
    for path in PAGES:
        await tab.open(address + path, width=390, height=844, settle=0.1)
        assert await tab.run("document.documentElement.scrollWidth") <= 390, path


async def check_numbers(tab, service, address):
    """What is shown is what the report says."""
    report = await service.report("triage")
    await tab.open(address + "/learners/triage")
    shown = await tab.run("document.getElementById('main').innerText")
    assert view.amount(report["spent"], "<b>EUR") in shown
    assert view.amount(abs(report["saved"]["amount"]), "<b>EUR") in shown
    assert HOSTILE in shown  # as text
    rounds = await tab.run("document.querySelectorAll('#numbers dd')[1].textContent")
    assert rounds == view.count(report["rounds"])
    charts = json.loads(await tab.run("document.getElementById('charts').dataset.charts"))
    assert charts["names"] == ["rules", HOSTILE, "expert"]
    await tab.open(address + "/")
    row = await tab.run("document.getElementById('row-triage').innerText")
    assert view.amount(report["saved"]["amount"], "<b>EUR") in row


async def check_week(tab, address):
    """What a young learner has so far is in its charts of 7 days, as dots: one step makes no line."""
    coloured = """[...document.querySelectorAll('.chart canvas')].map((one) => {
        const seen = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;
        let found = 0;
        for (let k = 0; k < seen.length; k += 4) {
            const shades = [seen[k], seen[k + 1], seen[k + 2]];
            found += seen[k + 3] > 200 && Math.max(...shades) - Math.min(...shades) > 50;
        }
        return found;
    })"""
    for span in ("1d", "7d"):
        await tab.open(f"{address}/learners/mail?span={span}")
        await tab.until_true("document.querySelectorAll('.chart canvas').length === 2")
        await tab.until_true(f"{coloured}.every((found) => found > 20)")


async def check_without_script(tab, service, address):
    """Tables have all numbers."""
    report = await service.report("triage")
    await tab.open(address + "/learners/triage", script=False)
    tree = await tab.send("DOM.getDocument", depth=-1)
    page = await tab.send("DOM.getOuterHTML", nodeId=tree["root"]["nodeId"])
    assert '<details class="card" id="table" open' in page["outerHTML"]
    assert (
        view.amount(report["spent"], "<b>EUR").replace("<", "&lt;").replace(">", "&gt;") in page["outerHTML"]
    )
    # the lines of one client are shown; a click on another shows its lines instead
    sizes = []
    for choice in ("lang-1", "lang-2"):
        tree = await tab.send("DOM.getDocument")
        found = await tab.send(
            "DOM.querySelector", nodeId=tree["root"]["nodeId"], selector=f"label[for={choice}]"
        )
        await tab.send("DOM.scrollIntoViewIfNeeded", nodeId=found["nodeId"])
        box = (await tab.send("DOM.getBoxModel", nodeId=found["nodeId"]))["model"]["content"]
        at = {"x": (box[0] + box[2]) / 2, "y": (box[1] + box[5]) / 2, "button": "left", "clickCount": 1}
        await tab.send("Input.dispatchMouseEvent", type="mousePressed", **at)
        await tab.send("Input.dispatchMouseEvent", type="mouseReleased", **at)
        panes = await tab.send("DOM.querySelectorAll", nodeId=tree["root"]["nodeId"], selector=".tabs pre")
        boxes = [await tab.send("DOM.getContentQuads", nodeId=one) for one in panes["nodeIds"]]
        sizes.append([len(one["quads"]) for one in boxes])
    assert sizes == [[1, 0], [0, 1]]
    layout = await tab.send("Page.getLayoutMetrics")
    assert layout["cssContentSize"]["height"] > 1000
    assert tab.complaints() == []


@pytest.mark.slow
async def test_a_thousand_learners_in_a_browser(tmp_path):
    async with listening(tmp_path / "s.db", quick(durability="process")) as (service, address):
        for n in range(1000):
            await service.create(f"learner-{n:03}", CONFIG.validate_python({**CASCADE, "seed": n}))
        async with chrome(tmp_path) as tab:
            await tab.open(address + "/", settle=1.0)
            assert await tab.run("document.querySelectorAll('.learners tbody tr').length") == 100
            assert tab.complaints() == []
            assert tab.transferred() < 100_000
            await tab.open(address + "/?q=learner-999")
            assert await tab.run("document.querySelectorAll('.learners tbody tr').length") == 1
