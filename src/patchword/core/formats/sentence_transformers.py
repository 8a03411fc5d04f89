"""Folders of sentence-transformers: a list of modules; the encoder may be in a subfolder."""

from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import read_json


def modules_of(folder: Path) -> dict[str, str]:
    """Return the class names of the modules, in order, with their subfolders; empty if there is no modules.json.

    A type is an import path. Only its last component is read; nothing is imported.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return {}
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise UserError(f"{path} is not a list of modules", expected="a JSON list of objects")
    types, places = ([module.get(name, "") for module in modules] for name in ("type", "path"))
    for kind in types:
        _check_type(kind, path)
    found = {kind.rpartition(".")[2]: place for kind, place in zip(types, places, strict=True)}
    if len(found) < len(modules):
        raise UserError(f"{path} lists unsupported modules", expected="each kind once", got=", ".join(types))
    if not all(place == "" or _is_inside(place) for place in found.values()):
        raise UserError(f"{path} lists unsupported modules", expected="subfolders of its folder", got=found)
    return found


def _check_type(kind: object, path: Path) -> None:
    """Refuse a type that is not an import path, and a module whose code is part of the folder."""
    if not isinstance(kind, str) or not all(word.isidentifier() for word in kind.split(".")):
        raise UserError(f"{path} lists unsupported modules", expected="names of modules", got=repr(kind)[:120])
    first = kind.partition(".")[0]
    if (path.parent / f"{first}.py").exists() or (path.parent / first / "__init__.py").exists():
        raise UserError(
            f"{path} asks for code that comes with the folder",
            expected="modules of sentence-transformers",
            got=kind[:120],
            hint="nothing was run",
        )


def _is_inside(place: object) -> bool:
    return isinstance(place, str) and Path(place).name == place and place != ".."


def encoder_folder(folder: Path) -> Path:
    """Return the folder of weights, config.json and tokenizer: 0_Transformer in older versions, else the folder."""
    below = folder / modules_of(folder).get("Transformer", "")
    return below if below.is_dir() else folder
