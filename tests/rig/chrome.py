"""A real browser, driven over its debugging socket: what a page loads, says on its console, shows and runs."""

import asyncio
import base64
import contextlib
import itertools
import json
import re
import shutil
import subprocess
import time

import aiohttp
import pytest
from tests.rig.processes import PATIENCE, until

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--hide-scrollbars", "--disable-background-networking", "--disable-component-update"),
)
START = re.compile(r"DevTools listening on (ws://\S+)")


def browser():
    """The name of a Chromium; the test is skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine: install chromium to test pages in a browser")
    return found


class Tab:
    """One page in the browser."""

    def __init__(self, socket):
        self._socket, self._numbers = socket, itertools.count(1)
        self._waiting, self.events = {}, []
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self):
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                self._waiting.pop(data["id"]).set_result(data)
            else:
                self.events.append(data)

    async def send(self, method, **parameters):
        """Send a command; an error of the protocol fails the test."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": parameters}))
        answer = await asyncio.wait_for(self._waiting[number], PATIENCE)
        assert "error" not in answer, answer
        return answer["result"]

    async def open(self, address, *, width=1280, height=900, dark=False, script=True, settle=0.0):
        """Load a page and wait until it is there."""
        self.events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=scheme)
        await self.send("Emulation.setScriptExecutionDisabled", value=not script)
        await self.resize(width, height)
        await self.send("Page.setLifecycleEventsEnabled", enabled=True)
        loader = (await self.send("Page.navigate", url=address))["loaderId"]  # an earlier page may still load
        await until(lambda: ("load", loader) in self._reached())
        await asyncio.sleep(settle)

    def _reached(self):
        """The stages of loading that pages have reached, and who loads them."""
        found = [event["params"] for event in self.events if event["method"] == "Page.lifecycleEvent"]
        return [(one["name"], one["loaderId"]) for one in found]

    async def resize(self, width, height):
        """Give the window another size, as a phone does that is turned."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **size)

    async def run(self, expression):
        """The value of an expression of the page."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until_true(self, expression):
        """Wait until an expression of the page is true; while one page goes and another comes it may fail."""
        end, said = time.monotonic() + PATIENCE, None
        while True:
            with contextlib.suppress(AssertionError):
                if said := await self.run(expression):
                    return
            assert time.monotonic() < end, f"never true: {expression}, but {said}"
            await asyncio.sleep(0.05)

    async def picture(self, path=None, whole=True):
        """A PNG of the page."""
        found = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        content = base64.b64decode(found["data"])
        if path is not None:
            path.write_bytes(content)
        return content

    def requests(self):
        """The addresses that the page asked for."""
        found = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in found]

    def complaints(self):
        """What the console says: errors, exceptions, and violations of the security policy."""
        found = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"])[:300])
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(str(parameters["args"])[:300])
        return found

    def transferred(self):
        """Bytes that came over the wire for files that are complete."""
        found = [event for event in self.events if event["method"] == "Network.loadingFinished"]
        return sum(event["params"]["encodedDataLength"] for event in found)


@contextlib.asynccontextmanager
async def chrome(folder):
    """A browser with one tab; it ends with the block."""
    words = [
        browser(),
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        "--remote-debugging-port=0",
        "about:blank",
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        address = await asyncio.to_thread(_address, process)
        port = re.search(r":(\d+)/", address).group(1)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
            async with session.ws_connect(tabs[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                try:
                    yield tab
                finally:
                    tab._reader.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await tab._reader
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stderr.close()


def _address(process):
    for line in process.stderr:
        if found := START.search(line):
            return found.group(1)
    raise AssertionError("the browser did not start")
