"""Which words of a text the model looked at when it read its answer off the last layer."""

import numpy as np
import torch
from torch import Tensor

from patchword.core.text import Text
from patchword.data.text.batching.batches import Examples
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers import record_attention
from patchword.layers.model import Model
from patchword.recipes.text.tasks.table_sets import TableSet
from patchword.reports.run.text.markup import Shade, passage, shaded

MOST = 1500  # characters of a text that are shown
_WHO = {
    "first": "[CLS], which the answer is read from, gives to it",
    "mean": "all tokens, of which the answer is the mean, give to it on average",
}
_NOTE = (
    "The stronger the colour of a word, the more attention {} in the last layer (mean of the heads, the pieces of a "
    "word added up); the most attended word of each text has the full colour. What [CLS] and [SEP] get themselves is "
    "left out. Attention says where information came from in this layer, not why the model decided as it did."
)


def note(model: Model, examples: Examples) -> str:
    told = _NOTE.format(_WHO["mean" if _by_mean(model) else "first"])
    return f"{told} Of a text read in windows, the first is shown." if examples.windowed else told


def attended(model: Model, tokenizer: Tokenizer, texts: TableSet, row: int) -> str:
    """A row of the table as markup, its words shaded; of a text read in windows, the first."""
    window = int((texts.examples.owner == row).nonzero()[0, 0])
    weights = last_attention(model, texts.examples, window)
    frame, tail = tokenizer.frame, int(texts.examples.segments.row(window).sum())  # B and what follows it
    second = max(0, tail - len(frame.after))
    first = len(weights) - second - frame.specials(pair=tail > 0)
    columns = [texts.table.columns[role][row] for role in ("text", "pair") if role in texts.table.columns]
    begins = frame.place_of_second(first)
    parts = [weights[len(frame.before) :][:first], weights[begins : begins + second]]
    words = [words_of(tokenizer, text, part) for text, part in zip(columns, parts, strict=False)]
    largest = max((shade.weight for shades in words for shade in shades), default=0.0) or 1.0
    return "".join(
        passage(shaded(text, [shade._replace(weight=shade.weight / largest) for shade in shades], MOST))
        for text, shades in zip(columns, words, strict=True)
    )


@torch.inference_mode()
def last_attention(model: Model, examples: Examples, window: int) -> Tensor:
    """(tokens,) what the reader of the last layer gives to each token; one text at a time, so that none is padded"""
    device = next(model.parameters()).device
    ids, segments = (part.row(window).long()[None].to(device) for part in (examples.ids, examples.segments))
    with record_attention(model) as maps:
        model(Text(ids, segments))
    weights = maps[-1].weights[0].float().mean(0).cpu()
    return weights.mean(0) if _by_mean(model) else weights[0]


def words_of(tokenizer: Tokenizer, text: str, weights: Tensor) -> list[Shade]:
    """The words that were read, each with the sum of its pieces' weights."""
    found = tokenizer.encode([text])[0]
    read = min(len(found), len(weights))
    if not read:
        return []
    firsts = np.flatnonzero(np.diff(found.words[:read], prepend=-1))
    lasts = np.append(firsts[1:], read) - 1
    sums = np.add.reduceat(weights[:read].double().numpy(), firsts)
    return [
        Shade(int(start), int(end), float(weight))
        for start, end, weight in zip(found.starts[firsts], found.ends[lasts], sums, strict=True)
    ]


def _by_mean(model: Model) -> bool:
    return bool(model.card.config.get("pool") == "mean")
