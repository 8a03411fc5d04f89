"""A power cut after any call of a change of a sealed folder: files and seal are those of before, or those of after."""

import pytest

from patchword.core.errors import UserError
from patchword.core.files import remove_temporary_files
from patchword.core.seal.changing import changing, remove_staging
from patchword.core.seal.checking import check
from support.power.disk import written
from support.power.recording import Recorder, contents, recording, without_fsync
from support.power.sweep import power_cuts

OLD, NEW = {"a": "1", "b": "2"}, {"a": "3", "c/d": "4"}


def files_of(folder) -> dict[str, str]:
    found = contents(folder)
    return {name: text.decode() for name, text in found.items() if text is not None and name != "seal.json"}


def change(folder, files, removed=()) -> None:
    with changing(folder, removed) as staging:
        for name, text in files.items():
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_text(text)


@pytest.fixture
def events(tmp_path):
    """Of two changes: the second one replaces a file, adds one in a new folder, and removes one."""
    (tmp_path / "disk").mkdir()
    with recording(Recorder(tmp_path / "disk")) as recorder:
        change(tmp_path / "disk" / "run", OLD)
        before = len(recorder.events)
        change(tmp_path / "disk" / "run", NEW, ["b"])
    return recorder.events, before


def test_files_and_seal_agree_after_any_power_cut(tmp_path, events):
    found = set()
    for place, (number, name, _, image) in enumerate(power_cuts(events[0], 8)):
        disk = tmp_path / str(place)
        written(image, disk)
        folder = disk / "run"
        if not folder.exists():
            assert number < events[1]
            continue
        with without_fsync():
            seal = check(folder)
            remove_staging(folder)
            remove_temporary_files(folder)
        files = files_of(folder)
        assert files in ({}, OLD, NEW), (number, name)
        assert seal is not None or not files
        found.add((number > events[1], frozenset(files)))
    assert found == {(False, frozenset()), (False, frozenset(OLD)), (True, frozenset(OLD)), (True, frozenset(NEW))}


def test_a_change_that_is_not_synced_would_be_found(tmp_path, events):
    careless = [event for event in events[0] if type(event).__name__ != "Sync"]
    faults = 0
    for place, (_, _, _, image) in enumerate(power_cuts(careless, 2)):
        written(image, tmp_path / str(place))
        try:
            with without_fsync():
                check(tmp_path / str(place) / "run")
        except UserError:
            faults += 1
    assert faults > 0
