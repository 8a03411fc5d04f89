"""Tokenizers out of a vocab.json and the merges.txt beside it, as GPT-2, RoBERTa, GPT-1 and XLM have them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.text.formats.text_io import read_utf8
from patchword.data.text.tokenizers.byte_pair import ENDING, over_bytes, over_letters


def merged_pairs(path: Path, settings: Mapping[str, Any], names: Mapping[str, str]) -> Tokenizer:
    """Pieces over letters end words with `</w>`; without such a piece they are over bytes."""
    vocabulary = _entries(path)
    beside = path.with_name("merges.txt")
    if not beside.is_file():
        raise UserError(f"{path} is half a tokenizer", expected="merges.txt beside it")
    merges = read_merges(beside)
    try:
        if any(piece.endswith(ENDING) for piece in vocabulary):
            lower = settings.get("do_lowercase_and_remove_accent", settings.get("do_lower_case", True))
            return over_letters(vocabulary, merges, names, "uncased" if lower else "cased")
        return over_bytes(vocabulary, merges, names, bool(settings.get("add_prefix_space", False)))
    except Exception as error:  # the library has no class of its own for a pair that is no entry
        raise UserError(f"{beside} does not belong to {path}", got=str(error)) from None


def _entries(path: Path) -> dict[str, int]:
    found = read_json(path)
    if not isinstance(found, dict) or not all(type(number) is int and number >= 0 for number in found.values()):
        raise UserError(f"{path} is no vocabulary", expected='{"piece": number, ...}')
    if not found:
        raise UserError(f"{path} has an empty vocabulary")
    if len(set(found.values())) < len(found):
        raise UserError(f"{path} gives two pieces the same number")
    return found


def read_merges(path: Path) -> list[tuple[str, str]]:
    """Two pieces a line; XLM's files tell behind them how often they were seen. The first line may tell a version."""
    found = []
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        parts = line.removesuffix("\r").split(" ")
        if parts == [""] or (number == 1 and line.startswith("#version")):
            continue
        if len(parts) not in (2, 3) or not all(parts):
            raise UserError(f"{path}, line {number}: no pair of pieces", expected="two with a space between", got=line)
        found.append((parts[0], parts[1]))
    return found
