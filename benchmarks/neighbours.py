"""The depthwise filter of 3 x 3 over tokens on a GPU: is it exact, and how fast is it beside torch's convolution?

The maps are those of the stages of Pale-T. Without gradients the batch norm behind it is part of the filter.

python benchmarks/neighbours.py
python benchmarks/neighbours.py --tune        # tries other launches
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from triton.testing import do_bench

from patchword.core.grid import Grid
from patchword.fusion.convolution import folded
from patchword.kernels.depthwise_conv import lepe_conv_tuning as plan
from patchword.kernels.depthwise_conv.launch import backward, forward
from patchword.kernels.depthwise_conv.operation import depthwise_conv
from patchword.kernels.depthwise_conv.reference import depthwise_conv_reference
from patchword.kernels.depthwise_conv.torch_op import filter_back

STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))  # side of the map, channels
CHOICES = itertools.product((4, 8), (2, 4, 8), (96, 128, None))  # channels of a thread, warps, registers


def drawn(batch: int, side: int, channels: int, dtype: torch.dtype) -> tuple[Tensor, nn.Conv2d, nn.BatchNorm2d]:
    torch.manual_seed(0)
    tokens = torch.randn(batch, side * side, channels, device="cuda").to(dtype).requires_grad_()
    convolution = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    return tokens, convolution.to("cuda", dtype), nn.BatchNorm2d(channels).to("cuda", dtype).eval()


def errors(batch: int, side: int, channels: int, dtype: torch.dtype) -> list[float]:
    """relative to float64: of the answer, and of both gradients"""
    tokens, convolution, _ = drawn(batch, side, channels, dtype)
    exact = [part.detach().double().requires_grad_() for part in (tokens, convolution.weight)]
    answer = depthwise_conv(tokens, convolution.weight, None, side, side)
    expected = depthwise_conv_reference(exact[0], exact[1], None, side, side)
    slopes = torch.randn_like(answer)
    found = [answer, *torch.autograd.grad(answer, [tokens, convolution.weight], slopes)]
    wanted = [expected, *torch.autograd.grad(expected, exact, slopes.double())]
    return [float((one.double() - other).norm() / other.norm()) for one, other in zip(found, wanted, strict=True)]


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=10, rep=50, return_mode="median"))


def ways(batch: int, side: int, channels: int) -> dict[str, Callable[[], object]]:
    tokens, convolution, norm = drawn(batch, side, channels, torch.bfloat16)
    grid, weight = Grid(side, side), convolution.weight.detach()
    slopes = torch.randn_like(tokens)
    both = [part.detach() for part in folded(convolution, norm)]
    held = tokens.detach()
    feature_map = grid.to_map(held)[1]
    convolved = convolution(grid.to_map(tokens)[1])
    turned = grid.to_map(slopes)[1]
    return {
        "kernel": lambda: depthwise_conv(held, weight, None, side, side),
        "kernel with the norm": lambda: depthwise_conv(held, *both, side, side),
        "kernel backwards": lambda: filter_back(slopes, held, weight, None, side, side),
        "torch": torch.no_grad()(lambda: convolution(feature_map)),
        "torch with the norm": torch.no_grad()(lambda: norm(convolution(feature_map))),
        "torch backwards": lambda: torch.autograd.grad(
            convolved, [tokens, convolution.weight], turned, retain_graph=True
        ),
    }


@contextmanager
def chosen(each: int, warps: int, registers: int | None) -> Iterator[None]:
    kept = plan.EACH, plan.WARPS, plan.REGISTERS, plan.PROGRAMS
    programs = max(1, 65536 // (32 * warps * (registers or 160)))
    for name, value in zip(("EACH", "WARPS", "REGISTERS", "PROGRAMS"), (each, warps, registers, programs), strict=True):
        setattr(plan, name, value)
    forward.cache_clear()
    backward.cache_clear()
    try:
        yield
    finally:
        plan.EACH, plan.WARPS, plan.REGISTERS, plan.PROGRAMS = kept
        forward.cache_clear()
        backward.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="try other launches")
    parser.add_argument("--batch", type=int, default=256)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/test_neighbours.py")
    for dtype, (side, channels) in itertools.product((torch.float32, torch.bfloat16), STAGES):
        told = ", ".join(f"{error:.1e}" for error in errors(2, side, channels, dtype))
        print(f"{side} x {side}, {channels} channels, {dtype}: errors {told}", flush=True)
    for side, channels in STAGES:
        spent = {name: milliseconds(run) for name, run in ways(asked.batch, side, channels).items()}
        print(
            f"{side} x {side}, {channels}: " + ", ".join(f"{name} {ms:.4f}" for name, ms in spent.items()), flush=True
        )
    if not asked.tune:
        return
    for choice, (side, channels) in itertools.product(CHOICES, STAGES[1:3]):
        with chosen(*choice):
            runs = ways(asked.batch, side, channels)
            spent = {name: milliseconds(runs[name]) for name in ("kernel", "kernel backwards")}
        print(f"{choice} {side} x {side}: " + ", ".join(f"{name} {ms:.4f}" for name, ms in spent.items()), flush=True)


if __name__ == "__main__":
    main()
