"""Ctrl-C ends a server within seconds and without a word, also while it answers."""

import signal
import socket
import subprocess
import sys

SCRIPT = """
import asyncio
from patchword.serving.server import bind, serve

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
        return
    print("asked", flush=True)
    await asyncio.sleep(60)

bound = bind("127.0.0.1", 0)
print(bound.getsockname()[1], flush=True)
serve(app, bound)
"""


def test_a_request_that_is_cancelled_leaves_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process, socket.create_connection(("127.0.0.1", int(process.stdout.readline())), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) in (0, -signal.SIGINT)
        assert process.stderr.read() == ""
