"""Check and time the kernel `patch_merge_norm` on a GPU: patch merging and LayerNorm between the stages of Swin.

It is compared with the compiled reference, on 256 images in bfloat16, without gradients.

python benchmarks/patch_merge_norm.py
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor
from triton.testing import do_bench

from patchword.kernels.stem.reference import patch_merge_norm_reference

DTYPE = torch.bfloat16
EPS = 1e-5


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=10, rep=60, return_mode="median"))


def measure(batch: int, side: int, channels: int) -> str:
    feature_map = torch.randn(batch, side, side, channels, device="cuda").to(DTYPE).permute(0, 3, 1, 2)
    scale, shift = torch.randn(2, 4 * channels, device="cuda").to(DTYPE)

    def kernel() -> Tensor:
        return torch.ops.patchword.patch_merge_norm(feature_map, scale, shift, EPS, DTYPE)

    torch.compiler.reset()  # otherwise the second size is compiled for dynamic shapes
    reference = torch.compile(patch_merge_norm_reference)
    exact = patch_merge_norm_reference(feature_map[:4].double(), scale.double(), shift.double(), EPS)
    error = float((kernel()[:4].double() - exact).norm() / exact.norm())
    spent, other = milliseconds(kernel), milliseconds(lambda: reference(feature_map, scale, shift, EPS))
    rate = 2e-9 * feature_map.nbytes / spent
    return f"error {error:.1e}, {spent:.4f} ms, {rate:.2f} TB/s; compiled reference: {other:.4f} ms"


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    batch = parser.parse_args().batch
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/kernels/stem")
    torch.manual_seed(0)
    for name, first in (("Swin-T", 96), ("Swin-B", 128)):
        for stage, side in enumerate((56, 28, 14)):
            channels = first << stage
            print(f"{name} {side} x {side} x {channels}: {measure(batch, side, channels)}", flush=True)


if __name__ == "__main__":
    main()
