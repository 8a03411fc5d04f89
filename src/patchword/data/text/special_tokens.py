"""Which entries of a vocabulary stand for something other than text."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer

from patchword.core.errors import UserError

KNOWN = {  # by Hugging Face's fields: as BERT writes them, as RoBERTa does
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "mask_token": ("[MASK]", "<mask>"),
}


class Specials(NamedTuple):
    """Their ids, in the order of KNOWN."""

    cls: int
    sep: int
    pad: int
    unknown: int
    mask: int | None


def names_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The names that settings give; a token is written as itself or as a record."""
    found = {}
    for field in KNOWN:
        value = settings.get(field)
        name = value.get("content") if isinstance(value, dict) else value
        if isinstance(name, str):
            found[field] = name
    return found


def specials_of(library: Tokenizer, names: Mapping[str, str], origin: str) -> Specials:
    """By the names given, else by the usual ones. Only the mask may lack."""

    def find(field: str) -> int | None:
        choices = (names[field],) if field in names else KNOWN[field]
        return next((number for name in choices if (number := library.token_to_id(name)) is not None), None)

    def need(field: str) -> int:
        if (number := find(field)) is None:
            raise UserError(
                f"{origin} has no {names.get(field, KNOWN[field][0])}",
                expected="[CLS], [SEP], [PAD] and [UNK] among its entries",
                hint="it may belong to a model of another kind, such as GPT, which has no such tokens",
            )
        return number

    return Specials(
        cls=need("cls_token"),
        sep=need("sep_token"),
        pad=need("pad_token"),
        unknown=need("unk_token"),
        mask=find("mask_token"),
    )


def mark_special(library: Tokenizer, found: Specials) -> None:
    """Some files do not mark them, and text could then spell them."""
    added = library.get_added_tokens_decoder()
    for number in found:
        name = None if number is None else library.id_to_token(number)
        if number is not None and name is not None and not (number in added and added[number].special):
            known = added.get(number, AddedToken(name, normalized=False))
            spaces = {"lstrip": known.lstrip, "rstrip": known.rstrip, "single_word": known.single_word}
            library.add_special_tokens([AddedToken(name, normalized=known.normalized, special=True, **spaces)])
