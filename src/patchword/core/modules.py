"""Folders of sentence-transformers: a list of modules, of which the encoder may lie in a folder of its own."""

from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import read_json


def modules_of(folder: Path) -> dict[str, str]:
    """The kinds of its modules, in order, and the folder of each below this one; none if it is no such folder."""
    path = folder / "modules.json"
    if not path.is_file():
        return {}
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise UserError(f"{path} is not a list of modules", expected="a JSON list of objects")
    for kind in (str(module.get("type", "")) for module in modules):
        if not kind.startswith("sentence_transformers."):
            raise UserError(f"{path} names code that is not sentence-transformers' own", got=kind)
    found = {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    if any(Path(below).name != below for below in found.values() if below):
        raise UserError(f"{path} has parts we do not know", expected="folders inside it", got=found)
    return found


def encoder_folder(folder: Path) -> Path:
    """Where weights, config.json and tokenizer are: 0_Transformer in folders of older versions, else the folder."""
    below = folder / modules_of(folder).get("Transformer", "")
    return below if below.is_dir() else folder
