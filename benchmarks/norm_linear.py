"""Check and time the kernels `layer_norm_linear` and `linear_residual` on a GPU.

The sizes are those of the first stages of pyramids, in bfloat16 and without gradients: LayerNorm with the projection to
queries, keys and values, and the output projection of attention with its residual sum. They are compared with the
compiled references: torch's matmul with a separate norm or sum.

python benchmarks/norm_linear.py
python benchmarks/norm_linear.py --tune --width 96     # also times other launch settings
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

STAGES = (  # tokens of 256 images, channels
    ("Swin-T 1", 802_816, 96),
    ("Swin-T 2", 200_704, 192),
    ("Swin-B 1", 802_816, 128),
    ("CSWin-T 1", 802_816, 64),
    ("CSWin-T 2", 200_704, 128),
)
DTYPE = torch.bfloat16
CHECKED = 4099  # tokens
EPS = 1e-5
Function = Callable[..., Tensor]


def normal(*shape: int, by: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device="cuda") * by).to(DTYPE)


class Case:
    """One of the two kernels of a stage. adds: `linear_residual`, otherwise `layer_norm_linear`."""

    def __init__(self, rows: int, width: int, adds: bool) -> None:
        outputs = width if adds else 3 * width
        tokens, matrix, bias = normal(rows, width), normal(outputs, width, by=width**-0.5), normal(outputs)
        self.width, self.outputs, self.adds, self.rows = width, outputs, adds, rows
        self.varying = [tokens, normal(rows, width)] if adds else [tokens]
        self.fixed = [matrix, bias] if adds else [1 + normal(width, by=0.2), normal(width), matrix, bias]
        self.kernel: Function = kernel.linear_residual if adds else self._with_eps(kernel.layer_norm_linear)
        self.reference: Function = linear_residual_reference if adds else self._with_eps(layer_norm_linear_reference)
        self.used = (has_linear_residual_kernel if adds else has_layer_norm_linear_kernel)(*self.varying, *self.fixed)
        self.moved = rows * (3 * width if adds else width + outputs) * 2

    @staticmethod
    def _with_eps(function: Function) -> Function:
        return lambda *parts: function(*parts, EPS)

    def run(self, function: Function, rows: int | None = None) -> Tensor:
        varying = self.varying if rows is None else [part[:rows] for part in self.varying]
        return function(*varying, *self.fixed)

    def error(self, function: Function) -> float:
        """The error relative to the reference in float64."""
        parts = [part[:CHECKED].double() for part in self.varying], [part.double() for part in self.fixed]
        expected = self.reference(*parts[0], *parts[1])
        return float((self.run(function, CHECKED).double() - expected).norm() / expected.norm())

    def milliseconds(self, function: Function) -> float:
        return float(do_bench(lambda: self.run(function), warmup=10, rep=60, return_mode="median"))

    def rate(self, spent: float) -> str:
        return f"{spent:.4f} ms, {1e-9 * self.moved / spent:.2f} TB/s"

    def compiled(self) -> float:
        """Milliseconds of the compiled reference. It is compiled for any number of tokens, as the kernels are."""
        for part in self.varying:
            torch._dynamo.maybe_mark_dynamic(part, 0)
        return self.milliseconds(_compiled(self.adds, self.width, self.reference))


_COMPILED: dict[tuple[bool, int], Function] = {}


def _compiled(adds: bool, width: int, reference: Function) -> Function:
    """Compile the reference once per width."""
    if (adds, width) not in _COMPILED:
        torch._dynamo.reset()  # otherwise the second width is compiled for dynamic shapes
        _COMPILED.clear()
        _COMPILED[adds, width] = torch.compile(reference)
    return _COMPILED[adds, width]


def launches(case: Case) -> Iterator[Plan]:
    """The launch settings to time: first the default of `tuning.py`, then others."""
    plan = launch(case.width, case.outputs)
    yield plan
    chunks = [(128, 0), (64, 0), (64, 32), (32, 0)]
    fitting = [chunk for chunk in chunks if case.outputs % sum(chunk) == 0]
    tiles = ((64, 4), (128, 8))
    for (rows, warps), (main, rest), stages, programs in product(tiles, fitting, (1, 2), (1, 2, 3, 4)):
        yield Plan(plan.first, plan.second, rows, main, rest, warps, stages, programs)


def tune(case: Case, best: int = 6) -> None:
    kept, expected, found = kernel.launch, case.run(case.reference, CHECKED), []
    for place, plan in enumerate(launches(case)):
        kernel.launch = lambda *sizes, adds, plan=plan: plan
        try:
            is_correct = torch.allclose(case.run(case.kernel, CHECKED), expected, 3e-2, 3e-2)
            found.append((case.milliseconds(case.kernel), place, plan, is_correct))
        except Exception as error:  # too much shared memory
            print(f"    {type(error).__name__}: {plan}", flush=True)
    kernel.launch = kept
    now = [each for each in found if each[1] == 0]
    for spent, place, plan, is_correct in sorted(found)[:best] + now:
        about = f"{'' if is_correct else ', WRONG'}{'' if place else ', the default'}"
        print(f"    {case.rate(spent)}{about}: {plan}", flush=True)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="also time other launch settings")
    parser.add_argument("--width", type=int, help="only stages with this number of channels")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernels are checked by tests/units/kernels/norm_linear")
    torch.manual_seed(0)
    print(
        "| stage | product | error of the kernel | error of the reference | kernel | compiled reference | ratio |\n"
        "|---|---|---|---|---|---|---|"
    )
    for adds in (False, True):
        for name, rows, width in sorted(STAGES, key=lambda stage: stage[2]):
            if options.width in (None, width) and is_known(width, width if adds else 3 * width):
                case = Case(rows, width, adds)
                errors = f"{case.error(case.kernel):.1e} | {case.error(case.reference):.1e}"
                spent, other = case.milliseconds(case.kernel), case.compiled()
                what = f"{rows} x {width} to {case.outputs}, {'sum' if adds else 'norm'}"
                speed = f"{case.rate(spent)}{'' if case.used else ', NOT USED'} | {other:.4f} ms | {other / spent:.2f}"
                print(f"| {name} | {what} | {errors} | {speed} |", flush=True)
                if options.tune:
                    tune(case)


if __name__ == "__main__":
    main()
