"""Four neighbours and their norm on a GPU, where the stages of Swin meet: is the kernel exact, and how fast?

The other way is the one taken without it, compiled. 256 images in bfloat16, without gradients.

python benchmarks/merged.py
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor
from triton.testing import do_bench

from patchword.kernels.stem.reference import patch_merge_norm_reference

KIND = torch.bfloat16
EPS = 1e-5


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=10, rep=60, return_mode="median"))


def told(batch: int, side: int, channels: int) -> str:
    feature_map = torch.randn(batch, side, side, channels, device="cuda").to(KIND).permute(0, 3, 1, 2)
    scale, shift = torch.randn(2, 4 * channels, device="cuda").to(KIND)

    def kernel() -> Tensor:
        return torch.ops.patchword.patch_merge_norm(feature_map, scale, shift, EPS, KIND)

    torch.compiler.reset()  # no size is a reason to compile for all of them
    plain = torch.compile(patch_merge_norm_reference)
    exact = patch_merge_norm_reference(feature_map[:4].double(), scale.double(), shift.double(), EPS)
    error = float((kernel()[:4].double() - exact).norm() / exact.norm())
    spent, other = milliseconds(kernel), milliseconds(lambda: plain(feature_map, scale, shift, EPS))
    rate = 2e-9 * feature_map.nbytes / spent
    return f"error {error:.1e}, {spent:.4f} ms, {rate:.2f} TB/s; plainly, compiled: {other:.4f} ms"


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    batch = parser.parse_args().batch
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/test_merged_kernel.py")
    torch.manual_seed(0)
    for name, first in (("Swin-T", 96), ("Swin-B", 128)):
        for stage, side in enumerate((56, 28, 14)):
            channels = first << stage
            print(f"{name} {side} x {side} x {channels}: {told(batch, side, channels)}", flush=True)


if __name__ == "__main__":
    main()
