"""Weights of convolutions are stored channels last, in every detector and segmenter."""

import pytest
import torch

from patchword.models.detection import DETECTORS, create_detector
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.recipes.dense.memory_format import store_channels_last


@pytest.mark.parametrize("name", [*DETECTORS, *SEGMENTERS])
@pytest.mark.usefixtures("quick_meta")
def test_weights_of_convolutions_are_channels_last(name):
    with torch.device("meta"):
        model = (create_detector if name in DETECTORS else create_segmenter)(name, backbone="resnet-18")
    store_channels_last(model)
    filters = [one for one in model.parameters() if one.dim() == 4 and one.shape[1] > 1 and one.shape[2] > 1]
    assert filters
    assert all(one.is_contiguous(memory_format=torch.channels_last) for one in filters)
    assert not any(one.is_contiguous() for one in filters)
