"""Published figures of image models, each with its source.

Figures are as printed, with the authors' rounding. A figure that was not published is None. Parameters and MACs are
for the model's default resolution; `trained` names the resolution of the accuracy where it differs.
"""

from dataclasses import dataclass

ONE = "ImageNet-1k"
LARGE = "ImageNet-22k, then 1k"

VIT = "Dosovitskiy et al. 2020 (arXiv 2010.11929)"
DEIT = "Touvron et al. 2020 (arXiv 2012.12877)"
SWIN = "Liu et al. 2021 (arXiv 2103.14030)"
CVT = "Wu et al. 2021 (arXiv 2103.15808)"
CSWIN = "Dong et al. 2021 (arXiv 2107.00652)"
IFORMER = "Si et al. 2022 (arXiv 2205.12956)"
PALE = "Wu et al. 2021 (arXiv 2112.14000)"
PVT = "Wang et al. 2021 (arXiv 2102.12122)"
MIXER = "Tolstikhin et al. 2021 (arXiv 2105.01601)"
SIMCLR = "Chen et al. 2020 (arXiv 2006.10029)"
REGNET = "Radosavovic et al. 2020 (arXiv 2003.13678)"
TORCHVISION = "torchvision's documentation, IMAGENET1K_V1 weights"


@dataclass(frozen=True)
class Published:
    """The published figures of one model."""

    parameters: float | None  # millions
    macs: float | None  # billions; papers call them FLOPs
    top1: float | None  # percent on the validation set of ImageNet-1k; 100 minus the error where that was printed
    trained: str  # the training data
    source: str


# The ViT paper counts parameters per width, not per patch, so the models with the larger patch have no figure.
_VIT = {
    "vit-base-16": Published(86, 17.6, 77.91, f"{ONE}, tuned at 384", f"{VIT}, tables 1 and 5; MACs: {PVT}, table 2"),
    "vit-base-32": Published(None, None, 73.38, f"{ONE}, tuned at 384", f"{VIT}, table 5"),
    "vit-large-16": Published(307, None, 76.53, f"{ONE}, tuned at 384", f"{VIT}, tables 1 and 5"),
    "vit-large-32": Published(None, None, 71.16, f"{ONE}, tuned at 384", f"{VIT}, table 5"),
    "vit-huge-14": Published(632, None, 85.13, "ImageNet-21k, then 1k at 384", f"{VIT}, tables 1 and 5"),
}

_DEIT = {
    "deit-tiny": Published(5, 1.3, 72.2, ONE, f"{DEIT}, table 5; MACs: {PVT}, table 2"),
    "deit-small": Published(22, 4.6, 79.8, ONE, f"{DEIT}, table 5; MACs: {PVT}, table 2"),
    "deit-base": Published(86, 17.6, 81.8, ONE, f"{DEIT}, table 5; MACs: {PVT}, table 2"),
    "deit-tiny-distilled": Published(6, None, 74.5, f"{ONE}, with a teacher", f"{DEIT}, table 5"),
    "deit-small-distilled": Published(22, None, 81.2, f"{ONE}, with a teacher", f"{DEIT}, table 5"),
    "deit-base-distilled": Published(87, None, 83.4, f"{ONE}, with a teacher", f"{DEIT}, table 5"),
}

_SWIN = {
    "swin-tiny": Published(29, 4.5, 81.3, ONE, f"{SWIN}, table 1"),
    "swin-small": Published(50, 8.7, 83.0, ONE, f"{SWIN}, table 1"),
    "swin-base": Published(88, 15.4, 83.5, ONE, f"{SWIN}, table 1"),
    "swin-large": Published(197, 34.5, 86.3, LARGE, f"{SWIN}, authors' README"),
    "swin-base-384": Published(88, 47.0, 84.5, ONE, f"{SWIN}, table 1"),
    "swin-large-384": Published(197, 103.9, 87.3, LARGE, f"{SWIN}, table 1"),
}

_CVT = {
    "cvt-13": Published(20, 4.5, 81.6, ONE, f"{CVT}, authors' README"),
    "cvt-21": Published(32, 7.1, 82.5, ONE, f"{CVT}, authors' README"),
    "cvt-13-384": Published(20, 16.3, 83.0, ONE, f"{CVT}, authors' README"),
    "cvt-21-384": Published(32, 24.9, 83.3, ONE, f"{CVT}, authors' README"),
    "cvt-w24-384": Published(277, 193.2, 87.7, LARGE, f"{CVT}, abstract; the rest: authors' README"),
}

_CSWIN = {
    "cswin-tiny": Published(23, 4.3, 82.8, ONE, f"{CSWIN}, authors' README"),
    "cswin-small": Published(35, 6.9, 83.6, ONE, f"{CSWIN}, authors' README"),
    "cswin-base": Published(78, 15.0, 84.2, ONE, f"{CSWIN}, authors' README"),
    "cswin-large": Published(173, 31.5, 86.5, LARGE, f"{CSWIN}, authors' README"),
    "cswin-tiny-384": Published(23, 14.0, 84.3, ONE, f"{CSWIN}, as cited by {IFORMER}, table 2"),
    "cswin-small-384": Published(35, 22.0, 85.0, ONE, f"{CSWIN}, as cited by {IFORMER}, table 2"),
    "cswin-base-384": Published(78, 47.0, 85.5, ONE, f"{CSWIN}, authors' README"),
    "cswin-large-384": Published(173, 96.8, 87.5, LARGE, f"{CSWIN}, authors' README"),
}

_PALE = {
    "pale-tiny": Published(22, 4.2, 83.4, ONE, PALE),
    "pale-small": Published(48, 9.0, 84.3, ONE, PALE),
    "pale-base": Published(85, 15.6, 84.9, ONE, PALE),
}

_PVT = {
    "pvt-tiny": Published(13.2, 1.9, 75.1, ONE, f"{PVT}, table 2"),
    "pvt-small": Published(24.5, 3.8, 79.8, ONE, f"{PVT}, table 2"),
    "pvt-medium": Published(44.2, 6.7, 81.2, ONE, f"{PVT}, table 2"),
    "pvt-large": Published(61.4, 9.8, 81.7, ONE, f"{PVT}, table 2"),
}

# Parameters without the classifier, as in the paper's table 1.
_MIXER = {
    "mixer-small-32": Published(19, None, 68.70, "JFT-300M, then ImageNet-1k", f"{MIXER}, tables 1 and 3"),
    "mixer-small-16": Published(18, None, 73.83, "JFT-300M, then ImageNet-1k", f"{MIXER}, tables 1 and 3"),
    "mixer-base-32": Published(60, None, 75.53, "JFT-300M, then ImageNet-1k", f"{MIXER}, tables 1 and 3"),
    "mixer-base-16": Published(59, 12.7, 76.44, ONE, f"{MIXER}, tables 1 and 3; MACs: Swin's authors' README"),
    "mixer-large-32": Published(206, None, 80.67, "JFT-300M, then ImageNet-1k", f"{MIXER}, tables 1 and 3"),
    "mixer-large-16": Published(207, None, 71.76, ONE, f"{MIXER}, tables 1 and 3"),
}

# torchvision's have the stride on the 3 x 3 convolution, as here. He et al. 2015 (arXiv 1512.03385) had it on the 1 x 1
# before: 3.8, 7.6 and 11.3 GMACs and 75.3, 76.4 and 77.0 % in one crop for 50, 101 and 152 layers.
# The double widths are counted without the classifier.
_RESNET = {
    "resnet-18": Published(11.7, 1.81, 69.758, ONE, TORCHVISION),
    "resnet-34": Published(21.8, 3.66, 73.314, ONE, TORCHVISION),
    "resnet-50": Published(25.6, 4.09, 76.13, ONE, TORCHVISION),
    "resnet-101": Published(44.5, 7.80, 77.374, ONE, TORCHVISION),
    "resnet-152": Published(60.2, 11.51, 78.312, ONE, TORCHVISION),
    "resnet-50x2": Published(94, None, 77.8, ONE, f"{SIMCLR}, table 1, supervised"),
    "resnet-101x2": Published(170, None, 78.9, ONE, f"{SIMCLR}, table 1, supervised"),
    "resnet-152x2": Published(233, None, 79.1, ONE, f"{SIMCLR}, table 1, supervised"),
}

# With DeiT's recipe the same three reach 80.0, 81.7 and 82.9 % (Touvron et al. 2020, table 5).
_REGNET = {
    "regnety-4gf": Published(20.6, 4.0, 79.4, f"{ONE}, 100 epochs", f"{REGNET}, authors' model zoo"),
    "regnety-8gf": Published(39.2, 8.0, 79.9, f"{ONE}, 100 epochs", f"{REGNET}, authors' model zoo"),
    "regnety-16gf": Published(83.6, 15.9, 80.4, f"{ONE}, 100 epochs", f"{REGNET}, authors' model zoo"),
}

PUBLISHED: dict[str, Published] = {
    **_VIT, **_DEIT, **_SWIN, **_CVT, **_CSWIN, **_PALE, **_PVT, **_MIXER, **_RESNET, **_REGNET,
}  # fmt: skip
