"""The cached vectors of all words of a run: frozen vectors are computed once, not in every epoch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import Frozen
from patchword.recipes.vectors.sources import Source, Words

_TOGETHER = 4096  # words per batch of a source, with padding
_LARGEST = 65504.0  # of float16
GIB = 2**30


@dataclass(frozen=True, eq=False)
class VectorCache:
    """The vectors of all words. values: (words, numbers) float16, all layers of all sources per word.

    Words are numbered over all texts; a text is the indices of its words.
    """

    values: Tensor
    device: torch.device

    def __call__(self, text: Text) -> Frozen:
        """Look up vectors: (batch, words) indices -> vectors on the device."""
        found = self.values[text.ids.to(self.values.device)]
        return Frozen(to_device(found, self.device), text.mask)


def size_of(sources: Sequence[Source], words: int) -> int:
    """Return the size of the cache in bytes."""
    return 2 * words * sum(source.layers * source.width for source in sources)


def check_size(sources: Sequence[Source], words: int, gib: float) -> None:
    """Raise an error before the vectors are computed if they do not fit into memory."""
    needed = size_of(sources, words) / GIB
    if needed > gib:
        each = " + ".join(f"{source.layers} x {source.width} numbers of {source.name}" for source in sources)
        raise UserError(
            "the vectors of all words take too much memory",
            expected=f"at most {gib:g} GiB",
            got=f"{needed:.1f} GiB ({words:,} words, each {each})",
            hint="take fewer texts or shorter ones (length=...), or allow more: memory=...",
        )


@torch.inference_mode()
def fill(
    sources: Sequence[Source],
    sentences: Sequence[Words],
    device: torch.device,
    advance: Callable[[int], None] = lambda done: None,
) -> VectorCache:
    """Compute all vectors, in batches of sentences of similar length. advance: called with the completed words."""
    lengths = torch.tensor([len(words) for words in sentences])
    begins = (lengths.cumsum(0) - lengths).tolist()
    total = int(lengths.sum())
    width = sum(source.layers * source.width for source in sources)
    values = torch.empty(total, width, dtype=torch.float16, device=_home(2 * total * width, device))
    for numbers in _groups(lengths):
        chosen = [sentences[number] for number in numbers]
        places = torch.cat(
            [torch.arange(begins[number], begins[number] + len(sentences[number])) for number in numbers]
        )
        found = torch.cat([_joined(source.vectors(chosen), values.device) for source in sources], dim=1)
        values[places.to(values.device)] = found.clamp(-_LARGEST, _LARGEST).half()
        advance(len(places))
    return VectorCache(values, device)


def _joined(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """Concatenate layers and sentences: (layers, words, width) per sentence -> (all words, layers * width)."""
    return torch.cat(list(parts), dim=1).to(device).transpose(0, 1).flatten(1)


def _home(size: int, device: torch.device) -> torch.device:
    """Return where the vectors are stored: on the model's device if that leaves half of its free memory."""
    if device.type == "cuda" and size > torch.cuda.mem_get_info(device)[0] / 2:
        return torch.device("cpu")
    return device


def _groups(lengths: Tensor) -> Iterator[list[int]]:
    """Return batches of sentence indices, the longest sentences first."""
    order = lengths.argsort(descending=True, stable=True).tolist()
    while order:
        most = max(1, _TOGETHER // max(1, int(lengths[order[0]])))
        yield order[:most]
        order = order[most:]
