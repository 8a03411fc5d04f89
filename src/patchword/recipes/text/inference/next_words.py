"""The most probable next words after the beginning of a text."""

from dataclasses import dataclass

import torch

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.objectives.generation.causal import require_causal
from patchword.recipes.text.inference.generation import prompt_of
from patchword.recipes.text.inference.reader import Reader


@dataclass(frozen=True)
class NextWord:
    """A token that may come next. word: with ## in front if it continues the last word of the text."""

    word: str
    probability: float


@torch.inference_mode()
def next_words(reader: Reader, text: str, top: int = 5) -> tuple[NextWord, ...]:
    """Predict the token after a text with a causal model, the most probable first.

    Special tokens are skipped; probabilities are over the whole vocabulary. Spaces at the end of the text are ignored:
    the next token brings its own.
    """
    require_causal(reader.model)
    tokenizer = reader.tokenizer
    ids = prompt_of(tokenizer, text.rstrip()).ids
    if len(ids) > reader.max_length:
        raise UserError("the text is too long", expected=f"at most {reader.max_length} tokens", got=f"{len(ids):,}")
    last = torch.tensor([len(ids) - 1])
    batch = Text(torch.tensor([list(map(int, ids))]), predict_at=last).to(reader.form.device)
    probabilities = reader.model(batch)[0].float().softmax(-1).cpu()[: tokenizer.vocabulary]
    allowed = torch.ones_like(probabilities, dtype=torch.bool)
    allowed[list(tokenizer.specials)] = False
    best = probabilities.masked_fill(~allowed, -1).topk(min(top, int(allowed.sum())))
    joins = tokenizer.continues[best.indices.numpy()] & text.rstrip()[-1:].isalnum()
    names = zip(tokenizer.written(best.indices), joins.tolist(), best.values.tolist(), strict=True)
    return tuple(
        NextWord(f"##{word}" if joined and word[:1].isalnum() else word.strip(), probability)
        for word, joined, probability in names
    )
