"""The pretraining examples of one epoch: pairs for next-sentence prediction, or packed sentences without it.

For every sentence, the random choices of a chunk that would begin there are drawn: its end, its split into A and B,
whether B comes from another document, and therefore the sentence at which the next chunk begins. The chunks of the
epoch are found by following these steps from the first sentence. All draws are functions of (seed, epoch, sentence) and
are computed as arrays; only following the steps is a loop.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.data.randomness import uniform
from patchword.data.text.batching.assembly import truncated_lengths
from patchword.data.text.batching.ragged import Numbers, ranges
from patchword.data.text.corpus.example_plan import ExamplePlan
from patchword.data.text.corpus.tokenized_corpus import Corpus
from patchword.data.text.tokenizers.template import Frame

__all__ = ["ExamplePlan", "Frame", "plan_order", "plan_packed", "plan_pairs"]

_SHORT, _TARGET, _PARTING, _OTHER, _DOCUMENT, _SENTENCE, _A_FRONT, _B_FRONT = range(17, 25)  # purposes
_EXCHANGED = 26
_BLOCK = 2**20  # sentences planned at once


@dataclass(frozen=True)
class _Draws:
    """The random numbers of an epoch, indexed by purpose and sentence."""

    seed: int
    epoch: int

    def uniform(self, sentences: Numbers, purpose: int) -> NDArray[np.float64]:
        drawn = uniform(self.seed, self.epoch, torch.from_numpy(sentences), purpose)
        return drawn.numpy().astype(np.float64)

    def below(self, sentences: Numbers, purpose: int, limit: Numbers | int) -> Numbers:
        """Return integers from 0 to limit - 1."""
        return (self.uniform(sentences, purpose) * limit).astype(np.int64)

    def target(self, sentences: Numbers, room: int, short: float) -> Numbers:
        """Draw the target length of examples: the full length, or a shorter one with probability `short`."""
        shorter = 2 + self.below(sentences, _TARGET, room - 1)
        return np.where(self.uniform(sentences, _SHORT) < short, shorter, room)


def plan_pairs(
    corpus: Corpus,
    frame: Frame,
    length: int,
    seed: int,
    epoch: int,
    documents: Numbers | None = None,
    short: float = 0.1,
    random_probability: float = 0.5,
) -> ExamplePlan:
    """Plan next-sentence pairs as in BERT: B is the rest of the chunk, or sentences of another document.

    length: maximum number of tokens of an example, special tokens included.

    Sentences that a chunk does not use begin the next one. A chunk of one sentence always gets a random B, so with
    short documents more than `random_share` of the pairs have one. There are two differences from BERT's script: the
    shorter target length is drawn per chunk and not per document, and the number of tokens that a side loses at its
    front and at its end is drawn uniformly.
    """
    chosen = np.arange(len(corpus)) if documents is None else documents
    room, draws, at = _room(length, frame.paired), _Draws(seed, epoch), corpus.sentences
    if len(chosen) < 2:
        raise UserError(
            "next-sentence pairs need two documents",
            got=len(chosen),
            hint="give more texts, set how documents are separated, or pack sentences without pairs",
        )

    def split_chunks(sentences: Numbers, stop: Numbers) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
        """Return the ends of the chunks, the starts of B, and whether B comes from another document."""
        target = draws.target(sentences, room, short)
        end = np.minimum(np.searchsorted(at, at[sentences] + target), stop)
        middle = sentences + 1 + draws.below(sentences, _PARTING, end - sentences - 1)
        return end, middle, (middle == end) | (draws.uniform(sentences, _OTHER) < random_probability)

    def following(sentences: Numbers, stop: Numbers) -> Numbers:
        end, middle, elsewhere = split_chunks(sentences, stop)
        return np.where(elsewhere, middle, end)

    begin, owner = _chunks(corpus, chosen, following)
    end, middle, elsewhere = split_chunks(begin, corpus.documents[chosen[owner] + 1])
    other = draws.below(begin, _DOCUMENT, len(chosen) - 1)
    other = chosen[other + (other >= owner)]
    first, last = corpus.documents[other], corpus.documents[other + 1]
    start = first + draws.below(begin, _SENTENCE, last - first)
    wanted = draws.target(begin, room, short) - (at[middle] - at[begin])
    enough = np.clip(np.searchsorted(at, at[start] + wanted), start + 1, last)
    b_start, b_end = at[np.where(elsewhere, start, middle)], at[np.where(elsewhere, enough, end)]
    a_length, b_length = truncated_lengths(at[middle] - at[begin], b_end - b_start, room)
    a_start = at[begin] + draws.below(begin, _A_FRONT, at[middle] - at[begin] - a_length + 1)
    b_start = b_start + draws.below(begin, _B_FRONT, b_end - b_start - b_length + 1)
    labels = elsewhere.astype(np.int64)
    return ExamplePlan(corpus, frame, a_start, a_start + a_length, b_start, b_start + b_length, labels)


def plan_order(
    corpus: Corpus,
    frame: Frame,
    length: int,
    seed: int,
    epoch: int,
    documents: Numbers | None = None,
    short: float = 0.1,
) -> ExamplePlan:
    """Plan sentence-order pairs as in ALBERT: consecutive segments, half of them swapped. label: 1 if swapped.

    A chunk of one sentence gives no pair.
    """
    plan = plan_pairs(corpus, frame, length, seed, epoch, documents, short, random_probability=0.0)
    kept = np.flatnonzero(plan.label == 0)
    exchanged = _Draws(seed, epoch).uniform(plan.a_start[kept], _EXCHANGED) < 0.5
    sides = ((plan.a_start, plan.b_start), (plan.a_end, plan.b_end))
    starts, stops = ((first[kept], second[kept]) for first, second in sides)
    return ExamplePlan(
        corpus,
        frame,
        np.where(exchanged, starts[1], starts[0]),
        np.where(exchanged, stops[1], stops[0]),
        np.where(exchanged, starts[0], starts[1]),
        np.where(exchanged, stops[0], stops[1]),
        exchanged.astype(np.int64),
    )


def plan_packed(
    corpus: Corpus,
    frame: Frame,
    length: int,
    seed: int,
    epoch: int,
    documents: Numbers | None = None,
    short: float = 0.1,
) -> ExamplePlan:
    """Plan examples of as many whole sentences of one document as fit; a longer sentence is split."""
    chosen = np.arange(len(corpus)) if documents is None else documents
    room, draws, at = _room(length, frame.single), _Draws(seed, epoch), corpus.sentences

    def following(sentences: Numbers, stop: Numbers) -> Numbers:
        target = draws.target(sentences, room, short)
        end = np.searchsorted(at, at[sentences] + target, side="right") - 1
        return np.clip(end, sentences + 1, stop)

    begin, owner = _chunks(corpus, chosen, following)
    end = at[following(begin, corpus.documents[chosen[owner] + 1])]
    pieces = -(-(end - at[begin]) // room)
    start = at[begin].repeat(pieces) + ranges(np.zeros_like(pieces), pieces) * room
    nothing = np.zeros_like(start)
    return ExamplePlan(
        corpus, frame, start, np.minimum(start + room, end.repeat(pieces)), nothing, nothing, nothing - 1
    )


def _room(length: int, specials: int) -> int:
    if length < specials + 2:
        raise UserError("the length of an example is too small", expected=f"at least {specials + 2}", got=length)
    return length - specials


def _chunks(
    corpus: Corpus, chosen: Numbers, following: Callable[[Numbers, Numbers], Numbers]
) -> tuple[Numbers, Numbers]:
    """Return the first sentence of each chunk, and the index of its document among the chosen ones."""
    counts = corpus.documents[chosen + 1] - corpus.documents[chosen]
    begins, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for block in np.split(np.arange(len(chosen)), np.flatnonzero(np.diff(np.cumsum(counts) // _BLOCK)) + 1):
        owner = block.repeat(counts[block])
        sentences = ranges(corpus.documents[chosen[block]], counts[block])
        steps = (following(sentences, corpus.documents[chosen[owner] + 1]) - sentences).tolist()
        met, place = list[int](), 0
        while place < len(steps):
            met.append(place)
            place += steps[place]
        begins.append(sentences[met])
        owners.append(owner[met])
    return np.concatenate(begins), np.concatenate(owners)
