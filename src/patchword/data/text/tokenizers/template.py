"""What stands around a text, and around a pair of texts, before a model reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Frame:
    """The ids of the special tokens: `before` A `after`, and `before` A `between` B `after`.

    BERT: [CLS] A [SEP] B [SEP]. RoBERTa: <s> A </s></s> B </s>. GPT: an end token behind each, or nothing.
    From B on the segment is 1, which models without segments pass over.
    """

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def bert(cls, first: int, separator: int) -> "Frame":
        return cls((first,), (separator,), (separator,))

    @property
    def single(self) -> int:
        """how many special tokens a text has"""
        return len(self.before) + len(self.after)

    @property
    def paired(self) -> int:
        """how many a pair has"""
        return self.single + len(self.between)

    def specials(self, pair: bool) -> int:
        return self.paired if pair else self.single

    def around(self, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
        """The ids with the special tokens, and the segment of each."""
        parts = [self.before, first, self.after]
        if second is not None:
            parts[2:2] = [self.between, second]
        ids = np.concatenate([np.asarray(part, np.int32) for part in parts])
        segments = np.zeros(len(ids), np.int32)
        if second is not None:
            segments[self.place_of_second(len(first)) :] = 1
        return ids, segments

    def place_of_second(self, first: int) -> int:
        """where B begins behind an A of so many tokens"""
        return len(self.before) + first + len(self.between)


def frame_in(processor: Mapping[str, Any] | None, origin: str) -> Frame | None:
    """The frame that a tokenizer.json describes; None if it adds no tokens."""
    kind = (processor or {}).get("type")
    if processor is None or kind not in ("Sequence", "TemplateProcessing", "BertProcessing", "RobertaProcessing"):
        return None
    if kind == "Sequence":
        found = [frame for part in processor["processors"] if (frame := frame_in(part, origin))]
        return found[0] if found else None
    if kind != "TemplateProcessing":
        first, separator = int(processor["cls"][1]), int(processor["sep"][1])
        double = Frame((first,), (separator, separator), (separator,))
        return double if kind == "RobertaProcessing" else Frame.bert(first, separator)
    return _template(processor, origin)


def _template(processor: Mapping[str, Any], origin: str) -> Frame | None:
    """A template is a list of special tokens and of the places of A and B."""
    ids = {name: tuple(token["ids"]) for name, token in processor["special_tokens"].items()}
    parts, order = [list[int]()], ""
    for piece in processor["pair"]:
        if "Sequence" in piece:
            order += piece["Sequence"]["id"]
            parts.append([])
        else:
            parts[-1] += ids[piece["SpecialToken"]["id"]]
    single = [() if "Sequence" in piece else ids[piece["SpecialToken"]["id"]] for piece in processor["single"]]
    middle = next(place for place, piece in enumerate(processor["single"]) if "Sequence" in piece)
    before, after = (sum(some, ()) for some in (single[:middle], single[middle:]))
    if order != "AB" or [list(before), list(after)] != [parts[0], parts[2]]:
        raise UserError(
            f"{origin} frames a pair of texts in an unknown way",
            expected="the tokens in front and behind that a single text has",
        )
    return Frame(before, tuple(parts[1]), after) if before or after or parts[1] else None


def usual_frame(vocabulary: Mapping[str, int], cls: int | None, sep: int | None, end: int | None) -> Frame:
    """What models with such tokens have, where the files do not tell."""
    if cls is None or sep is None:
        return Frame() if end is None else Frame((), (end,), (end,))
    if sep != vocabulary.get("</s>"):
        return Frame.bert(cls, sep)
    is_xlm = "<special1>" in vocabulary
    return Frame((vocabulary.get("<s>", cls),), (sep,) if is_xlm else (sep, sep), (sep,))
