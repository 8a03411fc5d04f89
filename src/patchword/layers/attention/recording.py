"""Context managers that switch every attention of a model to the reference formula, or record its maps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.layers.attention.core import Pattern, Recorder, ScaledDotProduct
from patchword.layers.attention.partition import Partition, members


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention call, and the grids of its queries and keys."""

    layer: str  # the attention's name in the model
    weights: Tensor  # (batch * groups, heads, queries of a group, keys of a group)
    partition: Partition
    grid: Grid | None  # of the queries
    key_grid: Grid | None

    def groups(self) -> Tensor:
        """Returns the token indices of each group, (groups, size); -1 is padding."""
        return members(self.partition, self._tokens(self.grid, self.weights.shape[2]), self.grid)

    def dense(self) -> Tensor:
        """Returns (batch, heads, tokens, keys) over the whole image or text; zero for tokens of different groups."""
        queries, keys = (
            self.groups(),
            members(self.partition, self._tokens(self.key_grid, self.weights.shape[3]), self.key_grid),
        )
        groups, heads = len(queries), self.weights.shape[1]
        weights: Tensor = self.weights.unflatten(0, (-1, groups))
        shape = (len(weights), heads, int(queries.max()) + 2, int(keys.max()) + 2)  # the last row and column: padding
        full = weights.new_zeros(shape)
        for group in range(groups):
            full[:, :, queries[group][:, None], keys[group][None, :]] = weights[:, group]
        return full[:, :, :-1, :-1]

    @staticmethod
    def _tokens(grid: Grid | None, fallback: int) -> int:
        return fallback if grid is None else grid.tokens


def _cores(model: nn.Module) -> dict[str, ScaledDotProduct]:
    return {name: module for name, module in model.named_modules() if isinstance(module, ScaledDotProduct)}


@contextmanager
def reference_attention(model: nn.Module) -> Iterator[None]:
    """Makes every attention of the model run the reference formula (for second derivatives, counting, comparison)."""
    cores = _cores(model).values()
    before = [core.fused for core in cores]
    for core in cores:
        core.fused = False
    try:
        yield
    finally:
        for core, fused in zip(cores, before, strict=True):
            core.fused = fused


class Attended(NamedTuple):
    """One attention call, with gradients. scores: before the softmax; very low where attention is masked."""

    scores: Tensor  # (batch * groups, heads, queries of a group, keys of a group)
    weights: Tensor


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[AttentionMap]]:
    """Yields a list that fills, in the order of the calls, with every attention map computed inside.

    >>> with record_attention(model) as maps:
    ...     model(images)
    >>> maps[0].dense()  # (batch, heads, tokens, tokens) of the first layer
    """
    maps: list[AttentionMap] = []

    def keep(layer: str) -> Recorder:
        def record(weights: Tensor, scores: Tensor, pattern: Pattern, grid: Grid | None, keys: Grid | None) -> None:
            maps.append(AttentionMap(layer, weights.detach(), pattern.partition, grid, keys))

        return record

    with _recording(model, keep):
        yield maps


@contextmanager
def follow_attention(model: nn.Module) -> Iterator[list[Attended]]:
    """Like record_attention, but with gradients and scores, for the distillation of attention."""
    calls: list[Attended] = []

    def keep(layer: str) -> Recorder:
        return lambda weights, scores, *_: calls.append(Attended(scores, weights))

    with _recording(model, keep):
        yield calls


@contextmanager
def _recording(model: nn.Module, recorder: Callable[[str], Recorder]) -> Iterator[None]:
    """recorder: returns the recorder for the attention of this name"""
    cores = _cores(model)
    before = {name: core.recorder for name, core in cores.items()}
    for name, core in cores.items():
        core.recorder = recorder(name.removesuffix(".core"))
    try:
        yield
    finally:
        for name, core in cores.items():
            core.recorder = before[name]
