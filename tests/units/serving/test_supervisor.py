"""A process that dies is replaced while its parent holds the socket; none of the two outlives the other."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

PATIENT = 60


@pytest.fixture
def supervised(monkeypatch):
    """Start a parent whose process does what is named; return the parent and what it printed first, the port."""

    @contextmanager
    def start(name):
        monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
        script = f"from support.serving.targets import supervise; supervise({name!r})"
        with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True) as parent:
            try:
                yield parent, int(read(parent, "port"))
            finally:
                parent.kill()

    return start


def read(parent, word):
    """Return what follows a word on the next line that begins with it."""
    for line in iter(parent.stderr.readline, ""):
        if found := re.fullmatch(rf"{word} ?(.*)\n", line):
            return found[1]
    raise AssertionError(f"no line begins with {word}")


def asked(port):
    """Connect, and return the number of the process that answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENT) as client:
        return int(client.recv(100))


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_process_is_replaced_and_clients_wait_for_the_next(supervised):
    with supervised("answering") as (parent, port):
        first = int(read(parent, "process"))
        assert asked(port) == first != parent.pid
        os.kill(first, signal.SIGKILL)
        second = asked(port)
        assert second not in (first, parent.pid)
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(PATIENT) == 0
        said = parent.stderr.read().splitlines()
        assert said[0] == "the process that answers died (signal 9), with what it was computing; another one starts"
        assert said[1:] == [f"process {second}", "drained", "ended"]
        assert not is_alive(second)


def test_a_process_that_always_dies_is_an_error(supervised):
    with supervised("dying") as (parent, _):
        assert parent.wait(PATIENT) == 2
        said = parent.stderr.read()
    assert said.count("another one starts") == 2
    assert "UserError the process that answers died 3 times within 60 seconds | None | signal 9" in said


def test_an_error_of_the_users_is_told_once_as_it_is(supervised):
    with supervised("refusing") as (parent, _):
        assert parent.wait(PATIENT) == 2
        assert parent.stderr.read() == "UserError no such model | one that is there | none | look again\n"


def test_a_signal_while_models_are_opened_ends_both(supervised):
    with supervised("opening") as (parent, _):
        read(parent, "opening")
        parent.send_signal(signal.SIGINT)
        assert parent.wait(PATIENT) == 128 + signal.SIGINT


def test_a_process_without_its_parent_drains(supervised):
    with supervised("answering") as (parent, port):
        number = int(read(parent, "process"))
        assert asked(port) == number
        parent.kill()
        assert parent.stderr.read() == "drained\n"  # to its end, when the process has closed it
        ends = time.monotonic() + PATIENT
        while is_alive(number) and time.monotonic() < ends:
            time.sleep(0.02)
        assert not is_alive(number)
