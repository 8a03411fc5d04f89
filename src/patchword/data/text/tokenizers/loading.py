"""Load tokenizers from the files of other libraries."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from patchword.core.errors import UserError
from patchword.core.files import parse_json, read_json
from patchword.core.formats.sentence_transformers import encoder_folder
from patchword.core.seal.checking import check_file
from patchword.data.text.formats.text_io import read_utf8
from patchword.data.text.tokenizers.growth import check_growth
from patchword.data.text.tokenizers.merges_files import merged_pairs
from patchword.data.text.tokenizers.special_tokens import names_of
from patchword.data.text.tokenizers.vocabulary_training import Casing
from patchword.data.text.tokenizers.wordpiece import wordpiece

NAMES = ("tokenizer.json", "vocab.txt", "vocab.json")  # files of a tokenizer folder, the preferred one first
_EXPECTED = "tokenizer.json, vocab.txt, or vocab.json with merges.txt"
_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")


def load_library(path: Path, casing: Casing | None = None) -> tuple[Tokenizer, dict[str, str]]:
    """Load a tokenizer of the `tokenizers` library, and the names of its special tokens if the files have them."""
    path = encoder_folder(path) if path.is_dir() and not _has_tokenizer(path) else path
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        path = next((path / name for name in NAMES if (path / name).is_file()), path)
    _refuse_sentencepiece(path)
    if not path.is_file():
        what = f"{path} has no tokenizer" if path.is_dir() else f"there is no file {path}"
        raise UserError(what, expected=_EXPECTED)
    if path.suffix not in (".json", ".txt", "") or path.name == "merges.txt":
        raise UserError(f"{path} is not a tokenizer", expected=f"a folder, {_EXPECTED}", got=path.name)
    for file in (path, *(folder / name for name in (*_SETTINGS, "merges.txt"))):
        check_file(file)
    settings = _settings(folder)
    names = names_of(settings)
    if path.name == "vocab.json":
        return merged_pairs(path, settings, names), names
    if path.suffix == ".json":
        return _read_tokenizer_json(path), names
    entries = read_vocabulary(path)
    lower = settings.get("do_lower_case")
    given: Casing | None = ("uncased" if lower else "cased") if isinstance(lower, bool) else None
    chinese, accents = settings.get("tokenize_chinese_chars"), settings.get("strip_accents")
    return wordpiece(entries, casing or given or guess_casing(entries), chinese is not False, accents, names), names


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in NAMES)


def _refuse_sentencepiece(path: Path) -> None:
    """Refuse SentencePiece files, which need another library; transformers converts them to tokenizer.json."""
    models = sorted(path.glob("*.model")) if path.is_dir() else [path] if path.suffix == ".model" else []
    if models:
        raise UserError(
            f"{models[0]} is a SentencePiece model, which is not supported",
            expected="the tokenizer.json that belongs to it",
            hint="convert it with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        )


def read_vocabulary(path: Path) -> list[str]:
    """Read the entries of a vocab.txt, one per line; the line number, from 0, is the id."""
    lines = read_utf8(path).split("\n")
    entries = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] in ("", "\r") else lines)]
    if not entries:
        raise UserError(f"{path} is empty", expected="a vocabulary with one entry per line")
    first: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        if not entry:
            raise UserError(f"{path}, line {number}: no entry", expected="one entry per line")
        if entry in first:
            raise UserError(f"{path}, line {number}: {entry!r} is a duplicate of line {first[entry]}")
        first[entry] = number
    return entries


def guess_casing(entries: list[str]) -> Casing:
    """Guess the casing: an uncased vocabulary has no capitals, except in names such as [CLS] and [unused1]."""
    words = (entry for entry in entries if not (entry.startswith("[") and entry.endswith("]")))
    return "cased" if any(word != word.lower() for word in words) else "uncased"


def _settings(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in reversed(_SETTINGS):
        if (folder / name).is_file():
            values = read_json(folder / name)
            if not isinstance(values, dict):
                raise UserError(f"{folder / name} has no settings", expected="a JSON object")
            found |= values
    return found


def _read_tokenizer_json(path: Path) -> Tokenizer:
    text = read_utf8(path)
    try:
        check_growth(path, parse_json(text))
        library = Tokenizer.from_str(text)
    except UserError:
        raise
    except Exception as error:  # the library raises plain Exception
        raise UserError(f"{path} is not a tokenizer", got=str(error)) from None
    if not library.get_vocab_size():
        raise UserError(f"{path} has an empty vocabulary")
    return library
