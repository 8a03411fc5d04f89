"""Check and time the kernel `window_attention` on a GPU: attention in windows, stripes and pales.

It first checks every kind of partition with random shapes in bfloat16, float16 and float32, forward and backward,
against the reference in float64. It then times the attention of every stage of Swin, CSWin and Pale against the
compiled reference, and against torch's scaled_dot_product_attention on copies that are split and merged.

python benchmarks/window_kernel.py --quick --shapes 20
python benchmarks/window_kernel.py --save benchmarks/results/window-kernel-h200.md
python benchmarks/window_kernel.py --tune        # times other launch settings, in less than a minute
python benchmarks/window_kernel.py --tune --model cswin-tiny
python benchmarks/window_kernel.py --shapes 48 --exact
"""

import argparse
import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor
from window_cases import DEVICE, Case, Layer, by_copies, by_kernel, by_reference, case, layers, random_layer

from patchword.benchmarking.result import as_typed
from patchword.core.device import machine
from patchword.kernels.window_attention.operation import HeadGroup

MODELS = ("swin-tiny", "swin-base", "cswin-tiny", "pale-tiny")
BOUNDS = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}


def errors(layer: Layer, dtype: torch.dtype, seed: int) -> tuple[float, float]:
    """The error of the output and the largest error of all gradients, relative to float64."""
    given = case(layer, 2, dtype, seed)
    exact = Case(
        [part.detach().double().requires_grad_() for part in given.qkv],
        [HeadGroup(s.cut, *(part.detach().double().requires_grad_() for part in s[1:])) for s in given.groups],
        given.heads,
        given.scale,
    )
    answer, expected = by_kernel(given), by_reference(exact)
    slopes = torch.randn_like(answer)
    found = torch.autograd.grad(answer, given.learned, slopes)
    wanted = torch.autograd.grad(expected, exact.learned, slopes.double())
    return _relative(answer, expected), max(map(_relative, found, wanted))


def _relative(one: Tensor, other: Tensor) -> float:
    return float((one.detach().double() - other.detach()).norm() / other.detach().norm().clamp(min=1e-12))


def of_shape(seed: int) -> list[tuple[str, torch.dtype, float, float]]:
    layer, found = random_layer(seed), []
    for dtype, bound in BOUNDS.items():
        error = errors(layer, dtype, seed)
        found.append((layer.name, dtype, *error))
        if not max(error) < bound:
            print(f"NOT EXACT: {layer}, {dtype}: {error[0]:.1e}, {error[1]:.1e}", flush=True)
    return found


def check(count: int) -> list[str]:
    """Check random shapes in several processes, because compilation takes nearly all of the time."""
    worst: dict[tuple[str, torch.dtype], list[float]] = {}
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 1) - 2), get_context("spawn")) as pool:
        for name, dtype, *error in itertools.chain.from_iterable(pool.map(of_shape, range(count))):
            print(name, dtype, *(f"{part:.1e}" for part in error), flush=True)
            kept = worst.setdefault((name, dtype), [0.0, 0.0])
            kept[:] = map(max, kept, error)
    return [
        f"## Errors relative to float64, the worst of {count} random shapes",
        "",
        "| kind | dtype | forward | backward |",
        "|---|---|---|---|",
        *(f"| {name} | {dtype} | {one:.1e} | {two:.1e} |" for (name, dtype), (one, two) in worst.items()),
        "",
    ]


def bytes_moved(given: Case) -> tuple[int, int]:
    """The minimum of bytes to move: q, k, v and the output; in the backward pass also their gradients."""
    qkv = sum(part.nbytes for part in given.qkv)
    return qkv + qkv // 3, 2 * (qkv + qkv // 3) + qkv


def measure(model: str, batch: int) -> list[str]:
    from window_tuning import timed

    lines = [
        f"## {model}, batch {batch}, bfloat16",
        "",
        "| stage | blocks | kernel ms | TB/s | compiled reference | copies "
        "| forward + backward: kernel | TB/s | reference | copies |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    totals = [0.0] * 6
    for layer in layers(model):
        given = case(layer, batch, torch.bfloat16)
        ways = (by_kernel, torch.compile(by_reference), torch.compile(by_copies(layer)))
        found = [timed(way, given) for way in ways]
        flat = [pair[work] for work in (0, 1) for pair in found]
        totals = [total + layer.depth * part for total, part in zip(totals, flat, strict=True)]
        rates = [moved / spent / 1e9 for moved, spent in zip(bytes_moved(given), found[0], strict=True)]
        cells = [f"{flat[0]:.3f}", f"{rates[0]:.2f}", f"{flat[1]:.3f}", f"{flat[2]:.3f}"]
        cells += [f"{flat[3]:.3f}", f"{rates[1]:.2f}", f"{flat[4]:.3f}", f"{flat[5]:.3f}"]
        lines.append(f"| {layer.name} | {layer.depth:g} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
        torch.compiler.reset()
    first, second = (" | ".join([f"{t[0]:.2f}", "", f"{t[1]:.2f}", f"{t[2]:.2f}"]) for t in (totals[:3], totals[3:]))
    return [*lines, f"| all blocks | | {first} | {second} |", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only Swin-T with batch size 128")
    parser.add_argument("--shapes", type=int, default=200, help="number of random shapes to check")
    parser.add_argument("--exact", action="store_true", help="only check, do not time")
    parser.add_argument("--tune", action="store_true", help="time other launch settings and the CPU time of one call")
    parser.add_argument("--model", choices=MODELS, help="only this model; the default of --tune is swin-tiny")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernel is checked by tests/units/kernels/window_attention")
    from window_tuning import tune

    lines = ["# Attention in windows, stripes and pales: one kernel without copies", ""]
    if asked.tune:
        lines += tune(asked.model or MODELS[0], 256)
    else:
        models = () if asked.exact else (asked.model,) if asked.model else MODELS[:1] if asked.quick else MODELS
        lines += check(asked.shapes)
        print("\n".join(lines), flush=True)
        for model, batch in itertools.product(models, (128,) if asked.quick else (128, 256)):
            lines += measure(model, batch)
    lines += [
        f"`{as_typed()}`",
        "",
        *(f"- {name}: {value}" for name, value in machine(DEVICE).items()),
    ]
    print("\n".join(lines))
    if asked.save:
        asked.save.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
