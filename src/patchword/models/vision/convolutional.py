"""What the convolutional networks (ResNet, RegNetY) share: the stage loop."""

from collections.abc import Callable, Sequence

from torch import nn

from patchword.layers import ClassHead, ConvResidual, ConvStage, ConvStem, Pyramid, drop_path_rates, mean_of_patches
from patchword.layers.init import kaiming
from patchword.models.vision.config import ImageConfig, PerStage


def build_convolutional(
    c: ImageConfig,
    depths: PerStage,
    widths: Sequence[int],
    build_stem: Callable[[], ConvStem],
    build_block: Callable[[int, int, bool, float], ConvResidual],
    *,
    channels: int,
    stride: int,
) -> Pyramid:
    """Build the stages one after the other, then the head, and initialize the weights. Each later stage halves its map.

    build_block: takes the index of the stage, the channels that enter, whether it is the stage's first block, and its
        rate of drop path.
    channels: of the stem's output. stride: of the first stage, including the stem.
    """
    stages = list[ConvStage]()
    for index, (width, rates) in enumerate(zip(widths, drop_path_rates(c.drop_path, depths), strict=True)):
        blocks = list[ConvResidual]()
        for number, rate in enumerate(rates):
            blocks.append(build_block(index, channels, number == 0, rate))
            channels = width
        stages.append(ConvStage(nn.Identity() if index else build_stem(), blocks, width, 2 if index else stride))
    model = Pyramid(stages, nn.Identity(), ClassHead(channels, c.classes, mean_of_patches))
    kaiming(model)
    return model
