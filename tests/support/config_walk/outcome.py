"""What became of one config of another library: equal outputs, a refusal that names the field, or neither."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from support.config_walk.fields import COMPANIONS, HEADS_OF_FIELDS, OWN, other_values
from support.config_walk.text import FAMILIES, our_outputs, texts, their_outputs
from support.helpers import difference

_SAME = 1e-5


@dataclass(frozen=True)
class Outcome:
    """kind: equal, refused, wrong, or impossible (there). matters: whether the field changes their outputs."""

    case: str
    kind: str
    detail: str = ""
    matters: bool = True


def walk(stem: str, folder: Path, *, all_heads: bool = False) -> Iterator[Outcome]:
    """Change every field of a family's config, one at a time. all_heads: under every head, not the one it is for."""
    family = FAMILIES[stem]
    for field, value in family.config().to_dict().items():
        if field in OWN:
            continue
        fitting = HEADS_OF_FIELDS.get(field, "words")
        heads = family.heads if all_heads else [fitting if fitting in family.heads else "classes"]
        for head in heads:
            for other in other_values(field, value):
                yield outcome(stem, head, {field: other, **COMPANIONS.get(field, {})}, folder)


def outcome(stem: str, head: str, changed: dict[str, Any], folder: Path) -> Outcome:
    """Save a model of theirs with these fields changed, load it here, compare, and return it to them."""
    family, case = FAMILIES[stem], f"{head} {changed}"
    try:
        theirs = family.model(head, family.config(**changed))
    except (ValueError, NotImplementedError) as error:
        return Outcome(case, "impossible", str(error)[:200])
    theirs.save_pretrained(folder)
    text = texts(theirs.config)
    try:
        ours = patchword.load(folder, **({"random": "huggingface"} if stem == "BigBird" else {}))
    except UserError as error:
        named = any(field in _words(error) for field in changed)
        return Outcome(case, "refused", _words(error)) if named else _unnamed(case, theirs, text, error)
    try:
        expected = their_outputs(theirs, text)
    except (ValueError, AttributeError) as error:  # transformers builds the model, but cannot run it
        return Outcome(case, "impossible", str(error)[:200])
    matters = not _same(expected, _usual(stem, head))
    found = our_outputs(ours, text)
    if not _same(found, expected):
        return Outcome(case, "wrong", f"loaded: {_worst(found, expected)}", matters)
    patchword.save(ours, folder, layout="huggingface")
    again = their_outputs(_theirs_again(folder), text)
    return Outcome(case, "equal" if _same(again, expected) else "wrong", f"saved: {_worst(again, expected)}", matters)


def _unnamed(case: str, theirs: Any, text: Text, error: UserError) -> Outcome:
    """Return the outcome of a refusal that names no field: wrong, unless transformers cannot run the model either."""
    try:
        their_outputs(theirs, text)
    except (ValueError, AttributeError):
        return Outcome(case, "impossible", _words(error))
    return Outcome(case, "wrong", _words(error))


def counts(outcomes: list[Outcome]) -> str:
    """Return one row of the table: how many are equal, how many of those have no effect, refused and wrong."""
    kinds = Counter(one.kind for one in outcomes)
    silent = sum(one.kind == "equal" and not one.matters for one in outcomes)
    names = ("equal", "refused", "wrong", "impossible")
    return ", ".join(f"{kinds[name]} {name}" + (f" ({silent} without effect)" * (name == "equal")) for name in names)


@cache
def _usual(stem: str, head: str) -> list[Tensor]:
    """Return the outputs of their model without a changed field; random weights of the same shapes are the same."""
    model = FAMILIES[stem].model(head, FAMILIES[stem].config())
    return their_outputs(model, texts(model.config))


def _theirs_again(folder: Path) -> Any:
    """Open what patchword has written with the class that its config names."""
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    return getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()


def _same(found: list[Tensor], expected: list[Tensor]) -> bool:
    return _worst(found, expected) < _SAME


def _worst(found: list[Tensor], expected: list[Tensor]) -> float:
    if [part.shape for part in found] != [part.shape for part in expected]:
        return torch.inf
    return max(difference(*pair) for pair in zip(found, expected, strict=True))


def _words(error: UserError) -> str:
    return " | ".join(str(part) for part in (error, error.hint) if part)
