"""Measure peak memory and time of Big Bird's attention (12 heads, width 768) by text length, against full attention.

Each measurement runs in its own process, so that the peak is its own. Full attention is the same layer with one block
for the whole text. "plain" stores the matrix of tokens x tokens, "fused" does not.

python benchmarks/bigbird.py --save benchmarks/results/bigbird-cpu.md
"""

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from patchword.core.device import machine, pick_device
from patchword.core.scope import Scope
from patchword.layers import Attention, BlockSparse, Pattern

LENGTHS = (1024, 2048, 4096, 8192)
KINDS = ("Big Bird", "full, plain", "full, fused")
WORK = ("reading", "training")
LARGEST_MATRIX = 4096  # most tokens for training the plain one: its gradients need several matrices
ROUNDS = 2
Found = dict[tuple[str, str, int], dict[str, float]]


def layer(kind: str, device: torch.device) -> Attention:
    torch.manual_seed(0)
    block = 64 if kind == "Big Bird" else LENGTHS[-1]
    return Attention(768, 12, patterns=[Pattern(BlockSparse(0, block, positions=LENGTHS[-1]))]).to(device)


def worker(attention: Attention, work: str, device: torch.device) -> Callable[[int], None]:
    def run(length: int) -> None:
        tokens = torch.randn(1, length, 768, device=device, requires_grad=work == "training")
        with torch.set_grad_enabled(work == "training"):
            answer = attention(tokens, Scope())
        if work == "training":
            answer.sum().backward()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return run


def memory_now(device: torch.device) -> float:
    """MiB"""
    if device.type == "cuda":
        return torch.cuda.memory_allocated() / 2**20
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def memory_peak(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(kind: str, work: str, tokens: int, device: torch.device) -> dict[str, float]:
    """Memory (MiB) beyond that of the weights and the library, and seconds, the minimum of a few runs."""
    attention = layer(kind, device)
    attention.core.fused = kind != "full, plain"
    run = worker(attention, work, device)
    run(64)
    before, seconds = memory_now(device), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run(tokens)
        seconds.append(time.perf_counter() - began)
    return {"memory": memory_peak(device) - before, "seconds": min(seconds)}


def in_process(kind: str, work: str, tokens: int, device: torch.device) -> dict[str, float]:
    command = [
        sys.executable,
        __file__,
        "--device",
        str(device),
        "--threads",
        str(torch.get_num_threads()),
        "--measure",
        kind,
        work,
        str(tokens),
    ]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def table(found: Found, work: str) -> list[str]:
    """A Markdown table with one row per length; ratios are Big Bird / the other."""
    lines = [
        f"## {work.capitalize()}",
        "",
        "| tokens | Big Bird | full, plain | full, fused "
        "| memory / plain | memory / fused | time / plain | time / fused |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for length in LENGTHS:
        cells = [found.get((kind, work, length)) for kind in KINDS]
        shown = [f"{cell['memory']:,.0f} MiB, {cell['seconds']:.2f} s" if cell else "-" for cell in cells]
        ours = found["Big Bird", work, length]
        ratios = [
            f"{ours[what] / cell[what]:.2f}" if cell else "-" for what in ("memory", "seconds") for cell in cells[1:]
        ]
        lines.append(f"| {length:,} | {' | '.join(shown + ratios)} |")
    lines += [
        "",
        "Growth of Big Bird each time the length doubles (2 is linear, 4 quadratic): " + growth(found, work),
        "",
    ]
    return lines


def growth(found: Found, work: str) -> str:
    ours = [found["Big Bird", work, length] for length in LENGTHS]
    pairs = list(itertools.pairwise(ours))
    memory, seconds = (", ".join(f"{b[what] / a[what]:.2f}" for a, b in pairs) for what in ("memory", "seconds"))
    return f"memory {memory}; time {seconds}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--save", type=Path)
    parser.add_argument("--measure", nargs=3, metavar=("KIND", "WORK", "TOKENS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    device = pick_device(asked.device)
    if asked.measure:
        kind, work, tokens = asked.measure
        print(json.dumps(measure(kind, work, int(tokens), device)))
        return
    found: Found = {}
    for work in WORK:
        for length in LENGTHS:
            for kind in KINDS:
                if kind != "full, plain" or work == "reading" or length <= LARGEST_MATRIX:
                    found[kind, work, length] = in_process(kind, work, length, device)
    lines = ["# Attention of Big Bird base as texts grow, one layer, batch 1, float32", ""]
    lines += [line for work in WORK for line in table(found, work)]
    lines += [f"`python benchmarks/bigbird.py --device {device.type} --threads {asked.threads}`", ""]
    lines += [f"- {name}: {value}" for name, value in machine(device).items()]
    print("\n".join(lines))
    if asked.save:
        asked.save.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
