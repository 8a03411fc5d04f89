"""Finds the folder of a run by what the user typed."""

from pathlib import Path


def run_folder(name: str, runs: Path) -> Path:
    """Return the folder of a run, given by its name inside `runs` or by its path; it may be broken.

    A link stays a link, so that `delete` sees it.
    """
    from patchword.core.errors import UserError, nearest
    from patchword.recipes.run_folder import refuse_several_runs
    from patchword.recipes.run_folders.listing import looks_like_run, run_folders

    places = (Path(name), runs / name)
    for place in places:
        if looks_like_run(place):
            return place
    for place in places:
        refuse_several_runs(place)
    known = [str(found.relative_to(runs)) for found in run_folders(runs)] if runs.is_dir() else []
    hint = nearest(name, known) if known else "`patchword train RECIPE` makes one"
    raise UserError(f"there is no run {name}", expected=f"the name of a run in {runs}, or the folder of one", hint=hint)
