"""Finds the trained models that come along, by name: zoo:NAME.

An entry is a folder like that of a run. patchword carries few; the package patchword-zoo carries the others.
"""

from importlib.util import find_spec
from pathlib import Path

from patchword.core.errors import UserError, nearest

PREFIX = "zoo:"
PACKAGE = "patchword_zoo"
INSTALL = "pip install patchword-zoo (in a clone: pip install ./packages/zoo)"
CARD = "card.json"
OWN = Path(__file__).parent / "models"


def is_zoo_name(source: str | Path) -> bool:
    """Return True for a text with the prefix zoo:, which is then never a path."""
    return str(source).startswith(PREFIX)


def homes() -> tuple[Path, ...]:
    """Return the folders that hold entries: our own, and that of patchword-zoo if it is installed."""
    found = find_spec(PACKAGE)
    return (OWN, *map(Path, (found.submodule_search_locations or ()) if found else ()))


def is_installed() -> bool:
    """Return True if patchword-zoo is installed."""
    return len(homes()) > 1


def entries() -> dict[str, Path]:
    """Return the folder of every entry by its name, in alphabetical order."""
    found = {card.parent.name: card.parent for home in homes() for card in home.glob(f"*/{CARD}")}
    return dict(sorted(found.items()))


def entry_folder(source: str) -> Path:
    """Return the folder of zoo:NAME; an unknown name is an error that lists what there is."""
    name, known = source.removeprefix(PREFIX), entries()
    if name in known:
        return known[name]
    listed = ", ".join(f"{PREFIX}{one}" for one in known) or "no models"
    if not is_installed():
        hint = f"{INSTALL}\nwithout it there are: {listed}"
        raise UserError(f"{PREFIX}{name} is not installed", expected="the package patchword-zoo", hint=hint)
    hint = f"{nearest(name, known)} (`patchword models --zoo` lists all)"
    raise UserError(f"the zoo has no model {name!r}", expected=f"one of {listed}", hint=hint)


def is_entry(folder: Path) -> bool:
    """Return True for the folder of an entry, into which nothing is written."""
    return (folder / CARD).is_file() and folder.resolve().parent in {home.resolve() for home in homes()}
