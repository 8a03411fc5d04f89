"""Shades the words of a text by the attention of the last layer."""

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

MOST = 1500  # maximum number of characters shown
_QUERY = {
    "first": "from [CLS], from which the class is predicted",
    "mean": "from all tokens on average, from whose mean the class is predicted",
}
_NOTE = (
    "The stronger the colour of a word, the more attention it gets {} in the last layer (mean of the heads, sum of the "
    "word pieces); the word with the largest weight has the full colour. Attention to [CLS] and [SEP] is left out. "
    "Attention shows where information came from in this layer, not why the model decided."
)


def note(model: Model, examples: Examples) -> str:
    """Return the explanation of the shades."""
    text = _NOTE.format(_QUERY["mean" if _by_mean(model) else "first"])
    return f"{text} Of a text read in windows, the first window is shown." if examples.windowed else text


def attended(model: Model, tokenizer: Tokenizer, texts: TableSet, row: int) -> str:
    """Return a row of the table as markup, its words shaded; of a text read in windows, the first window."""
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
    """Return the attention of the last layer to each token, (tokens,), for one text without padding."""
    device = next(model.parameters()).device
    ids, segments = (part.row(window).long()[None].to(device) for part in (examples.ids, examples.segments))
    with record_attention(model) as maps:
        model(Text(ids, segments))
    weights = maps[-1].weights[0].float().mean(0).cpu()
    return weights.mean(0) if _by_mean(model) else weights[0]


def words_of(tokenizer: Tokenizer, text: str, weights: Tensor) -> list[Shade]:
    """Return the words that the model read, each with the sum of its pieces' weights."""
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
