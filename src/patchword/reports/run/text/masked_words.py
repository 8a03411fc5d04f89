"""Held-out sentences with masked tokens, and what a pretrained model predicts there."""

import numpy as np
import torch
from torch import Tensor

from patchword.core.text import Text
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.heads.text import split_objectives
from patchword.layers.model import Model
from patchword.recipes.pretraining.parts import MaskedTokens
from patchword.recipes.pretraining.splits import CorpusSplit, DataSplit
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent
from patchword.reports.run.text.markup import Part, marked, passage

_SENTENCES, _PREDICTIONS = 6, 3
_SHORTEST, _LONGEST = 10, 40  # tokens of a sentence


def gaps_section(model: Model, tokenizer: Tokenizer, held: DataSplit) -> str:
    """Return the section: held-out sentences with masked tokens, and the model's predictions."""
    if not isinstance(held, CorpusSplit) or not isinstance(held.target_rule, MaskedTokens):
        return ""
    chosen, masking = _sentences(held), held.target_rule.masking
    if not chosen:
        return ""
    about = "Sentences from held-out documents. The underlined tokens were masked; below each sentence are the "
    about += f"{_PREDICTIONS} most likely predictions with their probability; the correct one is marked."
    return page.section(
        "Masked tokens",
        page.paragraph(about) + "".join(_sentence(model, tokenizer, held, masking, ids) for ids in chosen),
    )


def _sentences(held: CorpusSplit) -> list[Tensor]:
    """Return the first sentences of suitable length, from different documents."""
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


def _sentence(model: Model, tokenizer: Tokenizer, held: CorpusSplit, masking: Masking, ids: Tensor) -> str:
    whole = torch.from_numpy(held.frame.around(ids.int().numpy())[0]).long()
    masked = masking.apply(Ragged.of([whole.int().numpy()]), torch.tensor([len(ids)]), 0, 0)
    predictions, probabilities = fill(model, whole.scatter(0, masked.places, masking.mask), masked.places)
    text, spans = joined(tokenizer, ids)
    gaps = (spans[place - len(held.frame.before)] for place in masked.places.tolist())
    parts = [Part(start, end, "gap") for start, end in gaps]
    rows = [
        page.row(page.escape(_word(tokenizer, int(true))), *_cells(tokenizer, int(true), words, likely))
        for true, words, likely in zip(masked.labels, predictions, probabilities, strict=True)
    ]
    head = ("masked", *(f"prediction {number}" for number in range(1, _PREDICTIONS + 1)))
    table = page.table("Predictions of the model", head, rows, kind="guesses")
    return f'<article class="text">{passage(marked(text, parts, len(text)))}{table}</article>\n'


@torch.inference_mode()
def fill(model: Model, ids: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the most probable words per mask and their probabilities: (tokens,), (masks,) -> (masks, predictions)."""
    device = next(model.parameters()).device
    scores, _ = split_objectives(model(Text(ids[None], predict_at=places).to(device)))
    best = scores.float().softmax(-1).topk(_PREDICTIONS, dim=-1)
    return best.indices.cpu(), best.values.cpu()


def _cells(tokenizer: Tokenizer, true: int, words: Tensor, probabilities: Tensor) -> list[str]:
    cells = []
    for word, probability in zip(words.tolist(), probabilities.tolist(), strict=True):
        name = f"<bdi>{page.escape(_word(tokenizer, word))}</bdi>"
        name = f'<mark class="true">{name}</mark>' if word == true else name
        cells.append(f"{name} <small>{percent(probability, 1)}</small>")
    return cells


def _word(tokenizer: Tokenizer, number: int) -> str:
    return tokenizer.tokens([number])[0]


def joined(tokenizer: Tokenizer, ids: Tensor) -> tuple[str, list[tuple[int, int]]]:
    """Return readable text, and the position of each token in it; word pieces are joined."""
    text, spans = "", []
    for number, piece in zip(ids.tolist(), tokenizer.written(ids.numpy()), strict=True):
        follows = bool(tokenizer.continues[number])
        text += "" if follows or not text else " "
        spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, spans
