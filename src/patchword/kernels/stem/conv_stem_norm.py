"""A convolution over an image of few channels, and the norm of its tokens, for inference.

The stem of CvT, CSWin and Pale. cuDNN's convolutions are made for more channels than an image has; as a matrix product,
all overlapping patches are copied first. The kernel (conv_stem_norm_triton) loads them from the image.
"""

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, can_fuse, is_hopper, is_usable, short_dtype
from patchword.kernels.common.launch import sm_count
from patchword.kernels.common.register_op import register_op
from patchword.kernels.stem.reference import ConvStemWeights, conv_stem_norm_reference
from patchword.kernels.stem.tuning import (
    LINE_ALIGNMENT,
    MAX_IMAGE_CHANNELS,
    MAX_MATRIX_BYTES,
    STEM_DEPTH,
    STEM_PROGRAMS,
    STEM_ROWS,
    STEM_STAGES,
    STEM_WARPS,
    STEM_WIDTHS,
)


def has_conv_stem_norm_kernel(image: Tensor, parts: ConvStemWeights, stride: int, padding: int) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit images and supported sizes, if no gradient is needed."""
    if not can_fuse(image, parts.weight, *parts):
        return False
    width, channels, kernel, other = parts.weight.shape
    same_width = parts.bias.shape == parts.scale.shape == parts.shift.shape == (width,) and kernel == other
    block, line, _ = _sizes(parts.weight, padding)
    fits = same_width and channels <= MAX_IMAGE_CHANNELS and width in STEM_WIDTHS
    matrix_bytes = 2 * block * -(-channels * kernel * line // STEM_DEPTH) * STEM_DEPTH
    image_fits = all(side + 2 * padding >= kernel for side in image.shape[2:])
    known = fits and matrix_bytes <= MAX_MATRIX_BYTES and image_fits and stride <= kernel
    return known and is_hopper(image.device.index) and is_usable(image, SELF_TEST)


def conv_stem_norm(image: Tensor, parts: ConvStemWeights, stride: int, padding: int, eps: float) -> Tensor:
    """(batch, channels, height, width) -> (batch, tokens, width), row by row, of the dtype of a norm's output:
    float32 under autocast"""
    weight, bias, scale, shift = parts
    short = short_dtype(image, weight)
    dtype = torch.float32 if torch.is_autocast_enabled(image.device.type) else short
    return _run(image, weight.to(short), bias, scale, shift, stride, padding, eps, dtype)


def _launch(
    image: Tensor, weight: Tensor, bias: Tensor, scale: Tensor, shift: Tensor, stride: int, padding: int, eps: float,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    from patchword.kernels.stem.conv_stem_norm_triton import conv_norm_kernel

    output = _shape(image, weight, bias, scale, shift, stride, padding, eps, dtype)
    (width, channels, kernel, _), sides = weight.shape, image.shape[2:]
    count = output.numel() // width
    parts = [part.contiguous() for part in (weight, bias, scale, shift)]
    given = image, *parts, output, count, eps, *sides, *_map(image, weight, stride, padding), *image.stride()
    constants = channels, kernel, stride, padding, width, *_sizes(weight, padding)
    if count:
        with torch.cuda.device_of(image):  # Triton launches on the current device
            programs = min(-(-count // STEM_ROWS), STEM_PROGRAMS * sm_count(image.get_device()))
            conv_norm_kernel[(programs,)](
                *given, *constants, STEM_ROWS, STEM_DEPTH, num_warps=STEM_WARPS, num_stages=STEM_STAGES
            )
    return output


def _sizes(weight: Tensor, padding: int) -> tuple[int, int, int]:
    """Returns block, line and lead, the sizes of the Triton kernel."""
    lead = -padding % LINE_ALIGNMENT
    return 1 << (len(weight) - 1).bit_length(), 1 << (lead + weight.shape[-1] - 1).bit_length(), lead


def _map(image: Tensor, weight: Tensor, stride: int, padding: int) -> tuple[int, int]:
    """Returns the height and the width of the output map."""
    height, width = ((side + 2 * padding - weight.shape[-1]) // stride + 1 for side in image.shape[2:])
    return height, width


def _shape(
    image: Tensor, weight: Tensor, bias: Tensor, scale: Tensor, shift: Tensor, stride: int, padding: int, eps: float,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    height, width = _map(image, weight, stride, padding)
    return image.new_empty(len(image), height * width, len(weight), dtype=dtype)


_TENSORS = ", ".join(f"Tensor {name}" for name in ("image", *ConvStemWeights._fields))
_run = register_op(
    "conv_stem_norm", f"{_TENSORS}, int stride, int padding, float eps, ScalarType dtype", _launch, _shape
)


@torch.no_grad()
def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel agrees with the reference in float32, with both common paddings."""
    wave = TestInputs(device, dtype)
    image = wave(2, 3, 37, 46)
    parts = ConvStemWeights(wave(64, 3, 7, 7, size=0.2), wave(64, by=3.0), 1 + wave(64, size=0.5), wave(64, by=2.0))
    exact = ConvStemWeights(*(part.float() for part in parts))
    for padding in (2, 3):
        with torch.autocast(device.type, enabled=False):
            found = _run(image, *parts, 4, padding, 1e-5, dtype).float()
            expected = conv_stem_norm_reference(image.float(), exact, 4, padding, 1e-5)
        if not bool((found - expected).norm() < 1e-2 * expected.norm()):
            return False
    return True


SELF_TEST = SelfTest("conv_stem_norm", matches_reference, on=is_hopper)
