"""A supervised server that repeats texts, and clients that keep it busy and write down what became of each request."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.serving.settings import ServeSettings
from patchword.serving.supervisor import Report, Supervisor, report_line

PATIENCE = 60.0


def repeating(settings: ServeSettings, bound: socket.socket, report: Report, ready: Any) -> None:
    """Serve a model that repeats texts and takes 10 ms per batch."""
    from patchword.serving.api.app import build_app
    from patchword.serving.api.guard import ApiAccess
    from patchword.serving.api.service import Service
    from patchword.serving.draining import ServiceConnection, bound_server
    from patchword.serving.server import config_of
    from support.serving.services import HeldModel

    accepted = Path(settings.sources[0])

    class Repeating(HeldModel):
        def items(self, inputs: Sequence[Any], top: int) -> list[Any]:
            found = super().items(inputs, top)
            with accepted.open("a") as file:
                file.writelines(f"{item.value}\n" for item in found)
            return found

        def compute(self, items: Sequence[Any]) -> Sequence[Any]:
            time.sleep(0.01)
            return [item.value for item in items]

    service, port = Service({"held": Repeating().served(queue=1e9)}), bound.getsockname()[1]
    app = build_app(service, ApiAccess(frozenset([f"127.0.0.1:{port}"]), frozenset()))
    service.start()
    ready()
    report("ready")
    bound_server(config_of(app, ServiceConnection), service, 10, bound)
    service.stop()
    service.join(PATIENCE)


def supervise(accepted: str) -> None:
    """Run it as the command does. accepted: the file that gets the texts of accepted requests"""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as bound:
        report_line(f"port {bound.getsockname()[1]}")
        with suppress(UserError):
            Supervisor(repeating, ServeSettings((accepted,)), bound, report_line, deaths=1000).run()


@contextmanager
def supervised(accepted: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield the parent, when its process is ready, and the port."""
    script = f"from support.serving.loaded import supervise; supervise({str(accepted)!r})"
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=environment) as parent:
        try:
            assert parent.stderr is not None
            found = re.fullmatch(r"port (\d+)\n", parent.stderr.readline())
            assert found is not None
            wait_until_ready(parent)
            yield parent, int(found[1])
        finally:
            parent.kill()


def wait_until_ready(parent: subprocess.Popen[str]) -> None:
    assert parent.stderr is not None
    assert any(line == "ready\n" for line in iter(parent.stderr.readline, ""))


class Clients:
    """Ask without a pause, each over its own connection.

    ends: how many requests ended in each way. without_answer: the texts whose connection ended before an answer.
    """

    def __init__(self, port: int, count: int = 16) -> None:
        self.port, self.count = port, count
        self.ends, self.without_answer = Counter[str](), set[str]()
        self._is_over = False

    async def run(self) -> None:
        """Ask until `stop`."""
        await asyncio.gather(*(self._client(number) for number in range(self.count)))

    def stop(self) -> None:
        self._is_over = True

    async def _client(self, number: int) -> None:
        asked, streams = 0, None
        while not self._is_over:
            asked += 1
            text = f"{time.monotonic_ns()} {number} {asked}"
            try:
                streams = streams or await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                self.ends["nobody listened"] += 1
                await asyncio.sleep(0.05)
                continue
            try:
                end, is_kept = await asyncio.wait_for(self._ask(*streams, text), PATIENCE)
            except TimeoutError:
                end, is_kept = "no answer", False
            except (OSError, asyncio.IncompleteReadError):
                end, is_kept = "its connection ended", False
                self.without_answer.add(text)
            self.ends[end] += 1
            if not is_kept:
                streams[1].close()
                streams = None

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> tuple[str, bool]:
        """Return how the request ended, and whether the connection stays."""
        body = json.dumps({"inputs": [text]}).encode()
        head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in rest if line)
        answer = json.loads(await reader.readexactly(int(headers["content-length"])))
        status = first.split()[1]
        if status == "200" and answer["answers"] != [text]:
            return "another request's answer", False
        return status, headers.get("connection") != "close"
