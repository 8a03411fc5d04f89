"""A trained text model, its tokenizer, and the folder they came from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.text.batches import Examples, Form, TextBatch, TextBatches
from patchword.data.text.tokenizer import Tokenizer
from patchword.layers.text import TextModel
from patchword.models import REGISTRY
from patchword.recipes.device import pick_device
from patchword.recipes.recipe import ModelChoice
from patchword.recipes.run import Run
from patchword.recipes.text_model import form_of, open_text_model
from patchword.recipes.text_sets import Outputs

Progress = Callable[[float], None]  # told how many more texts are done
_BATCH = 32
_ROWS = 4096  # texts that are worked on together
_CHARACTERS = 1_000_000  # the same in characters

Thing = TypeVar("Thing")


def nobody(done: float) -> None:
    """Progress that nobody looks at."""


class Answered(Protocol):
    """Texts, and what a model answered to a batch of them, text by text."""

    @property
    def examples(self) -> Examples: ...

    def output(self, batch: TextBatch, answer: Tensor) -> Outputs: ...


@dataclass
class Counts:
    """Texts so far of which something was cut off, and texts that were read in several windows."""

    shortened: int = 0
    windowed: int = 0

    def add(self, examples: Examples) -> None:
        self.shortened += examples.shortened
        self.windowed += examples.windowed


@dataclass(frozen=True)
class Reader:
    folder: Path
    model: TextModel
    tokenizer: Tokenizer
    form: Form
    counts: Counts = field(default_factory=Counts)

    @property
    def head(self) -> str:
        return str(self.model.card.config["head"])

    @property
    def depth(self) -> int:
        return int(self.model.card.config["depth"])

    @property
    def positions(self) -> int:
        return int(self.model.card.config["positions"])

    @torch.inference_mode()
    def outputs(
        self, texts: Answered, rows: float, progress: Progress, ask: Callable[[TextBatch], Tensor] | None = None
    ) -> Outputs:
        """What the model answers to every text, in their order. rows: the progress that they amount to in all."""
        found: dict[int, Tensor] = {}
        for batch in TextBatches(texts.examples, _BATCH, self.form).whole():
            answer = ask(batch) if ask else self.model(batch.text)
            found.update(zip(batch.samples.tolist(), texts.output(batch, answer), strict=True))
            progress(rows * len(batch) / len(texts.examples))
        return [found[number] for number in range(len(found))]


def open_reader(name: str, device: str = "auto") -> Reader:
    """A folder with weights and a tokenizer: a run, by its name below `runs` too, or one of another library."""
    folder = folder_of(name)
    if (folder / "recipe.yaml").is_file() and not (folder / "model.safetensors").is_file():
        Run(folder).model()  # says what to do about it
    model, tokenizer = open_text_model(ModelChoice(name=str(folder)))
    target = pick_device(device)
    return Reader(folder, model.to(target).eval(), tokenizer, form_of("auto", tokenizer, target))


def folder_of(name: str) -> Path:
    found = next((path for path in (Path(name), Path("runs") / name) if path.exists()), None)
    if found is None:
        known = name in REGISTRY.names()
        hint = "a name alone has random weights: train it, or name a folder with weights" if known else ""
        raise UserError(f"there is nothing at {name}", expected="a run, or a model's folder", hint=hint)
    return found


def per_text(batch: TextBatch, answer: Tensor) -> Outputs:
    """One row of scores for each text, or the rows of its tokens."""
    answer = answer.float().cpu()
    if answer.ndim == 2:
        return list(answer)
    if batch.form.in_row:
        return list(answer[0].split(batch.ids.lengths.tolist()))
    return [scores[:length] for scores, length in zip(answer, batch.ids.lengths.tolist(), strict=True)]


@dataclass(frozen=True)
class Plain:
    """Texts with nothing known about them."""

    examples: Examples

    def output(self, batch: TextBatch, answer: Tensor) -> Outputs:
        return per_text(batch, answer)


def grouped(things: Sequence[Thing], size: Callable[[Thing], int], most: int = _CHARACTERS) -> Iterator[list[Thing]]:
    """Some at a time, so that the tokens of a large file are never held all at once."""
    group: list[Thing] = []
    total = 0
    for thing in things:
        if group and (len(group) == _ROWS or total + size(thing) > most):
            yield group
            group, total = [], 0
        group.append(thing)
        total += size(thing)
    if group:
        yield group
