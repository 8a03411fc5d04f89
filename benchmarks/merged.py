"""Four neighbours and their norm on a GPU, where the stages of Swin meet: is the kernel exact, and how fast?

The other way is the one taken without it, compiled. 256 pictures in bfloat16, without gradients.

python benchmarks/merged.py
"""

import argparse

import torch
from triton.testing import do_bench

from patchword.kernels.merged import plain_merged

KIND = torch.bfloat16
EPS = 1e-5


def milliseconds(run) -> float:
    return float(do_bench(run, warmup=10, rep=60, return_mode="median"))


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
            feature_map = torch.randn(batch, side, side, channels, device="cuda").to(KIND).permute(0, 3, 1, 2)
            scale, shift = torch.randn(2, 4 * channels, device="cuda")
            exact = plain_merged(feature_map[:4].double(), scale.double(), shift.double(), EPS)
            found = torch.ops.patchword.merged(feature_map, scale, shift, EPS, KIND)[:4].double()
            spent = milliseconds(lambda: torch.ops.patchword.merged(feature_map, scale, shift, EPS, KIND))  # noqa: B023
            torch.compiler.reset()
            plain = torch.compile(lambda x: plain_merged(x, scale.to(KIND), shift.to(KIND), EPS))  # noqa: B023
            other = milliseconds(lambda: plain(feature_map))  # noqa: B023  # it runs at once
            error, rate = (found - exact).norm() / exact.norm(), 2e-9 * feature_map.nbytes / spent
            print(f"{name} {side} x {side} x {channels}: error {error:.1e}, {spent:.4f} ms, {rate:.2f} TB/s", end="")
            print(f"; plainly, compiled: {other:.4f} ms", flush=True)


if __name__ == "__main__":
    main()
