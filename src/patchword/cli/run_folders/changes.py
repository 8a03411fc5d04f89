"""runs clean, rename and delete: change run folders."""

from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Runs, console
from patchword.cli.run_folders.names import run_folder

Names = Annotated[list[str], typer.Argument(metavar="RUN...", help="Names of runs inside `runs`, or their folders.")]


def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Delete runs with all their files, after asking.

    A run that is running is refused, and so is a folder that is not a run. Links inside a run are removed; what they
    lead to stays.

    Examples:

      patchword runs delete first second
      patchword runs delete old --yes
    """
    from patchword.core.disk_space import format_bytes
    from patchword.core.files import folder_bytes
    from patchword.recipes.run_folders.changes import RUNNING, check_deletable, delete_run
    from patchword.recipes.run_folders.references import runs_that_use
    from patchword.training.lock.lock import check_unlocked

    chosen = {folder.absolute(): folder for folder in (run_folder(name, runs) for name in names)}
    out, folders = console(), list(chosen.values())
    sizes = {folder: folder_bytes(folder) for folder in folders}
    for folder in folders:
        check_deletable(folder)
        check_unlocked(folder, RUNNING)
        users = [str(user) for user in runs_that_use(folder, folder.absolute().parent) if user not in chosen]
        out.print(f"{folder}  {format_bytes(sizes[folder])}", highlight=False, markup=False)
        if users:
            note = f"  its weights are named in the recipe of {', '.join(users)}: an unfinished one cannot resume then"
            out.print(note, highlight=False, markup=False)
    if not yes:
        typer.confirm("delete all files in it?" if len(folders) == 1 else "delete all files in them?", abort=True)
    for folder in folders:
        delete_run(folder)
        out.print(f"deleted {folder}", highlight=False, markup=False)


def rename(
    old: Annotated[str, typer.Argument(metavar="RUN", help="The name of a run inside `runs`, or its folder.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    runs: Runs = Path("runs"),
) -> None:
    """Rename a run; it stays in its folder.

    Runs beside it that were started from it, e.g. with model=RUN or teacher=RUN, get the new path in their recipes. A
    run that is running, a run of a study, and a name that exists already are refused.

    Example:

      patchword runs rename digits-vit baseline
    """
    from patchword.recipes.run_folders.changes import rename_run

    folder, out = run_folder(old, runs), console()
    users = rename_run(folder, new)
    target = folder.with_name(new)
    out.print(str(target), highlight=False, markup=False)
    for user in users:
        out.print(f"the recipe of {user} has the new path", highlight=False, markup=False)
    if (target / "report.html").is_file():
        note = f"the report still has the old name; to write it again: patchword evaluate {target}"
        out.print(note, highlight=False, markup=False)


def clean(names: Names, runs: Runs = Path("runs")) -> None:
    """Remove the checkpoints of finished runs, which only an unfinished run needs.

    A run does so itself when it is finished, unless its recipe has keep_checkpoints=true; this is for runs of earlier
    versions and for those. A run that is not finished is refused.

    Example:

      patchword runs clean first second
    """
    from patchword.core.disk_space import format_bytes
    from patchword.core.files import folder_bytes
    from patchword.recipes.run_folders.finished import clean as clean_folder

    folders = [run_folder(name, runs) for name in names]
    for folder in dict.fromkeys(folders):
        before = folder_bytes(folder)
        freed = clean_folder(folder)
        text = f"{folder}: {format_bytes(before)}, now {format_bytes(before - freed)}"
        console().print(text, highlight=False, markup=False)
