"""Windows of question answering: the question and a part of the context as a pair (Devlin et al., 2018, 4.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from patchword.data.text.batching.assembly import Limit, add_special_tokens, collect
from patchword.data.text.batching.batches import IGNORE, Examples
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.squad import Question
from patchword.data.text.tokenizers.encoding import Encoding
from patchword.data.text.tokenizers.template import Ids
from patchword.data.text.tokenizers.tokenizer import Tokenizer

LONGEST_QUESTION = 64  # tokens; at most half of the window


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of all questions. labels of the examples: (windows, 2), the first and last token of the answer; both
    0,
    which is [CLS] in BERT, if the window does not contain it.

    starts, ends: per token its character span in the context, IGNORE for tokens that cannot be part of an answer.
    """

    examples: Examples
    questions: tuple[Question, ...]
    starts: Ragged
    ends: Ragged


def windows(tokenizer: Tokenizer, name: str, questions: Sequence[Question], limit: Limit) -> Windows:
    asked = tokenizer.ids_of([question.question for question in questions])
    longest = min(LONGEST_QUESTION, limit.length // 2)
    contexts = list(dict.fromkeys(question.context for question in questions))
    encoded = dict(zip(contexts, tokenizer.encode(contexts), strict=True))
    pieces: list[tuple[Ids, Ids, Ids, Ids]] = []
    owner, labels, windowed = [], [], 0
    for number, question in enumerate(questions):
        context, ids = encoded[question.context], asked[number][:longest]
        room = limit.length - len(ids) - tokenizer.frame.paired
        begins = limit.starts(len(context), room)
        windowed += len(begins) > 1
        answer = _answer_tokens(question, context)
        for begin in begins:
            part = slice(begin, begin + room)
            row, segment = add_special_tokens(tokenizer, ids, context.ids[part])
            shift = tokenizer.frame.place_of_second(len(ids))
            starts, ends = (_placed(values[part], len(row), shift) for values in (context.starts, context.ends))
            pieces.append((row, segment, starts, ends))
            inside = answer is not None and begin <= answer[0] and answer[1] < begin + min(room, len(context) - begin)
            labels.append([place - begin + shift for place in answer] if answer and inside else [0, 0])
            owner.append(number)
    examples = collect(tokenizer, name, [piece[:2] for piece in pieces], owner, windowed=windowed)
    examples = replace(examples, labels=torch.tensor(labels))
    places = [Ragged.of([piece[part] for piece in pieces]) for part in (2, 3)]
    return Windows(examples, tuple(questions), *places)


def _answer_tokens(question: Question, context: Encoding) -> tuple[int, int] | None:
    """Return the first and last context token of the first answer with a known start."""
    placed = [(answer.start, answer.text) for answer in question.answers if answer.start is not None]
    if not placed:
        return None
    start, text = placed[0]
    end = start + len(text)
    touched = np.flatnonzero((context.ends > start) & (context.starts < end))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def _placed(values: Ids, length: int, shift: int) -> Ids:
    row = np.full(length, IGNORE, np.int32)
    row[shift : shift + len(values)] = values
    return row
