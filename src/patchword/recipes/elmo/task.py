"""Builds the task of pretraining an ELMo from its recipe."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from rich.console import Console

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.faults import collect_faults
from patchword.data.text.batching.prefetch import prefetch
from patchword.data.text.corpus.word_corpus import ENDS, SpelledTexts, WordCorpus, batches_by_length, split_long
from patchword.data.text.corpus.word_counts import word_splitter
from patchword.data.text.tokenizers.characters import SpelledBatch
from patchword.data.text.tokenizers.vocabulary_training import texts_in
from patchword.models import REGISTRY
from patchword.models.text.elmo import Elmo
from patchword.objectives.bidirectional_lm import BidirectionalLM, BidirectionalModel, FullSoftmax, SampledSoftmax
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.elmo.run import WORDS, as_elmo, known_words, reader_of
from patchword.recipes.notes import print_notes
from patchword.recipes.pretraining.splits import split_held_out
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import load, save
from patchword.weights.local_path import local_path

_HELD_TEXTS = 8192  # at most, for validation


@dataclass(frozen=True, eq=False)
class ElmoTask:
    """The task of an ELMo recipe, checked before anything is written."""

    recipe: ElmoRecipe
    model: Elmo
    corpus: WordCorpus
    train: SpelledTexts
    held: SpelledTexts
    unit: str = "predicted words"
    metric: str = "accuracy"
    shapes_change: bool = True

    @property
    def device(self) -> torch.device:
        return self.train.device

    def steps_per_epoch(self) -> int:
        return len(self._batches(0))

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[SpelledBatch]:
        return prefetch(lambda index: self.train.batch(group.share(index)), self._batches(epoch)[first:])

    def _batches(self, epoch: int) -> list[torch.Tensor]:
        return batches_by_length(self.train.texts.lengths, self.recipe.batch_size, self.recipe.seed, epoch)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        softmax = SampledSoftmax(self.recipe.drawn) if self.recipe.drawn else FullSoftmax()
        return BidirectionalLM(cast(BidirectionalModel, self.model), softmax)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        judged = judge(self.model, self.held, pick_precision(self.recipe.precision, self.device), group)
        return Validation(judged.pop("loss"), judged.pop("accuracy"), judged)

    def save(self, folder: Path) -> None:
        write_text(folder / WORDS, "".join(f"{word}\n" for word in self.corpus.words[: self.train.vocabulary]))
        save(self.model, folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train), "validation": len(self.held)}

    def with_batch_size(self, size: int) -> Self:
        return replace(self, recipe=self.recipe.model_copy(update={"batch_size": size}))

    def fingerprint(self) -> dict[str, Any]:
        return {"name": "the texts", "samples": len(self.train), "fingerprint": self.corpus.fingerprint()}


@torch.inference_mode()
def judge(
    model: Elmo, texts: SpelledTexts, precision: str = "float32", group: WorkSharing = SINGLE
) -> dict[str, float]:
    """Return the loss with the full softmax, the accuracy, and the perplexity of each direction."""
    two = BidirectionalLM(cast(BidirectionalModel, model))

    def ask(index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the loss and the correct predictions of both directions, and the number of words."""
        batch = texts.batch(index)
        with autocast(precision, texts.device):
            both_directions = two.both_directions(batch)
        found = torch.stack([torch.stack([way.loss.double(), way.right.double()]) for way in both_directions]).cpu()
        return found, torch.tensor(batch.weight // 2)

    answers = zip(*group.map(ask, batches_by_length(texts.texts.lengths, 4096, 0, 0)), strict=True)
    found, counts = (torch.stack(parts).sum(0) for parts in answers)
    (after, right), (before, also_right), words = *found.tolist(), int(counts)
    loss = (after + before) / (2 * words)
    both = {"loss": loss, "accuracy": (right + also_right) / (2 * words), "perplexity": _perplexity(loss)}
    return both | {"next_perplexity": _perplexity(after / words), "previous_perplexity": _perplexity(before / words)}


def _perplexity(loss: float) -> float:
    return math.exp(min(50, loss))


def build_task(recipe: ElmoRecipe, console: Console) -> ElmoTask:
    device = pick_device(recipe.device)
    check(recipe)
    known = known_words(local_path(recipe.model.name))
    corpus = read_corpus(recipe, known or ENDS, console)
    if len(corpus.sentences) < 2 or len(corpus.words) < len(ENDS) + 2:
        got = f"{len(corpus.sentences)} sentences"
        raise UserError("too little text", expected="at least two sentences with two different words", got=got)
    vocabulary = len(known) if known else min(len(ENDS) + recipe.words, len(corpus.words))
    torch.manual_seed(recipe.seed)
    model, name = open_model(recipe, vocabulary), recipe.model.name
    if model.card.config["vocabulary"] != vocabulary:
        got = f"{model.card.config['vocabulary']:,} of the model"
        raise UserError(f"the vocabulary of {name} does not fit its head", expected=f"{vocabulary:,} words", got=got)
    model, reader = model.to(device), reader_of(model)
    spelling, (learned, aside) = reader.table(corpus.words), split_held_out(len(corpus.sentences), recipe.held_out)
    train, held = (
        SpelledTexts(split_long(corpus.sentences.take(index), recipe.length), spelling, vocabulary, reader, device)
        for index in (learned, aside[:_HELD_TEXTS])
    )
    return ElmoTask(recipe, model, corpus, train, held)


def check(recipe: ElmoRecipe) -> None:
    recipe.check_model()
    recipe.require_text()
    for field in ("compile", "activation_checkpointing"):
        if getattr(recipe, field):
            raise UserError(f"{field} has no effect on an ELMo", expected=f"{field}=false")
    if recipe.drawn >= recipe.words:
        raise UserError("recipe field 'drawn'", expected=f"fewer than the {recipe.words:,} words", got=recipe.drawn)
    if not local_path(recipe.model.name).exists() and (reads := REGISTRY.reads(recipe.model.name)) != "characters":
        raise UserError(f"{recipe.model.name!r} reads {reads}", expected="a model of characters, e.g. elmo-small")


def open_model(recipe: ElmoRecipe, vocabulary: int) -> Elmo:
    """Build a registry name, or load a folder to continue training; published weights get a new head."""
    folder = local_path(recipe.model.name)
    fields = {"head": "words", "vocabulary": vocabulary, **recipe.model.overrides()}
    if not folder.exists():
        return as_elmo(REGISTRY.create(recipe.model.name, **fields), recipe.model.name)
    model = as_elmo(load(folder, **fields), folder)
    if recipe.model.from_scratch:
        return as_elmo(REGISTRY.create(model.card.model, **model.card.config), folder)
    return model


def read_corpus(recipe: ElmoRecipe, known: tuple[str, ...], console: Console) -> WordCorpus:
    began = time.monotonic()
    with console.status("reading the texts") as status:

        def show(done: int, total: int) -> None:
            left = (time.monotonic() - began) * (total - done) / max(1, done)
            status.update(f"reading: {done / 2**20:,.0f} of {total / 2**20:,.0f} MB, {left:,.0f} s left")

        with collect_faults() as report:
            corpus = WordCorpus.read(texts_in(recipe.files(), show), word_splitter(recipe.cut), known)
    print_notes(report.doubts, console)
    tokens, count = len(corpus.sentences.values), len(corpus.sentences)
    words = f"{tokens - 2 * count:,} words, {len(corpus.words) - len(ENDS):,} different ones, "
    console.print(f"{words}in {count:,} sentences (read in {time.monotonic() - began:.0f} s)", highlight=False)
    return corpus
