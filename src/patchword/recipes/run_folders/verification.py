"""Compare all files of a run with its seal, and seal a run again after a deliberate change."""

import time
from dataclasses import replace
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.seal.changing import settle, settled
from patchword.core.seal.checking import MEANINGFUL, Finding, findings
from patchword.core.seal.digest import Entry
from patchword.core.seal.folder_lock import locked
from patchword.core.seal.manifest import SEAL, Change, Seal, new_run_id
from patchword.recipes.run_folders.listing import looks_like_run
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.checkpoint.origin import origin_of
from patchword.training.lock.lock import exclusive
from patchword.training.run_log import METRICS
from patchword.zoo.entries import is_entry

RUNNING = "stop it with Ctrl-C, or wait until it ends"


def verify_run(folder: Path) -> tuple[Seal, list[Finding]]:
    """Return the seal of a run, and each of its files with what was found."""
    seal = settled(folder)
    if seal is not None:
        with locked(folder, shared=True):
            return seal, list(findings(folder, seal))
    raise no_seal(folder)


def no_seal(folder: Path) -> UserError:
    """Return the error for a folder without a seal, which says why it has none."""
    if is_entry(folder):
        return UserError(f"{folder} has no seal", got="a model of the zoo", hint="only the runs of your own are sealed")
    if not looks_like_run(folder):
        hint = "only the run folders of `patchword train` are sealed, not those of other libraries"
        return UserError(f"{folder} has no seal", got="a folder that is no run", hint=hint)
    hint = f"it may be of an earlier version; seal it as it is: patchword verify {folder} --reseal"
    return UserError(f"{folder} has no seal", hint=hint)


def reseal(folder: Path, why: str = "") -> Change | None:
    """Seal a run as it is now, and record which files changed; None if the seal fits already."""
    if is_entry(folder) or not looks_like_run(folder):
        raise UserError(f"{folder} is not a run of your own", expected="a run folder of `patchword train`")
    with exclusive(folder, RUNNING), locked(folder):
        before, lost = _seal_of(folder)
        names = {*before.files, *MEANINGFUL, *([METRICS] if (folder / "finished.json").is_file() else [])}
        present = sorted(name for name in names if (folder / name).is_file())
        files = {name: Entry.of(folder / name, like=before.files.get(name)) for name in present}
        changed = [SEAL] if lost else []
        changed += sorted(name for name in {*before.files, *files} if before.files.get(name) != files.get(name))
        if not changed:
            return None
        change = Change(time.strftime("%Y-%m-%d %H:%M:%S"), changed, why)
        replace(before, files=files, changes=[*before.changes, change]).write(folder)
        return change


def _seal_of(folder: Path) -> tuple[Seal, bool]:
    """Return the seal, or what is known of a lost one from the checkpoints; and whether it was lost."""
    try:
        seal = settle(folder)
    except UserError:
        seal = None  # it was changed
    if seal is not None:
        return seal, False
    checkpoints = Checkpoints(folder / "checkpoints").all()
    origins = [origin for origin in map(origin_of, checkpoints) if origin is not None]
    known = next((origin for origin in reversed(origins) if origin), {})
    run, recipe, data = known.get("run", new_run_id()), known.get("recipe", ""), known.get("data", "")
    return Seal(run, recipe, data, resealed=not known, has_checkpoint=bool(checkpoints)), True
