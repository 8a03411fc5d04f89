"""Background saves: a consistent copy, one save at a time, and no error is lost."""

import threading

import pytest
import torch

from patchword.training.checkpoint import background
from patchword.training.checkpoint.background import BackgroundCheckpoints
from patchword.training.checkpoint.checkpoint import Checkpoints


@pytest.fixture
def gate(monkeypatch):
    """Saves wait in their thread until the gate opens."""
    opened, plain, under_way = threading.Event(), Checkpoints._fill, []

    def slowly(self, *arguments):
        under_way.append(1)
        assert len(under_way) == 1  # never two at once
        assert opened.wait(20)
        plain(self, *arguments)
        under_way.pop()

    monkeypatch.setattr(Checkpoints, "_fill", slowly)
    return opened


def test_a_save_has_the_values_of_the_moment_of_the_call(tmp_path, gate):
    checkpoints, weight = BackgroundCheckpoints(tmp_path), torch.zeros(8)
    state = {"batch": 1}
    checkpoints.save("epoch-1", {"weight": weight}, state)
    weight += 1  # training continues before the thread writes
    state["batch"] = 2
    assert checkpoints.all() == []
    gate.set()
    checkpoints.wait()
    tensors, kept = checkpoints.newest(pytest.fail)
    assert torch.equal(tensors["weight"], torch.zeros(8))
    assert kept == {"batch": 1}


def test_the_next_save_waits_for_the_running_one(tmp_path, gate):
    checkpoints = BackgroundCheckpoints(tmp_path)
    checkpoints.save("epoch-1", {"weight": torch.ones(8)}, {})
    threading.Timer(0.05, gate.set).start()
    checkpoints.save("epoch-2", {"weight": torch.full((8,), 2.0)}, {})
    assert (tmp_path / "epoch-1").is_dir()
    checkpoints.wait()
    assert float(checkpoints.newest(pytest.fail)[0]["weight"][0]) == 2
    assert checkpoints.cost.waited > 0


def test_leaving_the_context_waits(tmp_path, gate):
    threading.Timer(0.05, gate.set).start()
    with BackgroundCheckpoints(tmp_path) as checkpoints:
        checkpoints.save("epoch-1", {"weight": torch.ones(8)}, {})
    assert (tmp_path / "epoch-1").is_dir()


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A save that failed in its thread."""

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "_fill", fails)
    checkpoints = BackgroundCheckpoints(tmp_path)
    checkpoints.save("epoch-1", {"weight": torch.ones(8)}, {})
    checkpoints._thread.join()
    return checkpoints


@pytest.mark.parametrize("look", ["check", "wait", "save", "leave"])
def test_a_failure_is_raised_at_the_next_call(broken, look):
    looks = {
        "check": broken.check,
        "wait": broken.wait,
        "save": lambda: broken.save("epoch-2", {"weight": torch.ones(8)}, {}),
        "leave": lambda: broken.__exit__(None, None, None),
    }
    with pytest.raises(ValueError, match="No space left on device"):
        looks[look]()
    broken.check()  # raised once
    assert list(broken.folder.iterdir()) == []


def test_a_failure_does_not_hide_the_error_before_it(broken):
    def fail() -> None:
        with broken:
            raise RuntimeError("the first")

    with pytest.raises(RuntimeError, match="the first"):
        fail()


def test_without_memory_for_a_copy_a_save_is_synchronous(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "free_memory", lambda: 32)
    costs = []
    checkpoints = BackgroundCheckpoints(tmp_path, on_first_save=costs.append)
    checkpoints.save("epoch-1", {"weight": torch.ones(8)}, {})
    assert checkpoints._thread is None
    assert checkpoints.newest(pytest.fail) is not None
    assert costs == [checkpoints.cost]
    assert costs[0].waited == costs[0].seconds


def test_the_buffers_of_a_save_are_reused(tmp_path):
    checkpoints = BackgroundCheckpoints(tmp_path)
    places = []
    for number, size in enumerate((8, 8, 9)):
        checkpoints.save(f"epoch-{number}", {"weight": torch.full((size,), float(number))}, {})
        places.append(checkpoints._copy["weight"].data_ptr())
        checkpoints.wait()
        assert torch.equal(checkpoints.newest(pytest.fail)[0]["weight"], torch.full((size,), float(number)))
    assert places[0] == places[1] != places[2]


def test_the_cost_is_reported_once(tmp_path):
    costs = []
    with BackgroundCheckpoints(tmp_path, on_first_save=costs.append) as checkpoints:
        for number in range(3):
            checkpoints.save(f"epoch-{number}", {"weight": torch.ones(8)}, {})
    assert len(costs) == 1
    assert costs[0].bytes > 32
