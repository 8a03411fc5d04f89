"""The four tokens of each 2 x 2 patch as one token, and their norm, for inference: Swin's patch merging.

torch.compile gathers the four tokens inside the norm and reads them three times, with short loads. The kernel
(patch_merge_norm_triton) reads them once.
"""

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, is_on_cuda, is_usable, needs_grad, short_dtype
from patchword.kernels.common.launch import parts
from patchword.kernels.common.register_op import register_op
from patchword.kernels.stem.reference import patch_merge_norm_reference
from patchword.kernels.stem.tuning import MERGE_NUMBERS, MERGE_WARPS


def has_patch_merge_norm_kernel(feature_map: Tensor, scale: Tensor, shift: Tensor, matrix: Tensor) -> bool:
    """True on a GPU with Triton, for 16-bit channels-last maps with even sides, if no gradient is needed.

    matrix: of the product that follows
    """
    if not is_on_cuda(feature_map) or needs_grad(feature_map, scale, shift, matrix):
        return False
    channels, height, width = feature_map.shape[1:]
    fits = not (height % 2 or width % 2) and _is_known(channels) and scale.shape == shift.shape == (4 * channels,)
    is_supported = feature_map.stride(1) == 1 and short_dtype(feature_map, matrix, scale, shift) is not None
    return fits and is_supported and is_usable(feature_map, SELF_TEST)


def _is_known(channels: int) -> bool:
    """True if the channels are a sum of two powers of two, and few enough for one program."""
    second = parts(channels)[1]
    return channels >= 16 and second & (second - 1) == 0 and 4 * channels <= MERGE_NUMBERS


def patch_merge_norm(feature_map: Tensor, scale: Tensor, shift: Tensor, matrix: Tensor, eps: float) -> Tensor:
    """(batch, channels, height, width) -> (batch, height / 2 * width / 2, 4 * channels), of the product's dtype"""
    return _run(feature_map, scale, shift, eps, short_dtype(feature_map, matrix))


def _launch(feature_map: Tensor, scale: Tensor, shift: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    from patchword.kernels.stem.patch_merge_norm_triton import patch_merge_norm as kernel

    if feature_map.stride(1) != 1:
        feature_map = feature_map.contiguous(memory_format=torch.channels_last)
    output, channels = _shape(feature_map, scale, shift, eps, dtype), feature_map.shape[1]
    height, width = (side // 2 for side in feature_map.shape[2:])
    count, first_second = output.shape[0] * output.shape[1], parts(channels)
    rows = 1 << (MERGE_NUMBERS // (4 * channels)).bit_length() - 1
    strides = feature_map.stride(0), feature_map.stride(2), feature_map.stride(3)
    given = (feature_map, scale.contiguous(), shift.contiguous(), output, count, eps, height, width, *strides)
    if count:
        with torch.cuda.device_of(feature_map):  # Triton launches on the current device
            kernel[(-(-count // rows),)](*given, *first_second, rows, num_warps=MERGE_WARPS)
    return output


def _shape(feature_map: Tensor, scale: Tensor, shift: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    batch, channels, height, width = feature_map.shape
    return feature_map.new_empty(batch, height // 2 * (width // 2), 4 * channels, dtype=dtype)


_GIVEN = "Tensor feature_map, Tensor scale, Tensor shift, float eps, ScalarType dtype"
_run = register_op("patch_merge_norm", _GIVEN, _launch, _shape)


@torch.no_grad()
def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel agrees with the reference in float32."""
    wave = TestInputs(device, dtype)
    feature_map = wave.tokens(2, 6, 10, 96).permute(0, 3, 1, 2)
    scale, shift = 1 + wave(384, size=0.5), wave(384, by=3.0)
    found = _run(feature_map, scale, shift, 1e-5, dtype).float()
    expected = patch_merge_norm_reference(feature_map.float(), scale.float(), shift.float(), 1e-5)
    return bool((found - expected).norm() < 1e-2 * expected.norm())


SELF_TEST = SelfTest("patch_merge_norm", matches_reference)
