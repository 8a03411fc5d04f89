"""The tree of a model's parts with their output shapes, found by one forward pass on the meta device."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from patchword.analysis.cost.count import input_shape
from patchword.analysis.cost.detection import SIZE, run_parts
from patchword.analysis.cost.segmentation import SIZE as CROP
from patchword.core.card import Card
from patchword.layers import DropPath, Pattern, Position
from patchword.models import REGISTRY
from patchword.models.dense.backbones import image_channels
from patchword.models.detection import create_detector
from patchword.models.segmentation import create_segmenter


@dataclass(frozen=True)
class Part:
    """One module of a model, with its shapes, its parameters and its children."""

    name: str
    kind: str
    detail: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    parameters: int
    children: tuple["Part", ...]

    def same_as(self, other: "Part") -> bool:
        """Return whether two parts are equal in everything but their name."""
        mine, theirs = ((part.kind, part.detail, part.output, part.parameters) for part in (self, other))
        pairs = zip(self.children, other.children, strict=False)
        same = len(self.children) == len(other.children) and all(a.name == b.name and a.same_as(b) for a, b in pairs)
        return mine == theirs and same


@torch.no_grad()
def part_tree(card: Card) -> Part:
    """Return the tree of a model's parts."""
    with torch.device("meta"):
        model = REGISTRY.create(card.model, **card.config).eval()
        example = REGISTRY.example(card)
        outputs: dict[nn.Module, Any] = {}
        for module in model.modules():
            module.register_forward_hook(lambda module, _, output: outputs.update({module: output}))
        model(example)
    return _part("", model, outputs, input_shape(example))


@torch.no_grad()
def detector_tree(card: Card, size: tuple[int, int] = SIZE) -> Part:
    """Return the tree of a detector's parts, for one image of a height and width. Heads read their most boxes."""
    with torch.device("meta"):
        detector = create_detector(card.model, **card.config).eval()
        images = torch.empty(1, image_channels(detector.backbone), *size)
        outputs: dict[nn.Module, Any] = {}
        for module in detector.modules():
            module.register_forward_hook(lambda module, _, output: outputs.update({module: output}))
        run_parts(detector, images)
    return _part("", detector, outputs, tuple(images.shape))


@torch.no_grad()
def segmenter_tree(card: Card, size: tuple[int, int] = CROP) -> Part:
    """Return the tree of a segmenter's parts, for one image of a height and width. The auxiliary head runs, too."""
    with torch.device("meta"):
        segmenter = create_segmenter(card.model, **card.config).eval()
        images = torch.empty(1, image_channels(segmenter.backbone), *size)
        outputs: dict[nn.Module, Any] = {}
        for module in segmenter.modules():
            module.register_forward_hook(lambda module, _, output: outputs.update({module: output}))
        segmenter.outputs(images, auxiliary=True)
    return _part("", segmenter, outputs, tuple(images.shape))


def _part(name: str, module: nn.Module, outputs: dict[nn.Module, Any], given: tuple[int, ...] = ()) -> Part:
    children = tuple(
        _part(child_name, child, outputs) for child_name, child in module.named_children() if not _is_hidden(child)
    )
    output = outputs.get(module)
    output = output[0] if isinstance(output, tuple) else output
    shape = tuple(output.shape) if isinstance(output, Tensor) else ()
    parameters = sum(parameter.numel() for parameter in module.parameters())
    return Part(name, type(module).__name__, _detail(module), given, shape, parameters, children)


def _is_hidden(module: nn.Module) -> bool:
    """Return whether a part does nothing here, and would only make the tree longer."""
    neutral = isinstance(module, nn.Identity | nn.Dropout | nn.Dropout2d) or (
        isinstance(module, DropPath) and module.rate == 0
    )
    empty = isinstance(module, Position | Pattern | nn.ModuleList) and not any(True for _ in module.parameters())
    return neutral or empty


def _detail(module: nn.Module) -> str:
    if isinstance(module, nn.Linear):
        return f"{module.in_features} -> {module.out_features}"
    if isinstance(module, nn.LayerNorm):
        return f"{module.normalized_shape[0]}, eps {module.eps:g}"
    if isinstance(module, nn.BatchNorm2d):
        return str(module.num_features)
    if isinstance(module, nn.Conv2d):
        return _convolution(module)
    return module.extra_repr()


def _convolution(module: nn.Conv2d) -> str:
    words = [f"{module.in_channels} -> {module.out_channels}", " x ".join(str(side) for side in module.kernel_size)]
    if module.stride != (1, 1):
        words.append(f"stride {module.stride[0]}")
    if module.groups > 1:
        words.append("depthwise" if module.groups == module.in_channels else f"{module.groups} groups")
    return ", ".join(words)
