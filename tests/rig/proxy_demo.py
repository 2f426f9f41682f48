"""The proxy of the demo over a service in a temporary folder, at a free port; its models answer at once."""

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.rig.harness import opener, quick
from tests.rig.upstreams import Running

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.proxy import demo
from weakfeedback.serve.proxy.fake import FakeServer
from weakfeedback.serve.proxy.mount import make_proxy, prepare_learners, proxy_routes
from weakfeedback.serve.proxy.settings import read_proxied
from weakfeedback.serve.service import Service


@contextmanager
def demo_proxy():
    """Yield host and port."""
    running = Running()
    try:
        with tempfile.TemporaryDirectory() as folder:
            fake = demo.fake_models()
            fake.models = {
                name: replace(model, seconds=0.0, pause=0.0) for name, model in fake.models.items()
            }
            settings = [read_proxied("demo", table, ["made-up"]) for table in (demo.TABLE, demo.PRICED)]

            async def start():
                service = Service(opener(Path(folder) / "s.db"), quick(durability="process"))
                await service.start()
                proxy = make_proxy(service, {}, settings, {"made-up": FakeServer(fake)})
                await prepare_learners(service, proxy)
                return service, proxy

            service, proxy = running.call(start())
            try:
                auth = Auth()
                port = running.serve(make_app(service, auth, routes=proxy_routes(proxy, auth)))
                yield f"127.0.0.1:{port}"
            finally:
                running.call(proxy.close())
                running.call(service.stop())
    finally:
        running.close()
