"""Pretraining on raw text: from a recipe to what the loop needs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.randomness import order
from patchword.data.text.batches import IGNORE, Form, TextBatch
from patchword.data.text.masking import Masking
from patchword.data.text.pairs import plan_packed, plan_pairs
from patchword.data.text.plan import Frame, Numbers, Plan
from patchword.data.text.prefetch import prefetched
from patchword.data.text.ragged import Ragged
from patchword.data.text.stored import Corpus
from patchword.data.text.tokenizer import Tokenizer
from patchword.layers.text import TextModel
from patchword.objectives.texts import MaskedWords
from patchword.recipes.device import pick_device, pick_precision
from patchword.recipes.pretraining_recipe import PretrainingRecipe
from patchword.recipes.text_model import check_length, form_of, open_text_model
from patchword.recipes.tokens import tokenised
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save

_HELD_EXAMPLES = 4096  # at most, for validation
_BALANCING = 20_000  # documents from which the share of random partners is found


@dataclass(frozen=True, eq=False)
class Share:
    """Some documents of a corpus, made into examples."""

    corpus: Corpus
    documents: Numbers
    frame: Frame
    masking: Masking
    form: Form
    random_share: float | None  # of pairs; None: packed sentences
    seed: int

    def plan(self, epoch: int) -> Plan:
        if self.random_share is None:
            return plan_packed(self.corpus, self.frame, self.seed, epoch, self.documents)
        return plan_pairs(self.corpus, self.frame, self.seed, epoch, self.documents, random_share=self.random_share)

    def batch(self, plan: Plan, epoch: int, index: Tensor) -> TextBatch:
        ids, segments, following = plan.batch(index)
        masked = self.masking.apply(ids, index, self.seed, epoch)
        targets = torch.full_like(ids.values, IGNORE).scatter(0, masked.places, masked.labels.int())
        return TextBatch(
            Ragged(masked.ids, ids.offsets),
            segments,
            index,
            self.form,
            None if self.random_share is None else following,
            Ragged(targets, ids.offsets),
            asks_places=True,
        ).ready()


@dataclass(frozen=True, eq=False)
class PretrainingTask:
    """What a recipe asks for, brought together and checked, before anything is written."""

    recipe: PretrainingRecipe
    model: TextModel
    tokenizer: Tokenizer
    train: Share
    held: Share
    metric: str = "accuracy"
    unit: str = "masked words"
    shapes_change: bool = True

    @property
    def device(self) -> torch.device:
        return self.train.form.device

    @cached_property
    def _steps(self) -> int:
        return max(1, len(self.train.plan(0)) // self.recipe.batch)

    def steps_per_epoch(self) -> int:
        return self._steps

    def data(self, epoch: int, first: int) -> Iterator[TextBatch]:
        """Other examples in every epoch; the first epoch's number of batches is every epoch's, if there are as many."""
        plan = self.train.plan(epoch)
        shuffled = order(self.recipe.seed, epoch, len(plan)).split(self.recipe.batch)
        full = [index for index in shuffled if len(index) == self.recipe.batch] or list(shuffled)
        return prefetched(partial(self.train.batch, plan, epoch), full[first : self._steps])

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return MaskedWords(forward)

    def validate(self) -> Validation:
        judged = judge(self.model, self.held, pick_precision(self.recipe.precision, self.device))
        return Validation(judged.pop("loss"), judged.pop("accuracy"), judged)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
        save(self.model, folder)

    def fingerprint(self) -> dict[str, Any]:
        corpus = self.train.corpus
        return {"name": "the texts", "samples": len(corpus), "fingerprint": corpus.fingerprint()}


@torch.inference_mode()
def judge(model: TextModel, texts: Share, precision: str = "float32") -> dict[str, float]:
    """The loss as in training, the accuracy and perplexity of masked words, how often the next sentence was right."""
    plan = texts.plan(0)
    words = right = follow = loss = parting = 0.0
    examples = min(len(plan), _HELD_EXAMPLES)
    for index in torch.arange(examples).split(256):
        batch = texts.batch(plan, 0, index)
        with autocast(precision, texts.form.device):
            answer = model(batch.text)
        scores, following = answer if isinstance(answer, tuple) else (answer, None)
        targets = batch.asked_targets
        loss += float(F.cross_entropy(scores.float(), targets, reduction="sum"))
        right += float((scores.argmax(-1) == targets).sum())
        words += len(targets)
        if following is not None and batch.labels is not None:
            labels = batch.labels.to(following.device)
            follow += float((following.argmax(-1) == labels).sum())
            parting += float(F.cross_entropy(following.float(), labels, reduction="sum"))
    whole = loss / words + parting / examples
    told = {"loss": whole, "accuracy": right / words, "perplexity": math.exp(min(50, loss / words))}
    return told | ({} if texts.random_share is None else {"next_accuracy": follow / examples})


def gather(recipe: PretrainingRecipe, console: Console) -> PretrainingTask:
    device = pick_device(recipe.device)
    if not recipe.text:
        raise UserError("no texts were named", expected="text=FILE, or several with commas between")
    torch.manual_seed(recipe.seed)
    head = "pretraining" if recipe.sentences == "next" else "words"
    dropouts = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    fields = {**dropouts, **recipe.model.overrides(), "head": head}
    model, tokenizer = open_text_model(recipe.model, recipe.tokenizer, **fields)
    check_length(recipe.length, model)
    masking = Masking.of(tokenizer, recipe.masked, whole_words=recipe.whole_words)
    corpus = tokenised(recipe, tokenizer, console)
    form = form_of(recipe.rows, tokenizer, device)
    frame = Frame(tokenizer.cls, tokenizer.sep, recipe.length)
    learned, aside = corpus.split(recipe.held_out)
    share = balanced(corpus, frame, learned) if recipe.sentences == "next" else None
    train = Share(corpus, _with_pairs(corpus, learned, share), frame, masking, form, share, recipe.seed)
    held = Share(corpus, _with_pairs(corpus, aside, share), frame, masking, form, share, 0)
    check_held_out(held, recipe)
    return PretrainingTask(recipe, model.to(device), tokenizer, train, held)


def check_held_out(held: Share, recipe: PretrainingRecipe) -> None:
    """Found out before an epoch is spent: without these documents nothing could be scored."""
    needed = "one document" if held.random_share is None else "two documents of two sentences or more"
    if len(held.documents) < (1 if held.random_share is None else 2):
        raise UserError(
            f"held_out={recipe.held_out:g} sets too few documents aside",
            expected=needed,
            got=f"{len(held.documents)} of {len(held.corpus):,} documents",
            hint="set a larger share aside, e.g. held_out=0.1, give more texts, or say how documents are separated",
        )


def _with_pairs(corpus: Corpus, documents: Numbers, share: float | None) -> Numbers:
    """Pairs need documents of two sentences or more."""
    return documents if share is None else documents[np.diff(corpus.documents)[documents] > 1]


def balanced(corpus: Corpus, frame: Frame, documents: Numbers) -> float:
    """The share of random partners among chunks that can be parted, with which half of all pairs have one.

    A chunk of one long sentence always gets a random partner; the others get so many fewer.
    """
    some = _with_pairs(corpus, documents, 0.5)[:_BALANCING]
    low, high = 0.0, 0.5
    for _ in range(7):
        middle = (low + high) / 2
        labels = plan_pairs(corpus, frame, 0, 0, some, random_share=middle).label
        low, high = (low, middle) if labels.mean() > 0.5 else (middle, high)
    return (low + high) / 2
