"""From the files of a text recipe to sets of examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from patchword.core.errors import UserError, nearest
from patchword.data.randomness import uniform
from patchword.data.text.assembly import Limit, sentences, words
from patchword.data.text.conll import Sentence, check_tags, read_conll
from patchword.data.text.glue import GLUE, GluePart, read_glue
from patchword.data.text.labels import label_flags, label_ids, label_names, numbers, split_labels
from patchword.data.text.questions import windows
from patchword.data.text.squad import Question, read_squad
from patchword.data.text.tables import Table, read_table
from patchword.data.text.tokenizer import Tokenizer
from patchword.objectives.answers import CHINESE, ENGLISH
from patchword.objectives.tag_spans import are_span_tags
from patchword.recipes.text_recipe import TextRecipe
from patchword.recipes.text_sets import SentenceSet, SpanSet, TagSet, TextSet

Rows = Table | list[Sentence] | list[Question]
_HELD_OUT = 31  # purpose of the random numbers that set texts aside
_PARTS: dict[str, GluePart] = {"train": "train", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class Parts:
    """The rows of the files, and the names of the labels, which are those of the training file."""

    train: Rows
    validation: Rows
    labels: tuple[str, ...]


def read_parts(recipe: TextRecipe) -> Parts:
    if recipe.glue and recipe.glue not in GLUE:
        raise UserError(f"GLUE has no task {recipe.glue!r}", hint=nearest(recipe.glue, GLUE))
    if not recipe.train:
        raise UserError("no training texts were named", expected="train=FILE", hint=_example(recipe))
    train = read_rows(recipe, "train")
    labels = _labels(recipe, train)  # of all rows: a label is not unknown because its only row was set aside
    if recipe.glue or recipe.share() is None:
        return Parts(train, read_rows(recipe, "validation"), labels)
    return Parts(*held_out(train, cast(float, recipe.share())), labels)


def has_pairs(recipe: TextRecipe) -> bool:
    return bool(GLUE[recipe.glue].pair if recipe.glue else recipe.pair)


def read_rows(recipe: TextRecipe, part: str) -> Rows:
    if recipe.glue:
        return read_glue(recipe.glue, Path(recipe.train), _PARTS[part])
    path = Path(getattr(recipe, part))
    if not path.is_file():
        raise UserError(f"there is no file {path}", expected=f"the {part} texts")
    if recipe.task == "tags":
        column = recipe.label if recipe.label != "label" else None
        return read_conll(path, int(column) if column and column.isdigit() else column)
    if recipe.task == "span":
        return read_squad(path, repair=True)
    columns = {"text": recipe.text, **({"pair": recipe.pair} if recipe.pair else {}), "label": recipe.label}
    return read_table(path, columns, may_be_empty={"label"} if recipe.task == "labels" else ())


def held_out(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Always the same ones, whatever the seed. Equal texts stay together, and questions over one article."""
    if isinstance(rows, Table):
        texts = list(zip(rows.columns["text"], rows.columns.get("pair", rows.columns["text"]), strict=True))
        first = {text: len(texts) - place for place, text in enumerate(reversed(texts), 1)}
        groups = torch.tensor([first[text] for text in texts])
    elif not rows or isinstance(rows[0], Sentence):
        groups = torch.arange(len(rows))
    else:
        names = {name: number for number, name in enumerate(dict.fromkeys(row.article for row in _questions(rows)))}
        groups = torch.tensor([names[row.article] for row in _questions(rows)])
    draw = uniform(0, 0, groups, _HELD_OUT)
    drawn = draw.unique()  # sorted
    aside = draw <= drawn[max(1, round(len(drawn) * share)) - 1]
    if not aside.any() or aside.all():
        raise UserError("there are too few texts to set any aside", expected="a validation file, or more texts")
    return _taken(rows, ~aside), _taken(rows, aside)


def make_set(recipe: TextRecipe, tokenizer: Tokenizer, rows: Rows, labels: tuple[str, ...], name: str) -> TextSet:
    limit = Limit(recipe.length, recipe.stride)
    if recipe.task == "span":
        language = CHINESE if recipe.language == "chinese" else ENGLISH
        stride = recipe.stride or recipe.length // 3
        return SpanSet(windows(tokenizer, name, _questions(rows), Limit(recipe.length, stride)), language)
    if recipe.task == "tags":
        return _tag_set(recipe, tokenizer, cast(list[Sentence], rows), labels, name)
    table = cast(Table, rows)
    examples = sentences(tokenizer, name, table.columns["text"], table.columns.get("pair"), limit)
    truth = _truth(recipe, table, labels)
    examples = replace(examples, labels=truth[examples.owner])
    weights = _weights(truth, len(labels)) if recipe.weights and recipe.task == "classes" else None
    return SentenceSet(table, examples, truth, labels, recipe, _metrics(recipe, labels), weights)


def metric_of(recipe: TextRecipe, labels: tuple[str, ...]) -> str:
    """What the best epoch is chosen by."""
    known = _metrics(recipe, labels)
    if recipe.metric and recipe.metric not in known:
        raise UserError(f"this task is not scored by {recipe.metric!r}", expected=" or ".join(known))
    return recipe.metric or (GLUE[recipe.glue].counts if recipe.glue else known[0])


def _metrics(recipe: TextRecipe, labels: tuple[str, ...]) -> tuple[str, ...]:
    if recipe.glue:
        return tuple(dict.fromkeys((GLUE[recipe.glue].counts, *GLUE[recipe.glue].metrics)))
    match recipe.task:
        case "labels":
            return ("multilabel-f1-micro", "multilabel-f1-macro", "multilabel-accuracy")
        case "number":
            return ("pearson", "spearman")
        case "tags":
            return ("f1", "precision", "recall", "accuracy") if are_span_tags(labels) else ("accuracy",)
        case "span":
            return ("f1", "exact")
    return ("accuracy", "f1", "matthews") if len(labels) == 2 else ("accuracy", "f1-macro")


def _tag_set(
    recipe: TextRecipe, tokenizer: Tokenizer, rows: list[Sentence], labels: tuple[str, ...], name: str
) -> TagSet:
    number = {label: index for index, label in enumerate(labels)}
    tags = [[number[tag] for tag in sentence.tags] for sentence in rows]
    examples, begun = words(tokenizer, name, [sentence.words for sentence in rows], tags, recipe.length)
    return TagSet(tuple(rows), examples, begun, labels)


def _labels(recipe: TextRecipe, rows: Rows) -> tuple[str, ...]:
    if recipe.glue:
        return GLUE[recipe.glue].labels
    if recipe.task == "tags":
        return label_names(tag for sentence in cast(list[Sentence], rows) for tag in sentence.tags)
    if recipe.task in ("number", "span"):
        return ()
    table = cast(Table, rows)
    if recipe.task == "labels":
        names = label_names(label for row in split_labels(table) for label in row)
        if not names:
            raise UserError(f"no text of {table.path} has a label", expected="labels such as a|b")
        return names
    names = label_names(table.columns["label"])
    if len(names) == len(table) > 2:
        raise UserError(
            f"every text of {table.path} has a label of its own",
            expected="a column of classes",
            got=recipe.label,
            hint="name the column with label=..., or learn a number with task=number",
        )
    if len(names) < 2:
        raise UserError(f"all texts of {table.path} have the same label", expected="two classes or more", got=names[0])
    return names


def check_labels(recipe: TextRecipe, path: Path, rows: Rows, labels: tuple[str, ...]) -> None:
    """A label that training has not seen is an error."""
    if recipe.task == "tags":
        check_tags(path, cast(list[Sentence], rows), labels)
    elif isinstance(rows, Table):
        _truth(recipe, rows, labels)


def _truth(recipe: TextRecipe, table: Table, labels: tuple[str, ...]) -> Tensor:
    if recipe.task == "number" or (recipe.glue and not labels):
        return numbers(table)
    return label_flags(table, labels) if recipe.task == "labels" else label_ids(table, labels)


def _weights(truth: Tensor, classes: int) -> Tensor:
    """each class as much as the mean class"""
    counts = torch.bincount(truth, minlength=classes).clamp(min=1)
    return len(truth) / (classes * counts.float())


def _taken(rows: Rows, chosen: Tensor) -> Rows:
    index = chosen.nonzero()[:, 0].tolist()
    if isinstance(rows, Table):
        columns = {role: [values[row] for row in index] for role, values in rows.columns.items()}
        return replace(rows, columns=columns, lines=[rows.lines[row] for row in index])
    return cast(Rows, [rows[row] for row in index])


def _questions(rows: Rows) -> Sequence[Question]:
    return cast(Sequence[Question], rows)


def _example(recipe: TextRecipe) -> str:
    if recipe.glue:
        return "e.g. train=glue, the folder that holds CoLA, SST-2 and so on"
    return {"tags": "e.g. train=train.conllu", "span": "e.g. train=train.json"}.get(
        recipe.task, "e.g. train=reviews.csv text=review label=sentiment"
    )
