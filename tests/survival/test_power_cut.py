"""A power cut after any call to the disk, and any call that fails: the run resumes, and ends with the same bits."""

import random

import pytest

from support.power.disk import Disk, after_power_cut, replayed
from support.power.events import Acknowledged, Create, MakeFolder, Rename, Sync, Unlink, Write
from support.power.recording import contents
from support.power.runs import TinyRun
from support.power.sweep import call_faults, counted, cut_faults, power_cuts, sampled

QUICK_CUTS, QUICK_CALLS = 20, 8


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    run = TinyRun(tmp_path_factory.mktemp("power"))
    whole, events = run.whole()
    at_end = contents(run.runs)
    return run, whole, events, at_end


def calls_of(events) -> int:
    return sum(not isinstance(event, Acknowledged) for event in events)


def test_the_record_has_every_write(recorded):
    _, _, events, at_end = recorded
    assert replayed(events).image() == at_end
    assert sum(isinstance(event, Sync) for event in events) > 50


def test_what_is_not_synced_may_be_lost():
    disk = replayed([Create("a"), Write("a", 0, b"1234"), Sync("a"), Sync("."), Write("a", 4, b"5678"), Create("b")])
    images = dict(after_power_cut(disk, 0, random.Random(0)))
    assert images == {
        "nothing unsafe is left": {"a": b"1234"},
        "all is left, as after a kill": {"a": b"12345678", "b": b""},
        "names without their data": {"a": b"1234", "b": b""},
        "data without their names": {"a": b"12345678"},
        "half of the data": {"a": b"123456", "b": b""},
        "zeros for data": {"a": b"1234\0\0\0\0", "b": b""},
    }


def test_a_rename_happens_whole_or_not_at_all():
    events = [MakeFolder("x"), Create("x/a"), Write("x/a", 0, b"1"), Sync("x/a"), Sync("x"), Sync("."), Create("a")]
    disk = replayed([*events, Sync("."), Rename("x/a", "a")])
    assert _left(disk) == [{"x": None, "x/a": b"1", "a": b""}, {"x": None, "a": b"1"}]
    disk.apply(Sync("."))
    assert _left(disk) == [{"x": None, "a": b"1"}]
    disk.apply(Unlink("x"))
    assert _left(disk) == [{"x": None, "a": b"1"}, {"a": b"1"}]


def _left(disk: Disk) -> list[dict[str, bytes | None]]:
    found: list[dict[str, bytes | None]] = []
    for _, image in after_power_cut(disk, 8, random.Random(0)):
        found += [image] * (image not in found)
    return found


def test_a_file_that_is_renamed_without_fsync_is_a_fault(recorded, monkeypatch):
    run, whole, events, _ = recorded
    careless = [event for event in events if not (isinstance(event, Sync) and "checkpoints" in event.path)]
    saved = next(number for number, event in enumerate(careless) if isinstance(event, Acknowledged))
    cuts = [cut for cut in power_cuts(careless[: saved + 2], 0) if cut[2]]
    assert any(fault for _, fault in cut_faults(run, whole, cuts))


def test_a_sample_of_power_cuts_loses_nothing(recorded):
    run, whole, events, _ = recorded
    kinds, faults = counted(cut_faults(run, whole, sampled(power_cuts(events, 1), QUICK_CUTS)))
    assert faults == []
    assert len(kinds) > 3


def test_a_sample_of_failing_calls_loses_nothing(recorded):
    run, whole, events, _ = recorded
    kinds, faults = counted(call_faults(run, whole, sampled(range(1, calls_of(events) + 1), QUICK_CALLS)))
    assert faults == []
    assert kinds["EIO: ended with an error"] > kinds["EIO: went on"]


@pytest.mark.slow
def test_every_power_cut_loses_nothing(tmp_path, capsys):
    run = TinyRun(tmp_path)
    whole, events = run.whole()
    cuts = power_cuts(events)
    kinds, faults = counted(cut_faults(run, whole, cuts))
    _print(capsys, f"{calls_of(events)} calls, {len(cuts)} different states after a power cut", kinds, faults)
    assert faults == []


@pytest.mark.slow
def test_every_failing_call_loses_nothing(tmp_path, capsys):
    run = TinyRun(tmp_path)
    whole, events = run.whole()
    kinds, faults = counted(call_faults(run, whole, range(1, calls_of(events) + 1)))
    _print(capsys, f"each of {calls_of(events)} calls fails, with EIO and with a full disk", kinds, faults)
    assert faults == []


def _print(capsys, what: str, kinds: dict[str, int], faults: list[str]) -> None:
    with capsys.disabled():
        print(f"\n{what}; {len(faults)} faults\n{kinds}")
