"""Create a model of the registry, with new or with pretrained weights."""

from inspect import getdoc
from typing import Literal, overload

from patchword.core.card import ConfigValue
from patchword.core.errors import UserError, nearest
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.model import Model
from patchword.layers.pyramid import Backbone
from patchword.models import REGISTRY, backbone_of
from patchword.models.catalogue import catalogue
from patchword.models.detection import DETECTORS, DetectorName, create_detector
from patchword.models.segmentation import SEGMENTERS, SegmenterName, create_segmenter
from patchword.weights.hub.pretrained import find_checkpoint
from patchword.weights.io.loading import load_model


@overload
def create(  # type: ignore[overload-overlap]  # a detector is no Model
    name: DetectorName,
    /,
    *,
    features: Literal[False] = False,
    pretrained: Literal[False] = False,
    download: Literal[False] = False,
    **overrides: ConfigValue,
) -> Detector: ...


@overload
def create(  # type: ignore[overload-overlap]  # a segmenter is no Model
    name: SegmenterName,
    /,
    *,
    features: Literal[False] = False,
    pretrained: Literal[False] = False,
    download: Literal[False] = False,
    **overrides: ConfigValue,
) -> Segmenter: ...


@overload
def create(
    name: str,
    /,
    *,
    features: Literal[False] = False,
    pretrained: bool = False,
    download: bool = False,
    **overrides: ConfigValue,
) -> Model: ...


@overload
def create(
    name: str,
    /,
    *,
    features: Literal[True],
    pretrained: bool = False,
    download: bool = False,
    **overrides: ConfigValue,
) -> Backbone: ...


def create(
    name: str,
    /,
    *,
    features: bool = False,
    pretrained: bool = False,
    download: bool = False,
    **overrides: ConfigValue,
) -> Model | Backbone | Detector | Segmenter:
    """Create a model of the registry, a detector or a segmenter; any field of its config can be overridden.

    name: e.g. "swin-tiny"; `help(patchword.create)` lists all with their fields, and `patchword.names` has a constant
        per model.
    features: return the stages without norm and head; the output is the feature map of every stage, and `strides` and
        `widths` describe them.
    pretrained: load the public checkpoint that `patchword models --pretrained` lists, in evaluation mode, from the
        cache of huggingface_hub (`patchword get NAME` fetches it). The head is the checkpoint's own, unless classes or
        head is given. Without it the weights are newly initialized.
    download: fetch the checkpoint if it is not in the cache.

    >>> create("vit-base-16", image=384, classes=10)
    >>> create("bert-base", head="classes", classes=2)
    >>> create("swin-tiny", features=True).strides
    (4, 8, 16, 32)
    >>> create("swin-tiny", pretrained=True, classes=10)
    >>> create("mask-rcnn", backbone="swin-tiny", classes=3)
    >>> create("upernet", backbone="swin-tiny", classes=11)
    """
    known = [*REGISTRY.names(), *DETECTORS, *SEGMENTERS]
    if name not in known:
        raise UserError(f"no model is called {name!r}", hint=f"{nearest(name, known)} (`patchword models` lists all)")
    if name in DETECTORS or name in SEGMENTERS:
        kind = "detector" if name in DETECTORS else "segmenter"
        if features or pretrained or download:
            raise UserError(f"{name!r} is a {kind}, which has newly initialized weights", expected="sizes only")
        return create_detector(name, **overrides) if name in DETECTORS else create_segmenter(name, **overrides)
    if download and not pretrained:
        raise UserError("new weights need no download", expected="download=True together with pretrained=True")
    if pretrained:
        model = load_model(str(find_checkpoint(name).name), name, download=download, **overrides)
    else:
        model = REGISTRY.create(name, **overrides)
    return backbone_of(model, name) if features else model


create.__doc__ = f"{getdoc(create)}\n\nThe models and their fields:\n\n{catalogue(REGISTRY)}\n"
