"""The file, the line and the beginning of a training text, for messages about single samples."""

from patchword.data.text.batching.batches import TextBatch
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.text.tasks.sets import TagSet, TextSet
from patchword.recipes.text.tasks.table_sets import TableSet

_LENGTH = 60  # characters


def text_location(texts: TextSet, sample: int) -> str:
    """Return the file and the line of a sample; for questions, the number of the question."""
    row = int(texts.examples.owner[sample])
    if isinstance(texts, TableSet):
        return f"{texts.table.path}, line {texts.table.lines[row]}"
    if isinstance(texts, TagSet):
        return f"{texts.examples.name}, line {texts.sentences[row].line}"
    return f"{texts.examples.name}, question {row + 1}"


def text_excerpts(tokenizer: Tokenizer, piece: TextBatch) -> list[tuple[int, str]]:
    """Return the index of each text of a batch and its beginning, decoded from the tokens that the model reads."""
    found = []
    for place, sample in enumerate(piece.samples.tolist()):
        found.append((sample, excerpt(tokenizer.decode(piece.ids.row(place)[:_LENGTH]))))
    return found


def excerpt(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
