"""x + down(gelu(up(norm(x)))) for narrow tokens, as in the first stages of a pyramid, for inference.

There the hidden values are most of the memory traffic: eight times the bytes of the tokens. The kernels
(fused_mlp_triton, fused_mlp_warp_specialized) hold them on the chip. Products in float32 are left to the reference:
they take so long that the traffic does not matter.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from patchword.kernels.common.availability import (
    SelfTest,
    TestInputs,
    can_fuse,
    has_warp_specialization,
    is_hopper,
    is_usable,
    short_dtype,
)
from patchword.kernels.common.launch import fills_gpu, sm_count
from patchword.kernels.common.register_op import empty_like_first, register_op
from patchword.kernels.mlp.reference import Weights, fused_mlp_reference
from patchword.kernels.mlp.tuning import GROUPED, is_known, is_warp_specialized, launch

Run = Callable[[Tensor, Weights, float, str], Tensor]


def has_fused_mlp_kernel(tokens: Tensor, weights: Weights) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit tokens and supported sizes, if no gradient is needed."""
    if not can_fuse(tokens, weights.up, *weights):
        return False
    hidden, width = weights.up.shape
    same_width = tokens.shape[-1:] == weights.scale.shape == weights.shift.shape == (width,)
    fits = same_width and weights.down.shape == (width, hidden) and is_known(width, hidden)
    return fits and is_hopper(tokens.device.index) and is_usable(tokens, SELF_TEST)


def _dtype(tokens: Tensor, weights: Weights) -> torch.dtype | None:
    return short_dtype(tokens, weights.up, *weights)


def fused_mlp(tokens: Tensor, weights: Weights, eps: float, form: str) -> Tensor:
    """(..., width) -> (..., width); form: one of reference.FORMS"""
    dtype = _dtype(tokens, weights)
    scale, shift, up, up_bias, down, down_bias = weights
    return _run(tokens, scale, shift, up.to(dtype), up_bias, down.to(dtype), down_bias, eps, form)


def _launch(
    tokens: Tensor, scale: Tensor, shift: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor,
    eps: float, form: str,
) -> Tensor:  # fmt: skip
    from patchword.kernels.mlp.fused_mlp_triton import resident, streamed

    tokens, (hidden, width) = tokens.contiguous(), up.shape
    output, count = empty_like_first(tokens), tokens.numel() // width
    if not count:
        return output
    weights = [part.contiguous() for part in (scale, shift, up, up_bias, down, down_bias)]
    same = tokens.dtype == up.dtype and tokens.element_size() == 2
    if (
        is_warp_specialized(width, hidden)
        and same
        and tokens.is_cuda
        and are_many(tokens, width)
        and _has_warp_specialization(tokens)
    ):
        return warp_specialized(tokens, Weights(*weights), eps, form)
    plan = launch(width, hidden, tokens.element_size())
    tiles = -(-count // plan.rows)
    kernel, programs = (resident, min(tiles, sm_count(tokens.get_device()))) if plan.stays else (streamed, tiles)
    given = (tokens, *weights, output, count, eps)
    choices = (plan.first, plan.second, hidden, plan.rows, plan.chunk, form)
    with torch.cuda.device_of(tokens):  # Triton launches on the current device
        kernel[(programs,)](*given, *choices, num_warps=plan.warps, num_stages=plan.stages)
    return output


def _has_warp_specialization(tokens: Tensor) -> bool:
    """No self-test runs while a CUDA graph is captured."""
    index = tokens.get_device()
    known = index in WARP_SPECIALIZED_TEST.found or not torch.cuda.is_current_stream_capturing()
    return known and has_warp_specialization(index) and WARP_SPECIALIZED_TEST.passes(index)


def are_many(tokens: Tensor, width: int) -> bool:
    """True if the warp-specialised kernel pays: for one tile it takes as long as for one per multiprocessor."""
    return fills_gpu(tokens.numel() // width, 64 * GROUPED[width].groups, tokens.device.index)


def warp_specialized(
    tokens: Tensor, weights: Weights, eps: float, form: str, out_proj: tuple[Tensor, Tensor, Tensor] | None = None
) -> Tensor:
    """Runs the warp-specialised kernel. All tensors are contiguous and of one dtype.

    out_proj: branch, matrix and bias of an output projection that is added to the tokens first
    """
    from patchword.kernels.common.warp_specialized import REGISTERS, ROWS, described
    from patchword.kernels.mlp.fused_mlp_warp_specialized import warp_specialized as kernel

    (hidden, width), output = weights.up.shape, empty_like_first(tokens)
    plan, count, wide = GROUPED[width], tokens.numel() // width, 1 << (width - 1).bit_length()
    found = weights._replace(up=described(weights.up, plan.chunk, wide), down=described(weights.down, wide, plan.chunk))
    rows = described(output.view(count, width), ROWS.value, wide)
    before, out_proj_tiles = (rows, found.down, weights.down_bias), 0  # the kernel does not read these three
    if out_proj is not None:
        branch, matrix, bias = out_proj
        parts = described(branch.view(count, width), ROWS.value, wide), described(matrix, wide, plan.chunk)
        before, out_proj_tiles = (*parts, bias), -(-width // plan.chunk)
    programs = min(-(-count // (ROWS.value * plan.groups)), sm_count(tokens.get_device()))
    given = tokens, *before, *found, rows, count, eps, hidden // plan.chunk, width, form
    choices = plan.slots, plan.groups, out_proj_tiles
    with torch.cuda.device_of(tokens):
        kernel[(programs,)](*given, *choices, num_warps=4, maxnreg=REGISTERS[plan.groups])
    return output


_TENSORS = ", ".join(f"Tensor {name}" for name in ("tokens", *Weights._fields))
_run = register_op("fused_mlp", f"{_TENSORS}, float eps, str form", _launch, empty_like_first)


def matches_reference(device: torch.device) -> bool:
    """True if both kernels pass: with matrices resident in shared memory, and streamed."""
    return all(matches_reference_at(width, 4 * width, device) for width in (96, 192))


def warp_specialized_matches_reference(device: torch.device) -> bool:
    """True if both numbers of consumer groups pass, with one tile per program and with more.

    A separate self-test: if it fails, the other kernel runs.
    """
    sizes = (128, 77), (256, 20000)
    return all(matches_reference_at(width, 4 * width, device, run=warp_specialized, rows=rows) for width, rows in sizes)


@torch.no_grad()
def matches_reference_at(
    width: int, hidden: int, device: torch.device, dtype: torch.dtype = torch.bfloat16, run: Run | None = None,
    rows: int = 77,
) -> bool:  # fmt: skip
    """True if the kernel agrees with the reference in float32."""
    wave = TestInputs(device, dtype)
    up, down = wave(hidden, width, size=width**-0.5), wave(width, hidden, size=hidden**-0.5)
    weights = Weights(1 + wave(width), wave(width), up, wave(hidden), down, wave(width))
    tokens = wave.tokens(2, rows, width)
    with torch.autocast(device.type, enabled=False):
        found = (run or fused_mlp)(tokens, weights, 1e-5, "gelu").float()
        expected = fused_mlp_reference(tokens.float(), Weights(*(part.float() for part in weights)), 1e-5, "gelu")
    return bool((found - expected).norm() < 1e-2 * expected.norm())


SELF_TEST = SelfTest("fused_mlp", matches_reference, on=is_hopper)
WARP_SPECIALIZED_TEST = SelfTest(
    "fused_mlp, warp-specialised", warp_specialized_matches_reference, on=has_warp_specialization
)
