"""SIGTERM and kill -9 for a server under load, a hundred times: each request ends, accepted ones are answered."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from support.serving.loaded import PATIENCE, Clients, supervised, wait_until_ready
from support.survival_runs import COUNT

pytest.importorskip("uvicorn")
ROUNDS = max(2, round(100 * COUNT))
WRONG = ("no answer", "another request's answer")


def child_of(parent: int) -> int:
    """Return the process that answers; another child keeps resources for Python."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next(int(one) for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes())


async def _terminated(rng: random.Random, accepted: Path) -> Clients:
    """Stop a server under load; return its clients when it has ended."""
    with supervised(accepted) as (parent, port):
        clients = Clients(port)
        running = asyncio.create_task(clients.run())
        await asyncio.sleep(rng.uniform(0.2, 0.6))
        parent.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(parent.wait, PATIENCE) == 0
        clients.stop()
        await running
        return clients


@pytest.mark.slow
def test_sigterm_under_load_loses_nothing_that_was_accepted(tmp_path, capsys):
    rng, ends, began, lost = random.Random(0), Counter[str](), time.monotonic(), set[str]()
    for number in range(ROUNDS):
        accepted = tmp_path / str(number)
        clients = asyncio.run(_terminated(rng, accepted))
        ends += clients.ends
        lost |= clients.without_answer & set(accepted.read_text().splitlines())
    with capsys.disabled():
        print(f"\nSIGTERM, {ROUNDS} rounds in {time.monotonic() - began:.0f} s: {dict(ends)}; lost: {len(lost)}")
    assert not lost
    assert not any(ends[one] for one in WRONG)
    assert ends["200"] > 10 * ROUNDS


async def _killed(rng: random.Random, accepted: Path) -> Clients:
    """Kill the process that answers, again and again."""
    with supervised(accepted) as (parent, port):
        clients = Clients(port)
        running = asyncio.create_task(clients.run())
        for _ in range(ROUNDS):
            await asyncio.sleep(rng.uniform(0.2, 0.6))
            os.kill(child_of(parent.pid), signal.SIGKILL)
            await asyncio.to_thread(wait_until_ready, parent)
        clients.stop()
        await running
        parent.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(parent.wait, PATIENCE) == 0
        return clients


@pytest.mark.slow
def test_a_kill_under_load_ends_connections_and_nothing_hangs(tmp_path, capsys):
    accepted, began = tmp_path / "accepted", time.monotonic()
    clients = asyncio.run(_killed(random.Random(1), accepted))
    lost = clients.without_answer & set(accepted.read_text().splitlines())
    with capsys.disabled():
        seconds = time.monotonic() - began
        print(f"\nkill -9, {ROUNDS} rounds in {seconds:.0f} s: {dict(clients.ends)}; of these accepted: {len(lost)}")
    assert not any(clients.ends[one] for one in WRONG)
    assert len(lost) <= clients.count * ROUNDS  # what was computed, and not more
    assert clients.ends["200"] > 10 * ROUNDS
