"""Replace files of a sealed folder so that files and seal agree, whenever the process is killed.

The new files are written into a hidden folder. Then the seal names them as pending: from here on the change is
decided. They are renamed into their places, and the seal is written without the pending change. Who finds a pending
change, because the process was killed in between, completes it first.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from patchword.core.disk_space import write_error
from patchword.core.errors import UserError
from patchword.core.files import flush, make_folder
from patchword.core.seal.digest import Entry
from patchword.core.seal.folder_lock import locked
from patchword.core.seal.manifest import Pending, Seal, read_seal

_STAGING = re.compile(r"\.seal\..+\.tmp")


@contextmanager
def changing(
    folder: Path,
    removed: Iterable[str] = (),
    update: Callable[[Seal], Seal] = lambda seal: seal,
    unless_changed: Mapping[str, Entry] | None = None,
) -> Iterator[Path]:
    """Yield a hidden folder; the files that are written there replace those of `folder`, all of them or none.

    removed: names of files that go at the same time. update: changes other fields of the seal. unless_changed: files
    on which the new ones depend; if one of them was replaced meanwhile, nothing is written and a UserError raised.
    """
    make_folder(folder)
    try:
        staging = Path(tempfile.mkdtemp(prefix=".seal.", suffix=".tmp", dir=folder))
    except OSError as error:
        raise write_error(f"cannot write into {folder}", folder, error) from None
    try:
        yield staging
        entries = _flushed(staging)
        with locked(folder):
            before = settle(folder) or Seal()
            _refuse_replaced(folder, before, unless_changed or {})
            _replace(folder, update(before), Pending(staging.name, entries, sorted({*removed} - entries.keys())))
    except OSError as error:
        raise write_error(f"cannot write into {folder}", folder, error) from None
    finally:
        if not _is_pending(folder, staging):
            shutil.rmtree(staging, ignore_errors=True)


def settle(folder: Path) -> Seal | None:
    """Complete a change that a killed process left pending; return the seal. The caller holds the lock."""
    seal = read_seal(folder)
    if seal is None or seal.pending is None:
        return seal
    _apply(folder, seal.pending)
    after = seal.changed(seal.pending.files, seal.pending.removed)
    after.write(folder)
    shutil.rmtree(folder / seal.pending.folder, ignore_errors=True)
    return after


def settled(folder: Path) -> Seal | None:
    """Return the seal of a folder; a pending change is completed first."""
    seal = read_seal(folder)
    if seal is None or seal.pending is None:
        return seal
    try:
        with locked(folder):
            return settle(folder)
    except (OSError, UserError) as error:
        hint = f"complete it as a user who may write there: patchword verify {folder}"
        raise UserError(
            f"a save into {folder} was interrupted, and cannot be completed", got=error, hint=hint
        ) from None


def remove_staging(folder: Path) -> None:
    """Remove what killed processes left; not what is pending. No other process may write into the folder."""
    seal = read_seal(folder)
    kept = seal.pending.folder if seal and seal.pending else ""
    for path in folder.iterdir():
        if _STAGING.fullmatch(path.name) and path.name != kept and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _replace(folder: Path, before: Seal, pending: Pending) -> None:
    if pending.files or pending.removed:
        replace(before, pending=pending).write(folder)
        _apply(folder, pending)
    before.changed(pending.files, pending.removed).write(folder)


def _apply(folder: Path, pending: Pending) -> None:
    """Rename the files into their places; those that are there already are left out."""
    for name in pending.files:
        new, final = folder / pending.folder / name, folder / name
        if new.exists():
            make_folder(final.parent)  # which a power cut does not take away with the file
            new.replace(final)
    for name in pending.removed:
        (folder / name).unlink(missing_ok=True)
    for place in {(folder / name).parent for name in pending.files} | {folder}:
        flush(place)


def _flushed(staging: Path) -> dict[str, Entry]:
    """Return the entries of all files of a folder, which are on the disk then."""
    found = {}
    for place, _, names in os.walk(staging):
        for path in (Path(place) / name for name in names):
            flush(path)
            found[path.relative_to(staging).as_posix()] = Entry.of(path)
        flush(Path(place))
    flush(staging.parent)  # else the seal may name a folder as pending that a power cut took away
    return found


def _refuse_replaced(folder: Path, seal: Seal, before: Mapping[str, Entry]) -> None:
    for name, entry in before.items():
        if seal.files.get(name) != entry:
            got = seal.files.get(name, "no such file")
            hint = "nothing was written: run the command again"
            raise UserError(f"{folder / name} was replaced meanwhile", expected=entry, got=got, hint=hint)


def _is_pending(folder: Path, staging: Path) -> bool:
    """Return whether the seal still names the hidden folder; then its files are needed."""
    try:
        seal = read_seal(folder)
    except UserError:
        return False
    return seal is not None and seal.pending is not None and seal.pending.folder == staging.name
