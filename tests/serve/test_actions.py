"""What the page can change, in a real browser and by hand: only for those whose token may, and only from the page."""

import json
import re

from tests.rig.chrome import chrome
from tests.rig.harness import CASCADE, Caller, quick, serving
from tests.rig.sockets import listening

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.models import CONFIG, DecideRequest, FeedbackRequest
from weakfeedback.serve.page.routes import page_of

SECRET = "a-token-that-is-long-enough"
JSON = {"content-type": "application/json"}
FORM = re.compile(rb'data-form="(\w*)"')
COMPLETE = "document.readyState == 'complete'"  # before, no script of the page hears of a form that is sent


def guarded():
    return Auth([Token.of("boss", SECRET, "admin"), Token.of("eye", SECRET + "2", "read")])


async def log_in(call, secret):
    """The cookie of a token, and what its pages hold to prove that a change comes from them."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    found = await call.raw("POST", "/login", b"token=" + secret.encode(), form)
    cookie = {"cookie": found.headers["set-cookie"].partition(";")[0]}
    page = await call.raw("GET", "/learners/triage", None, cookie)
    return cookie, FORM.search(page.body)[1].decode(), page.body.decode()


async def test_a_cookie_alone_changes_nothing(tmp_path):
    async with serving(tmp_path / "s.db") as (service, _):
        await service.create("triage", CONFIG.validate_python({**CASCADE, "seed": 1}))
        auth = guarded()
        call = Caller(make_app(service, auth, **page_of(service, auth)))
        body = json.dumps({"error_cost": 70}).encode()
        cookie, form, page = await log_in(call, SECRET)
        assert "Change prices" in page
        other, _, looked = await log_in(call, SECRET + "2")
        assert "Your access token may look only." in looked
        assert "Change prices" not in looked

        async def change(**headers):
            sent = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
            reply = await call.raw("PATCH", "/v1/learners/triage/costs", body, sent)
            return reply.status, reply.data.get("detail", "")

        status, words = await change(**cookie)
        assert status == 403
        assert "a browser's cookie changes nothing without the page's own header" in words
        assert (await change(**cookie, x_weakfeedback_form="0" * 64))[0] == 403
        assert (await change(**cookie, x_weakfeedback_form="\xe9"))[0] == 403
        theirs = auth.form_of(other["cookie"].partition("=")[2])
        assert (await change(**cookie, x_weakfeedback_form=theirs))[0] == 403
        assert (await change(**other, x_weakfeedback_form=theirs))[0] == 403  # it may look only
        assert (await change(x_weakfeedback_form=form))[0] == 401
        assert (await change(**cookie, x_weakfeedback_form=form, origin="http://elsewhere.example"))[0] == 403
        assert service.learner("triage").settings()["error_cost"] == CASCADE["error_cost"]
        assert (await change(**cookie, x_weakfeedback_form=form))[0] == 200
        assert (await change(authorization=f"Bearer {SECRET}"))[0] == 200
        assert service.learner("triage").settings()["error_cost"] == 70


CSV = "rules,small,expert,truth\nx,x,x,x\n" + 'x,y,"y",y\r\n' * 8 + '"a ""b"", c",y,y,"a ""b"", c"\n'


async def test_the_actions_in_a_browser(tmp_path):
    async with (
        listening(tmp_path / "s.db", quick(durability="process")) as (service, address),
        chrome(tmp_path) as tab,
    ):
        await tab.open(address + "/")
        await fill(
            tab,
            "form.new",
            name="triage",
            names="rules, small, expert",
            prices="1, 2, oops",
            error_cost=70,
        )
        await tab.run("document.querySelector('form.new').elements.kind.value = 'cascade'")
        await submit(tab, "form.new")
        await tab.until_true("document.querySelector('form.new output')?.className == 'bad'")
        assert "stage_costs[2]" in await tab.run("document.querySelector('form.new output').textContent")
        await fill(tab, "form.new", prices="1, 2, 30", currency="EUR")
        await submit(tab, "form.new")
        await tab.until_true(f"{COMPLETE} && location.pathname == '/learners/triage'")
        assert service.learner("triage").settings()["stage_costs"] == [1, 2, 30]
        for width in (1280, 390):
            await tab.open(address + "/learners/triage", width=width)
            await tab.run("document.getElementById('change').open = true")
            assert await tab.run("document.documentElement.scrollWidth") <= width
            await tab.picture(tmp_path / f"change-{width}.png")
        prices = "[data-method=PATCH]"
        await fill(tab, prices, error_cost=55)
        await submit(tab, prices)
        await tab.until_true(
            f"{COMPLETE} && document.querySelector('[name=error_cost]')?.defaultValue == '55.0'"
        )
        assert service.learner("triage").settings()["error_cost"] == 55
        for _ in range(3):
            decided = await service.decide("triage")
            given = FeedbackRequest(outputs=["x"] * len(decided["call"]))
            await service.feedback("triage", decided["id"], given)
        await tab.run(
            "const list = new DataTransfer(); list.items.add(new File([" + json.dumps(CSV) + "], 'a.csv'));"
            "document.querySelector('[data-audit] input').files = list.files"
        )
        await submit(tab, "[data-audit]")
        await tab.until_true("document.querySelector('[data-audit] output').className == 'good'")
        told = await tab.run("document.querySelector('[data-audit] output').textContent")
        assert told.startswith("Audit of ")
        await fill(tab, "[data-method=DELETE]")
        await tab.run("document.querySelector('[data-method=DELETE] input').value = 'other'")
        await submit(tab, "[data-method=DELETE]")
        assert not service.learner("triage").archived
        await tab.run("document.querySelector('[data-method=DELETE] input').value = 'triage'")
        await submit(tab, "[data-method=DELETE]")
        await tab.until_true("document.body?.textContent.includes('It is archived')")
        assert service.learner("triage").archived
        assert not [event for event in tab.events if event["method"] == "Runtime.exceptionThrown"]


async def test_a_promise_is_made_and_changed_in_a_browser(tmp_path):
    options = quick(durability="process")
    async with listening(tmp_path / "s.db", options) as (service, address), chrome(tmp_path) as tab:
        await tab.open(address + "/")
        await fill(tab, "form.new", name="support", names="small, large", prices="1, 20", agree=95)
        await submit(tab, "form.new")
        await tab.until_true(f"{COMPLETE} && location.pathname == '/learners/support'")
        assert service.learner("support").settings()["agree"] == 0.95
        for k in range(60):
            decided = await service.decide("support", DecideRequest(group="ab"[k % 2]))
            if decided["expires"] is not None:
                given = FeedbackRequest(outputs=["x"] * len(decided["call"]))
                await service.feedback("support", decided["id"], given)
        for width in (1280, 390):
            await tab.open(address + "/learners/support", width=width, settle=0.5)
            await tab.run("document.getElementById('change').open = true")
            assert await tab.run("document.documentElement.scrollWidth") <= width
            await tab.picture(tmp_path / f"promise-{width}.png")
        rows = "document.querySelectorAll('#groups tbody tr')"
        assert await tab.run(f"[...{rows}].map((row) => row.cells[0].textContent)") == ["a", "b"]
        await fill(tab, "[data-method=PATCH]", agree=98)
        await submit(tab, "[data-method=PATCH]")
        await tab.until_true(
            f"{COMPLETE} && document.querySelector('#change [name=agree]')?.defaultValue == '98'"
        )
        assert service.learner("support").settings()["agree"] == 0.98
        await tab.run("document.querySelector('#recent [data-why]').click()")
        await tab.until_true("document.querySelector('#recent .told li') !== null")
        words = await tab.run("document.querySelector('#recent .told').textContent")
        assert words.startswith(f"Decision {max(service.learner('support').observers['watch'].recent)}")
        await tab.run("document.querySelector('#recent [data-why]').click()")
        assert await tab.run("document.querySelector('#recent .told')") is None
        for name, words in (("paused", "paused"), ("paused", "router"), ("shadow", "shadow")):
            before = await tab.run(f"document.querySelector('#change [name={name}]').value")
            await submit(tab, f"form:has([name={name}])")
            changed = f"document.querySelector('#change [name={name}]')?.value != '{before}'"
            await tab.until_true(f"{COMPLETE} && {changed}")
            badge = await tab.run("document.getElementById('badges').textContent")
            assert words in badge
        assert service.learner("support").settings()["shadow"] is True
        assert service.learner("support").paused is False
        assert not [event for event in tab.events if event["method"] == "Runtime.exceptionThrown"]


async def fill(tab, form, **values):
    for name, value in values.items():
        await tab.run(f"document.querySelector({form!r}).elements[{name!r}].value = {str(value)!r}")


async def submit(tab, form):
    await tab.run(
        f"document.querySelector({form!r}).requestSubmit(document.querySelector({form!r}).querySelector('button'))"
    )
