"""A small DETR with the golden weights of the authors' code."""

import torch

from patchword.layers import Encoder
from patchword.layers.dense.queries.detr import Detr, QueryDecoder
from patchword.models.detection.detr import DetrConfig, decoder_block, encoder_block
from patchword.weights.names.detection import detr
from support.dense.detectors import GivenMaps, Golden

IMAGE = (128, 160)  # height and width of the padded images


def golden_detr(golden: Golden) -> Detr:
    """A DETR whose backbone returns the golden map; the authors' tensors are loaded through our name table."""
    c = golden.config
    config = DetrConfig(width=c["hidden"], heads=c["heads"], hidden=c["feed_forward"])
    detector = Detr(
        GivenMaps(),
        c["channels"],
        config.width,
        Encoder(encoder_block(config) for _ in range(c["encoder"])),
        QueryDecoder([decoder_block(config) for _ in range(c["decoder"])], torch.nn.LayerNorm(config.width)),
        queries=c["queries"],
        classes=c["classes"],
        max_detections=c["queries"],
    )
    theirs = {name.removeprefix("weight."): one for name, one in golden.tensors.items() if name.startswith("weight.")}
    ours, unknown = detr.AUTHORS.to_ours(theirs)
    assert not unknown, unknown
    detector.load_state_dict(ours)
    return detector.eval()
