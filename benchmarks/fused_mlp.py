"""Check and time the kernel `fused_mlp` on a GPU: x + down(gelu(up(norm(x)))) in one kernel, for narrow feed-forwards.

It first checks the kernel's GELU against erf in float64, and the kernel with random sizes against the reference in
float64. It then times the first two stages of Swin-T, with the default and with other launch settings, and the wider
stages with `linear_gelu` (linear_gelu.py). Both are compared with the compiled reference.

python benchmarks/fused_mlp.py
python benchmarks/fused_mlp.py --save benchmarks/results/fused-mlp-h200.md
"""

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch
from linear_gelu import CHOICES, gelu_of, linear_gelu
from torch import Tensor
from triton.testing import do_bench

from patchword.core.device import machine
from patchword.kernels.mlp import fused_mlp as kernel
from patchword.kernels.mlp.fused_mlp import has_fused_mlp_kernel
from patchword.kernels.mlp.reference import FORMS, Weights, fused_mlp_reference
from patchword.kernels.mlp.tuning import WIDTHS, Plan, launch

DEVICE = torch.device("cuda")
ROWS = {96: 802_816, 192: 200_704}  # of Swin-T, 256 images
WIDE = {384: 50_176, 768: 12_544}
CHECKED = (  # width, hidden, dtype, form
    (96, 384, torch.bfloat16, "gelu"), (192, 768, torch.bfloat16, "gelu"), (64, 160, torch.float16, "gelu-tanh"),
    (128, 512, torch.bfloat16, "quick-gelu"),
)  # fmt: skip
OTHERS = {
    96: [
        Plan(False, 64, 32, 128, 64, 8, 3),
        Plan(True, 64, 32, 128, 64, 8, 2),
        Plan(False, 64, 32, 64, 64, 4, 2),  # three programs at a time per SM
        Plan(True, 64, 32, 128, 128, 8, 1),
        Plan(False, 64, 32, 128, 128, 8, 2),
    ],
    192: [
        Plan(False, 128, 64, 128, 64, 8, 2),
        Plan(False, 128, 64, 64, 32, 4, 2),  # two programs
        Plan(False, 128, 64, 128, 32, 8, 3),
    ],
}


def given(rows: int, width: int, hidden: int, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Weights]:
    def normal(*shape: int, by: float = 1.0) -> Tensor:
        return (torch.randn(*shape, device=DEVICE) * by).to(dtype)

    up, down = normal(hidden, width, by=width**-0.5), normal(width, hidden, by=hidden**-0.5)
    weights = Weights(1 + normal(width, by=0.2), normal(width), up, normal(hidden), down, normal(width))
    return normal(rows, width), weights


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def check(more: int) -> list[str]:
    """more: number of additional random sizes; each one is compiled."""
    points = torch.linspace(-10, 10, 2_000_001, device=DEVICE)
    exact = points.double() * torch.special.erfc(-points.double() / 2**0.5) / 2
    away = gelu_of(points).double() - exact
    erf_error = float(2 * (away / points.double()).abs()[points < -0.01].max())
    lines = [f"largest error of GELU {float(away.abs().max()):.1e}, of erf {erf_error:.1e} (below 0)"]
    numbers, exactly = random.Random(0), erf_error < 2.5e-7
    drawn = [(numbers.choice(WIDTHS), 32 * numbers.randint(1, 20), numbers.choice(FORMS)) for _ in range(more)]
    for width, hidden, dtype, form in (*CHECKED, *((*sizes, torch.bfloat16, form) for *sizes, form in drawn)):
        tokens, weights = given(numbers.randint(1, 9999), width, hidden, dtype)
        found = kernel.fused_mlp(tokens, weights, 1e-5, form)
        expected = fused_mlp_reference(tokens.double(), Weights(*(part.double() for part in weights)), 1e-5, form)
        error = relative(found, expected)
        lines.append(f"{len(tokens)} x {width}, {hidden}, {dtype}, {form}: error {error:.1e} relative to float64")
        exactly &= error < (1e-2 if dtype == torch.bfloat16 else 2e-3)
    print("\n".join(lines), flush=True)
    return lines if exactly else sys.exit("NOT EXACT")


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=20, rep=60, return_mode="median"))


def narrow(width: int, tries: int) -> list[str]:
    rows, hidden = ROWS[width], 4 * width
    tokens, weights = given(rows, width, hidden)
    compiled = torch.compile(fused_mlp_reference)
    reference = milliseconds(lambda: compiled(tokens, weights, 1e-5, "gelu"))
    lines = [f"{rows} x {width}, hidden {hidden}: compiled reference {reference:.3f} ms"]
    print(lines[-1], flush=True)
    assert has_fused_mlp_kernel(tokens, weights), "the kernel is not chosen here"
    answer = kernel.fused_mlp(tokens, weights, 1e-5, "gelu")
    spent = milliseconds(lambda: kernel.fused_mlp(tokens, weights, 1e-5, "gelu"))
    lines.append(f"  {spent:.3f} ms, {reference / spent:.2f}x with the default settings (warp-specialised if possible)")
    print(lines[-1], flush=True)
    kept, kernel.are_many = kernel.are_many, lambda tokens, width: False  # no warp specialisation
    for plan in (launch(width, hidden, 2), *OTHERS[width][:tries]):
        kernel.launch = lambda *_, plan=plan: plan  # type: ignore[assignment]  # changed for the measurement
        try:
            assert relative(kernel.fused_mlp(tokens, weights, 1e-5, "gelu"), answer.double()) < 1e-2
            spent = milliseconds(lambda: kernel.fused_mlp(tokens, weights, 1e-5, "gelu"))
            rate, moved = 4e-9 * rows * width * hidden / spent, 2e-9 * tokens.nbytes / spent
            lines.append(f"  {spent:.3f} ms, {reference / spent:.2f}x, {rate:.0f} TFLOP/s, {moved:.2f} TB/s: {plan}")
        except Exception as error:  # too many registers or too much shared memory
            lines.append(f"  {type(error).__name__}: {plan}")
        print(lines[-1], flush=True)
    kernel.launch, kernel.are_many = launch, kept
    return lines


def call_overhead() -> str:
    """Measure the CPU time of one call with so few tokens that the GPU has little to do."""
    tokens, weights = given(8, 96, 384)
    for _ in range(50):
        kernel.fused_mlp(tokens, weights, 1e-5, "gelu")
    torch.cuda.synchronize()
    start = perf_counter()
    for _ in range(200):
        kernel.fused_mlp(tokens, weights, 1e-5, "gelu")
    return f"one call takes {(perf_counter() - start) / 200 * 1e6:.0f} microseconds of Python"


def wide(width: int, tries: int) -> list[str]:
    rows, hidden = WIDE[width], 4 * width
    tokens, weights = given(rows, width, hidden)

    def reference(tokens: Tensor) -> Tensor:
        return torch.nn.functional.gelu(torch.nn.functional.linear(tokens, weights.up, weights.up_bias))

    def with_polynomial(tokens: Tensor) -> Tensor:
        return gelu_with_fast_backward(torch.nn.functional.linear(tokens, weights.up, weights.up_bias))

    first, second = torch.compile(reference), torch.compile(with_polynomial)
    plain, poly = milliseconds(lambda: first(tokens)), milliseconds(lambda: second(tokens))
    lines = [f"{rows} x {width} -> {hidden}, GELU: compiled {plain:.3f} ms, with the kernels' polynomial {poly:.3f}"]
    print(lines[-1], flush=True)
    up, bias = weights.up.double(), weights.up_bias.double()
    exact = torch.nn.functional.gelu(torch.nn.functional.linear(tokens[:999].double(), up, bias))
    for choice in CHOICES[:tries]:
        try:
            assert relative(linear_gelu(tokens, weights.up, weights.up_bias, choice)[:999], exact) < 1e-2
            spent = milliseconds(lambda choice=choice: linear_gelu(tokens, weights.up, weights.up_bias, choice))
            rate = 2e-9 * rows * width * hidden / spent
            lines.append(f"  {spent:.3f} ms, {plain / spent:.2f}x, {rate:.0f} TFLOP/s: {choice}")
        except Exception as error:  # too many registers or too much shared memory
            lines.append(f"  {type(error).__name__}: {choice}")
        print(lines[-1], flush=True)
    return lines


def gelu_with_fast_backward(x: Tensor) -> Tensor:
    """The kernels' polynomial GELU, written for torch.compile."""
    distance = x.float().abs()
    power = distance * -2.7721898732124828e-06 + 3.862217999994755e-05
    for factor in (
        -0.0001825533399824053, -0.00014585857570637017, 0.0070754592306911945,
        -0.052505020052194595, -0.45920491218566895, -1.1511057615280151, -1.0,
    ):  # fmt: skip
        power = power * distance + factor
    return (x.float().clamp(min=0) - distance * torch.exp2(power)).to(x.dtype)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--all", action="store_true", help="all launch settings and sizes, and more checks; takes minutes"
    )
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/kernels/mlp")
    lines = ["# fused_mlp: norm, both linear layers, GELU and residual sum in one kernel", ""]
    lines += check(20 if options.all else 0)
    for width in ROWS:
        lines += narrow(width, 9 if options.all else 3 if width == 96 else 2)
    lines.append(call_overhead())
    print(lines[-1], flush=True)
    for width in WIDE if options.all else (384,):
        lines += wide(width, 9 if options.all else 3)
    lines += ["", *(f"- {name}: {value}" for name, value in machine(DEVICE).items())]
    if options.save:
        options.save.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
