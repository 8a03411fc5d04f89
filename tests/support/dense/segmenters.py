"""Small segmenters with the golden weights of mmseg, whose backbone returns the golden maps."""

from functools import cache
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.dense.segmentation.semantic_fpn import SemanticFpnHead
from patchword.layers.dense.segmentation.upernet import FcnHead, UperNetHead
from patchword.weights.names.segmentation import mmseg
from support.dense.detectors import GivenMaps

GOLDEN = Path(__file__).parents[2] / "golden" / "dense_segmentation.safetensors"
WIDTHS, STRIDES, CLASSES = (8, 12, 16, 24), (4, 8, 16, 32), 7


@cache
def _file() -> dict[str, Tensor]:
    return load_file(GOLDEN)


def golden_segmenter(name: str) -> dict[str, Tensor]:
    """Return copies of the golden tensors of "upernet" or "semantic_fpn"."""
    return {key.removeprefix(f"{name}/"): one.clone() for key, one in _file().items() if key.startswith(f"{name}/")}


def golden_maps(golden: dict[str, Tensor]) -> list[Tensor]:
    return [golden[f"in.map{level}"] for level in range(4)]


def build(name: str) -> Segmenter:
    """Return a segmenter of the golden sizes with mmseg's weights, in evaluation mode."""
    golden = golden_segmenter(name)
    if name == "upernet":
        head = UperNetHead(WIDTHS, 16, CLASSES, dropout=0.1)
        segmenter = Segmenter(GivenMaps(), None, head, FcnHead(16, 12, CLASSES, level=2, dropout=0.1))
    else:
        neck = Fpn(WIDTHS, 16, extra=0, extra_from="pool")
        segmenter = Segmenter(GivenMaps(), neck, SemanticFpnHead(STRIDES, 16, 16, CLASSES, dropout=0.1))
    theirs = {key.removeprefix("weight."): one for key, one in golden.items() if key.startswith("weight.")}
    ours, unknown = mmseg.HEADS.to_ours(theirs)
    assert not unknown, unknown
    segmenter.load_state_dict(ours)
    assert mmseg.HEADS.to_theirs(ours).keys() == theirs.keys()
    return segmenter.eval()
