"""The seal of a folder: what it finds, and that files and seal agree whenever a process is killed."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.core.seal import changing as changing_module
from patchword.core.seal import manifest
from patchword.core.seal.changing import changing, remove_staging, settled
from patchword.core.seal.checking import check, check_file, checked, findings
from patchword.core.seal.digest import Entry
from patchword.core.seal.manifest import SEAL, new_run_id, read_seal


@pytest.fixture
def folder(tmp_path):
    with changing(tmp_path / "run", update=lambda seal: replace(seal, run=new_run_id())) as staging:
        write_text(staging / "config.json", '{"width": 4}')
        write_text(staging / "vocab.txt", "one\ntwo\n")
        write_text(staging / "target" / "vocab.txt", "drei\n")
    return tmp_path / "run"


def content(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_a_sealed_folder_is_as_it_was(folder):
    seal = check(folder)
    assert sorted(seal.files) == ["config.json", "target/vocab.txt", "vocab.txt"]
    assert seal.files["vocab.txt"] == Entry.of(folder / "vocab.txt")
    assert all(finding.state == "ok" for finding in findings(folder, seal))
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_every_changed_bit_is_found(folder):
    for name in ("config.json", "vocab.txt", "target/vocab.txt", SEAL):
        path, whole = folder / name, (folder / name).read_bytes()
        for bit in range(8 * len(whole)):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with pytest.raises(UserError, match=path.name):
                check(folder)
        path.write_bytes(whole)
    check(folder)


def test_the_error_names_the_file_both_digests_and_the_command(folder):
    sha = Entry.of(folder / "config.json").sha256[:16]
    (folder / "config.json").write_text('{"width": 5}')
    with pytest.raises(UserError, match=r"config\.json has changed since it was written") as raised:
        check(folder)
    found = Entry.of(folder / "config.json").sha256[:16]
    assert sha in str(raised.value.expected)
    assert found in str(raised.value.got)
    assert f"patchword verify {folder} --reseal" in raised.value.hint


def test_a_missing_file_and_an_added_one_are_found(folder):
    (folder / "vocab.txt").rename(folder / "other.txt")
    with pytest.raises(UserError, match=r"vocab\.txt is missing"):
        check(folder)
    (folder / "other.txt").rename(folder / "vocab.txt")
    (folder / "notes.txt").write_text("of my own")  # means nothing
    check(folder)
    (folder / "tokenizer.json").write_text("{}")  # would be read instead of vocab.txt
    with pytest.raises(UserError, match=r"tokenizer\.json was added"):
        check(folder)


def test_one_file_is_checked_alone(folder):
    (folder / "vocab.txt").write_text("one\nTwo\n")
    check_file(folder / "config.json")
    check_file(folder / "notes.txt")
    with pytest.raises(UserError, match=r"vocab\.txt has changed"):
        check_file(folder / "vocab.txt")


def test_a_folder_without_a_seal_is_not_checked(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert check(tmp_path) is None
    check_file(tmp_path / "config.json")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "3", "{}", '{"digest": 1}', '{"digest": []}', "[" * 100_000, "\ud800", '{"a": NaN}'],
)
def test_a_seal_that_is_none_is_an_error(folder, text):
    (folder / SEAL).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError, match=r"seal\.json cannot be used"):
        read_seal(folder)


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "", ".", "a//b", "a\0b"])
def test_a_seal_made_by_others_does_not_leave_its_folder(folder, name):
    seal = read_seal(folder)
    replace(seal, files={name: seal.files["vocab.txt"]}).write(folder)
    with pytest.raises(UserError, match=r"seal\.json cannot be used"):
        read_seal(folder)


def test_a_change_replaces_adds_and_removes_together(folder):
    with changing(folder, removed=["vocab.txt", "nothing"]) as staging:
        write_text(staging / "config.json", "{}")
        write_text(staging / "new.json", "[]")
        assert (folder / "config.json").read_text() == '{"width": 4}'  # until the end
    assert sorted(check(folder).files) == ["config.json", "new.json", "target/vocab.txt"]
    assert not (folder / "vocab.txt").exists()


def test_an_error_before_the_end_changes_nothing(folder):
    def fail() -> None:
        with changing(folder) as staging:
            write_text(staging / "config.json", "{}")
            raise RuntimeError

    before = content(folder)
    with pytest.raises(RuntimeError):
        fail()
    assert content(folder) == before


def test_new_files_that_depend_on_replaced_ones_are_refused(folder):
    def write_both() -> None:
        with changing(folder, unless_changed=basis) as staging:
            write_text(staging / "evaluation.json", "[]")
            with changing(folder) as other:
                write_text(other / "vocab.txt", "of other weights")

    basis = {"vocab.txt": read_seal(folder).files["vocab.txt"]}
    with changing(folder, unless_changed=basis) as staging:
        write_text(staging / "evaluation.json", "{}")
    with pytest.raises(UserError, match=r"vocab\.txt was replaced meanwhile"):
        write_both()
    assert check(folder)
    assert (folder / "evaluation.json").read_text() == "{}"


class Killed(BaseException):
    """Nothing after it runs, as after a kill."""


def events(monkeypatch, stop_at: int) -> list[str]:
    """Count the calls that change the disk; raise Killed before the one with this number and at all later ones."""
    seen: list[str] = []

    def counted(name, real):
        def call(*args, **kwargs):
            if len(seen) == stop_at:
                raise Killed
            seen.append(name)
            return real(*args, **kwargs)

        return call

    for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (Path, "write_text"), (os, "fsync")):
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    monkeypatch.setattr(changing_module.shutil, "rmtree", counted("rmtree", changing_module.shutil.rmtree))
    return seen


def test_a_kill_at_any_moment_leaves_the_old_files_or_the_new_ones(folder, tmp_path_factory):
    """Every call that changes the disk is one at which the process may end."""

    def change(place: Path) -> None:
        with changing(place, removed=["vocab.txt"]) as staging:
            write_text(staging / "config.json", "{}")
            write_text(staging / "target" / "vocab.txt", "vier\n")

    old, outcomes, number = content(folder), [], 0
    while True:
        copy = tmp_path_factory.mktemp("copy") / "run"
        changing_module.shutil.copytree(folder, copy)
        with pytest.MonkeyPatch.context() as patched:
            seen = events(patched, number)
            try:
                change(copy)
                ended = True
            except Killed:
                ended = False
        check(copy)  # completes what was decided
        remove_staging(copy)
        files = {name: text for name, text in content(copy).items() if name != SEAL and not name.startswith(".")}
        is_old = files == {name: text for name, text in old.items() if name != SEAL}
        assert is_old or files == {"config.json": "{}", "target/vocab.txt": "vier\n"}
        outcomes.append(is_old)
        if ended:
            break
        number += 1
    assert number == len(seen) > 10
    assert outcomes == sorted(outcomes, reverse=True)  # first the old files, from the decision on the new ones
    assert outcomes[0]
    assert not outcomes[-1]


def test_a_pending_change_that_was_damaged_is_found(folder):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changing_module, "_apply", lambda folder, pending: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed), changing(folder) as staging:
            write_text(staging / "config.json", "{}")
    (waiting,) = folder.glob(".seal.*.tmp/config.json")
    waiting.write_text("[]")
    with pytest.raises(UserError, match=r"config\.json has changed"):
        check(folder)


def test_a_reader_sees_no_half_of_a_change(folder):
    """While one is replacing the files, another checks them again and again."""
    stop, faults = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            try:
                with checked(folder):
                    same = (folder / "config.json").read_text() == (folder / "vocab.txt").read_text()
                    faults.extend([] if same else ["half"])
            except UserError as error:
                faults.append(str(error))

    def write(text: str) -> None:
        with changing(folder) as staging:
            write_text(staging / "config.json", text)
            write_text(staging / "vocab.txt", text)

    write("0")
    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        write(str(number))
    stop.set()
    reader.join()
    assert faults == []


def test_a_newer_format_is_refused(folder):
    body = json.loads((folder / SEAL).read_text())
    body = {**body, "format": 3}
    del body["digest"]
    (folder / SEAL).write_text(manifest._rendered({**body, "digest": manifest._digest_of(body)}))
    with pytest.raises(UserError, match="another format"):
        settled(folder)
