"""The inputs of an exported file: images, texts, or pairs of texts."""

import json
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import Size, sides
from patchword.core.text import Pair, Text
from patchword.layers import BlockSparse, Pattern
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.weights.io.saving import describe

OUTPUT = "scores"
InputTensors = tuple[Tensor, ...]
_RECURRENCE = "its recurrence is a loop over the words, which a graph has for one length only"
_REASONS = {  # why models that read something else are not exported
    "characters": _RECURRENCE,
    "vectors": "its inputs are vectors that other models compute",
}


class Inputs(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...

    def examples(self) -> list[InputTensors]:
        """Return inputs for comparing the file's outputs with the model's."""
        ...

    def traced(self) -> InputTensors:
        """Return inputs for tracing the model."""
        ...

    def shapes(self) -> Any:
        """Return the dynamic axes in the format of torch.export."""
        ...

    def module(self, model: Model) -> nn.Module:
        """Return a module that calls the model with these inputs."""
        ...

    def notes(self) -> dict[str, str]:
        """Describe the inputs and outputs, for users who have only the file."""
        ...


def inputs_of(card: Card, size: Size | None = None, batch: int | None = None, tokens: int | None = None) -> Inputs:
    """Return the inputs of a model. size: of images. batch, tokens: fixed batch size and length; default is any."""
    if (reads := REGISTRY.reads(card.model)) in _REASONS:
        expected = f"a model of images, texts or pairs of texts, not one of {reads}"
        raise UserError(f"{card.model!r} cannot be exported", expected=expected, hint=_REASONS[reads])
    if tokens is not None and reads != "texts":
        raise UserError("a fixed number of tokens is for text models", got=card.model)
    if reads == "pairs":
        return PairInputs(card, batch)
    if REGISTRY.reads_images(card.model):
        return ImageInputs(card, (card.config["channels"], *sides(size or card.config["image"])), batch)
    return TextInputs(card, batch, tokens)


@dataclass(frozen=True)
class ImageInputs:
    card: Card
    shape: tuple[int, int, int]
    batch: int | None
    names: tuple[str, ...] = ("images",)

    def examples(self) -> list[InputTensors]:
        return [self._images(count) for count in ([self.batch] if self.batch else [1, 3])]

    def traced(self) -> InputTensors:
        return self._images(self.batch or 2)

    def shapes(self) -> Any:
        return None if self.batch else ({0: Dim("batch", min=1)},)

    def module(self, model: Model) -> nn.Module:
        return model

    def notes(self) -> dict[str, str]:
        count, card = self.batch or "batch", self.card
        channels, height, width = self.shape
        colours = {1: "grey", 3: "red, green, blue"}.get(channels, f"{channels} channels")
        return {
            "input": f"{self.names[0]}, float32 ({count}, {channels}, {height}, {width}): {colours}; rows from "
            "the top; pixel values 0 to 255, divided by 255, minus mean, divided by std, per channel",
            "image": f"upright (EXIF); resized (bicubic) so that it covers {height} x {width}, then centre-cropped",
            "mean": json.dumps(card.normalization.mean),
            "std": json.dumps(card.normalization.std),
            "output": f"{OUTPUT}, float32 ({count}, {card.config['classes']}): before the softmax, in the order of "
            "labels",
            **_about(card),
        }

    def _images(self, count: int) -> InputTensors:
        """Return noise with the variance of normalised pixels."""
        return (torch.randn(count, *self.shape, generator=torch.Generator().manual_seed(count)),)


@dataclass(frozen=True)
class TextInputs:
    """Padded texts of any length up to the model's maximum, or of one length."""

    card: Card
    batch: int | None
    tokens: int | None = None
    names: tuple[str, ...] = ("ids", "segments", "mask")

    def examples(self) -> list[InputTensors]:
        lengths = [self.tokens or min(length, self._longest()) for length in (17, 40)]
        counts = [self.batch] * 2 if self.batch else [1, 3]
        return [self._texts(count, length) for count, length in zip(counts, lengths, strict=True)]

    def traced(self) -> InputTensors:
        return self._texts(self.batch or 2, self.tokens or min(13, self._longest()))

    def shapes(self) -> Any:
        open_axes: dict[int, Any] = {}
        if not self.tokens:
            open_axes[1] = Dim("tokens", min=3, max=self._longest())  # [CLS], a word, [SEP]
        if not self.batch:
            open_axes[0] = Dim("batch", min=1)
        return (open_axes,) * len(self.names)

    def module(self, model: Model) -> nn.Module:
        self._check_length(model)
        return _TextAdapter(model)

    def _check_length(self, model: Model) -> None:
        """Block-sparse attention is another graph for each number of blocks."""
        if self.tokens is not None:
            return
        partitions = [part.partition for part in model.modules() if isinstance(part, Pattern)]
        if any(isinstance(part, BlockSparse) and part.is_sparse(self._longest()) for part in partitions):
            raise UserError(
                f"{self.card.model!r} with block-sparse attention cannot be exported for all lengths at once",
                expected="one number of tokens",
                got=f"any number up to {self._longest()}",
                hint="--tokens N, or export(..., tokens=N); shorter texts are then padded to it",
            )

    def notes(self) -> dict[str, str]:
        count, length, config = self.batch or "batch", self.tokens or "tokens", self.card.config
        shape = f"int64 ({count}, {length})" + ("" if self.tokens else f", at most {self._longest()} tokens")
        answers = {
            "tokens": f"({count}, {length}, {config['width']}): the outputs of the last block",
            "words": f"({count}, {length}, {config['vocabulary']}): logits of the vocabulary",
            "tags": f"({count}, {length}, {config['classes']}): logits, in the order of labels",
            "span": f"({count}, {length}, 2): logits of the start and of the end of the answer",
            "classes": f"({count}, {config['classes']}): logits, in the order of labels",
            "next": f"({count}, 2): logits of 'the second text follows' and 'it does not'",
        }
        whole = f"({count}, {config['width']}): one vector per text"
        return {
            "input": f"{', '.join(self.names)}: {shape}. Token ids with special tokens; 0 for the "
            "first text and 1 for the second of a pair; 1 for tokens and 0 for padding",
            "output": f"{OUTPUT}, float32 {answers.get(config['head'], whole)}",
            **_about(self.card),
        }

    def _longest(self) -> int:
        return int(self.card.config["max_length"])

    def _texts(self, count: int, length: int) -> InputTensors:
        """Return random tokens; every text except the first is padded."""
        generator = torch.Generator().manual_seed(count)
        ids = torch.randint(0, self.card.config["vocabulary"], (count, length), generator=generator)
        lengths = (length - 2 * torch.arange(count)).clamp(min=1)[:, None]
        places = torch.arange(length)
        segments = (places >= lengths // 2).long() if self.card.config.get("segments", 0) > 1 else 0 * ids
        return ids, segments, (places < lengths).long()


class _TextAdapter(nn.Module):
    """Calls a text model with plain tensors."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        return self.model(Text(ids, segments, mask.bool()))


@dataclass(frozen=True)
class PairInputs:
    """Padded source texts, and target texts as far as they are known; both of any length up to the model's maximum."""

    card: Card
    batch: int | None
    names: tuple[str, ...] = ("source", "mask", "target")

    def examples(self) -> list[InputTensors]:
        counts = [self.batch] * 2 if self.batch else [1, 3]
        return [self._pairs(count, *lengths) for count, lengths in zip(counts, ((17, 40), (40, 11)), strict=True)]

    def traced(self) -> InputTensors:
        return self._pairs(self.batch or 2, 13, 7)

    def shapes(self) -> Any:
        batch = {} if self.batch else {0: Dim("batch", min=1)}
        source, target = (Dim(f"{name}_tokens", min=1, max=self._longest()) for name in ("source", "target"))
        return {**batch, 1: source}, {**batch, 1: source}, {**batch, 1: target}

    def module(self, model: Model) -> nn.Module:
        if any(isinstance(part, nn.RNNBase) for part in model.modules()):
            raise UserError(
                f"{self.card.model!r} cannot be exported", expected="a model without recurrence", hint=_RECURRENCE
            )
        return _PairAdapter(model)

    def notes(self) -> dict[str, str]:
        count, config = self.batch or "batch", self.card.config
        vocabulary = config["target_vocabulary"] or config["vocabulary"]
        return {
            "input": f"{', '.join(self.names)}: int64 ({count}, source_tokens), ({count}, source_tokens), ({count}, "
            f"target_tokens), at most {self._longest()} tokens each. Token ids of the source; 1 for its tokens and 0 "
            "for its padding; token ids of the target: a start token, then the known tokens, padded on the right",
            "output": f"{OUTPUT}, float32 ({count}, target_tokens, {vocabulary}): logits of the token after each token "
            "of the target",
            **_about(self.card),
        }

    def _longest(self) -> int:
        return int(self.card.config["max_length"])

    def _pairs(self, count: int, source: int, target: int) -> InputTensors:
        """Return random tokens; every source except the first is padded."""
        generator, config = torch.Generator().manual_seed(count), self.card.config
        source, target = min(source, self._longest()), min(target, self._longest())
        lengths = (source - 2 * torch.arange(count)).clamp(min=1)[:, None]
        vocabulary = config["target_vocabulary"] or config["vocabulary"]
        return (
            torch.randint(0, config["vocabulary"], (count, source), generator=generator),
            (torch.arange(source) < lengths).long(),
            torch.randint(0, vocabulary, (count, target), generator=generator),
        )


class _PairAdapter(nn.Module):
    """Calls a translator with plain tensors. The target needs no mask: a token attends only to those before it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        return self.model(Pair(Text(source, mask=mask.bool()), Text(target)))


def _about(card: Card) -> dict[str, str]:
    return {
        "labels": json.dumps(card.labels, ensure_ascii=False),
        "patchword": json.dumps(describe(card), ensure_ascii=False),
    }
