"""AdamW, with decay on matrices only."""

import re
from collections import defaultdict
from typing import Any

import torch
from torch import nn


def adamw(
    model: nn.Module,
    rate: float,
    decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    *,
    eps: float = 1e-8,
    layer_decay: float = 1.0,
    corrected: bool = True,
) -> torch.optim.AdamW:
    """Biases, norms, leading tokens and the positions of patches are not decayed; BERT's tables are, as in its paper.

    layer_decay: each block learns at this share of the rate of the block above it, the head at the full rate.
    corrected: without, the first steps are as large as BERT's own optimizer makes them.
    """
    groups: dict[tuple[bool, int], list[nn.Parameter]] = defaultdict(list)
    top = _layers(model) + 1
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            layer = _layer(name, top) if layer_decay != 1 else top
            groups[_is_matrix(name, parameter), layer].append(parameter)
    chosen: list[dict[str, Any]] = [
        {"params": parameters, "weight_decay": decay if matrices else 0.0, "share": layer_decay ** (top - layer)}
        for (matrices, layer), parameters in sorted(groups.items(), key=lambda item: (not item[0][0], item[0][1]))
    ]
    kind = torch.optim.AdamW if corrected else UncorrectedAdamW
    return kind(chosen, lr=rate, betas=betas, eps=eps, fused=True)


class UncorrectedAdamW(torch.optim.AdamW):
    """Without the correction of the moments for their start at zero, as BERT was trained (Mosbach et al., 2021, 5.1).

    The corrected step with another rate, eps and decay is the uncorrected one.
    """

    taken: int | None = None

    def step(self, closure: Any = None) -> Any:
        if self.taken is None:  # after a restart the moments know how far they are
            self.taken = max((int(state["step"]) for state in self.state.values()), default=0)
        self.taken += 1
        before = [(group["lr"], group["eps"], group["weight_decay"]) for group in self.param_groups]
        for group in self.param_groups:
            first, second = (1 - beta**self.taken for beta in group["betas"])
            factor = first / second**0.5
            group["lr"] *= factor
            group["eps"] /= second**0.5
            group["weight_decay"] /= factor
        answer = super().step(closure)
        for group, (rate, eps, decay) in zip(self.param_groups, before, strict=True):
            group["lr"], group["eps"], group["weight_decay"] = rate, eps, decay
        return answer


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return name.endswith("weight") and parameter.ndim >= 2


def _layers(model: nn.Module) -> int:
    return max((_layer(name, 0) for name, _ in model.named_parameters()), default=0)


def _layer(name: str, top: int) -> int:
    """0 for what stands before the blocks, 1 for the first block, `top` for what stands behind them"""
    if found := re.search(r"(?:^|\.)encoder\.blocks\.(\d+)\.", name):
        return int(found[1]) + 1
    return 0 if re.search(r"(?:^|\.)(entrance|prefix|positions)\.", name) else top
