"""Upstream calls go where the configuration says, and nowhere else."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from aiohttp.abc import ResolveResult
from tests.rig.raw_http import ask, body_of
from tests.rig.upstreams import NOBODY, learner, world

from weakfeedback.serve.proxy.calls import Books, Call
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.fake import FakeModel
from weakfeedback.serve.proxy.prices import PriceWatch
from weakfeedback.serve.proxy.request import read_request
from weakfeedback.serve.proxy.settings import read_proxied
from weakfeedback.serve.proxy.stream import BrokenStream, EventReader
from weakfeedback.serve.proxy.upstream import PrivateResolver, Upstream, UpstreamFailed, UpstreamSettings

MODELS = {name: FakeModel(name, 1.0) for name in ("small-7b", "medium-2", "large-5")}


def test_proxies_of_the_environment_are_ignored(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{NOBODY}")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    with world(models=MODELS, retries=0) as here:
        assert ask(here.url).status == 200


def found(*hosts):
    async def resolve(host, port=0, family=0):
        return [
            ResolveResult(hostname=host, host=address, port=port, family=2, proto=0, flags=0)
            for address in hosts
        ]

    return resolve


@pytest.mark.parametrize(
    ("addresses", "allowed"),
    [
        (["10.0.0.5"], True),
        (["127.0.0.1", "192.168.1.2"], True),
        (["fd00::1"], True),
        (["93.184.216.34"], False),
        (["10.0.0.5", "93.184.216.34"], False),
        (["169.254.169.254"], False),  # where clouds tell secrets
    ],
)
def test_a_name_of_plain_http_must_lead_to_a_private_address(addresses, allowed):
    async def work():
        resolver = PrivateResolver()
        resolver._inner.resolve = found(*addresses)
        return await resolver.resolve("ollama", 80)

    if allowed:
        assert len(asyncio.run(work())) == len(addresses)
    else:
        with pytest.raises(OSError, match="private addresses only"):
            asyncio.run(work())


def test_a_name_that_leads_elsewhere_is_never_called(monkeypatch):
    async def work():
        upstream = Upstream(UpstreamSettings("u", "http://ollama:9/v1", retries=0))
        try:
            await upstream.ask("/chat/completions", {}, print)
        finally:
            await upstream.close()

    monkeypatch.setattr(
        "weakfeedback.serve.proxy.upstream.ThreadedResolver.resolve", staticmethod(found("8.8.8.8"))
    )
    with pytest.raises(UpstreamFailed) as caught:
        asyncio.run(work())
    assert caught.value.outcome == "connection"
    assert "8.8.8.8" not in str(caught.value)


def test_events_are_cut_wherever_the_bytes_are():
    whole = b': note\r\n\r\ndata: {"a": 1}\r\n\r\nevent: x\ndata: 2\ndata: 3\n\ndata: [DONE]\n\n'
    expected = [b'{"a": 1}', b"2\n3", b"[DONE]"]
    for cut in range(len(whole)):
        reader = EventReader()
        assert [*reader.feed(whole[:cut]), *reader.feed(whole[cut:])] == expected
    reader = EventReader()
    assert [event for k in range(len(whole)) for event in reader.feed(whole[k : k + 1])] == expected


@pytest.mark.parametrize("piece", [b"x" * 50_000, b"data: " + b"x" * 50_000 + b"\n"], ids=["line", "lines"])
def test_an_event_that_never_ends_is_refused(piece):
    reader = EventReader()
    for _ in range(20):
        assert list(reader.feed(piece)) == []
    with pytest.raises(BrokenStream, match="too long"):
        list(reader.feed(piece))


class Opened:
    """A response whose stream has begun and never ends."""

    status, headers = 200, {"Content-Type": "text/event-stream"}

    def __init__(self):
        self.closed, self._pieces = False, [b'data: {"choices": []}\n\n']
        self.content = SimpleNamespace(readany=self._readany, at_eof=lambda: False)

    async def _readany(self):
        if not self._pieces:
            await asyncio.sleep(3600)
        return self._pieces.pop()

    def close(self):
        self.closed = True

    def release(self):
        """Nothing to do."""


async def test_a_stream_that_nobody_reads_is_closed():
    """Between its opening and its first chunk, too: of the response, and of the call that is paid for it."""
    settings = read_proxied("learner[0]", learner(), ["fake"])
    raw, kind = json.dumps(body_of(stream=True)).encode(), {b"content-type": b"application/json"}
    asked = read_request(raw, kind, {"support": settings}, Dialect())

    responses = []
    upstream = Upstream(UpstreamSettings("u", "http://127.0.0.1:9/v1", retries=0))

    async def post(*_):
        responses.append(Opened())
        return responses[-1]

    upstream._post = post
    events = await upstream.open("/chat/completions", {}, print)
    await events.aclose()
    books = Books(PriceWatch(settings.prices(), True), None)
    call = Call(asked, 0, upstream, books, False)
    chunks = await call.open()
    await chunks.aclose()
    found = [response.closed for response in responses], call.ended
    assert found == ([True, True], True)
