"""The special tokens around a text or a pair of texts in the input of a model."""

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

    BERT: [CLS] A [SEP] B [SEP]. RoBERTa: <s> A </s></s> B </s>. GPT: an end token after each text, or nothing.
    From B on the segment is 1, which models without segments ignore.
    """

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def bert(cls, first: int, separator: int) -> "Frame":
        return cls((first,), (separator,), (separator,))

    @property
    def single(self) -> int:
        """Return the number of special tokens of a single text."""
        return len(self.before) + len(self.after)

    @property
    def paired(self) -> int:
        """Return the number of special tokens of a pair."""
        return self.single + len(self.between)

    def specials(self, pair: bool) -> int:
        return self.paired if pair else self.single

    def around(self, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
        """Add the special tokens; return the ids and the segment of each token."""
        parts = [self.before, first, self.after]
        if second is not None:
            parts[2:2] = [self.between, second]
        ids = np.concatenate([np.asarray(part, np.int32) for part in parts])
        segments = np.zeros(len(ids), np.int32)
        if second is not None:
            segments[self.place_of_second(len(first)) :] = 1
        return ids, segments

    def place_of_second(self, first: int) -> int:
        """Return the position of B after an A of `first` tokens."""
        return len(self.before) + first + len(self.between)


def frame_in(processor: Mapping[str, Any] | None, origin: str) -> Frame | None:
    """Return the frame that a tokenizer.json describes; None if it adds no tokens."""
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
    """Read a template, a list of special tokens and of the positions of A and B."""
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
            f"{origin} adds special tokens to a pair of texts in an unknown way",
            expected="the same first and last tokens as for a single text",
        )
    return Frame(before, tuple(parts[1]), after) if before or after or parts[1] else None


def usual_frame(vocabulary: Mapping[str, int], cls: int | None, sep: int | None, end: int | None) -> Frame:
    """Return the usual frame of models with these special tokens, for files that do not describe one."""
    if cls is None or sep is None:
        return Frame() if end is None else Frame((), (end,), (end,))
    if sep != vocabulary.get("</s>"):
        return Frame.bert(cls, sep)
    is_xlm = "<special1>" in vocabulary
    return Frame((vocabulary.get("<s>", cls),), (sep,) if is_xlm else (sep, sep), (sep,))
