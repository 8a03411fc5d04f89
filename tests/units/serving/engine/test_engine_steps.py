"""An engine with a clock and a model of the test: answers, deadlines, failures, cancellation; no thread."""

import pytest

from patchword.serving.engine.engine import Engine
from patchword.serving.engine.errors import CancelledRequestError, DeadlineError, DrainingError
from patchword.serving.engine.queue import QueueLimits, WorkQueue
from patchword.serving.engine.request import Item
from patchword.serving.engine.speed import Speed


class FakeModel:
    """Takes a second per batch, writes down the batches, and fails on inputs that are called poison."""

    def __init__(self) -> None:
        self.now, self.batches = 0.0, []

    def tick(self):
        self.now += 0.001
        return self.now

    def __call__(self, items):
        self.now += 1
        self.batches.append([item.value for item in items])
        if any(item.value == "poison" for item in items):
            raise ValueError("a poisoned input")
        return [ValueError("refused") if item.value == "refused" else item.value.upper() for item in items]


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture
def engine(model):
    return Engine("test", model, WorkQueue(QueueLimits(10, seconds=100), Speed(10, 10)), clock=lambda: model.now)


def submit(engine, *values, patience=30.0):
    return engine.submit([Item(value, 2) for value in values], patience).future


def run(engine):
    while engine.step():
        pass


def test_answers_have_the_order_of_the_inputs_over_several_batches(engine, model):
    first, second = submit(engine, *"abcdefg"), submit(engine, "h")
    run(engine)
    assert (first.result(0), second.result(0)) == (list("ABCDEFG"), ["H"])
    assert max(map(len, model.batches)) == 5
    assert (engine.stats.batches, engine.stats.items, engine.stats.size) == (2, 8, 16)


def test_a_poisoned_input_harms_no_neighbour(engine, model):
    good, bad, other = submit(engine, "a", "b"), submit(engine, "c", "poison"), submit(engine, "d")
    run(engine)
    assert (good.result(0), other.result(0)) == (["A", "B"], ["D"])
    with pytest.raises(ValueError, match="a poisoned input"):
        bad.result(0)
    together, *alone = model.batches
    assert alone == [[value] for value in together]
    assert sorted(together) == ["a", "b", "c", "d", "poison"]
    assert engine.stats.retried == 5
    assert engine.is_idle


def test_an_input_that_the_model_refuses_fails_its_request_without_a_retry(engine, model):
    good, bad = submit(engine, "a"), submit(engine, "refused", "b")
    run(engine)
    assert good.result(0) == ["A"]
    with pytest.raises(ValueError, match="refused"):
        bad.result(0)
    assert len(model.batches) == 1


def test_a_batch_that_fails_says_nothing_about_the_speed(model):
    def refusing(items):
        raise ValueError("refused before any work")

    queue = WorkQueue(QueueLimits(10, seconds=100), Speed(10, 10))
    failing = Engine("test", refusing, queue, clock=model.tick)
    submit(failing, *"abcde")
    run(failing)
    assert failing.load[2] == 10


def test_the_rest_of_a_failed_request_is_not_computed(engine, model):
    bad = submit(engine, "refused", *"abcdefgh")
    run(engine)
    assert isinstance(bad.exception(0), ValueError)
    assert len(model.batches) == 1


def test_a_model_with_too_few_answers_is_a_failure(engine):
    engine._compute = lambda items: []
    future = submit(engine, "a")
    run(engine)
    with pytest.raises(RuntimeError, match="1 inputs have 0 answers"):
        future.result(0)


def test_even_what_ends_a_program_ends_no_engine(engine):
    def leave(items):
        raise SystemExit(1)

    engine._compute, compute = leave, engine._compute
    future = submit(engine, "a")
    run(engine)
    with pytest.raises(RuntimeError, match=r"SystemExit\(1\)"):
        future.result(0)
    engine._compute = compute
    future = submit(engine, "b")
    run(engine)
    assert future.result(0) == ["B"]


def test_a_request_whose_deadline_has_passed_is_not_computed(engine, model):
    late, kept = submit(engine, "late", patience=2), submit(engine, "kept", patience=5)
    model.now = 2.0
    run(engine)
    with pytest.raises(DeadlineError, match="an answer within 2 s"):
        late.result(0)
    assert (kept.result(0), model.batches, engine.stats.late) == (["KEPT"], [["kept"]], 1)


def test_a_cancelled_request_frees_its_place(engine, model):
    gone = engine.submit([Item("gone", 2)], 30)
    kept = submit(engine, "kept")
    engine.cancel(gone)
    run(engine)
    assert isinstance(gone.future.exception(0), CancelledRequestError)
    assert (kept.result(0), model.batches, engine.stats.cancelled) == (["KEPT"], [["kept"]], 1)


def test_a_request_that_is_cancelled_while_it_is_computed_changes_nothing(engine, model):
    gone = engine.submit([Item(value, 2) for value in "abcdefg"], 30)

    def compute(items):
        engine.cancel(gone)
        return model(items)

    engine._compute = compute
    kept = submit(engine, "kept")
    run(engine)
    assert isinstance(gone.future.exception(0), CancelledRequestError)
    assert kept.result(0) == ["KEPT"]
    engine.cancel(gone)
    assert engine.stats.cancelled == 1


def test_a_closed_engine_answers_what_it_admitted(engine):
    kept = submit(engine, "kept")
    engine.close()
    with pytest.raises(DrainingError):
        submit(engine, "new")
    run(engine)
    assert kept.result(0) == ["KEPT"]


def test_what_waits_when_an_engine_stops_fails(engine):
    waiting = submit(engine, "a")
    engine.stop()
    with pytest.raises(DrainingError):
        waiting.result(0)
    assert not engine.step()
