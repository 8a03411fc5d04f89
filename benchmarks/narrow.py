"""Narrow products on a GPU, with the norm before them or the sum behind them: are the kernels exact, and how fast?

Tokens are those of the first stages of pyramids, in bfloat16 and without gradients: queries, keys and values of normed
tokens, and the product behind attention with its sum. The other way is the one taken without these kernels, compiled:
a norm or a sum of its own beside torch's product.

python benchmarks/narrow.py
python benchmarks/narrow.py --tune --width 96     # tries other launches
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import product

import torch
from torch import Tensor
from triton.testing import do_bench

from patchword.kernels.norm_linear import operation as kernel
from patchword.kernels.norm_linear.operation import has_layer_norm_linear_kernel, has_linear_residual_kernel
from patchword.kernels.norm_linear.reference import layer_norm_linear_reference, linear_residual_reference
from patchword.kernels.norm_linear.tuning import Plan, is_known, launch

STAGES = (  # tokens of 256 pictures, channels
    ("Swin-T 1", 802_816, 96),
    ("Swin-T 2", 200_704, 192),
    ("Swin-B 1", 802_816, 128),
    ("CSWin-T 1", 802_816, 64),
    ("CSWin-T 2", 200_704, 128),
)
KIND = torch.bfloat16
CHECKED = 4099  # tokens
EPS = 1e-5
Way = Callable[..., Tensor]


def normal(*shape: int, by: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device="cuda") * by).to(KIND)


class Case:
    """One of the two products of a stage"""

    def __init__(self, rows: int, width: int, adds: bool) -> None:
        outputs = width if adds else 3 * width
        tokens, matrix, bias = normal(rows, width), normal(outputs, width, by=width**-0.5), normal(outputs)
        self.width, self.outputs, self.adds, self.rows = width, outputs, adds, rows
        self.varying = [tokens, normal(rows, width)] if adds else [tokens]
        self.fixed = [matrix, bias] if adds else [1 + normal(width, by=0.2), normal(width), matrix, bias]
        self.way: Way = kernel.linear_residual if adds else self._normed(kernel.layer_norm_linear)
        self.plain: Way = linear_residual_reference if adds else self._normed(layer_norm_linear_reference)
        self.used = (has_linear_residual_kernel if adds else has_layer_norm_linear_kernel)(*self.varying, *self.fixed)
        self.moved = rows * (3 * width if adds else width + outputs) * 2

    @staticmethod
    def _normed(way: Way) -> Way:
        return lambda *parts: way(*parts, EPS)

    def run(self, way: Way, rows: int | None = None) -> Tensor:
        varying = self.varying if rows is None else [part[:rows] for part in self.varying]
        return way(*varying, *self.fixed)

    def error(self, way: Way) -> float:
        """relative to float64"""
        parts = [part[:CHECKED].double() for part in self.varying], [part.double() for part in self.fixed]
        expected = self.plain(*parts[0], *parts[1])
        return float((self.run(way, CHECKED).double() - expected).norm() / expected.norm())

    def milliseconds(self, way: Way) -> float:
        return float(do_bench(lambda: self.run(way), warmup=10, rep=60, return_mode="median"))

    def rate(self, spent: float) -> str:
        return f"{spent:.4f} ms, {1e-9 * self.moved / spent:.2f} TB/s"

    def compiled(self) -> float:
        """milliseconds of the plain way, for any number of tokens, as the kernels are"""
        for part in self.varying:
            torch._dynamo.maybe_mark_dynamic(part, 0)
        return self.milliseconds(_compiled(self.adds, self.width, self.plain))


_COMPILED: dict[tuple[bool, int], Way] = {}


def _compiled(adds: bool, width: int, plain: Way) -> Way:
    """each width is compiled once"""
    if (adds, width) not in _COMPILED:
        torch._dynamo.reset()  # no width is a reason to compile for all of them
        _COMPILED.clear()
        _COMPILED[adds, width] = torch.compile(plain)
    return _COMPILED[adds, width]


def launches(case: Case) -> Iterator[Plan]:
    """beside the one that is written down, which comes first"""
    plan = launch(case.width, case.outputs)
    yield plan
    chunks = [(128, 0), (64, 0), (64, 32), (32, 0)]
    fitting = [chunk for chunk in chunks if case.outputs % sum(chunk) == 0]
    tiles = ((64, 4), (128, 8))
    for (rows, warps), (main, rest), stages, programs in product(tiles, fitting, (1, 2), (1, 2, 3, 4)):
        yield Plan(plan.first, plan.second, rows, main, rest, warps, stages, programs)


def tune(case: Case, best: int = 6) -> None:
    kept, expected, found = kernel.launch, case.run(case.plain, CHECKED), []
    for place, plan in enumerate(launches(case)):
        kernel.launch = lambda *sizes, adds, plan=plan: plan
        try:
            alike = torch.allclose(case.run(case.way, CHECKED), expected, 3e-2, 3e-2)
            found.append((case.milliseconds(case.way), place, plan, alike))
        except Exception as error:  # too much shared memory
            print(f"    {type(error).__name__}: {plan}", flush=True)
    kernel.launch = kept
    now = [each for each in found if each[1] == 0]
    for spent, place, plan, alike in sorted(found)[:best] + now:
        about = f"{'' if alike else ', WRONG'}{'' if place else ', as written down'}"
        print(f"    {case.rate(spent)}{about}: {plan}", flush=True)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="try other launches")
    parser.add_argument("--width", type=int, help="only stages of so many channels")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernels are checked by tests/units/test_narrow_kernel.py")
    torch.manual_seed(0)
    print(
        "| stage | product | error | plainly | kernel | one by one, compiled | ratio |\n|---|---|---|---|---|---|---|"
    )
    for adds in (False, True):
        for name, rows, width in sorted(STAGES, key=lambda stage: stage[2]):
            if asked.width in (None, width) and is_known(width, width if adds else 3 * width):
                case = Case(rows, width, adds)
                errors = f"{case.error(case.way):.1e} | {case.error(case.plain):.1e}"
                spent, other = case.milliseconds(case.way), case.compiled()
                what = f"{rows} x {width} to {case.outputs}, {'sum' if adds else 'norm'}"
                speed = f"{case.rate(spent)}{'' if case.used else ', NOT USED'} | {other:.4f} ms | {other / spent:.2f}"
                print(f"| {name} | {what} | {errors} | {speed} |", flush=True)
                if asked.tune:
                    tune(case)


if __name__ == "__main__":
    main()
