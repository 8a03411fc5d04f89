"""Weights of one resolution, made to fit the same model at another."""

from collections.abc import Mapping

from torch import Tensor, nn

from patchword.layers.embedding import LearnedPositions, resize_table


def fit_resolution(tensors: Mapping[str, Tensor], old: nn.Module, new: nn.Module) -> dict[str, Tensor]:
    """`tensors` belong to `old`; position tables whose grid differs in `new` are resized, the rest is passed on."""
    fitted = dict(tensors)
    before = dict(old.named_modules())
    for name, module in new.named_modules():
        key, source = f"{name}.table", before.get(name)
        if isinstance(module, LearnedPositions) and isinstance(source, LearnedPositions) and key in fitted:
            same_rows = fitted[key].shape[1] == source.grid.tokens
            if source.grid != module.grid and same_rows:
                fitted[key] = resize_table(fitted[key], source.grid, module.grid)
    return fitted
