"""Deletes and renames runs; neither touches a run that a process uses, nor a folder that is not a run."""

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import flush, remove_folder, write_text
from patchword.recipes.run_folders.listing import looks_like_run, run_folders
from patchword.recipes.run_folders.references import replaced_paths, runs_that_use
from patchword.recipes.run_folders.sealing import sealed_files
from patchword.recipes.schema.reading import read_recipe, recipe_from
from patchword.training.lock.lock import exclusive

RUNNING = "stop it with Ctrl-C, or wait until it ends"
_DELETED = re.compile(r"\..+\.\d+\.deleted")


def check_deletable(folder: Path) -> None:
    """Raise an error for a folder that `delete` must not remove: a link, a study, or anything that is not a run."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link", expected="the folder of a run", hint="remove the link with `rm`")
    if inside := list(run_folders(folder, depth=1)):
        named = ", ".join(str(path) for path in inside[:3])
        raise UserError(f"{folder} holds {len(inside)} runs", expected=f"the runs themselves, e.g. {named}")
    # every run has one file of each pair, however early it was killed
    pairs = (("machine.json", ".lock"), ("recipe.yaml", "metrics.jsonl"))
    if not all(any((folder / name).is_file() for name in pair) for pair in pairs):
        raise UserError(f"{folder} is not a run", expected="a folder with recipe.yaml and machine.json")


def delete_run(folder: Path) -> None:
    """Delete the folder of a run: it is renamed to a hidden name, then removed. Links inside are not followed."""
    check_deletable(folder)
    remove_leftovers(folder.parent)
    try:
        with exclusive(folder, RUNNING):
            remove_folder(folder, f".{folder.name[:150]}.{os.getpid()}.deleted")
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise UserError(f"cannot delete all of {folder}", got=reason, hint="check who owns the files") from None


def remove_leftovers(runs: Path) -> None:
    """Remove what a killed `delete` left."""
    for path in runs.iterdir():
        if _DELETED.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def rename_run(folder: Path, name: str) -> list[Path]:
    """Rename a run inside its folder; return the runs whose recipes had its path, which have the new one now."""
    target = folder.with_name(checked_name(name, "the new name of a run"))
    if not looks_like_run(folder) or folder.is_symlink():
        raise UserError(f"{folder} is not a run", expected="the folder of a run")
    if target.exists() or target.is_symlink():
        raise UserError(f"{target} already exists", hint="choose another name")
    if (folder.parent / "results.json").is_file():
        hint = f"rename the folder of the study instead: mv {folder.parent} NEW"
        raise UserError(f"{folder} belongs to a study, whose results have its name", hint=hint)
    with ExitStack() as locks:
        locks.enter_context(exclusive(folder, RUNNING))
        users = runs_that_use(folder, folder.parent)
        for user in users:
            locks.enter_context(exclusive(user, RUNNING))
        recipes = {user / "recipe.yaml": _moved(user / "recipe.yaml", folder, target) for user in users}
        folder.rename(target)
        flush(folder.parent)
        for file, text in recipes.items():
            with sealed_files(file.parent) as files:
                write_text(files / file.name, text)
    return users


def _moved(file: Path, folder: Path, target: Path) -> str:
    """Return a recipe with the new path of a folder."""
    values = read_recipe(file).model_dump(mode="json")
    old, new = folder.absolute(), target.absolute()
    return recipe_from(replaced_paths(values, folder, lambda path: str(new / Path(path).relative_to(old)))).to_yaml()


def checked_name(name: str, what: str) -> str:
    """Return the name of a run if it can be one folder in the folder of the runs."""
    if not name or "/" in name or name.startswith(".") or not name.isprintable() or len(os.fsencode(name)) > 200:
        raise UserError(what, expected="a name of at most 200 bytes, without / and no dot at its start", got=name)
    return name
