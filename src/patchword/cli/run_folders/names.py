"""Finds the folder of a run by what the user typed."""

from pathlib import Path


def run_folder(name: str, runs: Path) -> Path:
    """Return the folder of a run, given by its name inside `runs` or by its path; it may be broken.

    A link stays a link, so that `delete` sees it. A name of two runs is an error: the wrong one could be deleted.
    """
    from patchword.core.errors import UserError, nearest
    from patchword.recipes.run_folder import refuse_several_runs
    from patchword.recipes.run_folders.listing import looks_like_run, run_folders

    if not name.strip():
        raise UserError("the name of a run is empty", expected="a name or a folder")
    is_path = name.startswith(("./", "../", "/"))
    places = [_with_name(place) for place in ((Path(name),) if is_path else (Path(name), runs / name))]
    found = {place.resolve(): place for place in places if looks_like_run(place)}
    if len(found) > 1:
        here, below = found.values()
        raise UserError(f"{name} is the name of two runs", expected=f"./{here} or {below.absolute()}")
    for place in found.values():
        return place
    for place in places:
        refuse_several_runs(place)
    known = [str(found.relative_to(runs)) for found in run_folders(runs)] if runs.is_dir() else []
    hint = nearest(name, known) if known else "`patchword train RECIPE` makes one"
    raise UserError(f"there is no run {name}", expected=f"the name of a run in {runs}, or the folder of one", hint=hint)


def _with_name(place: Path) -> Path:
    """Return the path of a folder with its own name, also of `.` and `..`."""
    return place if place.name not in ("", "..") else place.resolve()
