"""The thread of an engine, and the choice of torch's threads by measurement."""

import itertools
from threading import Event, get_ident

import pytest

from patchword.serving.engine.engine import Engine
from patchword.serving.engine.queue import QueueLimits, WorkQueue
from patchword.serving.engine.request import Item
from patchword.serving.engine.speed import Speed
from patchword.serving.engine.threads import ThreadedCompute, measure

PATIENT = 60


def engine_of(compute) -> Engine:
    return Engine("test", compute, WorkQueue(QueueLimits(8, seconds=1e9, requests=10**6), Speed(1e9, 8)))


def test_many_requests_are_answered_by_one_thread():
    threads = set()

    def compute(items):
        threads.add(get_ident())
        return [item.value + 1 for item in items]

    engine = engine_of(compute)
    engine.start()
    assert engine.is_alive
    futures = [engine.submit([Item(n, 1), Item(-n, 1)], PATIENT).future for n in range(500)]
    assert [future.result(PATIENT) for future in futures] == [[n + 1, 1 - n] for n in range(500)]
    engine.stop()
    engine._thread.join(PATIENT)
    assert not engine.is_alive
    assert len(threads) == 1


def test_a_stopped_engine_finishes_its_batch():
    begun, go_on = Event(), Event()

    def compute(items):
        begun.set()
        assert go_on.wait(PATIENT)
        return [item.value for item in items]

    engine = engine_of(compute)
    engine.start()
    running = engine.submit([Item("running", 8)], PATIENT).future
    assert begun.wait(PATIENT)
    waiting = engine.submit([Item("waiting", 8)], PATIENT).future
    engine.stop()
    assert waiting.exception(PATIENT)
    assert not running.done()
    go_on.set()
    assert running.result(PATIENT) == ["running"]
    engine._thread.join(PATIENT)


@pytest.mark.parametrize(
    ("seconds", "full", "single", "per_second"),
    [
        ({(1, 4): 4.0, (2, 4): 2.0, (1, 1): 1.0, (2, 1): 2.0}, 2, 1, 20),
        ({(1, 4): 4.0, (2, 4): 3.9, (1, 1): 1.0, (2, 1): 0.5}, 1, 2, 10),  # 3.9 is no gain
    ],
)
def test_threads_are_chosen_by_measurement(seconds, full, single, per_second):
    now, threads, used = [0.0], [0], []

    def compute(items):
        now[0] += seconds.get((threads[0], len(items)), 0.0)
        used.append((threads[0], len(items)))
        return items

    def set_threads(count):
        threads[0] = count

    batch = [Item(None, 10) for _ in range(4)]
    measured = measure(compute, batch, [1, 2], clock=lambda: now[0], set_threads=set_threads)
    assert (measured.full, measured.single, measured.per_second) == (full, single, per_second)
    used.clear()
    threaded = ThreadedCompute(compute, measured, set_threads)
    for items in (batch, batch[:1], batch[:1], batch[:2], [Item(None, 40)] * 4):
        threaded(items)
    assert used == [(full, 4), (single, 1), (single, 1), (full, 2), (full, 4)]


@pytest.mark.parametrize(
    ("seconds", "budget", "per_second"),
    [
        ({4: 0.05, 8: 0.06, 16: 0.11}, 160, 160 / 0.11),
        ({4: 0.05, 8: 0.06, 16: 0.12}, 80, 80 / 0.06),  # 0.12 is no gain
        ({4: 0.05, 8: 0.098, 16: 0.1}, 40, 40 / 0.05),
        ({4: 0.13, 8: 0.14, 16: 0.15}, 40, 40 / 0.13),  # two of them may take longer than others should wait
        ({4: 0.01, 8: 0.01, 16: 0.01, 32: 0.01}, 160, 160 / 0.01),
    ],
)
def test_larger_batches_are_taken_where_they_pay(seconds, budget, per_second):
    now = [0.0]

    def compute(items):
        now[0] += seconds.get(len(items), 0.01)

    batch = [Item(None, 10) for _ in range(4)]
    measured = measure(compute, batch, [1], clock=lambda: now[0], set_threads=lambda count: None)
    assert (measured.size, measured.budget) == (40, budget)
    assert measured.per_second == pytest.approx(per_second)


def test_a_compute_that_takes_no_time_can_be_measured():
    ticks = itertools.count()
    measured = measure(lambda items: items, [Item(None, 3)], [1], lambda: next(ticks) * 0.1, lambda count: None)
    assert measured.per_second == pytest.approx(120)  # four times the batch within one tick
