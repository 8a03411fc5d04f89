"""Read weight files of any library: tensors under our names, and the config and preprocessor settings."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.files import parse_json, read_json
from patchword.core.formats.sentence_transformers import encoder_folder, modules_of
from patchword.core.tensor_files import PICKLES, Tensors, read_tensors, refuse_pickle, rename_older_tensors
from patchword.weights.io.safety_checks import refuse_code
from patchword.weights.names import layouts
from patchword.weights.names.name_table import Layout
from patchword.weights.names.text import elmo
from patchword.weights.names.text.tensorflow import is_old, modern

OURS = Layout("patchword", "", (), (), lambda shapes: {})  # for files with our names, whose card names the model
WEIGHT_FILES = ("model.safetensors", "model.npz")


@dataclass(frozen=True)
class WeightSource:
    """Tensors under our names, unknown names, the layout of the file, its config and its preprocessor settings."""

    ours: Tensors
    unknown: list[str]
    layout: Layout
    config: Mapping[str, Any]
    preprocessor: Mapping[str, Any]


def read_folder(folder: Path) -> WeightSource:
    if published := elmo.published(folder):
        return _elmo(published)
    config, folder = _sentence_transformers(folder), encoder_folder(folder)
    tensors: Tensors = {}
    metadata: dict[str, str] = {}
    for file in _weight_files(folder):
        part, metadata = read_tensors(file)
        tensors |= part
    config = {**(_read_object(folder / "config.json") or _card_of(metadata, folder)), **config}
    return _recognise(tensors, config, _read_object(folder / "preprocessor_config.json"))


def read_file(path: Path) -> WeightSource:
    """Read one file; config.json and preprocessor_config.json in the folder of a model.safetensors belong to it."""
    if path.suffix == elmo.SUFFIX:
        return _elmo(path)
    tensors, metadata = read_tensors(path)
    config, preprocessor = (
        _read_object(path.parent / name) if path.name in WEIGHT_FILES else {}
        for name in ("config.json", "preprocessor_config.json")
    )
    return _recognise(tensors, _card_of(metadata, path) or config, preprocessor)


def _elmo(path: Path) -> WeightSource:
    """Read the authors' ELMo file, which needs more than renaming: gates are reordered and matrices transposed."""
    tensors, card = elmo.read(path)
    return WeightSource(tensors, [], OURS, {"library": "patchword", **asdict(card)}, {})


def _sentence_transformers(folder: Path) -> dict[str, Any]:
    """Read how a sentence-transformers folder pools a text into one vector."""
    kinds = modules_of(folder)
    if not kinds:
        return {}
    if unknown := set(kinds) - {"Transformer", "Pooling", "Normalize"}:
        raise UserError(f"{folder / 'modules.json'} lists unsupported modules", got=", ".join(unknown))
    pooling = _read_object(folder / kinds.get("Pooling", "") / "config.json") if "Pooling" in kinds else {}
    return {"sentence_transformers": {"pooling": pooling, "normalize": "Normalize" in kinds}}


def _read_object(path: Path) -> Mapping[str, Any]:
    value = read_json(path) if path.is_file() else {}
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a configuration", expected="a JSON object", got=type(value).__name__)
    refuse_code(value, path)
    return value


def _card_of(metadata: Mapping[str, str], path: Path) -> Mapping[str, Any]:
    """Return the card that `save` writes into the metadata of the file."""
    try:
        config = parse_json(metadata.get("patchword", "{}"))
    except ValueError as error:
        raise UserError(f"the card inside {path} cannot be read", got=str(error)) from None
    if not isinstance(config, dict):
        raise UserError(f"the card inside {path} cannot be read", expected="a JSON object", got=type(config).__name__)
    return config


def _weight_files(folder: Path) -> list[Path]:
    """List the weight file of a folder, or its shards."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        places = _read_object(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise UserError(f"{index} names no files", expected='"weight_map": {NAME: FILE}')
        names = sorted(set(map(str, places.values())))
        if any(Path(name).name != name for name in names):
            raise UserError(f"{index} names files outside its folder", got=names)
        return [folder / name for name in names]
    if found := next((folder / name for name in WEIGHT_FILES if (folder / name).is_file()), None):
        return [found]
    for pickled in sorted(path for path in folder.iterdir() if path.suffix in PICKLES):
        refuse_pickle(pickled)
    raise UserError(f"there are no weights in {folder}", expected="model.safetensors")


def _recognise(tensors: Tensors, config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> WeightSource:
    """Identify the layout by the tensor names and rename the tensors to ours."""
    if config.get("library") == "patchword":
        return WeightSource(rename_older_tensors(tensors), [], OURS, config, preprocessor)
    tensors = modern(tensors) if is_old(tensors) else tensors
    for named in _unwrapped(tensors):
        for layout in layouts.LAYOUTS:
            if layout.fits(named, config.get("model_type")):
                layout = layout.for_config(config)
                ours, unknown = layout.to_ours(named)
                return WeightSource(ours, unknown, layout.reading(named), config, preprocessor)
        if any(name.startswith(("stages.0.stem.", "embedding.words.")) for name in rename_older_tensors(named)):
            return WeightSource(rename_older_tensors(named), [], OURS, config, preprocessor)
    if set(tensors) == {"vectors"}:
        raise UserError("these are word vectors, not a model", hint="query them: `patchword vectors near VECTORS WORD`")
    some = ", ".join(sorted(tensors)[:3])
    what = f" of {config['architectures']}" if config.get("architectures") else ""
    raise UserError("the tensor names belong to no known layout", got=f"{len(tensors)} tensors{what}: {some}, ...")


def _unwrapped(tensors: Tensors) -> Iterator[Tensors]:
    """Yield the tensors as named, then without common prefixes such as "module." or "state_dict.model."."""
    yield tensors
    while len({name.partition(".")[0] for name in tensors}) == 1 and all("." in name for name in tensors):
        tensors = {name.partition(".")[2]: tensor for name, tensor in tensors.items()}
        yield tensors
