"""Rows that compare text models: published, counted and measured figures."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from patchword.analysis.cost.count import count, text_of
from patchword.analysis.published.comparison import apart, matching
from patchword.analysis.published.text import PUBLISHED_TEXTS, PublishedText
from patchword.analysis.speed import Speed
from patchword.models import REGISTRY


class Condition(NamedTuple):
    """The conditions of a measurement."""

    device: str
    precision: str
    batch: int

    def __str__(self) -> str:
        return f"{self.device.partition(':')[0]} {self.precision}, batch {self.batch}"


class Conditions(Protocol):
    """A setting with several conditions."""

    def conditions(self) -> list[Condition]: ...


@dataclass(frozen=True)
class TextSpeeds:
    """The result of one process: a speed per batch size, and the bytes of the exported file, if there is one."""

    speeds: tuple[Speed, ...]
    size: int | None = None


@dataclass(frozen=True)
class TextRow:
    """One model, counted for a text of `tokens` tokens. left_out: conditions not measured, with the reason."""

    model: str
    family: str
    size: str  # the variant's name, without its family's
    tokens: int
    parameters: int
    macs: int  # for the whole text
    float32: int  # bytes of a checkpoint
    int8: int  # bytes of a checkpoint with 8-bit matrices and tables
    published: PublishedText
    speeds: Mapping[Condition, Speed] = field(default_factory=dict)
    left_out: Mapping[Condition, str] = field(default_factory=dict)
    failures: Mapping[Condition, str] = field(default_factory=dict)
    int8_file: int | None = None  # bytes of the ONNX file that was run

    def mark(self) -> str:
        """Return by how much the published parameters differ from the counted ones, if that is much."""
        return apart(self.published.parameters, self.parameters / 1e6, "M")

    def measured(self, setting: Conditions, found: TextSpeeds) -> "TextRow":
        """Return the row with new speeds; conditions without a speed ran out of memory."""
        conditions = setting.conditions()
        speeds = dict(zip(conditions, found.speeds, strict=False))
        missing = conditions[len(speeds) :]
        return replace(
            self,
            speeds={**self.speeds, **speeds},
            left_out={**self.left_out, **dict.fromkeys(missing, "out of memory")},
            int8_file=found.size or self.int8_file,
        )

    def failed(self, setting: Conditions, why: str) -> "TextRow":
        return replace(self, failures={**self.failures, **dict.fromkeys(setting.conditions(), why)})

    @property
    def is_measured(self) -> bool:
        return bool(self.speeds)

    @property
    def has_failed(self) -> bool:
        return bool(self.failures)

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "family": self.family,
            "published": asdict(self.published),
            "counted": {
                "tokens": self.tokens,
                "parameters": self.parameters,
                "macs": self.macs,
                "macs_per_token": self.macs / self.tokens,
                "checkpoint_bytes": {"float32": self.float32, "int8": self.int8},
            },
            "measured": [
                condition._asdict()
                | asdict(speed)
                | {"tokens_per_second": speed.rate * self.tokens, "sentences_per_second": speed.rate}
                for condition, speed in self.speeds.items()
            ],
            "int8_file_bytes": self.int8_file,
            "left_out": [condition._asdict() | {"why": why} for condition, why in self.left_out.items()],
            "failures": [condition._asdict() | {"why": why} for condition, why in self.failures.items()],
            "remarks": [f"{self.model}, parameters: {mark}"] if (mark := self.mark()) else [],
        }


def text_row_of(name: str, tokens: int) -> TextRow:
    """Return a row without measurements. Weights are counted on the meta device, without memory."""
    family, variant = REGISTRY.find(name)
    with torch.device("meta"):
        model = REGISTRY.create(name)
    text = text_of(model.card, tokens)  # refuses texts that are too long for the model
    macs = variant.macs if tokens == variant.config.tokens else count(model.card, inputs=text).macs
    title, size = family.title, name.removeprefix(f"{family.name}-")
    published = PUBLISHED_TEXTS.get(name, PublishedText())
    bytes_now = 4 * variant.parameters
    return TextRow(name, title, size, tokens, variant.parameters, macs, bytes_now, int8_bytes(model), published)


def int8_bytes(model: nn.Module) -> int:
    """One byte per weight of a matrix or table and four per row for its scale; four bytes for all other weights."""
    matrices = [part.weight for part in model.modules() if isinstance(part, nn.Linear | nn.Embedding)]
    inside = sum(weight.numel() for weight in matrices)
    others = sum(weight.numel() for weight in model.parameters()) - inside
    return inside + 4 * (sum(len(weight) for weight in matrices) + others)


def chosen_texts(words: Iterable[str]) -> list[str]:
    """Return the text models that names and patterns match, each once; all if there are none."""
    return matching(list(words) or ["*"], "texts", lambda name: REGISTRY.reads(name) == "texts")
