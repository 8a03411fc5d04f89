"""Check and time the kernel `depthwise_conv` on a GPU: a 3 x 3 depthwise convolution over tokens, against torch's.

The sizes are those of the stages of Pale-T. Without gradients the batch norm is folded into the convolution.

python benchmarks/depthwise_conv.py
python benchmarks/depthwise_conv.py --tune        # also times other launch settings
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
CHOICES = itertools.product((4, 8), (2, 4, 8), (96, 128, None))  # channels per thread, warps, registers


def random_inputs(batch: int, side: int, channels: int, dtype: torch.dtype) -> tuple[Tensor, nn.Conv2d, nn.BatchNorm2d]:
    torch.manual_seed(0)
    tokens = torch.randn(batch, side * side, channels, device="cuda").to(dtype).requires_grad_()
    convolution = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
    return tokens, convolution.to("cuda", dtype), nn.BatchNorm2d(channels).to("cuda", dtype).eval()


def errors(batch: int, side: int, channels: int, dtype: torch.dtype) -> list[float]:
    """The errors of the output and of both gradients, relative to the reference in float64."""
    tokens, convolution, _ = random_inputs(batch, side, channels, dtype)
    exact = [part.detach().double().requires_grad_() for part in (tokens, convolution.weight)]
    output = depthwise_conv(tokens, convolution.weight, None, side, side)
    expected = depthwise_conv_reference(exact[0], exact[1], None, side, side)
    output_grad = torch.randn_like(output)
    found = [output, *torch.autograd.grad(output, [tokens, convolution.weight], output_grad)]
    wanted = [expected, *torch.autograd.grad(expected, exact, output_grad.double())]
    return [float((one.double() - other).norm() / other.norm()) for one, other in zip(found, wanted, strict=True)]


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=10, rep=50, return_mode="median"))


def candidates(batch: int, side: int, channels: int) -> dict[str, Callable[[], object]]:
    tokens, convolution, norm = random_inputs(batch, side, channels, torch.bfloat16)
    grid, weight = Grid(side, side), convolution.weight.detach()
    output_grad = torch.randn_like(tokens)
    with_norm = [part.detach() for part in folded(convolution, norm)]
    detached = tokens.detach()
    feature_map = grid.to_map(detached)[1]
    convolved = convolution(grid.to_map(tokens)[1])
    map_grad = grid.to_map(output_grad)[1]
    return {
        "kernel": lambda: depthwise_conv(detached, weight, None, side, side),
        "kernel with norm": lambda: depthwise_conv(detached, *with_norm, side, side),
        "kernel backward": lambda: filter_back(output_grad, detached, weight, None, side, side),
        "torch": torch.no_grad()(lambda: convolution(feature_map)),
        "torch with norm": torch.no_grad()(lambda: norm(convolution(feature_map))),
        "torch backward": lambda: torch.autograd.grad(
            convolved, [tokens, convolution.weight], map_grad, retain_graph=True
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
    parser.add_argument("--tune", action="store_true", help="also time other launch settings")
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/kernels/depthwise_conv")
    for dtype, (side, channels) in itertools.product((torch.float32, torch.bfloat16), STAGES):
        listed = ", ".join(f"{error:.1e}" for error in errors(2, side, channels, dtype))
        print(f"{side} x {side}, {channels} channels, {dtype}: errors {listed}", flush=True)
    for side, channels in STAGES:
        spent = {name: milliseconds(run) for name, run in candidates(options.batch, side, channels).items()}
        print(
            f"{side} x {side}, {channels}: " + ", ".join(f"{name} {ms:.4f}" for name, ms in spent.items()), flush=True
        )
    if not options.tune:
        return
    for choice, (side, channels) in itertools.product(CHOICES, STAGES[1:3]):
        with chosen(*choice):
            runs = candidates(options.batch, side, channels)
            spent = {name: milliseconds(runs[name]) for name in ("kernel", "kernel backward")}
        print(f"{choice} {side} x {side}: " + ", ".join(f"{name} {ms:.4f}" for name, ms in spent.items()), flush=True)


if __name__ == "__main__":
    main()
