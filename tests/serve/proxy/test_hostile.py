"""An upstream that means harm: whatever it sends, the client gets another stage's answer or an error, and soon."""

import contextlib
import gzip
import json
import socket
import threading
import time

import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.processes import PATIENCE
from tests.rig.raw_http import QUESTION, RIGHT, ask
from tests.rig.upstreams import LONG, Running, calling, gated, learner, make_proxy

from weakfeedback.serve.proxy.fake import FakeModel

MODELS = {name: FakeModel(name, 1.0, tokens=20) for name in ("small-7b", "medium-2", "large-5")}
SHORT = {"connect": 1, "first_byte": 0.4, "chunk": 0.3, "total": 0.8}
SOON = 100.0  # seconds: far less than a drip takes, and enough on a machine where others work


def completion(**more):
    """A good answer, but for what is given."""
    choice = {"index": 0, "message": {"role": "assistant", "content": RIGHT}, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "model": "medium-2", "choices": [choice], **more}


def http(body=b"", status="200 OK", kind="application/json", length=True, **headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"]
    lines += [f"Content-Length: {len(body)}"] if length else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def said(data, **more):
    return http(data if isinstance(data, bytes) else json.dumps(data).encode(), **more)


def one(**parts):
    """An answer whose only choice has these parts."""
    return said(completion(choices=[{"index": 0, "finish_reason": "stop", **parts}]))


def stream(*datas, end=b"0\r\n\r\n"):
    """Events in chunks."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    events = [
        b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"
        for data in datas
    ]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + end


def delta(**more):
    return {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "a", **more}}]}


GOOD = json.dumps(completion()).encode()
# what is sent; a list is sent piece by piece, with a pause
ALWAYS = {
    "nothing": b"",
    "garbage": bytes(range(256)) * 10,
    "no headers": b"HTTP/1.1 200 OK\r\n",
    "an old protocol": b"{}",
    "no body": http(),
    "no json": said(b"<html>hello</html>"),
    "a list": said([]),
    "null": said(None),
    "a number": said(7),
    "nested deeply": said(b"[" * 100_000 + b"]" * 100_000),
    "nested objects": said(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "bad utf-8": said(GOOD.replace(b"The", b"\xff\xfe")),
    "a body cut short": http(GOOD + b" " * 100)[:-100],
    "a negative length": said(GOOD, length=False, Content_Length="-5"),
    "two lengths": said(GOOD, Content_length=str(len(GOOD) - 1)),
    "length and chunks": said(GOOD, Transfer_Encoding="chunked"),
    "a length of words": said(GOOD, length=False, Content_Length="many"),
    "compressed garbage": said(GOOD, Content_Encoding="gzip"),
    "unknown compression": said(GOOD, Content_Encoding="zstd9"),
    "a bomb": said(gzip.compress(b"[" + b" " * 60_000_000 + b"]"), Content_Encoding="gzip"),
    "forty megabytes": said(b" " * 40_000_000 + GOOD),
    "a long header": said(GOOD, X_Long="x" * 1_000_000),
    "many headers": said(GOOD, **{f"X_{n}": "y" * 100 for n in range(5000)}),
    "a header with NUL": said(GOOD, X_Odd="a\0b"),
    "a folded header": said(GOOD, X_Odd="a\r\n b\r\nbroken line"),
    **{f"redirection {code}": ("trap", code) for code in (301, 302, 303, 307, 308)},
    "a flood of 100": b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000,
    "204": http(status="204 No Content"),
    "304": http(status="304 Not Modified"),
    "status 999": said(GOOD, status="999 What"),
    "status 0": said(GOOD, status="0 What"),
    "status of words": said(GOOD, status="fine thanks"),
    "another protocol": GOOD.join([b"HTTP/9.9 200 OK\r\n\r\n", b""]),
    "no choices": said(completion(choices=[])),
    "choices of words": said(completion(choices="many")),
    "a choice that is none": said(completion(choices=[3])),
    "no message": one(),
    "a message of words": one(message="hello"),
    "content of a number": one(message={"role": "assistant", "content": 5}),
    "content of a list": one(message={"role": "assistant", "content": [[1]]}),
    "tools of a number": one(message={"role": "assistant", "content": None, "tool_calls": 9}),
    "bad chunks": http(b"zz\r\nhello\r\n0\r\n\r\n", length=False, Transfer_Encoding="chunked"),
    "a chunk cut short": http(b"ffffff\r\nhello", length=False, Transfer_Encoding="chunked"),
    "a drip": [bytes([byte]) for byte in http(b" " * 4000 + GOOD)[:4000]],
    **{
        f"retry after {value!r}": said({"error": {}}, status="429 Slow", Retry_After=value)
        for value in ("1e9", "-5", "nan", "inf", "soon", "", "9" * 400)
    },
}
STREAMED = {
    "a plain answer": said(GOOD),
    "events that are none": stream(b"hello", b"[1]", b"{}"),
    "no end": stream(delta(), end=b""),
    "an end without DONE": stream(delta()),
    "DONE without finish": stream(delta(), b"[DONE]"),
    "an error": stream(delta(), {"error": {"message": "sorry"}}),
    "a line that never ends": stream(b"x" * 20_000_000),
    "carriage returns": stream(b'{"a":\r\r1}\r\r', b"[DONE]"),
    "a delta of words": stream({"choices": [{"index": 0, "delta": "hello"}]}, b"[DONE]"),
    "index of words": stream({"choices": [{"index": "zero", "delta": {"content": "a"}}]}, b"[DONE]"),
    "bad utf-8 in events": stream(b'{"choices": [{"delta": {"content": "\xff"}}]}', b"[DONE]"),
    "nested events": stream(b"[" * 50_000, b"[DONE]"),
}


def read_request(connection):
    """Read the whole of a request: to close with a part unread takes the answer back."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(65536)
        if not piece:
            return
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(fields[b"content-length"]) - len(body)
    while left > 0 and (piece := connection.recv(65536)):
        left -= len(piece)


class Hostile:
    """A server that sends the bytes it was given, whatever it is asked; and a trap beside it that counts visitors."""

    def __init__(self):
        self.listener, self.trap = (
            socket.create_server(("127.0.0.1", 0)),
            socket.create_server(("127.0.0.1", 0)),
        )
        self.port, self.trap_port = self.listener.getsockname()[1], self.trap.getsockname()[1]
        self.reply, self.caught = b"", 0
        self.threads = [threading.Thread(target=self._serve), threading.Thread(target=self._catch)]
        for thread in self.threads:
            thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection, self.reply)).start()

    def _answer(self, connection, reply):
        if isinstance(reply, tuple):
            place = f"http://127.0.0.1:{self.trap_port}/v1/chat/completions"
            reply = http(status=f"{reply[1]} Elsewhere", Location=place)
        with connection:
            try:
                connection.settimeout(PATIENCE)
                read_request(connection)
                for piece in reply if isinstance(reply, list) else [reply]:
                    connection.sendall(piece)
                    if isinstance(reply, list):
                        time.sleep(0.05)
            except OSError:
                pass  # the proxy had enough

    def _catch(self):
        while True:
            try:
                self.trap.accept()[0].close()
                self.caught += 1
            except OSError:
                return

    def close(self):
        for listener in (self.listener, self.trap):
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in self.threads:
            thread.join(PATIENCE)


@contextlib.contextmanager
def proxied(times):
    """A hostile server and the address of a proxy that waits for its answers so long."""
    hostile, running = Hostile(), Running()
    try:
        table = learner()
        table["stage"][1]["upstream"] = "hostile"
        upstreams = {
            "hostile": {"url": f"http://127.0.0.1:{hostile.port}/v1", "retries": 0, "timeout": times}
        }
        fake = running.serve(FakeUpstream(MODELS))
        proxy, _ = make_proxy([table], fake, 0, calling(1), upstreams)
        url = f"http://127.0.0.1:{running.serve(gated(proxy))}/v1"
        yield hostile, url
        running.call(proxy.close(1.0))
    finally:
        running.close()
        hostile.close()


@pytest.fixture(scope="module")
def here():
    with proxied(SHORT) as both:
        yield both


@pytest.fixture(scope="module")
def patient():
    with proxied(LONG) as both:
        yield both


def asked(here, reply, streamed):
    hostile, url = here
    hostile.reply = reply
    began = time.monotonic()
    got = ask(url, streamed)
    assert time.monotonic() - began < SOON
    assert hostile.caught == 0
    assert not {"set-cookie", "x-odd", "x-long", "location"} & set(got.headers)
    return got


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ALWAYS)
def test_what_is_no_answer_leads_to_the_next_stage(here, kind, streamed):
    got = asked(here, ALWAYS[kind], streamed)
    assert got.status == 200, (got.status, got.body[:300])
    assert got.headers["x-weakfeedback-fallback"] == "medium>large"
    assert got.clean and got.text == RIGHT if streamed else RIGHT in got.body.decode()


@pytest.mark.parametrize("kind", STREAMED)
def test_a_stream_that_is_none_never_ends_as_if_it_were_complete(here, kind):
    got = asked(here, STREAMED[kind], True)
    if got.status == 200 and got.clean:
        assert got.headers.get("x-weakfeedback-fallback") == "medium>large"
        assert got.text == RIGHT
    elif got.status == 200:
        assert got.error["message"]
    else:
        assert got.status in (502, 504)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        7,
        [],
        {"prompt_tokens": -5, "completion_tokens": "many"},
        {"prompt_tokens": 1e300, "completion_tokens": 10**30},
        {"prompt_tokens": True, "completion_tokens": None, "prompt_tokens_details": 4},
        {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10**9}},
    ],
)
def test_a_good_answer_with_odd_usage_is_taken_and_estimated(patient, usage):
    hostile, url = patient
    hostile.reply = said(completion(usage=usage), Connection="close")
    got = ask(url, False)
    assert got.status == 200
    assert "x-weakfeedback-fallback" not in got.headers
    assert got.data["choices"][0]["message"]["content"] == RIGHT
    assert float(got.headers["x-weakfeedback-cost"]) < 0.1
    assert QUESTION not in json.dumps(got.headers)
