"""A process that serves: SIGTERM answers what was accepted, a second signal ends at once."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

SCRIPT = """
import sys
from support.serving.services import HeldModel
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service
from patchword.serving.draining import ServiceConnection, bound_server
from patchword.serving.server import bind, config_of

model = HeldModel()
compute = model.compute
def announced(items):
    print("begun", flush=True)
    sys.stdin.readline()
    model.go_on.set()
    return compute(items)
model.compute = announced
service = Service({"held": model.served()})
bound = bind("127.0.0.1", 0)
port = bound.getsockname()[1]
app = build_app(service, ApiAccess(frozenset([f"127.0.0.1:{port}"]), frozenset()))
print(port, flush=True)
service.start()
bound_server(config_of(app, ServiceConnection), service, float(sys.argv[1]), bound)
service.stop()
service.join(20)
print("ended", flush=True)
"""
PATIENT = 60


@contextmanager
def serving(drain: float, monkeypatch):
    """Yield the process and a socket on which one request is computed."""
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    command = [sys.executable, "-u", "-c", SCRIPT, str(drain)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            port = int(process.stdout.readline())
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENT) as client:
                send(client, port)
                assert process.stdout.readline() == "begun\n"
                yield process, client, port
        finally:
            process.kill()


def send(client, port):
    body = b'{"inputs": ["a"]}'
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def received(client) -> bytes:
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_what_was_accepted_is_answered_and_new_requests_are_refused(monkeypatch, sent):
    with serving(PATIENT, monkeypatch) as (process, client, port):
        process.send_signal(sent)
        assert process.stderr.readline().startswith("stopping: what was accepted is answered")
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENT) as late:
            send(late, port)
            refused = received(late)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close" in refused
        process.stdin.write("go on\n")
        process.stdin.flush()
        answer = received(client)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["answers"] == ["a"]
        assert process.stdout.readline() == "ended\n"
        assert process.wait(PATIENT) == 0


def test_the_time_to_drain_is_bounded(monkeypatch):
    with serving(0.2, monkeypatch) as (process, client, _):
        process.send_signal(signal.SIGTERM)
        assert not received(client).startswith(b"HTTP/1.1 200")  # while the model never answers
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        assert process.wait(PATIENT) == 0


def test_a_second_signal_ends_at_once(monkeypatch):
    with serving(PATIENT, monkeypatch) as (process, _, _):
        process.send_signal(signal.SIGTERM)
        assert process.stderr.readline().startswith("stopping")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENT) == 128 + signal.SIGTERM
