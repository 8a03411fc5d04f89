"""Builds the task of translation from its recipe."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from rich.console import Console

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.text.batching.pair_batches import PairBatch, PairBatches
from patchword.layers import Translator
from patchword.models import REGISTRY
from patchword.objectives.metrics.bleu import bleu, require_sacrebleu
from patchword.objectives.translation import NextWords
from patchword.recipes.translation.data import Languages, Pairs, languages_of, parted, read_all, tokenised
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.translation.run import as_translator, open_tokenizers, open_translator, save_tokenizers
from patchword.recipes.translation.search import Search, in_words, translated
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save
from patchword.weights.local_path import local_path

_SCORED = 1024  # maximum validation pairs that are translated after each epoch
GREEDY = Search(beams=1)


@dataclass(frozen=True, eq=False)
class TranslationTask:
    """The task of a translation recipe, checked before anything is written."""

    recipe: TranslationRecipe
    model: Translator
    languages: Languages
    train: Pairs
    validation: Pairs
    batches: PairBatches
    unit: str = "tokens"
    metric: str = "bleu"
    shapes_change: bool = True

    @property
    def device(self) -> torch.device:
        return self.batches.form.device

    def steps_per_epoch(self) -> int:
        return self.batches.steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[PairBatch]:
        return self.batches.epoch(epoch, self.recipe.seed, first, group)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return NextWords(forward, self.recipe.label_smoothing)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        """Return the loss over all pairs, and the BLEU of some, translated with greedy search."""
        precision = pick_precision(self.recipe.precision, self.device)
        some = self.validation.take(torch.arange(min(_SCORED, len(self.validation))))
        loss, accuracy = judged(self.model, self.languages, self.validation, precision, group=group)
        found = in_words(
            self.languages, translated(self.model, self.languages, some.source, GREEDY, precision=precision)
        )
        score = bleu(found, some.texts.second, self.recipe.bleu).score
        return Validation(loss, score, {"accuracy": accuracy})

    def save(self, folder: Path) -> None:
        save_tokenizers(self.languages.source, self.languages.target, folder)
        save(self.model, folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train), "validation": len(self.validation)}

    def with_batch_size(self, size: int) -> Self:
        recipe = self.recipe.model_copy(update={"batch_size": size})
        return replace(self, recipe=recipe, batches=replace(self.batches, tokens=size))

    def fingerprint(self) -> dict[str, Any]:
        mark = f"{self.train.fingerprint()} {self.languages.fingerprint()}"
        return {"name": "the pairs", "samples": len(self.train), "fingerprint": mark}


@torch.inference_mode()
def judged(
    model: Translator,
    languages: Languages,
    pairs: Pairs,
    precision: str = "float32",
    tokens: int = 8192,
    group: WorkSharing = SINGLE,
) -> tuple[float, float]:
    """Return the mean loss per token, without label smoothing, and the token accuracy."""
    device = next(model.parameters()).device

    def ask(batch: PairBatch) -> tuple[torch.Tensor, ...]:
        with autocast(precision, device):
            scores = model(batch.pair).float()
        loss = F.cross_entropy(scores, batch.asked_targets, reduction="sum")
        return loss, (scores.argmax(-1) == batch.asked_targets).sum()

    batches = PairBatches(pairs.source, pairs.target, tokens, languages.form(device)).whole()
    loss, right = (torch.stack(parts).cpu().double().sum() for parts in zip(*group.map(ask, batches), strict=True))
    count = len(pairs.target.values)
    return float(loss) / count, float(right) / count


def build_task(recipe: TranslationRecipe, console: Console) -> TranslationTask:
    recipe.check_model()
    require_sacrebleu()
    device, fraction = pick_device(recipe.device), recipe.validation_fraction()
    texts = read_all(recipe)
    path = local_path(recipe.model.name)
    folder = path if path.exists() else None
    with console.status("training the tokenizer"):
        languages = languages_of(recipe, texts["train"]) if folder is None else Languages(*open_tokenizers(folder))
    torch.manual_seed(recipe.seed)
    model = _model(recipe, languages, folder)
    longest = int(model.card.config["max_length"])
    pairs = tokenised(texts["train"], languages, longest, recipe.train)
    if fraction is None:
        validation = tokenised(texts["validation"], languages, longest, recipe.validation)
    else:
        pairs, validation = parted(pairs, fraction)
    if recipe.test:
        tokenised(texts["test"], languages, longest, recipe.test)  # faults are reported before training
    _tell(console, languages, pairs, validation)
    batches = PairBatches(pairs.source, pairs.target, recipe.batch_size, languages.form(device))
    return TranslationTask(recipe, model.to(device), languages, pairs, validation, batches)


def _model(recipe: TranslationRecipe, languages: Languages, folder: Path | None) -> Translator:
    """Load a folder with weights, or build its sizes or a registry name with random weights."""
    name, overrides = recipe.model.name, recipe.model.overrides()
    if folder is not None:
        found = open_translator(folder, **overrides).model
        return (
            as_translator(REGISTRY.create(found.card.model, **found.card.config), name)
            if recipe.model.from_scratch
            else found
        )
    if REGISTRY.reads(name) != "pairs":
        raise UserError(f"{name!r} reads {REGISTRY.reads(name)}", expected="a model that translates: transformer-small")
    written = 0 if languages.target is languages.source else languages.target.vocabulary
    sizes = {"vocabulary": languages.source.vocabulary, "target_vocabulary": written}
    return as_translator(REGISTRY.create(name, **{**sizes, **overrides}), name)


def _tell(console: Console, languages: Languages, train: Pairs, validation: Pairs) -> None:
    entries = f"{languages.source.vocabulary:,}"
    entries += "" if languages.target is languages.source else f" and {languages.target.vocabulary:,}"
    console.print(
        f"{len(train):,} pairs, {len(train.source.values):,} tokens in and {len(train.target.values):,} out, "
        f"vocabulary {entries}; {len(validation):,} pairs for validation",
        highlight=False,
    )
