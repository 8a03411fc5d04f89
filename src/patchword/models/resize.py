"""Resize position tables, so that weights of one resolution fit the same model at another."""

from collections.abc import Mapping

from torch import Tensor, nn

from patchword.layers.attention.position import RelativeTable, resize_offsets
from patchword.layers.embedding.absolute import LearnedPositions, resize_table


def fit_resolution(tensors: Mapping[str, Tensor], old: nn.Module, new: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of `old` with the position tables resized whose grid or window differs in `new`."""
    fitted = dict(tensors)
    before = dict(old.named_modules())
    shapes = {name: tensor.shape for name, tensor in old.state_dict().items()}
    for name, module in new.named_modules():
        key, source = f"{name}.table", before.get(name)
        if key not in fitted or fitted[key].shape != shapes.get(key):
            continue  # the loader reports tensors that are missing or have a wrong shape
        if isinstance(module, LearnedPositions) and isinstance(source, LearnedPositions):
            fitted[key] = resize_table(fitted[key], source.grid, module.grid, module.interpolation)
        elif isinstance(module, RelativeTable) and isinstance(source, RelativeTable):
            fitted[key] = resize_offsets(fitted[key], source.window, module.window)
    return fitted
