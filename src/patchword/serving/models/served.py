"""What every served model has, whatever it reads."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch

from patchword.core.errors import UserError
from patchword.serving.engine.request import Item

CPU_TOKENS, GPU_TOKENS = 256, 16_384  # of a batch; larger ones are tried at the start
CPU_IMAGES, GPU_IMAGES = 8, 64
MOST_TOP = 1_000


class CannotError(UserError):
    """A model was asked for what it cannot do."""


class PredictGroup(NamedTuple):
    """Inputs that are predicted with the same options. is_paired: they are pairs of texts, or questions."""

    top: int
    is_paired: bool = False


class EmbedGroup(NamedTuple):
    """Texts that are embedded."""


class FillGroup(NamedTuple):
    """Texts with masks. pieces: also continuations of words."""

    top: int
    pieces: bool


class GenerateGroup(NamedTuple):
    """Prompts that are continued. is_search: by beam search, in one piece."""

    is_search: bool


class TranslateGroup(NamedTuple):
    """Texts that are translated. is_stream: greedily, token by token."""

    beams: int
    penalty: float
    is_stream: bool


class ServedModel(ABC):
    """A model that answers requests. reads: texts or images. unit: what the size of an input counts, e.g. tokens."""

    name: str
    reads: ClassVar[str]
    unit: ClassVar[str]

    @property
    @abstractmethod
    def abilities(self) -> tuple[str, ...]:
        """What it can be asked: predict, embed, fill, generate, translate."""

    @property
    @abstractmethod
    def budget(self) -> int:
        """The tokens or pixels of a batch; the start measures whether larger ones pay."""

    @property
    @abstractmethod
    def is_on_cpu(self) -> bool: ...

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what a client should know of the model."""

    @abstractmethod
    def items(self, inputs: Sequence[Any], top: int) -> list[Item]:
        """Check inputs to predict for, and return them as the engine takes them. May take long: call it in a thread."""

    @abstractmethod
    def sample(self) -> list[Item]:
        """Return a full batch, to measure the speed."""

    @abstractmethod
    def compute(self, items: Sequence[Item]) -> Sequence[Any]:
        """Return the answers: records of predictions, or vectors."""

    @property
    def threads(self) -> list[int]:
        """The numbers of threads to try: torch's own number, which OMP_NUM_THREADS sets, its half, and 1."""
        most = torch.get_num_threads() if self.is_on_cpu else 1
        return sorted({1, (most + 1) // 2, most})

    def require(self, ability: str) -> None:
        if ability not in self.abilities:
            can = " and ".join(self.abilities)
            raise CannotError(f"{self.name} cannot {ability}", expected=f"a request to {can}")
