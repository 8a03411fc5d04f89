"""The box coder against mmdet and torchvision."""

import torch

from patchword.layers.dense.box_coder import BoxCoder
from support.dense.operators import assert_compiles, golden

STDS = (0.1, 0.1, 0.2, 0.2)


def coder(clamp_below: bool) -> BoxCoder:
    return BoxCoder(STDS, clamp_below=clamp_below)


def test_encoded_boxes_equal_both_libraries():
    found = coder(True).encode(golden("coder/anchors"), golden("coder/boxes"))
    assert torch.allclose(found, golden("coder/encoded"), rtol=1e-5, atol=1e-5)
    assert torch.allclose(found, golden("coder/encoded.torchvision"), rtol=1e-5, atol=1e-5)


def test_decoded_boxes_equal_mmdet():
    anchors, deltas = golden("coder/anchors"), golden("coder/deltas")
    assert torch.allclose(coder(True).decode(anchors, deltas), golden("coder/decoded.mmdet"), rtol=1e-5, atol=1e-4)
    found = coder(True).decode(anchors[None], deltas[None], torch.tensor([[150, 200]]))
    assert torch.allclose(found[0], golden("coder/decoded.mmdet.clipped"), rtol=1e-5, atol=1e-4)


def test_decoded_boxes_equal_torchvision():
    found = coder(False).decode(golden("coder/anchors"), golden("coder/deltas"))
    expected = golden("coder/decoded.torchvision")
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert not torch.allclose(golden("coder/decoded.mmdet"), expected, rtol=1e-5, atol=1e-2)


def test_the_box_coder_compiles():
    anchors, deltas = golden("coder/anchors")[None], golden("coder/deltas")[None]
    assert_compiles(coder(True).decode, anchors, deltas, torch.tensor([[150, 200]]))
    assert_compiles(coder(True).encode, anchors, golden("coder/boxes")[None])
