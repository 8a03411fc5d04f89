"""Inputs that need several batches: their order among others, deadlines, cancellation; no thread."""

import pytest

from patchword.serving.engine.engine import Engine
from patchword.serving.engine.errors import CancelledRequestError, DeadlineError, DrainingError, QueueFullError
from patchword.serving.engine.queue import QueueLimits, WorkQueue
from patchword.serving.engine.request import Item, Unfinished
from patchword.serving.engine.speed import Speed


class Counting:
    """Counts the batches that each input has had: an input "a3" needs three. A batch takes a second."""

    def __init__(self) -> None:
        self.now, self.batches, self.counts = 0.0, [], {}

    def __call__(self, items):
        self.now += 1
        self.batches.append([item.value for item in items])
        return [self.answer(item.value) for item in items]

    def answer(self, value):
        self.counts[value] = self.counts.get(value, 0) + 1
        needed = int(value[1:])
        if self.counts[value] == needed:
            return ValueError("a poisoned token") if value[0] == "p" else value.upper()
        return Unfinished(self.counts[value])


@pytest.fixture
def model():
    return Counting()


@pytest.fixture
def engine(model):
    return Engine("test", model, WorkQueue(QueueLimits(4, seconds=100), Speed(1, 4)), clock=lambda: model.now)


def submit(engine, value, patience=1_000.0, group="steps"):
    seen = []
    size = int(value[1:])
    request = engine.submit([Item(value, size, group, portion=1)], patience, seen.append)
    return request, seen


def run(engine):
    while engine.step():
        pass


def test_an_input_comes_back_until_it_is_finished(engine, model):
    request, seen = submit(engine, "a3")
    run(engine)
    assert (request.future.result(0), seen, model.batches) == (["A3"], [1, 2], [["a3"]] * 3)
    assert (engine.stats.items, engine.stats.batches, engine.stats.size) == (1, 3, 3)
    assert sum(engine.stats.queued.counts) == 1
    assert engine.is_idle


def test_others_have_their_turn_in_between(engine, model):
    long, _ = submit(engine, "a9")
    engine.step()
    short, _ = submit(engine, "b2")
    other, _ = submit(engine, "c1", group="other")
    run(engine)
    assert [request.future.result(0) for request in (long, short, other)] == [["A9"], ["B2"], ["C1"]]
    assert model.batches[:4] == [["a9"], ["c1"], ["b2", "a9"], ["b2", "a9"]]


def test_what_is_left_is_the_work_in_the_queue(engine):
    submit(engine, "a9")
    assert engine.load[1] == 9
    engine.step()
    assert engine.load[1] == 8
    engine._queue.limits = QueueLimits(4, seconds=7)
    with pytest.raises(QueueFullError):
        submit(engine, "b1")
    engine.step()
    submit(engine, "b1")


def test_the_deadline_counts_between_two_batches(engine, model):
    late, seen = submit(engine, "a9", patience=9)
    submit(engine, "b2", group="other")  # overtakes it
    run(engine)
    with pytest.raises(DeadlineError):
        late.future.result(0)
    assert model.counts["a9"] < 9
    assert seen == list(range(1, model.counts["a9"] + 1))
    assert engine.is_idle


def test_a_cancelled_input_has_no_further_batch(engine, model):
    gone, _ = submit(engine, "a9")
    engine.step()
    engine.cancel(gone)
    run(engine)
    assert isinstance(gone.future.exception(0), CancelledRequestError)
    assert model.counts["a9"] == 1


def test_an_input_that_is_cancelled_during_its_batch_does_not_come_back(engine, model):
    gone, seen = submit(engine, "a9")

    def compute(items):
        engine.cancel(gone)
        return model(items)

    engine._compute = compute
    run(engine)
    assert (model.counts["a9"], seen) == (1, [])
    assert engine.is_idle


def test_a_failure_ends_one_input_only(engine):
    bad, _ = submit(engine, "p2")
    good, _ = submit(engine, "a3")
    run(engine)
    assert isinstance(bad.future.exception(0), ValueError)
    assert good.future.result(0) == ["A3"]


def test_an_engine_that_stops_during_a_batch_fails_what_is_unfinished(engine, model):
    request, _ = submit(engine, "a9")

    def compute(items):
        engine.stop()
        return model(items)

    engine._compute = compute
    engine.step()
    with pytest.raises(DrainingError):
        request.future.result(0)
