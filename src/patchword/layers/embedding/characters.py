"""Word vectors from characters, by a character CNN."""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers.recurrent.highway import Highway


class CharacterEmbedding(nn.Module):
    """Convolutions over the characters of a word, max pooling, highway layers and a linear map
    (Kim et al., 2015; Jozefowicz et al., 2016).

    symbols: the number of character ids; id 0 is padding. narrow: the width of a character's vector.
    filters: (kernel size, number of filters), one pair per kernel size.
    """

    def __init__(
        self,
        symbols: int,
        narrow: int,
        filters: Iterable[Sequence[int]],
        width: int,
        *,
        highways: int = 2,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.characters = nn.Embedding(symbols, narrow, padding_idx=0)
        self.filters = nn.ModuleList(nn.Conv1d(narrow, count, size) for size, count in filters)
        self.activation = activation or nn.ReLU()
        found = sum(convolution.out_channels for convolution in self._convolutions)
        self.highways = nn.ModuleList(Highway(found) for _ in range(highways))
        self.project = nn.Linear(found, width)

    @property
    def _convolutions(self) -> list[nn.Conv1d]:
        return cast(list[nn.Conv1d], list(self.filters))

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, words, characters) -> (batch, words, width)"""
        widest = max(convolution.kernel_size[0] for convolution in self._convolutions)
        if ids.ndim != 3 or ids.shape[-1] < widest:
            raise UserError(
                "the model reads the characters of words",
                expected=f"ids of shape (batch, words, characters) with {widest} characters or more",
                got=tuple(ids.shape),
            )
        letters = self.characters(ids.flatten(0, 1)).transpose(1, 2)
        # The activation is monotonic, so it may follow the maximum, where there are fewer values.
        words = torch.cat([self.activation(filters(letters).amax(-1)) for filters in self.filters], -1)
        for highway in self.highways:
            words = highway(words)
        vectors: Tensor = self.project(words)
        return vectors.view(*ids.shape[:2], -1)

    def once(self, ids: Tensor) -> Tensor:
        """Same as forward, but computes each distinct word once; the amount of work then depends on the data."""
        words, which = ids.flatten(0, 1).unique(dim=0, return_inverse=True)
        vectors: Tensor = self(words[None])[0]
        return vectors[which.view(ids.shape[:2])]

    def begin(self) -> None:
        """Initialize as the authors of ELMo: small filters, U(-1, 1) characters, N(0, 1 / inputs) for the last map."""
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        with torch.no_grad():
            self.characters.weight[0] = 0
        for convolution in self._convolutions:
            nn.init.uniform_(convolution.weight, -0.05, 0.05)
            if convolution.bias is not None:
                nn.init.zeros_(convolution.bias)
        for highway in self.highways:
            cast(Highway, highway).begin()
        nn.init.normal_(self.project.weight, std=self.project.in_features**-0.5)
        nn.init.zeros_(self.project.bias)
