"""A chat request may reach any instance of a shared store: the owner of its learner answers, streams and pages too."""

import contextlib
import http.client
import json
import threading

from tests.rig.fake import FakeUpstream
from tests.rig.postgres import cluster
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.raw_http import RIGHT, ask
from tests.rig.server import Client, Process
from tests.rig.upstreams import MODELS, Running
from tests.serve.proxy.test_service import CONFIG, SECRET

from weakfeedback.serve.proxy.fake import FakeModel

TOKEN = {"authorization": f"Bearer {SECRET}"}


@contextlib.contextmanager
def two(folder, address, port):
    """Two instances with the same configuration."""
    (folder / "w.toml").write_text(CONFIG.format(store="unused", port=port))
    given = {"TEST_TOKEN": SECRET, "TEST_KEY": "key-of-the-upstream"}
    words = ("--config", str(folder / "w.toml"), "--store", address, "--shared")
    with Process(folder, *words, env=given) as one, Process(folder, *words, env=given) as other:
        yield one, other


def test_chat_pages_and_cookies_work_at_every_instance(server, tmp_path):
    running = Running()
    try:
        fake = FakeUpstream({name: FakeModel(name, 1.0) for name in MODELS})
        with two(tmp_path, server.url(), running.serve(fake)) as (one, other):
            lines = [Client(each.port, TOKEN) for each in (one, other)]
            wait_until(lambda: sum(line("GET", "/health/ready")[1]["learners"] for line in lines) == 1)
            for each in (one, other):
                url = f"http://127.0.0.1:{each.port}"
                assert ask(url).status == 401
                whole = ask(url, headers=TOKEN)
                assert (whole.status, whole.data["choices"][0]["message"]["content"]) == (200, RIGHT)
                stream = ask(url, stream=True, headers=TOKEN)
                assert (stream.text, stream.clean) == (RIGHT, True)
                assert ask(url, headers=TOKEN, model="nobody").status == 404
            # both count the same requests
            for line in lines:
                wait_until(lambda line=line: line("GET", "/v1/learners/support")[1]["rounds"] == 4)
            tokens = [line("GET", "/v1/tokens")[1]["tokens"][0]["money"] for line in lines]
            assert min(tokens) == 0.0 < max(tokens)  # money is counted by who has spent it
            # a cookie of one is a cookie of the other, and the page's updates are streamed through
            page = http.client.HTTPConnection("127.0.0.1", one.port, timeout=PATIENCE)
            page.request(
                "POST", "/login", f"token={SECRET}", {"content-type": "application/x-www-form-urlencoded"}
            )
            answer = page.getresponse()
            answer.read()
            cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
            page.close()
            for each in (one, other):
                view = http.client.HTTPConnection("127.0.0.1", each.port, timeout=PATIENCE)
                view.request("GET", "/learners/support", headers=cookie)
                answer = view.getresponse()
                assert (answer.status, b"support" in answer.read()) == (200, True)
                view.request("GET", "/v1/learners/support/live", headers=cookie)
                live = view.getresponse()
                assert live.readline() == b"retry: 2000\n"
                assert json.loads(live.readline() and live.readline().removeprefix(b"data: "))["pieces"]
                view.close()
            # whoever does not share the store cannot claim that its request was checked
            forged = {**TOKEN, "x-weakfeedback-passed": "0" * 64, "host": "elsewhere"}
            assert ask(f"http://127.0.0.1:{one.port}", headers=forged).status == 421
            for line in lines:
                line.close()
            assert [one.stop(), other.stop()] == [0, 0]
    finally:
        running.close()


def test_what_is_answered_when_its_learner_has_moved_is_billed_by_the_new_owner(server, tmp_path):
    """The learner moves while a model still answers: whoever has answered tells the owner what it cost."""
    running = Running()
    try:
        fake = FakeUpstream({name: FakeModel(name, 1.0) for name in MODELS})
        text = CONFIG.format(store="unused", port=running.serve(fake)).replace('"support"', '"help"')
        (tmp_path / "w.toml").write_text(text)  # of a shard that the second instance gets
        given = {"TEST_TOKEN": SECRET, "TEST_KEY": "key-of-the-upstream"}
        words = ("--config", str(tmp_path / "w.toml"), "--store", server.url(), "--shared")
        forced = {**TOKEN, "x-weakfeedback-stage": "large"}
        with Process(tmp_path, *words, env=given) as one:
            url, got = f"http://127.0.0.1:{one.port}", []
            fake.held.add("large-5")
            asking = [
                threading.Thread(target=lambda: got.append(ask(url, headers=forced, model="help").status))
                for _ in range(3)
            ]
            for thread in asking:
                thread.start()
            wait_until(lambda: len(fake.seen) == 3)
            with Process(tmp_path, *words, env=given) as other:
                lines = [Client(each.port, TOKEN) for each in (one, other)]
                wait_until(lambda: lines[1]("GET", "/health/ready")[1]["learners"] == 1)
                fake.held.clear()
                for thread in asking:
                    thread.join(PATIENCE)
                assert got == [200] * 3
                wait_until(lambda: lines[0]("GET", "/v1/learners/help/report")[1]["proxy"]["requests"] == 3)
                assert lines[0]("POST", "/v1/bills/help", {"key": "k", "bill": {"judge": 1.0}})[0] == 404
                for line in lines:
                    line.close()
    finally:
        running.close()


def test_models_answer_while_the_shared_store_is_away(tmp_path):
    """As those of an instance that shares with nobody do: nothing is learned meanwhile, and everything is billed."""
    running = Running()
    try:
        fake = FakeUpstream({name: FakeModel(name, 1.0) for name in MODELS})
        with cluster() as store, two(tmp_path, store.url(), running.serve(fake)) as both:
            lines = [Client(each.port, TOKEN) for each in both]
            wait_until(lambda: sum(line("GET", "/health/ready")[1]["learners"] for line in lines) == 1)
            store.stop()
            wait_until(
                lambda: all(line("GET", "/health/ready")[1]["status"] == "replaying" for line in lines)
            )
            for each in both:
                got = ask(f"http://127.0.0.1:{each.port}", headers=TOKEN)
                assert (got.status, got.headers["x-weakfeedback-learning"]) == (200, "off")
            store.start()
            wait_until(lambda: sum(line("GET", "/health/ready")[1].get("learners", 0) for line in lines) == 1)
            wait_until(lambda: lines[0]("GET", "/v1/learners/support/report")[1]["proxy"]["requests"] == 2)
            for line in lines:
                line.close()
    finally:
        running.close()
