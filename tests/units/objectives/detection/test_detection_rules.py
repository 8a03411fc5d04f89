"""The losses of the named detectors."""

import pytest
import torch

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models.detection import create_detector
from patchword.objectives.detection.rules import LOSSES, detection_loss


def test_the_config_of_a_detector_gives_the_number_of_samples():
    def counts(name: str, **fields: int) -> list[int]:
        with torch.device("meta"):
            detector = create_detector(name, backbone="resnet-18", **fields)
        return [stage.sampler.count for stage in detection_loss(detector).stages]

    assert counts("mask-rcnn") == [512]
    assert counts("mask-rcnn", roi_samples=64) == [64]
    assert counts("cascade-mask-rcnn", roi_samples=64) == [64] * 3
    assert counts("atss") == []


def test_older_cards_and_unknown_names():
    with torch.device("meta"):
        detector = create_detector("faster-rcnn", backbone="resnet-18")
    detector.card = Card("faster-rcnn", {})  # written before roi_samples was a field
    assert detection_loss(detector) == LOSSES["faster-rcnn"]
    detector.card = Card("faster-rcn", {})
    with pytest.raises(UserError, match="did you mean 'faster-rcnn'"):
        detection_loss(detector)
