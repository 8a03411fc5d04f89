"""Attention over an encoder's output: queries come from the tokens, keys and values from `scope.memory`."""

from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.attention.core import ScaledDotProduct
from patchword.layers.attention.projection import Projected


class FromMemory(nn.Module):
    """Base of projections from a memory. Without weights: the tokens are the queries, the memory is keys and values."""

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        memory = _memory(scope)
        key, value = self._known(memory, scope)
        return Projected(self.queries(tokens), key, value, scope.memory_mask, None, static_kv=True)

    def queries(self, tokens: Tensor) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        return tokens

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, keys, width) -> keys and values, (batch, keys, width) each"""
        return memory, memory

    def _known(self, memory: Tensor, scope: Scope) -> tuple[Tensor, Tensor]:
        """Returns keys and values, computed once per generated text if there is a cache."""
        found = None if scope.cache is None else scope.cache.known(self)
        if found is not None:
            return cast(tuple[Tensor, Tensor], found)
        key, value = self.keys_and_values(memory)
        if scope.cache is not None:
            scope.cache.keep(self, key, value)
        return key, value


class MemoryProjection(FromMemory):
    """Three matrices, as in the Transformer; those of keys and values are fused."""

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias)
        self.joint = nn.Linear(width, 2 * width, bias)

    def queries(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.query(tokens))

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.joint(memory).chunk(2, dim=-1)
        return key, value


class MultiplicativeProjection(FromMemory):
    """q' W k: a matrix between query and key ("general" of Luong et al., 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)

    def queries(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.query(tokens))


class AdditiveProjection(FromMemory):
    """W q and U k, which `Additive` adds; the values are the memory itself (Bahdanau et al., 2014)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)

    def queries(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.query(tokens))

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.key(memory), memory


class Additive(ScaledDotProduct):
    """v' tanh(q + k) in place of q' k (Bahdanau et al., 2014). Always in single operations: no kernel supports it."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__(1, 1.0, dropout)
        self.energy = nn.Linear(width, 1, bias=False)
        self.fused = False

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return cast(Tensor, self.energy(torch.tanh(query[..., :, None, :] + key[..., None, :, :]))[..., 0])


def _memory(scope: Scope) -> Tensor:
    assert scope.memory is not None, "this projection reads an encoder's output"
    return scope.memory
