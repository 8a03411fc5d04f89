"""Other tiles, warps, stages and waves for the kernel of windows: `python benchmarks/window_kernel.py --tune`."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor
from triton.testing import do_bench
from window_cases import Case, by_kernel, case, layers

from patchword.kernels import window_plan


def milliseconds(run: Callable[[], object]) -> float:
    return float(do_bench(run, warmup=25, rep=100, return_mode="median"))


def timed(way: Callable[[Case], Tensor], given: Case) -> tuple[float, float]:
    """forward alone, and forward with backward"""
    with torch.no_grad():
        forward = milliseconds(lambda: way(given))
    slopes = torch.randn_like(way(given))
    return forward, milliseconds(lambda: torch.autograd.grad(way(given), given.learned, slopes))


def tune(model: str, batch: int) -> list[str]:
    """The quickest choice of each stage, forwards and backwards, beside the one that is written down."""
    lines = [f"## {model}, batch {batch}: work, size, tile, warps, stages, waves, ms; first as it is written down", ""]
    for layer, (place, work) in itertools.product(layers(model), enumerate(("forward", "backward"))):
        given, size = case(layer, batch, torch.bfloat16), layer.cuts[0].cut(layer.grid).size
        found = []
        for whole, warps, stages, waves in [
            (None,) * 4,
            *itertools.product((64, 128), (2, 4, 8), (1, 2, 3), (4, 8, 16)),
        ]:
            with _chosen(work, whole, warps, stages, waves):
                plan = window_plan.launch(work, size, layer.head, torch.bfloat16)
                try:
                    found.append((timed(by_kernel, given)[place], (plan.tile, plan.warps, plan.stages, plan.waves)))
                except Exception as error:  # too many registers or too much shared memory
                    print(f"{layer.name}: {plan}: {type(error).__name__}", flush=True)
        shown = [f"{choice}: {spent:.3f}" for spent, choice in (found[0], *sorted(found)[:4])]
        lines.append(f"- {work} {layer.name}, {size} tokens: " + ", ".join(shown))
        print(lines[-1], flush=True)
    return [*lines, ""]


class _chosen:  # noqa: N801  # reads as a word
    """Inside, the rules of one work are these; None leaves them."""

    def __init__(self, work: str, whole: int | None, warps: int | None, stages: int | None, waves: int | None) -> None:
        self.work, self.chosen = work, (whole, warps, stages, waves)

    def __enter__(self) -> None:
        rules = (window_plan.WHOLE, window_plan.WARPS, window_plan.STAGES, window_plan.WAVES)
        self.before = [(rule, dict(rule)) for rule in rules]
        for rule, value in zip(rules, self.chosen, strict=True):
            if value is not None:
                rule.update({key: value for key in rule if key == self.work or key[0] == self.work})  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        for rule, before in self.before:
            rule.update(before)  # type: ignore[attr-defined]
