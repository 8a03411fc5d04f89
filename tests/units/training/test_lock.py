"""One process per run folder; a lock whose owner has ended never blocks."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from patchword.core.errors import UserError
from patchword.recipes import train as recipe_run
from patchword.training.lock import lock
from patchword.training.lock.lock import check_unlocked, exclusive
from patchword.training.lock.lock_owner import LockOwner, _start_time
from support.material import silent, tiny_recipe

HOLD = """
import os, sys, time
from pathlib import Path
from patchword.training.lock.lock import exclusive
with exclusive(Path(sys.argv[1])):
    child = os.fork() if sys.argv[2] == "with a child" else 1
    if child:
        print(child, flush=True)
    time.sleep(60)
"""


def holding(folder, child: bool = False) -> tuple[subprocess.Popen[str], int]:
    """Start a process that holds the lock; return it and the PID of its child."""
    words = [sys.executable, "-c", HOLD, str(folder), "with a child" if child else ""]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def enter(folder) -> None:
    with exclusive(folder):
        pass


def test_the_owner_is_named_and_a_killed_one_never_blocks(tmp_path):
    process, _ = holding(tmp_path)
    since = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    message = rf"is in use by another run: got process {process.pid} on \S+, since {since}\nwait until it ends"
    for ask in (enter, check_unlocked):
        with pytest.raises(UserError, match=message):
            ask(tmp_path)
    process.kill()
    process.wait()
    check_unlocked(tmp_path)
    enter(tmp_path)


def test_a_child_that_outlives_its_parent_does_not_block(tmp_path):
    """It has inherited the flock, so the system keeps it."""
    process, child = holding(tmp_path, child=True)
    try:
        with pytest.raises(UserError, match="is in use"):
            enter(tmp_path)
        process.kill()
        process.wait()
        with (tmp_path / ".lock").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with exclusive(tmp_path), pytest.raises(UserError, match=f"got process {os.getpid()} on"):
            enter(tmp_path)
        enter(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)


def left_by(folder, **changes: object) -> None:
    """Write a lock file as an owner leaves it that did not release it."""
    (folder / ".lock").write_text(replace(LockOwner.this(), **changes).text())


def test_the_lock_file_of_a_crash_does_not_block(tmp_path):
    for text in ("", "4711", "{}", "half of {", json.dumps({**asdict(LockOwner.this()), "more": 1})):
        (tmp_path / ".lock").write_text(text)
        enter(tmp_path)
    (tmp_path / ".lock").write_bytes(b"\xff\xfe{")
    check_unlocked(tmp_path)
    enter(tmp_path)
    left_by(tmp_path)
    enter(tmp_path)


def test_which_owners_have_ended():
    here = LockOwner.this()
    assert not here.is_gone()
    assert replace(here, began="1").is_gone()  # its PID was reused by another process
    assert not here.is_elsewhere()
    for other in (replace(here, boot="another"), replace(here, host="other")):
        assert other.is_elsewhere()
        assert not other.is_gone()  # cannot be known
    ended = subprocess.Popen(["sleep", "60"])
    child = replace(here, process=ended.pid, began=_start_time(ended.pid))
    assert not child.is_gone()
    ended.kill()
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert child.is_gone()  # a zombie has ended, too
    ended.wait()
    assert child.is_gone()
    assert not replace(here, processes="a container's", process=ended.pid).is_gone()
    assert LockOwner.read(here.text()) == here


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("where", [{"host": "other"}, {"boot": "of another machine of this name"}])
def test_an_owner_on_another_machine_counts_while_it_touches_the_file(tmp_path, monkeypatch, where, locked):
    """Whatever flock says: a network disk may not share it, or may keep that of a machine that failed."""
    monkeypatch.setattr(lock, "TOUCH_SECONDS", 0.02)
    left_by(tmp_path, **where)
    beats = iter([1, 1, 1, 2])
    with (tmp_path / ".lock").open() as other:
        if locked:
            fcntl.flock(other, fcntl.LOCK_EX)
        with monkeypatch.context() as patch:
            patch.setattr(lock, "_touch_time", lambda _: next(beats))
            with pytest.raises(
                UserError, match=rf"got process {os.getpid()} on {where.get('host', LockOwner.this().host)}"
            ):
                enter(tmp_path)
        assert next(beats, None) is None
        with (
            exclusive(tmp_path),
            pytest.raises(UserError, match=f"got process {os.getpid()} on {LockOwner.this().host}"),
        ):
            enter(tmp_path)  # the file was not touched, so the lock was taken over


def test_an_owner_touches_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "TOUCH_SECONDS", 0.01)
    with exclusive(tmp_path):
        assert lock._is_touched(tmp_path / ".lock")
    assert not lock._is_touched(tmp_path / ".lock")
    assert (tmp_path / ".lock").read_text() == ""  # released


def test_a_disk_without_flock_still_names_the_owner(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    monkeypatch.setattr(lock, "TOUCH_SECONDS", 0.01)
    enter(tmp_path)
    left_by(tmp_path, host="other")
    enter(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        left_by(tmp_path, process=process.pid, began=_start_time(process.pid))
        with pytest.raises(UserError, match=f"got process {process.pid}"):
            enter(tmp_path)
    finally:
        process.kill()
        process.wait()
    enter(tmp_path)


@pytest.mark.parametrize(("rank", "looked"), [("0", 1), ("1", 0)])
def test_only_the_main_process_checks_the_lock(tmp_path, monkeypatch, rank, looked):
    """Otherwise each would wait for an owner that has ended, and for the checks of the others."""
    for name, value in {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "a"}.items():
        monkeypatch.setenv(name, value)

    def met(*_: object) -> None:
        raise InterruptedError

    asked = []
    monkeypatch.setattr(recipe_run, "check_unlocked", asked.append)
    monkeypatch.setattr(recipe_run, "join_group", met)
    with pytest.raises(InterruptedError):
        recipe_run.train(tiny_recipe(), tmp_path / "run", silent())
    assert asked == [tmp_path / "run"] * looked


def test_the_early_check_creates_nothing(tmp_path):
    check_unlocked(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    check_unlocked(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []
