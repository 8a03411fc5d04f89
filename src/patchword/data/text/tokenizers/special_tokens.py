"""Special tokens: the entries of a vocabulary that do not represent text."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer

from patchword.core.errors import UserError

KNOWN = {  # Hugging Face's field -> the names in BERT, RoBERTa and XLM
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "mask_token": ("[MASK]", "<mask>", "<special1>"),
}
ENDS = {"bos_token": ("<s>", "<|endoftext|>"), "eos_token": ("</s>", "<|endoftext|>")}  # XLM's and GPT's
_NEEDED = ("cls_token", "sep_token", "pad_token", "unk_token")  # by BERT


class Specials(NamedTuple):
    """The ids of the special tokens, in the order of KNOWN."""

    cls: int | None
    sep: int | None
    pad: int | None
    unknown: int | None
    mask: int | None


def names_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Read the names of special tokens from settings; a token is a string or an object."""
    found = {}
    for field in (*KNOWN, *ENDS):
        value = settings.get(field)
        name = value.get("content") if isinstance(value, dict) else value
        if isinstance(name, str):
            found[field] = name
    return found


def named(field: str, vocabulary: Mapping[str, int], names: Mapping[str, str]) -> str | None:
    """Return the name of a special token if the vocabulary has it: the given name, else one of the usual names."""
    choices = (names[field],) if field in names else {**KNOWN, **ENDS}[field]
    return next((name for name in choices if name in vocabulary), None)


def ending(vocabulary: Mapping[str, int], names: Mapping[str, str]) -> int | None:
    """Return the id of the token that ends a text."""
    found = named("eos_token", vocabulary, names) or named("sep_token", vocabulary, names)
    return None if found is None else vocabulary[found]


def specials_of(library: Tokenizer, names: Mapping[str, str], origin: str) -> Specials:
    """Find the special tokens. WordPiece vocabularies need all of them except the mask; others may lack any.

    GPT-2's files declare its end token as the unknown token too, which a byte-level vocabulary never needs.
    """
    vocabulary = library.get_vocab()
    found = {field: named(field, vocabulary, names) for field in KNOWN}
    lacking = [field for field in _NEEDED if found[field] is None]
    if lacking and type(library.model).__name__ == "WordPiece":
        raise UserError(
            f"{origin} has no {names.get(lacking[0], KNOWN[lacking[0]][0])}",
            expected="[CLS], [SEP], [PAD] and [UNK] among its entries",
            hint="it may belong to another type of model, such as GPT, which has no such tokens",
        )
    if found["unk_token"] is not None and found["unk_token"] == named("eos_token", vocabulary, names):
        found["unk_token"] = None
    return Specials(*(None if name is None else vocabulary[name] for name in found.values()))


def mark_special(library: Tokenizer, found: Specials) -> None:
    """Mark the tokens as special. Some files do not, and text could then produce them."""
    added = library.get_added_tokens_decoder()
    for number in found:
        name = None if number is None else library.id_to_token(number)
        if number is not None and name is not None and not (number in added and added[number].special):
            known = added.get(number, AddedToken(name, normalized=False))
            spaces = {"lstrip": known.lstrip, "rstrip": known.rstrip, "single_word": known.single_word}
            library.add_special_tokens([AddedToken(name, normalized=known.normalized, special=True, **spaces)])
