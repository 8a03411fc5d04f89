"""Files of JAX models: an .npz of arrays, whose kernels are transposed compared with PyTorch."""

import warnings
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from patchword.core.card import Card
from patchword.core.tensor_files import Tensors
from patchword.weights.names.name_table import Layout

_PREFIXES = ("", "opt/target/", "params/")  # prefixes of the model's arrays in a training state
_SPLIT = ("query", "key", "value")  # layers whose outputs are (heads, width of a head)
_JOINED = "out"  # the layer whose inputs are (heads, width of a head)


@dataclass(frozen=True)
class JaxLayout(Layout):
    """The layout of JAX files. Rows are written with PyTorch's suffixes.

    LayerNorm_0.{p} means LayerNorm_0/scale, Dense_0.{p} means Dense_0/kernel. implied: gets the entry "heads" of the
    model, since attention kernels have an axis for the heads.
    """

    file: str = "model.npz"

    def fits(self, names: Container[str], model_type: str | None = None) -> bool:
        return self._prefix(names) is not None

    def _prefix(self, names: Container[str]) -> str | None:
        return next((prefix for prefix in _PREFIXES if all(prefix + name in names for name in self.distinct)), None)

    def reading(self, tensors: Mapping[str, Tensor]) -> Layout:
        split = (tensor.shape[1] for name, tensor in tensors.items() if name.endswith("/query/kernel"))
        heads = next(split, None)
        return self if heads is None else replace(self, implied={**self.implied, "heads": heads})

    def writing(self, card: Card) -> Layout:
        return replace(self, implied={**self.implied, "heads": card.config.get("heads")})

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        prefix = self._prefix(tensors) or ""
        inside = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        if any(name.startswith("pre_logits/") for name in inside):
            warnings.warn(
                "this is a pre-training file: its layer pre_logits is dropped, as for fine-tuning, "
                "so the outputs of its head are meaningless until the head is trained again",
                stacklevel=2,
            )
        theirs = {_torch_name(name): name for name in inside}
        transposed = {ours: _to_torch(name, inside[name]).contiguous() for ours, name in theirs.items()}
        ours, unknown = super().to_ours(transposed)
        return ours, [theirs[name] for name in unknown]

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        heads = self.implied["heads"]
        theirs = super().to_theirs(tensors)
        return {_jax_name(name, tensor): _to_jax(name, tensor, heads) for name, tensor in theirs.items()}


def _torch_name(name: str) -> str:
    layer, _, leaf = name.rpartition("/")
    ending = {"kernel": "weight", "scale": "weight", "bias": "bias"}.get(leaf)
    return f"{layer}.{ending}" if ending else name


def _jax_name(name: str, tensor: Tensor) -> str:
    layer, _, leaf = name.rpartition(".")
    if not layer:
        return name
    weight = "scale" if tensor.ndim == 1 else "kernel"
    return f"{layer}/{weight if leaf == 'weight' else leaf}"


def _to_torch(name: str, array: Tensor) -> Tensor:
    """Transpose JAX weights to torch's layout.

    (inputs, outputs) -> (outputs, inputs), with heads and their widths as one axis; HWIO -> OIHW.
    """
    path, _, leaf = name.rpartition("/")
    layer = path.rpartition("/")[2]
    if leaf == "kernel" and array.ndim == 4:
        return array.permute(3, 2, 0, 1)
    if leaf == "kernel":
        return (array.flatten(0, -2) if layer == _JOINED else array.flatten(1)).T
    return array.flatten() if layer in _SPLIT else array


def _to_jax(name: str, tensor: Tensor, heads: Any) -> Tensor:
    """The inverse of `_to_torch`."""
    layer = name.rpartition(".")[0].rpartition("/")[2]
    if tensor.ndim == 4:
        return tensor.permute(2, 3, 1, 0)
    if tensor.ndim == 2:
        kernel = tensor.T
        return kernel.unflatten(0, (heads, -1)) if layer == _JOINED else _unflattened(kernel, layer, heads)
    return _unflattened(tensor, layer, heads)


def _unflattened(tensor: Tensor, layer: str, heads: Any) -> Tensor:
    return tensor.unflatten(-1, (heads, -1)) if layer in _SPLIT else tensor
