"""The box coder against mmdet and torchvision."""

import torch
from torch import Tensor

from patchword.layers.dense.box_coder import BoxCoder
from support.dense.operators import assert_compiles, assert_golden, golden

STDS = (0.1, 0.1, 0.2, 0.2)


def coder(clamp_below: bool) -> BoxCoder:
    return BoxCoder(STDS, clamp_below=clamp_below)


def test_encoded_boxes_equal_both_libraries():
    for name in ("coder/encoded", "coder/encoded.torchvision"):
        assert_golden(coder(True).encode, name, golden("coder/anchors"), golden("coder/boxes"))


def test_decoded_boxes_equal_mmdet():
    anchors, deltas = golden("coder/anchors"), golden("coder/deltas")
    assert_golden(coder(True).decode, "coder/decoded.mmdet", anchors, deltas)

    def clipped(anchors: Tensor, deltas: Tensor) -> Tensor:
        return coder(True).decode(anchors[None], deltas[None], torch.tensor([[150, 200]]))[0]

    assert_golden(clipped, "coder/decoded.mmdet.clipped", anchors, deltas)


def test_decoded_boxes_equal_torchvision():
    assert_golden(coder(False).decode, "coder/decoded.torchvision", golden("coder/anchors"), golden("coder/deltas"))
    assert not torch.allclose(golden("coder/decoded.mmdet"), golden("coder/decoded.torchvision"), rtol=1e-5, atol=1e-2)


def test_the_box_coder_compiles():
    anchors, deltas = golden("coder/anchors")[None], golden("coder/deltas")[None]
    assert_compiles(coder(True).decode, anchors, deltas, torch.tensor([[150, 200]]))
    assert_compiles(coder(True).encode, anchors, golden("coder/boxes")[None])
