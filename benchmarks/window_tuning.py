"""Time other warps, stages, registers and waves of `window_attention`: `python benchmarks/window_kernel.py --tune`.

It times a few launch settings for two stages of a model, in less than a minute, and the CPU time of one call, which
limits the speed of a model with many small kernels.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.testing import do_bench
from window_cases import Case, Layer, by_kernel, case, layers, lists

from patchword.kernels.window_attention import tuning as tuning
from patchword.kernels.window_attention.launch import forward
from patchword.kernels.window_attention.launch_backward import backward
from patchword.kernels.window_attention.torch_op import window_attention_backward, window_attention_forward


class Choice(NamedTuple):
    warps: int
    stages: int
    registers: int | None


CHOICES = {
    "forward": [Choice(4, 3, 128), Choice(4, 3, None), Choice(4, 2, 128), Choice(4, 3, 96), Choice(2, 3, None)],
    "backward": [Choice(4, 3, None), Choice(4, 3, 168), Choice(4, 2, None), Choice(4, 2, 168), Choice(2, 3, None)],
}
WAVES = {"forward": (2, 4, 8), "backward": (2, 3, 4)}


def milliseconds(run: Callable[[], object], rep: int = 100) -> float:
    return float(do_bench(run, warmup=max(5, rep // 4), rep=rep, return_mode="median"))


def timed(way: Callable[[Case], Tensor], given: Case) -> tuple[float, float]:
    """Milliseconds of the forward pass, and of the forward and backward pass."""
    with torch.no_grad():
        spent = milliseconds(lambda: way(given))
    slopes = torch.randn_like(way(given))
    return spent, milliseconds(lambda: torch.autograd.grad(way(given), given.learned, slopes))


def works(given: Case) -> dict[str, Callable[[], object]]:
    """The forward and the backward op that a compiled model calls."""
    tensors = [[part.detach() for part in parts] for parts in lists(given)]
    numbers = [number for group in given.groups for number in group.cut.numbers()], given.heads, given.scale
    merged, sums = window_attention_forward(*tensors, *numbers)
    slopes = torch.randn_like(merged)
    return {
        "forward": lambda: window_attention_forward(*tensors, *numbers),
        "backward": lambda: window_attention_backward(slopes, *tensors, merged, sums, *numbers),
    }


def tune(model: str, batch: int) -> list[str]:
    """Time launch settings for the first and the third stage; list them by speed after the default."""
    stages = list(layers(model))
    tried = {layer.grid.height: layer for layer in stages if layer.grid.height in (56, 14)}
    lines = [f"## {model}, batch {batch}: warps, stages, registers, waves: ms", ""]
    for layer, work in itertools.product(tried.values(), CHOICES):
        run, tile = works(case(layer, batch, torch.bfloat16))[work], _tile(work, layer)
        found = [(milliseconds(run, 16), "default")]
        for choice, waves in itertools.product(CHOICES[work], WAVES[work]):
            choice = choice._replace(warps=choice.warps * max(1, tile // 64))
            with _chosen(work, tile, choice, waves):
                try:
                    found.append((milliseconds(run, 16), f"{(*choice, waves)}"))
                except Exception as error:  # too many registers or too much shared memory
                    print(f"{layer.name}: {choice}: {type(error).__name__}", flush=True)
        shown = [f"{name}: {spent:.3f}" for spent, name in (found[0], *sorted(found[1:]))]
        lines.append(f"- {work} {layer.name}, tile {tile}: " + ", ".join(shown))
        print(lines[-1], flush=True)
    return [*lines, "", *cost_of_a_call(stages[0]), ""]


def cost_of_a_call(layer: Layer, calls: int = 300) -> list[str]:
    """CPU microseconds per call, with one image, so that the GPU waits for the CPU."""
    given, lines = case(layer, 1, torch.bfloat16), []
    for name, run in [*works(given).items(), ("forward with autograd", lambda: by_kernel(given))]:
        for _ in range(20):
            run()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(calls):
            run()
        spent = (time.perf_counter() - begun) / calls
        torch.cuda.synchronize()
        lines.append(f"- one call takes {spent * 1e6:.0f} microseconds of CPU time: {name}")
        print(lines[-1], flush=True)
    return lines


def _tile(work: str, layer: Layer) -> int:
    return tuning.launch(work, layer.cuts[0].cut(layer.grid).size, layer.head, torch.bfloat16).tile


@contextmanager
def _chosen(work: str, tile: int, choice: Choice, waves: int) -> Iterator[None]:
    """Replace the launch settings of one op inside the `with` block."""
    plan = tuning
    changed: list[dict[Any, Any]] = [plan.WARPS, plan.STAGES, plan.REGISTERS, plan.WAVES]
    kept = [dict(rules) for rules in changed]
    plan.WARPS[work, tile], plan.REGISTERS[work], plan.WAVES[work, tile] = choice.warps, choice.registers, waves
    plan.STAGES.update({(work, whole): choice.stages for whole in (True, False)})
    _forget()
    try:
        yield
    finally:
        for rules, before in zip(changed, kept, strict=True):
            rules.update(before)
        _forget()


def _forget() -> None:
    forward.cache_clear()
    backward.cache_clear()
