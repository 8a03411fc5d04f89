"""The task of tagging each word of a sentence."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from patchword.data.text.batching.assembly import words as tagged_words
from patchword.data.text.formats.conll import Sentence, check_tags, read_conll
from patchword.data.text.formats.labels import label_names
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.objectives.metrics.tag_spans import are_span_tags
from patchword.recipes.text.inference.answers import TextAnswer
from patchword.recipes.text.inference.input import Columns, TextInput
from patchword.recipes.text.inference.outputs import Advance
from patchword.recipes.text.inference.reader import Reader
from patchword.recipes.text.inference.requests import TypedOptions, sentence_inputs
from patchword.recipes.text.inference.tagging import tagged
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.sets import TagSet
from patchword.recipes.text.tasks.spec import IN_WINDOWS, AnswerOptions, Labels, TextTaskSpec


class TagTask(TextTaskSpec[list[Sentence]]):
    name = "tags"
    head = "tags"
    unit = "words"
    row = "sentence"
    score = "F1 or accuracy"
    asked_as = ()  # the words of the answer contain the text
    hint = "e.g. train=train.conllu"
    own_columns = Columns("text")

    def idle(self) -> dict[str, str]:
        return {**super().idle(), "stride": IN_WINDOWS}

    def metrics(self, labels: Labels) -> tuple[str, ...]:
        return ("f1", "precision", "recall", "accuracy") if are_span_tags(labels) else ("accuracy",)

    def read_file(self, path: Path) -> list[Sentence]:
        label = self.recipe.label
        column = label if label != TextRecipe.model_fields["label"].default else None
        return read_conll(path, int(column) if column and column.isdigit() else column)

    def labels(self, rows: list[Sentence]) -> Labels:
        return label_names(tag for sentence in rows for tag in sentence.tags)

    def check(self, path: Path, rows: list[Sentence], labels: Labels) -> None:
        check_tags(path, rows, labels)

    def known_by(self, rows: list[Sentence]) -> Iterator[tuple[Hashable, str]]:
        return ((sentence.words, f"the sentence on line {sentence.line}") for sentence in rows)

    def groups(self, rows: list[Sentence]) -> Tensor:
        return torch.arange(len(rows))

    def taken(self, rows: list[Sentence], index: Sequence[int]) -> list[Sentence]:
        return [rows[row] for row in index]

    def texts(self, tokenizer: Tokenizer, rows: list[Sentence], labels: Labels, name: str) -> TagSet:
        number = {label: index for index, label in enumerate(labels)}
        tags = [[number[tag] for tag in sentence.tags] for sentence in rows]
        cut = [sentence.words for sentence in rows]
        examples, begun = tagged_words(tokenizer, name, cut, tags, self.recipe.length)
        return TagSet(tuple(rows), examples, begun, labels)

    def read_inputs(self, inputs: Sequence[str], words: TypedOptions) -> Iterable[TextInput]:
        return sentence_inputs(self.columns(words), inputs)

    def answers(
        self, reader: Reader, asked: Sequence[TextInput], options: AnswerOptions, advance: Advance
    ) -> Iterator[TextAnswer]:
        return tagged(reader, asked, self.recipe.length, advance)
