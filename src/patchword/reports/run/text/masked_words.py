"""Sentences that a pretrained model has not seen, with gaps, and what it would put there."""

import numpy as np
import torch
from torch import Tensor

from patchword.core.text import Text
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.model import Model
from patchword.recipes.pretraining.parts import MaskedTokens
from patchword.recipes.pretraining.shares import CorpusShare, Share
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent
from patchword.reports.run.text.markup import Part, marked, passage

_SENTENCES, _GUESSES = 6, 3
_SHORTEST, _LONGEST = 10, 40  # tokens of a sentence that is shown


def gaps_section(model: Model, tokenizer: Tokenizer, held: Share) -> str:
    """Sentences of held-out documents with gaps, and what the model would put there."""
    if not isinstance(held, CorpusShare) or not isinstance(held.asked, MaskedTokens):
        return ""
    chosen, masking = _sentences(held), held.asked.masking
    if not chosen:
        return ""
    told = "Sentences from documents that were held out. The underlined pieces were hidden from the model; below each "
    told += f"sentence are the {_GUESSES} it finds likeliest there, with their probability, and the right one marked."
    return page.section(
        "Filled gaps", page.paragraph(told) + "".join(_sentence(model, tokenizer, held, masking, ids) for ids in chosen)
    )


def _sentences(held: CorpusShare) -> list[Tensor]:
    """The first sentences of fitting length, of different documents as far as there are some."""
    corpus, found = held.corpus, []
    for number in held.documents.tolist():
        for sentence in range(int(corpus.documents[number]), int(corpus.documents[number + 1])):
            start, end = int(corpus.sentences[sentence]), int(corpus.sentences[sentence + 1])
            if _SHORTEST <= end - start <= min(_LONGEST, held.length - held.frame.single):
                found.append(torch.from_numpy(np.asarray(corpus.tokens[start:end], np.int64)))
                break
        if len(found) == _SENTENCES:
            break
    return found


def _sentence(model: Model, tokenizer: Tokenizer, held: CorpusShare, masking: Masking, ids: Tensor) -> str:
    whole = torch.from_numpy(held.frame.around(ids.int().numpy())[0]).long()
    masked = masking.apply(Ragged.of([whole.int().numpy()]), torch.tensor([len(ids)]), 0, 0)
    guesses, shares = fill(model, whole.scatter(0, masked.places, masking.mask), masked.places)
    text, spans = joined(tokenizer, ids)
    gaps = (spans[place - len(held.frame.before)] for place in masked.places.tolist())
    parts = [Part(start, end, "gap") for start, end in gaps]
    rows = [
        page.row(page.escape(_word(tokenizer, int(true))), *_guessed(tokenizer, int(true), words, likely))
        for true, words, likely in zip(masked.labels, guesses, shares, strict=True)
    ]
    head = ("hidden", *(f"guess {number}" for number in range(1, _GUESSES + 1)))
    table = page.table("What the model puts there", head, rows, kind="guesses")
    return f'<article class="text">{passage(marked(text, parts, len(text)))}{table}</article>\n'


@torch.inference_mode()
def fill(model: Model, ids: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """(tokens,), (gaps,) -> the likeliest words of each gap and their probability, (gaps, guesses) each"""
    device = next(model.parameters()).device
    answer = model(Text(ids[None], predict_at=places).to(device))
    scores = answer[0] if isinstance(answer, tuple) else answer
    best = scores.float().softmax(-1).topk(_GUESSES, dim=-1)
    return best.indices.cpu(), best.values.cpu()


def _guessed(tokenizer: Tokenizer, true: int, words: Tensor, shares: Tensor) -> list[str]:
    cells = []
    for word, share in zip(words.tolist(), shares.tolist(), strict=True):
        name = f"<bdi>{page.escape(_word(tokenizer, word))}</bdi>"
        name = f'<mark class="true">{name}</mark>' if word == true else name
        cells.append(f"{name} <small>{percent(share, 1)}</small>")
    return cells


def _word(tokenizer: Tokenizer, number: int) -> str:
    return tokenizer.tokens([number])[0]


def joined(tokenizer: Tokenizer, ids: Tensor) -> tuple[str, list[tuple[int, int]]]:
    """Readable text, and where each token lies in it; a piece that continues a word is put to it."""
    text, spans = "", []
    for number, piece in zip(ids.tolist(), tokenizer.written(ids.numpy()), strict=True):
        follows = bool(tokenizer.continues[number])
        text += "" if follows or not text else " "
        spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, spans
