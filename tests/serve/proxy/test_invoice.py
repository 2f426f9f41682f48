"""The invoice: tokens times price, the same number everywhere, and there after every restart."""

import asyncio
import csv
import errno
import io
import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rig.fake import FakeUpstream, Seen
from tests.rig.processes import until
from tests.rig.raw_http import ask, body_of, connect
from tests.rig.upstreams import MODELS, Running, calling, learner, stage, world
from tests.serve.proxy.test_service import SECRET, chatting, command
from tests.serve.test_page import paged, text_of

from weakfeedback.journal.events import StoreUnavailable
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.invoice import PURPOSES, Invoice
from weakfeedback.serve.models import Problem
from weakfeedback.serve.page.money import MINUS, added_up, sums_of
from weakfeedback.serve.proxy.bills import Bills, TakesBills
from weakfeedback.serve.proxy.decider import Unavailable
from weakfeedback.serve.proxy.fake import FakeModel, FakeModels

PRICES = {"small-7b": (2.0, 50.0), "medium-2": (10.0, 1000.0), "large-5": (40.0, 7500.0)}
NAMES = {"small-7b": "small", "medium-2": "medium", "large-5": "large"}


def priced(**more):
    stages = [
        {**stage(NAMES[model], model, out), "price": {"input": given, "output": out}}
        for model, (given, out) in PRICES.items()
    ]
    return learner(stage=stages, currency="USD", **more)


def by_hand(fake):
    """Calls, tokens and money of each model, from what the upstream saw."""
    sums = {model: [0, 0, 0, 0.0] for model in PRICES}
    for seen in fake.seen:
        given = max(1, len(seen.body["messages"][-1]["content"]) // 4)
        made = fake.models[seen.model].tokens
        row, (price_in, price_out) = sums[seen.model], PRICES[seen.model]
        row[0] += 1
        row[1] += given
        row[2] += made
        row[3] += (given * price_in + made * price_out) / 1e6
    return sums


class Noting(FakeUpstream):
    """A fake in this process that notes its calls as the one with a socket does."""

    def completion(self, name, body):
        self.seen.append(Seen(name, body, {}, 0.0))
        return super().completion(name, body)


@pytest.mark.parametrize("mode", ["router", "adaptive", "cascade"])
def test_one_number_everywhere_and_after_every_restart(tmp_path, mode):
    """Tokens times price by hand: in the report, its text, the list, the page and the metrics, however it restarts."""
    more = {"kind": mode, "compare": {"type": "text"}, "waiting_price": 0.5, "error_cost": 2.0, "seed": 1}
    fake = Noting({name: FakeModel(name, 0.9, tokens=20 + 7 * k) for k, name in enumerate(PRICES)})

    async def told(chat):
        report = await chat.service.report("support")
        call = paged(chat.service)
        text = await chat.service.report_text("support")
        pages = [text_of(await call("GET", path)) for path in ("/learners/support", "/")]
        metrics = (await call("GET", "/metrics")).body.decode()
        return report, text, *pages, metrics

    async def play(rounds):
        async with chatting(tmp_path / "s.db", priced(**more), fake) as chat:
            for k in range(rounds):
                await chat.ask(f"What is {k} * 7?")
            return await told(chat)

    before = asyncio.run(play(40))
    report, text, page, overview, metrics = before
    hand = by_hand(fake)
    for line, (model, (calls, read, made, money)) in zip(report["proxy"]["stages"], hand.items()):
        assert line["model"] == model
        assert (line["calls"], line["tokens"]["input"], line["tokens"]["output"]) == (calls, read, made)
        assert line["spent"] == pytest.approx(money)
        assert f"{calls:,}" in page
    spent = sum(row[3] for row in hand.values())
    saved = report["proxy"]["alone"]["amount"] - spent
    assert report["spent"] == report["proxy"]["spent"] == pytest.approx(spent)
    assert report["saved"]["amount"] == report["proxy"]["saved"]["amount"] == pytest.approx(saved)
    assert report["details"]["spent"] == report["spent"]
    assert report["details"]["saved_alone"] == pytest.approx(saved)
    sums = sums_of(spent, saved)  # rounded so that they add up
    for shown in (page, overview):
        assert f"{sums.spent} USD" in shown
        assert sums.alone in shown
        assert sums.saved.removeprefix(MINUS) in shown
    assert f"{spent:,.4f}" in text
    assert f"{abs(saved):,.4f}" in text
    assert f'weakfeedback_spent_total{{currency="USD",learner="support"}} {report["spent"]}' in metrics
    assert report["proxy"]["waiting"]["amount"] == pytest.approx(0.5 * report["proxy"]["waiting"]["seconds"])
    assert report["proxy"]["waiting"]["amount"] > 0.0
    again = asyncio.run(play(0))[0]
    assert again["proxy"] == report["proxy"]
    assert again["spent"] == report["spent"]


def test_the_money_of_groups_is_their_part_of_the_invoice(tmp_path):
    """Report, page and file have the same parts of the money, also after a restart."""
    more = {"compare": {"type": "text"}, "agree": 0.9, "error_cost": None, "seed": 1}
    fake = Noting({name: FakeModel(name, 0.97, tokens=20) for name in PRICES})
    table = {key: value for key, value in priced(**more).items() if value is not None}

    async def play(rounds):
        async with chatting(tmp_path / "s.db", table, fake) as chat:
            by_group = {}
            for k in range(rounds):
                group, first = "web" if k % 3 else "mail", len(fake.seen)
                await chat.ask(f"What is {k} * 7?", x_weakfeedback_group=group)
                for seen in fake.seen[first:]:
                    given = max(1, len(seen.body["messages"][-1]["content"]) // 4)
                    price_in, price_out = PRICES[seen.model]
                    spent = (given * price_in + 20 * price_out) / 1e6
                    by_group[group] = by_group.get(group, 0.0) + spent
            call = paged(chat.service)
            page, file = (
                await call("GET", "/learners/support"),
                await call("GET", "/learners/support/invoice.csv"),
            )
            return by_group, await chat.service.report("support"), page, file

    by_group, report, page, file = asyncio.run(play(150))
    told = report["details"]["by_group"]
    assert {name: one["spent"] for name, one in told.items()} == pytest.approx(by_group)
    assert sum(one["spent"] for one in told.values()) == pytest.approx(report["spent"])
    assert sum(one["reference_alone"] for one in told.values()) == pytest.approx(
        report["proxy"]["alone"]["amount"]
    )
    shown, decimals = text_of(page), sums_of(report["spent"], report["saved"]["amount"]).decimals
    for money in added_up([one["spent"] for one in told.values()], decimals):
        assert money in shown
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(file.body.decode())))
    hand = by_hand(fake)
    assert [row["model"] for row in rows[:3]] == list(hand)
    for row, (calls, read, made, money) in zip(rows, hand.values()):
        assert [int(row[name]) for name in ("calls", "tokens in", "tokens out")] == [calls, read, made]
        assert float(row["USD"]) == pytest.approx(money)
    assert float(rows[3]["USD"]) == report["spent"]
    assert asyncio.run(play(0))[1]["details"]["by_group"] == told


def test_what_a_killed_process_has_answered_is_on_the_invoice(tmp_path):
    running = Running()
    try:
        fake = FakeUpstream({name: FakeModel(name, 1.0) for name in MODELS})
        port, sums, headers = running.serve(fake), [], {"Authorization": f"Bearer {SECRET}"}
        for _ in range(3):
            with command(tmp_path, port) as (url, process):
                if sums:
                    assert account_at(url) == sums[-1]
                for k in range(7):
                    got = ask(url, k % 2 == 1, headers, question=f"What is {k} * 3?")
                    assert got.status == 200
                sums.append(account_at(url))
                assert ask(url, False, headers).status == 200
                process.send_signal(signal.SIGKILL)
                process.wait()
            with command(tmp_path, port) as (url, _):
                account = account_at(url)
                assert account["requests"] == 8 * len(sums)
                sums[-1] = account
        small, large = account["stages"]
        made = [sum(seen.model == model for seen in fake.seen) for model in ("small-7b", "large-5")]
        # a comparison that had not ended may be lost with the process, an answer never
        assert made[0] - 6 <= small["calls"] <= made[0]
        assert made[1] - 6 <= large["calls"] <= made[1]
        assert small["spent"] == pytest.approx(small["calls"] * 20 * 50e-6)
        assert large["spent"] == pytest.approx(large["calls"] * 20 * 7500e-6)
    finally:
        running.close()


def account_at(url):
    """The accounts, as the API tells them."""
    connection = connect(url)
    connection.request("GET", "/v1/learners/support/report", headers={"Authorization": f"Bearer {SECRET}"})
    found = json.loads(connection.getresponse().read())["proxy"]
    connection.close()
    return found


def test_a_store_that_is_away_gets_its_bills_later():
    with world(models={name: FakeModel(name, 1.0) for name in MODELS}) as here:
        here.decider.off = True
        for _ in range(3):
            got = ask(here.url)
            assert got.headers["x-weakfeedback-learning"] == "off"
        here.drain()
        assert here.proxy.account("support")["requests"] == 0
        here.decider.off = False
        ask(here.url)
        here.drain()
        here.running.call(here.proxy.bills.send())
        assert here.proxy.account("support")["requests"] == 4
        assert here.proxy.account("support")["stages"][2]["calls"] >= 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_baseline_is_measured_where_it_was_called_beside_the_answer(stream):
    """Estimated when the answer is billed, and corrected when its own call has ended."""
    models = {name: FakeModel(name, 1.0, tokens=30) for name in MODELS}
    table = priced(baseline="small", compare={"type": "number", "scale": 1e-9})
    with world(table, models=models, make_decider=calling(0, 2)) as here:
        ask(here.url, stream)
        here.drain()
        account = here.proxy.account("support")
    assert account["alone"]["measured"] == pytest.approx(account["stages"][0]["spent"])
    assert account["alone"]["estimated"] == pytest.approx(0.0, abs=1e-15)
    assert account["comparing"] == pytest.approx(account["stages"][0]["spent"])
    assert account["saved"]["amount"] == pytest.approx(-account["stages"][2]["spent"])
    assert account["compared"] == 1


def test_waiting_is_in_no_sum():
    models = {name: FakeModel(name, 1.0, seconds=0.05) for name in MODELS}
    with world(priced(waiting_price=100.0), models=models, make_decider=calling(0)) as here:
        got = ask(here.url)
        here.drain()
        account = here.proxy.account("support")
    money = (4 * 2.0 + 20 * 50.0) / 1e6
    assert account["spent"] == pytest.approx(money)
    assert got.data["weakfeedback"]["cost"] == pytest.approx(money)
    assert account["waiting"]["amount"] > 5.0
    assert account["alone"]["amount"] < 1.0


rows = st.tuples(
    st.integers(0, 1),
    st.sampled_from(PURPOSES),
    st.sampled_from(["ok", "500", "cut"]),
    st.floats(0.0, 10.0),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.booleans(),
    st.floats(0.0, 100.0),
    st.none() | st.floats(0.0, 10.0),
    st.none() | st.integers(0, 10**6),
).map(list)
bills = st.fixed_dictionaries(
    {"calls": st.lists(rows, max_size=3)},
    optional={
        "end": st.sampled_from(["answered", "failed", "left"]),
        "alone": st.tuples(st.floats(0.0, 9.0), st.floats(-9.0, 9.0)).map(list),
        "waited": st.floats(0.0, 100.0),
        "judge": st.floats(0.0, 1.0),
        "again": st.just([[0, "503"]]),
        "compared": st.just(True),
    },
)


@given(st.lists(bills, max_size=8), st.integers(0, 8))
def test_an_invoice_adds_up_and_continues_from_any_snapshot(given_bills, cut):
    def begun():
        made = Invoice(2)
        made.agree(
            {
                "models": [{"name": n, "model": n, "price": {}} for n in "ab"],
                "baseline": 1,
                "waiting_price": 2.0,
            },
            7,
        )
        return made

    whole = begun()
    part = begun()
    for k, bill in enumerate(given_bills):
        whole.add(bill)
        if k == cut:
            again = Invoice(2)
            again.restore(json.loads(json.dumps(part.state())))
            part = again
        part.add(bill)
    assert part.summary() == whole.summary()
    calls = [row for bill in given_bills for row in bill["calls"]]
    found = whole.summary()
    assert found["spent"] == pytest.approx(sum(row[3] for row in calls) + whole.judge)
    assert found["spent"] == pytest.approx(sum(whole.money.values()) + whole.judge)
    assert sum(whole.answers) == pytest.approx(whole.money["answer"])
    assert found["spent"] + found["saved"]["amount"] == pytest.approx(found["alone"]["amount"])
    assert found["waiting"]["amount"] == pytest.approx(2.0 * found["waiting"]["seconds"])


async def test_a_client_that_leaves_is_billed_and_nothing_is_counted_twice(tmp_path):
    fake = FakeUpstream({name: FakeModel(name, 1.0, seconds=3600.0) for name in MODELS})

    async with chatting(tmp_path / "s.db", priced(), fake) as chat:
        await chat.post(body_of(), leave=chat.fake.called.wait)
        fake.models |= {name: FakeModel(name, 1.0) for name in MODELS}
        await chat.ask()
        await chat.proxy.drain()
        account = (await chat.service.report("support"))["proxy"]
    assert (account["left"], account["requests"]) == (1, 1)
    assert account["wasted"] > 0.0
    assert account["wasted"] < account["spent"]


@pytest.mark.parametrize(
    "money", [(0.000052, 0.00808, 0.0256), (1.004, 1.004, 1.004), (4e-7, 3e-7, 0.0), (1e4, 1.0, 2.5)]
)
def test_the_printed_invoice_adds_up_and_fits_into_80_columns(money):
    names = ["small-model-15x", "medium", "large"]
    invoice = Invoice(3)
    price = {"input": 1.0, "cached": 0.5, "output": 2.0}
    models = [{"name": name, "model": name, "price": price} for name in names]
    invoice.agree({"models": models, "baseline": 2, "waiting_price": 0.0}, 0)
    for line, amount in zip(invoice.lines, money):
        line.calls, line.input, line.cached, line.output, line.money = 10**6, 10**9, 10**8, 10**8, amount
    rows = invoice.table("USD").splitlines()[:5]
    assert max(map(len, rows)) <= 80
    told = [float(row.split()[-1].replace(",", "")) for row in rows[1:]]
    assert sum(told[:3]) == pytest.approx(told[3], rel=1e-9)
    assert told[3] == pytest.approx(sum(money), rel=0.005)


JUDGE = {"type": "judge", "upstream": "fake", "model": "judge", "price": {"input": 1e6, "output": 0.0}}


class Judged(FakeModels):
    """Models that never say the same, and a judge that reports ``claimed`` tokens for every question."""

    def __init__(self, models, **more):
        super().__init__(models, **more)
        self.claimed, self.asked = 7, 0

    def completion(self, name, body):
        made = FakeModels.completion(self, name, body)
        if name == "judge":
            self.asked += 1
            made["usage"] = {"prompt_tokens": self.claimed, "completion_tokens": 0}
        return made


@pytest.mark.parametrize("said", ["yes", "perhaps"])
@pytest.mark.parametrize("mode", ["router", "adaptive"])
async def test_a_judge_is_billed_whoever_asks_it_and_whatever_it_says(tmp_path, mode, said):
    models = {name: FakeModel(name) for name in (*MODELS, "judge")}
    fake = Judged(models, say=lambda model, _: said if model == "judge" else f"{model} says")
    table = priced(kind=mode, compare=JUDGE, error_cost=2.0, seed=1)
    auth = Auth([Token.of("shop", SECRET, "use")])
    async with chatting(tmp_path / "s.db", table, fake, auth) as chat:
        for k in range(4):
            await chat.ask(f"What is {k} * 7?", authorization=f"Bearer {SECRET}")
        asked = fake.asked
        invoice = chat.service.learners["support"].invoice
        assert asked > 0
        assert invoice.judge == pytest.approx(7.0 * asked)
        assert auth.usage.money("shop")[1] == pytest.approx(invoice.spent)


async def test_a_judge_that_claims_more_than_the_texts_is_estimated(tmp_path):
    models = {name: FakeModel(name) for name in (*MODELS, "judge")}
    fake = Judged(models, say=lambda model, _: "yes" if model == "judge" else f"{model} says")
    fake.claimed = 10**11
    table = priced(compare=JUDGE, error_cost=2.0, seed=1)
    async with chatting(tmp_path / "s.db", table, fake) as chat:
        await chat.ask()
        assert 0.0 < chat.service.learners["support"].invoice.judge < 1e4


async def test_a_bill_whose_commit_is_in_doubt_is_stored_once(tmp_path):
    plan = {"after": False}

    class Doubtful:
        """A store that has stored a bill when it says that it could not."""

        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        def write(self, rows, *, sync=True):
            self._store.write(rows, sync=sync)
            if plan["after"] and any("bill" in map(str, row) for row in rows):
                plan["after"] = False
                raise StoreUnavailable(errno.EIO, "the connection was cut")

    async with chatting(tmp_path / "s.db", priced(), wrap=Doubtful) as chat:
        for k in range(4):
            plan["after"] = k == 2
            await chat.ask(x_weakfeedback_stage="large")
            await until(lambda: chat.service.state == "ready")
        await chat.proxy.bills.send()
        invoice = chat.service.learners["support"].invoice
        assert (invoice.requests, invoice.lines[2].calls) == (4, 4)


class Away:
    """A store that takes no bill."""

    async def bill(self, *_, **__):
        raise Unavailable("away")


async def test_bills_that_are_lost_at_the_end_are_told(caplog):
    bills = Bills(Away())
    for _ in range(2):
        await bills.add("support", {"judge": 0.25})
    await bills.close(0.05)
    assert "2 bills over 0.5 could not be stored, and are lost" in caplog.text


async def test_only_so_many_bills_wait(monkeypatch, caplog):
    monkeypatch.setattr("weakfeedback.serve.proxy.bills.MOST", 3)
    bills = Bills(Away())
    for k in range(5):
        await bills.add("support", {"judge": 2.0**k, "token": "shop"})
    assert caplog.text.count("the oldest is lost") == 2
    await bills.send()
    assert bills.owed == {"shop": 4.0 + 8.0 + 16.0}
    await bills.close(0.05)
    assert "3 bills over 28 could not be stored" in caplog.text


async def test_a_bill_whose_request_is_cut_short_is_kept():
    class Slow(Away):
        stored = ()

        async def bill(self, learner, bill, key, again=False):
            if not again:
                await asyncio.Event().wait()
            self.stored = (*self.stored, (learner, bill))

    store = Slow()
    bills = Bills(store)
    task = asyncio.create_task(bills.add("support", {"judge": 0.25}))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await bills.close(5.0)
    assert store.stored == (("support", {"judge": 0.25}),)


async def test_bills_of_other_instances_are_taken_once_and_only_theirs(tmp_path):
    async with chatting(tmp_path / "s.db", priced()) as chat:

        async def tell(body, passed=True):
            sent = []

            async def receive():
                return {"type": "http.request", "body": body}

            async def send(message):
                sent.append(message)

            scope = {
                "weakfeedback.passed": passed,
                "headers": [(b"content-type", b"application/json")],
                "path_params": {"name": "support"},
            }
            try:
                await TakesBills(chat.service)(scope, receive, send)
            except Problem as problem:
                return problem.status
            return sent[0]["status"]

        good = json.dumps({"key": "one", "bill": {"judge": 0.25, "token": "shop"}}).encode()
        assert [await tell(good, passed=False), await tell(good), await tell(good)] == [404, 204, 204]
        beyond = [7, "answer", "ok", 1.0, 1, 0, 1, False, 0.1, None, 3]
        for bill in (
            1,
            None,
            {"calls": [beyond]},
            {"calls": [[1]]},
            {"judge": "x"},
            {"judge": 1.0, "token": []},
        ):
            assert await tell(json.dumps({"key": "two", "bill": bill}).encode()) == 422
        assert await tell(b"[]") == await tell(b'{"key": 1, "bill": {}}') == 422
        assert await tell(b" " * 2**21) == 413
        assert chat.service.learners["support"].invoice.judge == 0.25


async def test_the_money_of_a_day_stays_spent_while_the_store_is_away(tmp_path):
    plan = {"broken": False}

    class Failing:
        """A store that can be made to fail."""

        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        def write(self, rows, *, sync=True):
            if plan["broken"]:
                raise StoreUnavailable(errno.ENOSPC, "the disk is full")
            self._store.write(rows, sync=sync)

    others, large = "another-token-of-the-shop", {"x_weakfeedback_stage": "large"}
    auth = Auth([Token.of("shop", SECRET, "use", per_day=0.4), Token.of("free", others, "use")])

    async def status(chat, secret=SECRET):
        return (await chat.post(body_of(), authorization=f"Bearer {secret}", **large))[0]

    async with chatting(tmp_path / "s.db", priced(), auth=auth, wrap=Failing) as chat:
        assert await status(chat) == 200  # 0.15 of 0.4
        plan["broken"] = True
        assert [await status(chat) for _ in range(4)] == [200, 200, 429, 429]
        assert chat.service.state == "replaying"
        assert await status(chat, others) == 200
        plan["broken"] = False
        await until(lambda: chat.service.state == "ready")
        await chat.proxy.bills.send()
        assert auth.usage.money("shop")[0] == pytest.approx(3 * 0.15016)
