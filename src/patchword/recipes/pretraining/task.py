"""Builds the task of pretraining from its recipe."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.randomness import order
from patchword.data.text.batching.batches import TextBatch, prefetch_batches
from patchword.data.text.batching.packing import pack_by_tokens
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.heads.text import split_objectives
from patchword.layers.text.model import TextModel
from patchword.objectives.text import MaskedWords
from patchword.recipes.pretraining.checks import check_named
from patchword.recipes.pretraining.parts import MaskedTokens, NextTokens, TargetRule
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.splits import DataSplit, Examples
from patchword.recipes.pretraining.texts import masking_of, splits_of
from patchword.recipes.text.model import batch_format, check_length, open_text_model
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save

_HELD_EXAMPLES = 4096  # at most, for validation


@dataclass(frozen=True, eq=False)
class PretrainingTask:
    """The task of a pretraining recipe, checked before anything is written."""

    recipe: PretrainingRecipe
    model: TextModel
    tokenizer: Tokenizer
    train: DataSplit
    held: DataSplit
    unit: str
    metric: str = "accuracy"
    shapes_change: bool = True

    @property
    def device(self) -> torch.device:
        return self.train.form.device

    @cached_property
    def _steps(self) -> int:
        return len(self._batches(self.train.examples(0), 0))

    def steps_per_epoch(self) -> int:
        return self._steps

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[TextBatch]:
        """Yield the batches of an epoch, with other examples in every epoch, but the step count of the first."""
        examples = self.train.examples(epoch)
        batches = self._batches(examples, epoch)[first : self._steps]
        return prefetch_batches(examples.batch, batches, group)

    def _batches(self, examples: Examples, epoch: int) -> list[Tensor]:
        """Return the example indices of each batch: batch_size examples, or as many as fit into `tokens` tokens."""
        shuffled = order(self.recipe.seed, epoch, len(examples))
        if self.recipe.tokens:
            packed = pack_by_tokens(shuffled, examples.lengths, self.recipe.tokens)
            return packed[:-1] or packed  # the last is not full
        batches = shuffled.split(self.recipe.batch_size)
        return [index for index in batches if len(index) == self.recipe.batch_size] or list(batches)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return MaskedWords(forward)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        judged = judge(self.model, self.held, pick_precision(self.recipe.precision, self.device), group)
        return Validation(judged.pop("loss"), judged.pop("accuracy"), judged)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
        save(self.model, folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train), "validation": len(self.held)}

    def with_batch_size(self, size: int) -> Self:
        return replace(self, recipe=self.recipe.model_copy(update={"batch_size": size}))

    def fingerprint(self) -> dict[str, Any]:
        return {"name": "the texts", "samples": len(self.train), "fingerprint": self.train.fingerprint()}


@torch.inference_mode()
def judge(
    model: TextModel, texts: DataSplit, precision: str = "float32", group: WorkSharing = SINGLE
) -> dict[str, float]:
    """Return the loss, the accuracy and perplexity of predicted words, and the accuracy of the second objective."""
    held = texts.examples(0)
    examples = min(len(held), _HELD_EXAMPLES)

    def ask(index: torch.Tensor) -> tuple[torch.Tensor]:
        batch = held.batch(index)
        follow = parting = 0.0
        with autocast(precision, texts.form.device):
            scores, following = split_objectives(model(batch.text))
        targets = batch.asked_targets
        loss = float(F.cross_entropy(scores.float(), targets, reduction="sum"))
        right = float((scores.argmax(-1) == targets).sum())
        if following is not None and batch.labels is not None:
            labels = batch.labels.to(following.device)
            follow = float((following.argmax(-1) == labels).sum())
            parting = float(F.cross_entropy(following.float(), labels, reduction="sum"))
        return (torch.tensor([loss, right, len(targets), follow, parting], dtype=torch.float64),)

    answers = group.map(ask, torch.arange(examples).split(256))
    loss, right, words, follow, parting = torch.stack([answer for (answer,) in answers]).sum(0).tolist()
    whole = loss / words + parting / examples
    values = {"loss": whole, "accuracy": right / words, "perplexity": math.exp(min(50, loss / words))}
    return values | ({f"{texts.second}_accuracy": follow / examples} if texts.second else {})


def build_task(recipe: PretrainingRecipe, console: Console) -> PretrainingTask:
    device = pick_device(recipe.device)
    check_named(recipe)
    torch.manual_seed(recipe.seed)
    dropouts = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    fields = {**dropouts, **recipe.model.overrides()}
    pairs = recipe.sentences != "packed" and bool(recipe.text)
    model, tokenizer = open_text_model(recipe.model, recipe.tokenizer, **{**fields, "head": "words"})
    recipe.check_objective(model.card.model, model.causal)
    if model.causal and (pairs or recipe.parallel):
        asks = "parallel" if recipe.parallel else f"sentences={recipe.sentences}"
        raise UserError(
            f"{model.card.model} is causal and predicts the next word", expected="sentences=packed", got=asks
        )
    if pairs:
        torch.manual_seed(recipe.seed)
        model, _ = open_text_model(recipe.model, recipe.tokenizer, **{**fields, "head": "pretraining"})
    check_length(recipe.length, model)
    target_rule: TargetRule = NextTokens() if model.causal else MaskedTokens(masking_of(recipe, tokenizer))
    train, held = splits_of(recipe, tokenizer, batch_format(recipe.packed, tokenizer, device), target_rule, console)
    return PretrainingTask(recipe, model.to(device), tokenizer, train, held, unit=target_rule.unit)
