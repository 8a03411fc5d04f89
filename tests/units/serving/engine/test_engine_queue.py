"""Which requests a queue admits, and which inputs form a batch; the time is given."""

import pytest

from patchword.serving.engine.errors import DrainingError, QueueFullError, TooMuchWorkError
from patchword.serving.engine.queue import QueueLimits, WorkQueue
from patchword.serving.engine.request import Item
from patchword.serving.engine.speed import Speed


def queue(budget: int = 100, per_second: float = 100, **limits: float) -> WorkQueue:
    return WorkQueue(QueueLimits(budget, **limits), Speed(per_second, budget))


def items(*sizes: int, group: str = "a") -> list[Item]:
    return [Item(f"{group}{number}", size, group) for number, size in enumerate(sizes)]


def values(batch) -> list[str]:
    return [item.value for item in batch.items]


def test_a_batch_takes_inputs_from_the_front_while_they_fit():
    found = queue()
    first, second = found.admit(items(40, 30), 0, 30), found.admit(items(30, 20), 1, 30)
    batch = found.take()
    assert [(request, index) for request, index in batch.parts] == [(first, 0), (first, 1), (second, 0)]
    assert (batch.size, found.size) == (100, 120)
    found.finish(batch, 1)
    assert values(found.take()) == ["a1"]
    assert found.take() is None


def test_an_input_beyond_the_budget_goes_alone():
    found = queue()
    found.admit(items(10, 250, 10), 0, 30)
    assert [values(found.take()) for _ in range(3)] == [["a0"], ["a1"], ["a2"]]


def test_a_batch_has_inputs_of_one_group():
    found = queue()
    found.admit(items(10, group="predict"), 0, 30)
    found.admit(items(11, group="embed"), 0, 30)
    found.admit(items(12, 13, group="predict"), 0, 30)
    assert values(found.take()) == ["predict0", "predict0", "predict1"]
    assert values(found.take()) == ["embed0"]


def test_a_short_request_overtakes_a_long_one_only_as_long_as_that_one_takes():
    found = queue(budget=10)
    long = found.admit(items(*[10] * 15), now=0, patience=30)  # 1.5 s of work
    soon = found.admit(items(10, group="s"), now=1.3, patience=30)
    late = found.admit(items(10, group="l"), now=1.45, patience=30)
    order = [found.take().parts[0][0] for _ in range(17)]
    assert order == [soon, *[long] * 15, late]


def test_the_queue_is_bounded_in_seconds_of_work():
    found = queue(seconds=2)
    for _ in range(5):
        found.admit(items(50), 0, 30)
    with pytest.raises(QueueFullError, match=r"at most 2 s of work in the queue, got 2\.5 s") as refused:
        found.admit(items(1), 0, 30)
    assert refused.value.retry_after == 1
    found.finish(found.take(), 1)
    found.admit(items(1), 0, 30)


def test_a_full_queue_is_known_before_a_request_is_read():
    found = queue(seconds=2)
    for _ in range(5):
        found.check()
        found.admit(items(50), 0, 30)
    with pytest.raises(QueueFullError, match=r"at most 2 s of work in the queue, got 2\.5 s"):
        found.check()
    found.is_closed = True
    with pytest.raises(DrainingError):
        found.check()


def test_what_is_computed_counts_as_work():
    found = queue(seconds=0.5)
    found.admit(items(100), 0, 30)
    batch = found.take()
    with pytest.raises(QueueFullError):
        found.admit(items(1), 0, 30)
    found.finish(batch, 1)
    found.admit(items(1), 0, 30)


def test_a_request_that_cannot_be_answered_in_time_is_refused_at_once():
    found = queue(seconds=10)
    with pytest.raises(TooMuchWorkError, match=r"at most 3 s of work.*got about 4.0 s"):
        found.admit(items(200, 200), 0, 3)
    found.admit(items(200), 0, 3)
    with pytest.raises(QueueFullError):  # 2 s are ahead of it
        found.admit(items(150), 0, 3)


def test_the_number_of_requests_is_bounded():
    found = queue(requests=3)
    for _ in range(3):
        found.admit(items(1), 0, 30)
    with pytest.raises(QueueFullError):
        found.admit(items(1), 0, 30)


def test_a_closed_queue_admits_nothing_and_keeps_what_it_has():
    found = queue()
    found.admit(items(1), 0, 30)
    found.is_closed = True
    with pytest.raises(DrainingError):
        found.admit(items(1), 0, 30)
    assert values(found.take()) == ["a0"]


def test_late_requests_leave_the_queue():
    found = queue()
    late, early = found.admit(items(1), 0, 1), found.admit(items(2), 0, 3)
    assert found.remove_late(now=1) == [late]
    assert [request for request, _ in found.take().parts] == [early]


def test_a_batch_that_is_faster_than_the_measured_speed_counts_whatever_its_size():
    speed = Speed(100, budget=50)
    for _ in range(10):
        speed.observe(10, 0.01)
    assert speed.per_second == pytest.approx(1000, rel=0.01)


def test_the_speed_slows_down_with_full_batches_only():
    speed = Speed(100, budget=50)
    speed.observe(10, 100)
    assert speed.per_second == 100
    for _ in range(100):
        speed.observe(50, 1)
    assert speed.per_second == pytest.approx(50, rel=0.01)
    assert speed.seconds(100) == pytest.approx(2, rel=0.01)
