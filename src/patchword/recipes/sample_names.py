"""What the rows of a batch are called, so that a person finds them: a file, a line, a text."""

from functools import cache
from typing import Any

from patchword.core.errors import UserError
from patchword.data.image.named_datasets import open_source
from patchword.data.image.sources import ListedSource
from patchword.data.shards.sharded_images import Sharded
from patchword.data.text.batching.batches import TextBatch
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.distillation.task import TaughtTask
from patchword.recipes.elmo.task import ElmoTask
from patchword.recipes.image.task import ImageTask
from patchword.recipes.pretraining.task import PretrainingTask
from patchword.recipes.task import Task
from patchword.recipes.text.task import TextTask
from patchword.recipes.text.tasks.sets import TagSet, TextSet
from patchword.recipes.text.tasks.table_sets import TableSet
from patchword.recipes.translation.task import TranslationTask
from patchword.recipes.vectors.task import OverVectorsTask
from patchword.training.guard.report import Name

_EXCERPT = 60  # letters


def sample_names(task: Task) -> Name | None:
    """How the rows of a task's batches are called; None: by their numbers alone."""
    match task:
        case TaughtTask():
            return sample_names(task.task)
        case ImageTask():
            return _pictures(task)
        case TextTask():
            return lambda piece: [f"{_place(task.train, row)} ({text})" for row, text in _texts(task.tokenizer, piece)]
        case OverVectorsTask():
            return lambda piece: [_place(task.train, row) for row in piece.samples.tolist()]
        case PretrainingTask():
            return lambda piece: [f"example {row} ({text})" for row, text in _texts(task.tokenizer, piece)]
        case TranslationTask():
            source = task.languages.source
            return lambda piece: [
                f"pair {row + 1} ({_short(source.decode(piece.source.row(place)))})"
                for place, row in enumerate(piece.samples.tolist())
            ]
        case ElmoTask():
            return lambda piece: [_short(_spoken(task, row)) for row in piece.words.tolist()]
    return None


def _pictures(task: ImageTask) -> Name:
    """By the files, found when they are asked for; of sets that are one file, by the numbers in it."""
    if isinstance(shards := task.train.images.pixels, Sharded):
        return lambda piece: [shards.name_of(sample) for sample in piece.samples.tolist()]

    @cache
    def files() -> dict[int, str]:
        try:
            source = open_source(task.recipe.data)
        except UserError:  # it is gone, and its loss is told elsewhere
            return {}
        if not isinstance(source, ListedSource):
            return {}
        return {key: str(path) for key, (path, _, _) in zip(source.keys().tolist(), source.rows, strict=True)}

    def name(piece: Any) -> list[str]:
        keys = task.train.images.keys[piece.samples.cpu()].tolist()
        return [files().get(key, f"picture {key} of {task.train.images.name}") for key in keys]

    return name


def _place(texts: TextSet, sample: int) -> str:
    row = int(texts.examples.owner[sample])
    if isinstance(texts, TableSet):
        return f"{texts.table.path}, line {texts.table.lines[row]}"
    if isinstance(texts, TagSet):
        return f"{texts.examples.name}, line {texts.sentences[row].line}"
    return f"{texts.examples.name}, question {row + 1}"


def _texts(tokenizer: Tokenizer, piece: TextBatch) -> list[tuple[int, str]]:
    """The number of each text and its beginning, as the model read it."""
    found = []
    for place, sample in enumerate(piece.samples.tolist()):
        found.append((sample, _short(tokenizer.decode(piece.ids.row(place)[:_EXCERPT]))))
    return found


def _spoken(task: ElmoTask, row: list[int]) -> str:
    return " ".join(task.corpus.words[number] for number in row if number >= 0)


def _short(text: str) -> str:
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
