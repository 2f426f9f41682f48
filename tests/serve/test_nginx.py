"""The service behind a real nginx: TLS, a prefix, streams as they are made, and the headers that say who asks."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.server import Process
from tests.rig.upstreams import Running, free_port

from weakfeedback.serve.proxy.fake import FakeModel

CONF = Path(__file__).parents[2] / "docs" / "operate" / "nginx.conf"
SECRET = "a-token-that-is-long-enough"
SERVICE = """
[server]
hosts = ["decide.example"]
root_path = "/decide"
proxy_headers = ["127.0.0.1"]
[[server.token]]
file = "token"
scope = "admin"
[upstream.fake]
url = "http://127.0.0.1:{port}/v1"
[[learner]]
name = "support"
error_cost = 1.0
[[learner.stage]]
name = "only"
upstream = "fake"
model = "slow"
price = {{ input = 0.0, output = 50.0 }}
"""
AROUND = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {site}
}}
"""


class Site:
    """A client of the site, over TLS."""

    def __init__(self, port: int, certificate: Path, fake: FakeUpstream) -> None:
        self.port, self.fake = port, fake
        self.context = ssl.create_default_context(cafile=certificate)
        self.headers = {"Host": f"decide.example:{port}"}

    @contextlib.contextmanager
    def open(self, method: str, path: str, body: str | None = None, **headers: str):
        """The answer to a request, perhaps still on its way."""
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=PATIENCE, context=self.context
        )
        sent = {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        try:
            connection.request(method, path, body, sent)
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def __call__(self, *request: str | None, **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
        with self.open(*request, **headers) as answer:
            return answer.status, answer.headers, answer.read().decode()


@pytest.fixture(params=["passed on", "removed"], scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The service behind nginx, which passes the prefix on or removes it."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None or shutil.which("openssl") is None:
        pytest.skip("nginx and openssl are needed: install Debian's nginx-light and openssl")
    folder, running = tmp_path_factory.mktemp("nginx"), Running()
    key, certificate = folder / "site.key", folder / "site.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    try:
        fake = FakeUpstream({"slow": FakeModel("slow", 1.0)})
        upstream = running.serve(fake)
        (folder / "weakfeedback.toml").write_text(SERVICE.format(port=upstream))
        (folder / "token").write_text(SECRET)
        with Process(folder) as server:
            port, conf = free_port(), CONF.read_text()
            for old, new in (
                ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
                ("/etc/ssl/decide.example.pem", str(certificate)),
                ("/etc/ssl/decide.example.key", str(key)),
                (
                    "http://127.0.0.1:8470;",
                    f"http://127.0.0.1:{server.port}{'/' * (request.param == 'removed')};",
                ),
            ):
                assert old in conf
                conf = conf.replace(old, new)
            (folder / "nginx.conf").write_text(AROUND.format(folder=folder, site=conf))
            with open(folder / "nginx.out", "wb") as out:
                front = subprocess.Popen(
                    [nginx, "-c", folder / "nginx.conf", "-p", folder], stdout=out, stderr=out
                )
            try:
                wait_until(lambda: _listens(port))
                yield Site(port, certificate, fake)
            finally:
                front.terminate()
                front.wait(PATIENCE)
    finally:
        running.close()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def log_in(site: Site) -> str:
    """The cookie of somebody who has logged in."""
    status, headers, _ = site(
        "POST",
        "/decide/login",
        f"token={SECRET}&next=%2Flearners%2Fsupport",
        Content_Type="application/x-www-form-urlencoded",
        Origin=f"https://decide.example:{site.port}",
    )
    assert (status, headers["location"]) == (303, "/decide/learners/support")
    assert {"Path=/decide", "Secure", "HttpOnly"} <= set(headers["set-cookie"].split("; "))
    return headers["set-cookie"].partition(";")[0]


def test_the_api_and_its_document_are_below_the_prefix(site):
    token = {"Authorization": f"Bearer {SECRET}", "Content_Type": "application/json"}
    config = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1, 2], "error_cost": 9}
    assert site("PUT", "/decide/v1/learners/t", json.dumps(config), **token)[0] in (200, 201)
    status, _, text = site("POST", "/decide/v1/learners/t/decide", "{}", **token)
    assert (status, json.loads(text)["stage"] in (0, 1)) == (200, True)
    status, _, text = site("GET", "/decide/openapi.json")
    document = json.loads(text)
    assert (status, document["servers"]) == (200, [{"url": "/decide"}])
    assert site("GET", document["servers"][0]["url"] + "/health/ready")[0] == 200
    assert site("GET", "/decide/v1/learners/t")[0] == 401
    assert site("GET", "/elsewhere/v1/learners/t", **token)[0] in (403, 404)
    # nginx offers nothing outside of the prefix
    assert site("GET", "/v1/learners/t", **token)[0] in (403, 404)


def test_every_link_of_the_pages_leads_somewhere(site):
    status, headers, _ = site("GET", "/decide/learners/support")
    assert (status, headers["location"]) == (303, "/decide/login?next=%2Flearners%2Fsupport")
    cookie, links = log_in(site), set[str]()
    for page in ("/decide/", "/decide/learners/support", "/decide/docs"):
        status, _, text = site("GET", page, Cookie=cookie)
        assert status == 200
        links |= set(
            re.findall(r'(?:href|src|action|data-live|data-path|data-audit|data-root)="(/[^"]*)"', text)
        )
        assert page != "/decide/learners/support" or f"https://decide.example:{site.port}/decide/v1" in text
    assert len(links) >= 6
    for link in links:
        assert f"{link}/".startswith("/decide/"), link
        if not link.endswith(("/decide", "/logout", "/costs", "/audits")):  # nginx adds a /; others take POST
            with site.open("GET", link.replace("&amp;", "&"), Cookie=cookie) as answer:
                assert answer.status == 200, link


def test_the_live_page_arrives_as_it_is_made(site):
    with site.open("GET", "/decide/v1/learners/support/live?span=15m", Cookie=log_in(site)) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        with ask(site, stream=False) as answer:
            assert answer.status == 200
        assert wait_until(lambda: b"data: " in stream.readline())


def test_a_streamed_answer_arrives_word_by_word(site):
    words = 0
    site.fake.held.add("slow")
    with ask(site, stream=True) as answer:
        assert answer.status == 200
        while line := answer.readline():
            words += line.startswith(b"data: ")
            if words == 1:  # it came while the others were not made
                site.fake.held.clear()
    assert line == b""
    assert words >= 5


def ask(site: Site, stream: bool):
    """Ask the model."""
    body = {
        "model": "support",
        "stream": stream,
        "messages": [{"role": "user", "content": "What is 17 * 23?"}],
    }
    token = {"Authorization": f"Bearer {SECRET}", "Content_Type": "application/json"}
    return site.open("POST", "/decide/v1/chat/completions", json.dumps(body), **token)


def test_another_name_is_refused(site):
    assert site("GET", "/decide/health/ready", Host="evil.example")[0] == 421
