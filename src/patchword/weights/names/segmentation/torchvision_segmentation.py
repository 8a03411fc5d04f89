"""torchvision's segmenters, which are recognised and refused."""

from patchword.weights.names.detection.detection_layout import refused

_BACKBONES = {"ResNet": "backbone.conv1.weight", "MobileNet": "backbone.0.0.weight"}
_HEADS = {  # a tensor of each head
    "DeepLabV3": ("classifier.0.convs.0.0.weight", "dilated convolutions, and another head"),
    "FCN": ("classifier.0.weight", "a dilated backbone, and another head"),
    "LRASPP": ("classifier.cbr.0.weight", "another backbone, and another head"),
}
LAYOUTS = tuple(
    refused(f"torchvision's {name} on a {backbone}", reason, tensor, first)
    for name, (tensor, reason) in _HEADS.items()
    for backbone, first in _BACKBONES.items()
)
