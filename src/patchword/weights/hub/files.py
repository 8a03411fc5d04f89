"""Which files of a repository are fetched: weights as safetensors, configs and tokenizers, and nothing else."""

import re
from collections.abc import Iterable
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.core.tensor_files import PICKLES
from patchword.weights.hub.name import HubName

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SETTINGS = (
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")


def choose_files(listed: Iterable[str], name: HubName) -> list[str]:
    """Return the files to fetch in their order: weights first and the config last.

    A folder with a config is thereby a folder whose weights were verified, even if the download is stopped in between.
    """
    names = set(listed)
    shards = sorted(file for file in names if _SHARD.fullmatch(file)) if INDEX in names else []
    weights = [WEIGHTS] if WEIGHTS in names else [*shards, INDEX] if shards else []
    if not weights:
        raise _no_weights(sorted(names), name)
    if CONFIG not in names:
        raise UserError(f"{name} is not a model that patchword reads", expected=f"a file {CONFIG}", got=_some(names))
    return [*weights, *(file for file in SETTINGS if file in names), CONFIG]


def is_complete(folder: Path) -> bool:
    """Return True if a folder has a config and all of its weight files."""
    if not (folder / CONFIG).is_file():
        return False
    if not (folder / INDEX).is_file():
        return (folder / WEIGHTS).is_file()
    try:
        places = read_json(folder / INDEX)["weight_map"]
        return all(_SHARD.fullmatch(shard) and (folder / shard).is_file() for shard in set(places.values()))
    except (KeyError, TypeError, AttributeError, UserError):
        return False


def _no_weights(names: list[str], name: HubName) -> UserError:
    if pickled := [file for file in names if Path(file).suffix.lower() in PICKLES]:
        return UserError(
            f"{name} has only pickled weights, which can run any code when they are opened",
            expected=WEIGHTS,
            got=", ".join(pickled[:3]),
            hint="nothing was fetched. Look on the hub for a conversion: under 'Pull requests' (then "
            f"hf:{name.id}@refs/pr/NUMBER), or a copy of another owner.\nIf you trust the file, convert it once: "
            f'transformers.AutoModel.from_pretrained("{name.id}").save_pretrained(FOLDER)',
        )
    return UserError(f"{name} has no weights", expected=f"{WEIGHTS}, or {INDEX} with its shards", got=_some(names))


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:5]) + (", ..." if len(found) > 5 else "") if found else "no files"
