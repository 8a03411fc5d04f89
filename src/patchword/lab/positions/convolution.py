"""A kernel on one image, by the attention layer of the library and by torch's convolution."""

from typing import Any

import torch
import torch.nn.functional as F

from patchword.analysis.attention.as_convolution import attention_for


def convolution_json(kernel: list[list[float]], image: list[list[float]], strength: float) -> dict[str, Any]:
    """Return both outputs. kernel: 3 x 3. image: square, gray. strength: the bias of each head at its position."""
    weight, pixels = torch.tensor(kernel)[None, None], torch.tensor(image)[None, None]
    side = len(image)
    layer = attention_for(weight, None, (side, side), strength=strength)
    with torch.no_grad():
        output, expected = layer(pixels)[0, 0], F.conv2d(pixels, weight, padding=1)[0, 0]
    return {
        "heads": len(layer.offsets),
        "offsets": layer.offsets,
        "attention": output.tolist(),
        "convolution": expected.tolist(),
        "difference": float((output - expected).abs().max()),
    }
