"""A service on a real socket of this process, and a proxy that cuts, delays, doubles and reorders what passes it."""

import asyncio
import contextlib
import random
import threading

import uvicorn
from tests.rig.harness import opener, quick
from tests.rig.processes import PATIENCE

from weakfeedback.serve.app import make_app
from weakfeedback.serve.page.routes import page_of
from weakfeedback.serve.service import Service


@contextlib.asynccontextmanager
async def listening(path, options=None, auth=None):
    """The service over the store at ``path``, and the address of its page."""
    service = Service(opener(path), options or quick())
    await service.start()
    app = make_app(service, auth, **page_of(service, auth or _nobody()))
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, access_log=False, ws="none")
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server._serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield service, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        service.draining = True
        server.should_exit = True
        await task
        await service.stop()


def _nobody():
    from weakfeedback.serve.auth import Auth

    return Auth()


@contextlib.contextmanager
def in_thread(manager):
    """Run an asynchronous context manager in a thread of its own, so that the test can block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    try:
        found = wait(manager.__aenter__())
        try:
            yield found, wait
        finally:
            wait(manager.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Chaos:
    """A proxy between a client and a service. ``counts`` says what it did how often."""

    FAULTS = ("cut before", "cut after", "cut inside", "delay", "double", "reorder")

    def __init__(self, target, seed, share=0.3):
        self.target, self.dice, self.share = target, random.Random(seed), share
        self.counts = dict.fromkeys((*self.FAULTS, "passed"), 0)
        self._held = None

    @contextlib.asynccontextmanager
    async def running(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader, writer):
        try:
            while (request := await _message(reader)) is not None:
                answer = await self._pass(request)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if len(answer) < 20:  # it was cut
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _pass(self, request):
        fault = self.dice.choice(self.FAULTS) if self.dice.random() < self.share else "passed"
        self.counts[fault] += 1
        if fault == "cut before":
            return None
        if fault == "delay":
            await asyncio.sleep(0.05 * self.dice.random())
        if fault == "reorder":  # it waits until a later one has gone
            held, self._held = self._held, asyncio.Event()
            if held is not None:
                held.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._held.wait(), 0.1)
        elif self._held is not None:
            asyncio.get_running_loop().call_later(0.01, self._held.set)
        if fault == "double":
            answers = await asyncio.gather(self._send(request), self._send(request))
            return self.dice.choice(answers)
        answer = await self._send(request)
        if fault == "cut after":
            return None
        return answer[: self.dice.randrange(1, 19)] if fault == "cut inside" else answer

    async def _send(self, request):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            writer.write(request)
            return await _message(reader)
        finally:
            writer.close()


async def _message(reader):
    """One message of HTTP, of which the length is given; None at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + (await reader.readexactly(length) if length else b"")
