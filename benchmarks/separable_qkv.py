"""Check and time the kernel `separable_qkv` on a GPU: the depthwise-separable projections to queries, keys and values.

The sizes are those of the stages of Pale-T, in bfloat16 and without gradients. It is compared with three depthwise
convolutions with folded batch norm (depthwise_conv.py) and three matmuls, compiled.

python benchmarks/separable_qkv.py
python benchmarks/separable_qkv.py --tune        # also times other launch settings
"""

import argparse
import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from triton.testing import do_bench

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion.rewrite import rewritten
from patchword.fusion.rules import RULES
from patchword.kernels.depthwise_conv import separable_qkv as kernel
from patchword.kernels.depthwise_conv.reference import SeparableWeights, separable_qkv_reference
from patchword.kernels.depthwise_conv.separable_qkv import has_separable_qkv_kernel, separable_qkv
from patchword.layers import SeparableProjection

STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))  # side of the map, channels
DTYPE = torch.bfloat16


def trained_projection(width: int) -> SeparableProjection:
    """A projection with random batch-norm statistics, as after some training."""
    torch.manual_seed(0)
    part = SeparableProjection(width)
    for norm in part.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.normal_(norm.running_mean, 0, 0.3)
            nn.init.uniform_(norm.running_var, 0.2, 2)
            nn.init.normal_(norm.weight, 1, 0.2)
            nn.init.normal_(norm.bias)
    return part.to("cuda", DTYPE).eval()


def parts_of(part: SeparableProjection) -> list[SeparableWeights]:
    found = []
    for each in (part.query, part.key, part.value):
        norm, linear = each.depthwise.norm, each.linear
        kept = norm.weight, norm.bias, norm.running_mean, norm.running_var
        found.append(SeparableWeights(each.depthwise.convolution.weight, *kept, linear.weight, linear.bias))
    return found


def errors(tokens: Tensor, parts: list[SeparableWeights], side: int) -> str:
    """The errors of queries, keys and values relative to float64: of the kernel, then of the reference."""
    exact = [SeparableWeights(*(tensor.double() for tensor in part)) for part in parts]
    expected = separable_qkv_reference(tokens.double(), exact, 1e-5, side, side).chunk(3, -1)
    listed = []
    for function in (separable_qkv, separable_qkv_reference):
        output = function(tokens, parts, 1e-5, side, side)
        found = output if isinstance(output, list) else output.chunk(3, -1)
        pairs = zip(found, expected, strict=True)
        listed.append(", ".join(f"{(one.double() - other).norm() / other.norm():.1e}" for one, other in pairs))
    return f"errors {listed[0]} (reference: {listed[1]})"


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=20, rep=100, return_mode="median"))


def without_kernel(part: SeparableProjection, tokens: Tensor, side: int) -> float:
    """Milliseconds with every fusion rule except this kernel's."""
    scope, rules = Scope(grid=Grid(side, side)), {name: rule for name, rule in RULES.items() if name != "separable_qkv"}
    fused = rewritten(part, rules)
    run = torch.compile(lambda tokens: fused(tokens, scope)[:3])
    return milliseconds(lambda: run(tokens))


def rates(spent: float, tokens: Tensor) -> str:
    width = tokens.shape[-1]
    return (
        f"{spent:.4f} ms, {4e-9 * tokens.nbytes / spent:.2f} TB/s, {6e-9 * tokens.numel() * width / spent:.0f} TFLOP/s"
    )


def tune(tokens: Tensor, parts: list[SeparableWeights], side: int) -> None:
    kept, given = kernel.launch, [list(part[:5]) for part in parts]
    width, even = tokens.shape[-1], side % 2 == 0
    for span, columns, ahead in itertools.product((7, 14), (1, 2) if even else (1,), (1, 2, 4)):
        plan, _, warps = kept(len(tokens), side, side, width)
        lanes = len(tokens) * side // columns
        plan = plan._replace(span=span, columns=columns, ahead=ahead, whole=lanes % plan.lanes == 0)
        programs = -(-lanes // plan.lanes) * -(-side // span) * (width // plan.block)
        kernel.launch = lambda *sizes, chosen=(plan, programs, warps): chosen
        spent = milliseconds(lambda: torch.ops.patchword.separable_filters(tokens, *given, 1e-5, side, side))
        print(f"  convolutions alone: {rates(spent, tokens)}: {plan}", flush=True)
    kernel.launch = kept


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="also time other launch settings")
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/kernels/depthwise_conv")
    for side, width in STAGES:
        part = trained_projection(width)
        parts, tokens = parts_of(part), torch.randn(options.batch, side * side, width, device="cuda").to(DTYPE)
        used = has_separable_qkv_kernel(tokens, parts)
        print(f"{side} x {side}, {width}: {errors(tokens[:9], parts, side)}{'' if used else ', NOT USED'}", flush=True)
        spent = milliseconds(lambda: separable_qkv(tokens, parts, 1e-5, side, side))  # noqa: B023  # it runs at once
        print(f"  {rates(spent, tokens)}; without the kernel {without_kernel(part, tokens, side):.4f} ms", flush=True)
        if options.tune:
            tune(tokens, parts, side)


if __name__ == "__main__":
    main()
