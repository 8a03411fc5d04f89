"""Load byte-pair tokenizers from vocab.json and merges.txt, the files of GPT-2, RoBERTa, GPT-1 and XLM."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.text.formats.text_io import read_utf8
from patchword.data.text.tokenizers.byte_pair import ENDING, over_bytes, over_letters


def merged_pairs(path: Path, settings: Mapping[str, Any], names: Mapping[str, str]) -> Tokenizer:
    """Build the tokenizer: over letters if any entry ends in `</w>`, else over bytes."""
    vocabulary = _entries(path)
    beside = path.with_name("merges.txt")
    if not beside.is_file():
        raise UserError(f"{path} has no merges", expected="merges.txt in the same folder")
    merges = read_merges(beside)
    try:
        if any(piece.endswith(ENDING) for piece in vocabulary):
            lower = settings.get("do_lowercase_and_remove_accent", settings.get("do_lower_case", True))
            return over_letters(vocabulary, merges, names, "uncased" if lower else "cased")
        return over_bytes(vocabulary, merges, names, bool(settings.get("add_prefix_space", False)))
    except Exception as error:  # the library raises plain Exception for a pair that is no entry
        raise UserError(f"{beside} does not belong to {path}", got=str(error)) from None


def _entries(path: Path) -> dict[str, int]:
    found = read_json(path)
    if not isinstance(found, dict) or not all(type(number) is int and number >= 0 for number in found.values()):
        raise UserError(f"{path} is not a vocabulary", expected='{"piece": number, ...}')
    if not found:
        raise UserError(f"{path} has an empty vocabulary")
    if len(set(found.values())) < len(found):
        raise UserError(f"{path} gives two entries the same id")
    return found


def read_merges(path: Path) -> list[tuple[str, str]]:
    """Read two pieces per line; XLM's files add a count. The first line may have a version."""
    found = []
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        parts = line.removesuffix("\r").split(" ")
        if parts == [""] or (number == 1 and line.startswith("#version")):
            continue
        if len(parts) not in (2, 3) or not all(parts):
            raise UserError(
                f"{path}, line {number}: not a pair of pieces", expected="two pieces separated by a space", got=line
            )
        found.append((parts[0], parts[1]))
    return found
