"""Plain HTTP, to see every byte."""

import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.rig.processes import PATIENCE

from weakfeedback.serve.proxy.fake import truth

QUESTION = "What is 17 * 23?"
RIGHT = f"The answer is {truth(QUESTION)}."


@dataclass
class Got:
    """An answer: its status, headers and bytes."""

    status: int
    headers: dict
    body: bytes

    @property
    def data(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The data of the events of a stream."""
        parts = self.body.decode().split("\n\n")
        assert parts[-1] == ""
        return [part.removeprefix("data: ") for part in parts[:-1]]

    @property
    def text(self):
        """What a stream said, as far as it came."""
        chunks = [json.loads(data) for data in self.events if data != "[DONE]"]
        choices = [choice for chunk in chunks for choice in chunk.get("choices", [])]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    @property
    def clean(self):
        """Whether a stream says that it is complete."""
        return self.events[-1:] == ["[DONE]"]

    @property
    def error(self):
        """The error that ends a stream."""
        return json.loads(self.events[-1])["error"]


def body_of(stream=False, question=QUESTION, model="support", **more):
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": question}], **more}


def connect(url):
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)


def send(connection, body, headers=None):
    connection.request(
        "POST",
        "/v1/chat/completions",
        json.dumps(body),
        {"Content-Type": "application/json", **(headers or {})},
    )


def ask(url, stream=False, headers=None, **more):
    """Ask, and return everything that came."""
    connection = connect(url)
    try:
        send(connection, body_of(stream, **more), headers)
        answer = connection.getresponse()
        return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()
